"""Compare many features with few: the bound of held-out rows, and how many features are in use."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from reproduction.provenance import code_hash, publish
from reproduction.runs import Run, run_all
from reproduction.table1 import run_version
from sdlgm import SDLGM
from sdlgm.data import load_data
from sdlgm.report.figures import dense

HELD_OUT = 1_000
ROWS = 20_000
"""Rows that are used at most."""
FEATURES = (256, 4096)
ITERATIONS = 3_000
SETTINGS: dict[str, Any] = {"max_active": 32, "hidden": (512,)}
ALIVE = 1e-3
QUANTITIES = ("kl", "code_bits", "reconstruction_error", "n_active_mean")
OF_RUN = ("training", "drawn", "alive", "used_after_warm_up", "used_at_end", "seconds", "code")
PROTOCOL = {
    "rows": f"{HELD_OUT:,} rows are held out, chosen by the seed of a run; of the others at most {ROWS:,} are trained "
    "on",
    "model": f"the defaults of SDLGM, but for `max_active={SETTINGS['max_active']}` and "
    f"`hidden={SETTINGS['hidden']}`, the sizes of the measurements of speed with many features",
    "likelihood": "Bernoulli for MNIST, dynamically binarised; Gaussian for a file",
    "features": f"drawn: share of the features that a code drawn for one of the training rows contains; alive: in at "
    f"least {ALIVE:.1%} of these codes; used: in the codes of the 500 watched rows of the training curves",
    "bound": "negative discrete ELBO of the held-out rows in nats, in the units of the data; lower is better",
}


def estimator(data: str, n_components: int, **further: Any) -> SDLGM:
    """Return the unfitted estimator of a run."""
    likelihood = "bernoulli" if data == "mnist" else "gaussian"
    return SDLGM(n_components=n_components, likelihood=likelihood, refine=0, **SETTINGS, **further)


def reproduce_features(
    out: Path, *, data: Sequence[str], seeds: int, iterations: int, n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Train a model with few and with many features on every data set; write the results."""
    runs: list[Run] = [
        {
            "table": "features",
            "data": name,
            "n_components": n_components,
            "iterations": iterations,
            "seed": seed,
            "version": run_version(estimator(name, n_components)),
        }
        for seed in range(seeds)
        for name in data
        for n_components in FEATURES
    ]
    results = run_all(measure, runs, work_folder, n_jobs, fresh=False)
    rows = [_row(name, n_components, results) for name in data for n_components in FEATURES]
    return publish(out, {"rows": rows, "protocol": PROTOCOL})


def _row(name: str, n_components: int, results: Sequence[Run]) -> dict[str, Any]:
    """Return the row of a model: a list with a value of each seed for every quantity."""
    found = [run for run in results if (run["data"], run["n_components"]) == (name, n_components)]
    return {
        "data": Path(name).stem,
        "n_components": n_components,
        "shape": found[0]["shape"],
        "iterations": found[0]["iterations"],
        "seeds": [run["seed"] for run in found],
        "discrete": [-run["evaluation"]["discrete"] for run in found],
        **{quantity: [run["evaluation"][quantity] for run in found] for quantity in QUANTITIES},
        **{quantity: [run[quantity] for run in found] for quantity in OF_RUN},
    }


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Fit the model of a run, count its features and evaluate it on the held-out rows."""
    del folder
    X = dense(load_data("mnist:train" if run["data"] == "mnist" else run["data"]).X)
    rows, held_out = train_test_split(X, test_size=HELD_OUT, random_state=run["seed"])
    rows = np.asarray(rows)[:ROWS]
    start = time.process_time()
    model = estimator(run["data"], run["n_components"], random_state=run["seed"], max_iter=run["iterations"])
    model.fit(rows)
    seconds = time.process_time() - start
    presence = np.asarray((model.sample_codes(rows, random_state=0) > 0).mean(axis=0)).ravel()
    warmed_up = next(record for record in model.history_ if record.iteration >= model.kl_warmup * run["iterations"])
    return {
        "shape": rows.shape,
        "used_after_warm_up": _share(warmed_up.features_used, presence),
        "used_at_end": _share(model.history_[-1].features_used, presence),
        "drawn": float((presence > 0).mean()),
        "alive": float((presence >= ALIVE).mean()),
        "training": -model.score(rows[:HELD_OUT]),
        "seconds": seconds,
        "evaluation": asdict(model.evaluate(held_out, random_state=0)),
        "code": code_hash(),
    }


def _share(n_used: int | None, presence: np.ndarray) -> float:
    assert n_used is not None
    return n_used / len(presence)
