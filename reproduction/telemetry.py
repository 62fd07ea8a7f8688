"""Rate against quality of windows of measurements: the SDLGM and other ways to describe them by few bits."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from reproduction import telemetry_peers
from reproduction.provenance import code_hash, publish
from reproduction.quality_measures import PENALTIES, unexplained
from reproduction.runs import Run, run_all, versioned
from reproduction.telemetry_data import LARGEST, SOURCES, Telemetry, load_telemetry
from reproduction.telemetry_peers import PEERS, REAL, Candidate, Coded
from sdlgm import SDLGM, DataError, __version__

OWN, REFERENCE = "sdlgm", "reference"
RATES = (0.05, 0.1, 0.2, 0.35, 0.5)
"""Most bits a sample, by which settings are chosen."""
N_COMPONENTS = 256
BUDGETS_AND_RATES = ((4, 1.0), (8, 1.0), (16, 1.0), (32, 1.0), (32, 0.5), (32, 0.25))
"""Budgets, and weights of the KL in training."""
CANDIDATES = (0, 8)
"""Draws of the posterior beside its mode, of which the best code is taken."""
ITERATIONS = 6_000
PREDICTION_STRIDE = 2
"""The prediction is learned from each second window for training."""
EXPLAINED = 0.95
"""Share of the variance that the components explain whose error is a reference for anomalies."""
SYSTEMS = (OWN, *PEERS, REFERENCE)
TITLES: Mapping[str, str] = {OWN: "SDLGM", **{name: peer.title for name, peer in PEERS.items()}}
PROTOCOL = {
    "columns": "those that do not vary in training are left out, missing values get the last value before in their "
    f"window, or the mean; all are centred and divided by their standard deviation in training, and values beyond "
    f"{LARGEST:g} are moved to it. All systems get the same numbers",
    "choice": "of all settings of a system, that with the least error of the validation windows among those that need "
    "no more bits a sample there than the row says. No test window has a part in it, so that the bits of the test "
    "windows can be more or fewer",
    "bits": "a sample is one value of one column at one time. Real: the bytes of a file of all windows, framing "
    "included. Ideal: an entropy code of each place by its frequencies in training, without framing; numbers that are "
    f"new cost {telemetry_peers.ESCAPE_BITS:g} bits more. Models, bases and books are not counted for any system",
    "error": "squared error of decoded test windows as a fraction of that of the mean of the training windows",
    "prediction": "root mean squared error of ridge regression for the test windows, relative to that from the windows "
    "as they are; trained on what decodes for the training windows, or on their codes. The validation windows choose "
    "the penalty",
    "anomalies": "area under the ROC curve of the steps of the test windows, without point adjustment: by the squared "
    "error of the decoded step, or by the bound of its window (`score_samples`). References: the squared error of the "
    f"principal components that explain {EXPLAINED:.0%} of the variance, and an isolation forest of windows",
    "SDLGM": f"`n_components={N_COMPONENTS}`, `likelihood='gaussian'`, `max_iter={ITERATIONS}`, otherwise the "
    "defaults; `max_active` and `rate` are "
    + ", ".join(f"{budget} and {rate:g}" for budget, rate in BUDGETS_AND_RATES)
    + f"; codes are those of `transform`, with `n_candidates` {' or '.join(map(str, CANDIDATES))}",
    "rounded transforms": f"steps {telemetry_peers.STEPS[0]:g} to {telemetry_peers.STEPS[-1]:g} deviations, the same "
    "for all coefficients; numbers are rounded away from zero from "
    f"{' or '.join(map(str, telemetry_peers.DEAD_ZONES))} steps on; wavelets "
    f"{' and '.join(telemetry_peers.BASES)}, periodic in each window",
    "quantisers": f"faiss: OPQ with {', '.join(map(str, telemetry_peers.SUBSPACES))} parts, residual quantisers with "
    f"{', '.join(map(str, telemetry_peers.STAGES))} stages, words of "
    f"{' or '.join(map(str, telemetry_peers.WORD_BITS))} bits; an ideal entropy code of their indices",
    "sparse autoencoder": f"{telemetry_peers.SPARSE_FEATURES} features, k "
    f"{', '.join(map(str, telemetry_peers.SPARSE_K))}, {telemetry_peers.SPARSE_SECONDS:g} processor seconds each, "
    "values rounded to steps of 1, 2 or 4",
    "delta coding": "of values rounded to the same steps as transforms, in time, over the borders of windows",
    "SZ3 and ZFP": f"bounds from {telemetry_peers.BOUNDS[0]:g} to {telemetry_peers.BOUNDS[-1]:g} deviations; all "
    "windows as one array",
}

LIMITS = (
    f"These are short fits of the SDLGM, {ITERATIONS:,} iterations with {len(BUDGETS_AND_RATES)} pairs of budget and "
    "weight, where its default is 10,000 iterations. Whether longer training, more weights, or the level of a window "
    "as side information closes the gap was not measured."
)


def reproduce_telemetry(
    out: Path, *, data: Sequence[str], systems: Sequence[str], n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Run systems on data sets, and write what they reach at each rate. The file is written after each run."""
    missing = {package for package in telemetry_peers.packages_of(systems).values() if find_spec(package) is None}
    if missing:
        raise DataError(f"{', '.join(sorted(missing))}: not installed; install it, or leave its system out (--systems)")

    def written(results: Sequence[Run]) -> dict[str, Any]:
        sources = {result["data"]: result["source"] for result in results}
        points = [point for result in results for point in result["points"]]
        rows = [row for name in sources for system in SYSTEMS for row in chosen(points, name, system)]
        references = {result["data"]: result["references"] for result in results if result["system"] == REFERENCE}
        for name, of_data in references.items():
            sources[name] = sources[name] | {"references": of_data}
        return publish(out, {"data": sources, "rows": rows, "points": points, "limits": LIMITS, "protocol": PROTOCOL})

    runs = [run for name in data for system in systems for run in _runs_of(name, system)]
    return written(run_all(measure, runs, work_folder, n_jobs, fresh=False, after_each=written))


def _runs_of(name: str, system: str) -> list[Run]:
    """Return the runs of a system: of the SDLGM one for each setting that it is trained with."""
    version = versioned([PROTOCOL, code_hash()] if system == OWN else PROTOCOL, __version__)
    numbers = range(len(BUDGETS_AND_RATES) if system == OWN else 1)
    return [
        {"table": "telemetry", "data": name, "system": system, "setting": number, "version": version}
        for number in numbers
    ]


def chosen(points: Sequence[Mapping[str, Any]], data: str, system: str) -> Iterator[dict[str, Any]]:
    """Yield for each rate the point with the least validation error among those that do not need more bits there."""
    found = [point for point in points if (point["data"], point["system"]) == (data, system)]
    for rate in RATES:
        allowed = [point for point in found if point["validation_bits_per_sample"] <= rate]
        if allowed:
            yield {"rate": rate, **min(allowed, key=lambda point: point["validation_fvu"])}


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run."""
    del folder
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the measurements say whether codes carry something
        data, source = load_telemetry(run["data"]), SOURCES[run["data"]]
        facts = {"title": source.title, "rows": source.rows, "predicted": source.predicted, "shape": data.shape}
        result: dict[str, Any] = {"source": facts, "points": []}
        if run["system"] == REFERENCE:
            return result | {"references": references(data)}
        model = None
        if run["system"] == OWN:
            model = fitted(data, *BUDGETS_AND_RATES[run["setting"]])
            candidates = own_candidates(model, *BUDGETS_AND_RATES[run["setting"]])
        else:
            candidates = PEERS[run["system"]].candidates(data)
        points = [point_of(data, candidate, model) for candidate in candidates]
    kept = [point for point in points if point["validation_bits_per_sample"] <= max(RATES)]
    facts_of_run = {
        "data": run["data"],
        "system": run["system"],
        "title": TITLES[run["system"]],
        "coding": REAL if run["system"] == OWN else PEERS[run["system"]].bits,
    }
    return result | {"points": [facts_of_run | point for point in kept], "code": code_hash()}


def fitted(data: Telemetry, max_active: int, rate: float) -> SDLGM:
    """Return a model of the training windows."""
    model = SDLGM(
        n_components=N_COMPONENTS,
        max_active=max_active,
        rate=rate,
        likelihood="gaussian",
        max_iter=ITERATIONS,
        random_state=0,
    )
    return model.fit(data.train.rows)


def own_candidates(model: SDLGM, max_active: int, rate: float) -> Iterator[Candidate]:
    """Yield the ways to choose codes."""
    for n_candidates in CANDIDATES:

        def code(rows: np.ndarray, n_candidates: int = n_candidates) -> Coded:
            codes = model.transform(rows, n_candidates=n_candidates)
            return Coded(model.inverse_transform(codes), 8.0 * len(model.codec_.to_bytes(codes)), codes)

        yield Candidate({"max_active": max_active, "rate": rate, "n_candidates": n_candidates}, code)


def point_of(data: Telemetry, candidate: Candidate, model: SDLGM | None) -> dict[str, Any]:
    """Return what a setting reaches: on validation windows, by which it is chosen, and on test windows."""
    mean = data.train.rows.mean(axis=0)
    validation, test = (candidate.code(part.rows) for part in (data.validation, data.test))
    point: dict[str, Any] = {
        "setting": candidate.setting,
        "validation_bits_per_sample": validation.bits / data.validation.rows.size,
        "validation_fvu": unexplained(validation.decoded, data.validation.rows, mean),
        "bits_per_sample": test.bits / data.test.rows.size,
        "fvu": unexplained(test.decoded, data.test.rows, mean),
        "kpi_error": None,
        "kpi_error_from_codes": None,
        "auroc": None,
        "auroc_of_bound": None,
    }
    if point["validation_bits_per_sample"] > max(RATES):
        return point
    if data.train.y is not None:
        train = candidate.code(data.train.rows[::PREDICTION_STRIDE])
        point["kpi_error"] = prediction_error(data, train.decoded, validation.decoded, test.decoded)
        if model is not None:
            point["kpi_error_from_codes"] = prediction_error(data, train.codes, validation.codes, test.codes)
    if data.test.is_anomaly is not None:
        point["auroc"] = anomalies_found(data, test.decoded)
        if model is not None:
            point["auroc_of_bound"] = by_window(data, -model.score_samples(data.test.rows))
    return point


def prediction_error(data: Telemetry, train: Any, validation: Any, test: Any) -> float:
    """Return the root mean squared error of a linear prediction of the number of each test window."""
    assert data.train.y is not None
    assert data.validation.y is not None
    assert data.test.y is not None
    train, validation, test = (part.astype(np.float64) for part in (train, validation, test))
    models = [Ridge(penalty).fit(train, data.train.y[::PREDICTION_STRIDE]) for penalty in PENALTIES]
    errors = [np.square(model.predict(validation) - data.validation.y).mean() for model in models]
    predicted = models[int(np.argmin(errors))].predict(test)
    return float(np.sqrt(np.square(predicted - data.test.y).mean()))


def anomalies_found(data: Telemetry, decoded: np.ndarray) -> float:
    """Return the area under the ROC curve of the squared error of each step of the test windows."""
    errors = np.square(decoded - data.test.rows).reshape(-1, data.n_columns, data.length).mean(axis=1)
    assert data.test.is_anomaly is not None
    return float(roc_auc_score(data.test.is_anomaly.ravel(), errors.ravel()))


def by_window(data: Telemetry, scores: np.ndarray) -> float:
    """Return the area under the ROC curve of all steps, each with the score of its window."""
    assert data.test.is_anomaly is not None
    return float(roc_auc_score(data.test.is_anomaly.ravel(), np.repeat(scores, data.length)))


def references(data: Telemetry) -> dict[str, float | None]:
    """Return what can be predicted from the windows themselves, and how anomalies are found otherwise."""
    found: dict[str, float | None] = dict.fromkeys(("kpi_error", "auroc_of_pca", "auroc_of_forest"))
    train, validation, test = data.train.rows, data.validation.rows, data.test.rows
    if data.train.y is not None:
        found["kpi_error"] = prediction_error(data, train[::PREDICTION_STRIDE], validation, test)
    if data.test.is_anomaly is not None:
        pca = PCA(EXPLAINED, random_state=0).fit(train)
        found["auroc_of_pca"] = anomalies_found(data, pca.inverse_transform(pca.transform(test)))
        forest = IsolationForest(random_state=0).fit(train)
        found["auroc_of_forest"] = by_window(data, -forest.score_samples(test))
    return found
