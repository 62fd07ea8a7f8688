"""Compare ways to fill missing values of small tables: the SDLGM, and the imputers of scikit-learn."""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401 - makes the next import possible
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from sklearn.preprocessing import StandardScaler

from reproduction.provenance import code_hash, publish
from reproduction.runs import Run, run_all, versioned
from sdlgm import SDLGM, __version__

MISSING = (0.2,)
"""Shares of the values that are taken out, at random."""
ITERATIONS = 1_000
DRAWS = 20
SETTINGS: dict[str, Any] = {"n_components": 64, "max_active": 16, "hidden": (128,)}

DATA: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "diabetes": ("diabetes", datasets.load_diabetes),
    "breast_cancer": ("breast cancer", datasets.load_breast_cancer),
    "digits": ("digits", datasets.load_digits),
}
"""Data sets that come with scikit-learn, with their titles."""
SYSTEMS: Mapping[str, str] = {
    "mean": "`SimpleImputer`, mean",
    "knn": "`KNNImputer`",
    "iterative": "`IterativeImputer`",
    "sdlgm_mode": "SDLGM, one code a row",
    "sdlgm_draws": f"SDLGM, mean of {DRAWS} draws",
}
PROTOCOL = {
    "missing": "values are taken out completely at random, with the seed of the run; columns that do not vary are left "
    "out of the data",
    "error": "mean squared error of the values that were taken out, each column in units of its standard deviation "
    "before that: 1 is the error of the true mean",
    "SDLGM": f"`n_components={SETTINGS['n_components']}`, `max_active={SETTINGS['max_active']}`, "
    f"`hidden={SETTINGS['hidden']}`, `max_iter={ITERATIONS}`, otherwise the defaults, fitted to the rows with their "
    "holes. *One code a row* is `inverse_transform(transform(X))`; *draws* is the mean of what codes of `sample_codes` "
    "decode to. Nothing was chosen on these data",
    "peers": "the defaults of scikit-learn; `KNNImputer` and `IterativeImputer` see columns that are standardised by "
    "the values that are there",
    "time": "processor seconds of fit and imputation on one thread",
}


def reproduce_imputation(
    out: Path, *, data: Sequence[str], seeds: int, iterations: int, n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Fill the missing values of every data set in every way, and write the errors."""
    version = versioned([SETTINGS, DRAWS], __version__)
    runs: list[Run] = [
        {
            "table": "imputation",
            "data": name,
            "missing": share,
            "iterations": iterations,
            "seed": seed,
            "version": version,
        }
        for seed in range(seeds)
        for name in data
        for share in MISSING
    ]
    results = run_all(measure, runs, work_folder, n_jobs, fresh=False)
    rows = [
        _row(name, share, system, [run for run in results if (run["data"], run["missing"]) == (name, share)])
        for name in data
        for share in MISSING
        for system in SYSTEMS
    ]
    return publish(out, {"rows": rows, "protocol": PROTOCOL})


def _row(name: str, share: float, system: str, found: Sequence[Run]) -> dict[str, Any]:
    """Return the row of a system, with a value of each seed for error and time."""
    return {
        "data": name,
        "title": DATA[name][0],
        "shape": found[0]["shape"],
        "missing": share,
        "system": system,
        "system_title": SYSTEMS[system],
        "seeds": [run["seed"] for run in found],
        **{quantity: [run[quantity][system] for run in found] for quantity in ("errors", "seconds")},
        "likelihoods": found[0]["likelihoods"],
        "code": [run["code"] for run in found],
    }


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Take values out, fill them in every way, and compare."""
    del folder
    X = np.asarray(DATA[run["data"]][1]().data, np.float64)
    X = X[:, X.std(axis=0) > 0]
    holes = X.copy()
    holes[np.random.default_rng(run["seed"]).random(X.shape) < run["missing"]] = np.nan
    errors, seconds = {}, {}

    def score(system: str, filled: np.ndarray, start: float) -> None:
        seconds[system] = time.process_time() - start
        differences = ((filled - X) / X.std(axis=0))[np.isnan(holes)]
        errors[system] = float(np.square(differences).mean())

    for system, imputer in _imputers().items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ten rounds, the default, may be too few to converge
            scaler = StandardScaler().fit(holes)
            filled = scaler.inverse_transform(imputer.fit_transform(scaler.transform(holes)))
            score(system, np.asarray(filled), start)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the errors show it if a model of so few rows did not learn
        model = SDLGM(**SETTINGS, refine=0, max_iter=run["iterations"], random_state=run["seed"]).fit(holes)
    score("sdlgm_mode", model.inverse_transform(model.transform(holes)), start)
    draws = [model.inverse_transform(model.sample_codes(holes, random_state=draw)) for draw in range(DRAWS)]
    score("sdlgm_draws", np.mean(draws, axis=0), start)
    names, counts = np.unique(model.likelihoods_, return_counts=True)
    return {
        "shape": X.shape,
        "errors": errors,
        "seconds": seconds,
        "likelihoods": dict(zip(names.tolist(), counts.tolist(), strict=True)),
        "code": code_hash(),
    }


def _imputers() -> dict[str, Any]:
    return {
        "mean": SimpleImputer(),
        "knn": KNNImputer(),
        "iterative": IterativeImputer(random_state=0),
    }
