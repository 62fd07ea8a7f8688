"""Rate against quality of windows of measurements: the SDLGM and other ways to describe them by few bits."""

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import precision_recall_curve, roc_auc_score
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from reproduction import telemetry_peers
from reproduction.provenance import code_hash, publish
from reproduction.quality_measures import PENALTIES, unexplained
from reproduction.runs import Run, run_all, versioned
from reproduction.telemetry_data import LARGEST, SOURCES, Telemetry, load_telemetry
from reproduction.telemetry_levels import Levels
from reproduction.telemetry_peers import PEERS, REAL, Candidate, Coded
from sdlgm import SDLGM, DataError, __version__

REFERENCE = "reference"
RATES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0)
"""Most bits a sample, by which settings are chosen."""
N_COMPONENTS = 256


@dataclass(frozen=True)
class Setting:
    """A setting that an SDLGM is trained with."""

    max_active: int
    level_step: float | None = None
    """Step to which levels are rounded, if they are written apart."""


DEVIATION = 0.25
"""Of all columns given the code, in the units of the prepared data."""
OWN: Mapping[str, tuple[Setting, ...]] = {
    "sdlgm": (Setting(16),),
    "sdlgm-levels": (Setting(2, 2.0), Setting(8, 1.0), Setting(32, 0.5)),
}
"""The systems that are SDLGM, and what each of them is trained with."""
OWN_TITLES = {"sdlgm": "SDLGM", "sdlgm-levels": "SDLGM, levels apart"}
CODE_RATES = (0.5, 1.0, 2.0)
"""Weights of the length of a code in the search for it."""
ITERATIONS = 1_500
PREDICTION_ROWS = 5_000
"""The prediction is learned from at most about so many windows for training."""
NEIGHBOURS = 5
EXPLAINED = 0.95
"""Share of the variance that the components explain whose error is a reference for anomalies."""
SYSTEMS = (*OWN, *PEERS, REFERENCE)
TITLES: Mapping[str, str] = {**OWN_TITLES, **{name: peer.title for name, peer in PEERS.items()}}
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
    "levels apart": "the mean of each column of a window, rounded to steps of so many deviations and written as the "
    "difference from that of the window before, by the frequencies in training; what is left of the window is coded as "
    "rows are otherwise. The first window of the file begins at the mean",
    "prediction": "root mean squared error of ridge regression for the test windows, relative to that from the windows "
    f"as they are; trained on what decodes for at most about {PREDICTION_ROWS:,} training windows, or on their codes. "
    "The validation windows choose the penalty. For a ratio, the point with the fewest bits is taken whose error for "
    "the validation windows is within the allowed loss; it is relative to gzip of the test windows, numbers of single "
    "precision, column by column",
    "anomalies": "area under the ROC curve and best F1 of the steps of the test windows, without point adjustment: by "
    "the squared error of the decoded step, by the bound of its window (`score_samples`), or by the mean distance of "
    f"its code from the {NEIGHBOURS} nearest codes of training windows. References: the squared error of the principal "
    f"components that explain {EXPLAINED:.0%} of the variance, and an isolation forest of windows",
    "SDLGM": f"`n_components={N_COMPONENTS}`, `likelihood='gaussian'`, `deviation={DEVIATION:g}`, "
    f"`max_iter={ITERATIONS}`, otherwise the defaults; `max_active` is "
    + " or ".join(str(setting.max_active) for setting in OWN["sdlgm"])
    + ", and with levels apart "
    + ", ".join(f"{setting.max_active} with steps of {setting.level_step:g}" for setting in OWN["sdlgm-levels"])
    + f"; codes are those of `transform`, with `rate` {' or '.join(f'{rate:g}' for rate in CODE_RATES)}",
    "rounded transforms": f"steps {telemetry_peers.STEPS[0]:g} to {telemetry_peers.STEPS[-1]:g} deviations, the same "
    "for all coefficients; numbers are rounded away from zero from "
    f"{' or '.join(map(str, telemetry_peers.DEAD_ZONES))} steps on; wavelets "
    f"{' and '.join(telemetry_peers.BASES)}, periodic in each window",
    "quantisers": f"faiss: OPQ with {', '.join(map(str, telemetry_peers.SUBSPACES))} parts, residual quantisers with "
    f"{', '.join(map(str, telemetry_peers.STAGES))} stages, words of "
    f"{' or '.join(map(str, telemetry_peers.WORD_BITS))} bits; an ideal entropy code of their indices",
    "autoencoder with quantised code": f"{', '.join(map(str, telemetry_peers.BOOKS))} books of 256 words, one hidden "
    f"layer, {telemetry_peers.SPARSE_SECONDS:g} processor seconds each",
    "sparse autoencoder": f"{telemetry_peers.SPARSE_FEATURES} features, k "
    f"{', '.join(map(str, telemetry_peers.SPARSE_K))}, {telemetry_peers.SPARSE_SECONDS:g} processor seconds each, "
    "values rounded to steps of 1, 2 or 4",
    "delta coding": "of values rounded to the same steps as transforms, in time, over the borders of windows",
    "SZ3 and ZFP": f"bounds from {telemetry_peers.BOUNDS[0]:g} to {telemetry_peers.BOUNDS[-1]:g} deviations; all "
    "windows as one array",
}

LIMITS = (
    f"These are short fits of the SDLGM, {ITERATIONS:,} iterations where its default is 10,000, and with few settings; "
    "longer training was not measured here. A budget of 32 of 256 features is at most 137 bits a window, which is less "
    "than 0.3 bits a sample of all data but 5G and ASD: higher rates need larger budgets, or shorter windows."
)


def reproduce_telemetry(
    out: Path, *, data: Sequence[str], systems: Sequence[str], n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Run systems on data sets, and write what they reach at each rate. The file is written after each run."""
    missing = {package for package in telemetry_peers.packages_of(systems).values() if find_spec(package) is None}
    if missing:
        raise DataError(f"{', '.join(sorted(missing))}: not installed; install it, or leave its system out (--systems)")

    kept = _kept(out, data, systems)

    def written(results: Sequence[Run]) -> dict[str, Any]:
        sources = {name: source for name, source in kept["data"].items() if name in SOURCES}
        for result in results:
            name = result["data"]
            known = sources.get(name, {}).get("references")
            sources[name] = result["source"] | ({"references": known} if known else {})
        for result in results:
            if result["system"] == REFERENCE:
                sources[result["data"]]["references"] = result["references"]
        sources = {name: sources[name] for name in SOURCES if name in sources}
        done = {(result["data"], result["system"]) for result in results}
        for name, source in sources.items():
            before = kept["data"].get(name, {}).get("systems", ())
            source["systems"] = [one for one in SYSTEMS if one in before or (name, one) in done]
        points = [*kept["points"], *(point for result in results for point in result["points"])]
        rows = [row for name in sources for system in SYSTEMS for row in chosen(points, name, system)]
        ratios = [row for name in sources for system in SYSTEMS for row in within_loss(points, sources[name], system)]
        not_run = [source.title for name, source in SOURCES.items() if name not in sources]
        content = {"data": sources, "not_run": not_run, "rows": rows, "ratios": ratios, "points": points}
        return publish(out, content | {"limits": LIMITS, "protocol": PROTOCOL})

    runs = [run for name in data for system in systems for run in _runs_of(name, system)]
    return written(run_all(measure, runs, work_folder, n_jobs, fresh=False, after_each=written))


def _kept(out: Path, data: Sequence[str], systems: Sequence[str]) -> dict[str, Any]:
    """Return what an earlier file says of other data and systems, if it has the same protocol.

    Where only the settings of the SDLGM are others, what it says of peers stays.
    """
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    other = {name for name, text in PROTOCOL.items() if found.get("protocol", {}).get(name) != text}
    if other - {"SDLGM"}:
        return {"data": {}, "points": []}
    gone = OWN if other else ()
    for source in found["data"].values():
        source["systems"] = [system for system in source["systems"] if system not in gone]
    points = [
        point
        for point in found["points"]
        if point["system"] not in gone and (point["data"] not in data or point["system"] not in systems)
    ]
    return {"data": found["data"], "points": points}


def _runs_of(name: str, system: str) -> list[Run]:
    """Return the runs of a system: of the SDLGM one for each setting that it is trained with."""
    version = versioned([PROTOCOL, code_hash()] if system in OWN else PROTOCOL, __version__)
    return [
        {"table": "telemetry", "data": name, "system": system, "setting": number, "version": version}
        for number in range(len(OWN.get(system, (None,))))
    ]


def chosen(points: Sequence[Mapping[str, Any]], data: str, system: str) -> Iterator[dict[str, Any]]:
    """Yield for each rate the point with the least validation error among those that do not need more bits there."""
    found = [point for point in points if (point["data"], point["system"]) == (data, system)]
    for rate in RATES:
        allowed = [point for point in found if point["validation_bits_per_sample"] <= rate]
        if allowed:
            yield {"rate": rate, **min(allowed, key=lambda point: point["validation_fvu"])}


def within_loss(
    points: Sequence[Mapping[str, Any]], source: Mapping[str, Any], system: str
) -> Iterator[dict[str, Any]]:
    """Yield the point with the fewest bits whose prediction is within the allowed loss for validation windows."""
    raw = source.get("references", {}).get("kpi_error")
    if raw is None:
        return
    most = (1 + source["allowed"]) * source["references"]["validation_kpi_error"]
    found = [
        point
        for point in points
        if (point["data"], point["system"]) == (source["name"], system) and point["validation_kpi_error"] <= most
    ]
    if found:
        point = min(found, key=lambda point: point["validation_bits_per_sample"])
        yield {
            **{name: point[name] for name in ("data", "system", "title", "setting", "bits_per_sample", "fvu")},
            "loss": point["kpi_error"] / raw - 1,
            "ratio": source["gzip_bits"] / point["bits_per_sample"],
        }


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run."""
    del folder
    name, system = run["data"], run["system"]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the measurements say whether codes carry something
        data, source = load_telemetry(name), SOURCES[name]
        facts = {
            "name": name,
            "title": source.title,
            "rows": source.rows,
            "predicted": source.predicted,
            "allowed": source.allowed,
            "gzip_bits": data.gzip_bits,
            "shape": data.shape,
        }
        result: dict[str, Any] = {"source": facts, "points": []}
        if system == REFERENCE:
            return result | {"references": references(data)}
        own = Own.fit(data, OWN[system][run["setting"]]) if system in OWN else None
        candidates = PEERS[system].candidates(data) if own is None else own.candidates()
        points = [point_of(data, candidate, own) for candidate in candidates]
    kept = [point for point in points if point["validation_bits_per_sample"] <= max(RATES)]
    coding = REAL if own is not None else PEERS[system].bits
    facts_of_run = {"data": name, "system": system, "title": TITLES[system], "coding": coding}
    return result | {"points": [facts_of_run | point for point in kept], "code": code_hash()}


@dataclass(frozen=True)
class Own:
    """A trained SDLGM, with or without levels apart."""

    data: Telemetry
    setting: Setting
    model: SDLGM
    levels: Levels | None

    @classmethod
    def fit(cls, data: Telemetry, setting: Setting) -> "Own":
        """Train with the windows for training."""
        levels = None if setting.level_step is None else Levels.of(data, setting.level_step)
        model = SDLGM(
            n_components=N_COMPONENTS,
            max_active=setting.max_active,
            likelihood="gaussian",
            deviation=DEVIATION,
            max_iter=ITERATIONS,
            random_state=0,
        )
        own = cls(data, setting, model, levels)
        model.fit(own.shapes(data.train.rows)[0])
        return own

    def shapes(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what the model codes of windows, and their levels as windows."""
        if self.levels is None:
            return rows, np.zeros_like(rows)
        level = self.levels.rows(self.levels.numbers(rows))
        return rows - level, level

    def candidates(self) -> Iterator[Candidate]:
        """Yield the ways to choose codes."""
        for rate in CODE_RATES:

            def code(rows: np.ndarray, rate: float = rate) -> Coded:
                shapes, level = self.shapes(rows)
                codes = self.model.transform(shapes, rate=rate)
                n_bytes = len(self.model.codec_.to_bytes(codes))
                if self.levels is not None:
                    n_bytes += len(self.levels.to_bytes(self.levels.numbers(rows)))
                return Coded(level + self.model.inverse_transform(codes), 8.0 * n_bytes, codes)

            setting: dict[str, Any] = {"max_active": self.setting.max_active, "rate": rate}
            if self.levels is not None:
                setting["level_step"] = self.levels.step
            yield Candidate(setting, code)

    def numbers(self, coded: Coded, rows: np.ndarray) -> sp.csr_matrix:
        """Return codes, and levels beside them, for a linear model."""
        if self.levels is None:
            return coded.codes
        levels = sp.csr_matrix(self.levels.numbers(rows) * self.levels.step)
        return sp.csr_matrix(sp.hstack([coded.codes, levels]))


def point_of(data: Telemetry, candidate: Candidate, own: Own | None) -> dict[str, Any]:
    """Return what a setting reaches: on validation windows, by which it is chosen, and on test windows."""
    mean = data.train.rows.mean(axis=0)
    parts = (data.train.rows[:: prediction_stride(data)], data.validation.rows, data.test.rows)
    validation, test = (candidate.code(rows) for rows in parts[1:])
    point: dict[str, Any] = {
        "setting": candidate.setting,
        "validation_bits_per_sample": validation.bits / data.validation.rows.size,
        "validation_fvu": unexplained(validation.decoded, data.validation.rows, mean),
        "bits_per_sample": test.bits / data.test.rows.size,
        "fvu": unexplained(test.decoded, data.test.rows, mean),
        **dict.fromkeys(("kpi_error", "validation_kpi_error", "kpi_error_from_codes")),
        **dict.fromkeys(("auroc", "f1", "auroc_of_bound", "f1_of_bound", "auroc_of_codes", "f1_of_codes")),
    }
    if point["validation_bits_per_sample"] > max(RATES):
        return point
    if data.train.y is None and data.test.is_anomaly is None:
        return point
    coded = (candidate.code(parts[0]), validation, test) if data.train.y is not None or own is not None else None
    if data.train.y is not None:
        assert coded is not None
        point["validation_kpi_error"], point["kpi_error"] = prediction_error(data, [part.decoded for part in coded])
        if own is not None:
            numbers = [own.numbers(part, rows) for part, rows in zip(coded, parts, strict=True)]
            point["kpi_error_from_codes"] = prediction_error(data, numbers)[1]
    if data.test.is_anomaly is not None:
        point["auroc"], point["f1"] = anomalies_found(data, test.decoded)
        if own is not None:
            assert coded is not None
            scores = -own.model.score_samples(own.shapes(data.test.rows)[0])
            point["auroc_of_bound"], point["f1_of_bound"] = by_window(data, scores)
            known, new = (own.numbers(part, rows) for part, rows in zip(coded[::2], parts[::2], strict=True))
            scores = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(known).kneighbors(new)[0].mean(axis=1)
            point["auroc_of_codes"], point["f1_of_codes"] = by_window(data, scores)
    return point


def prediction_stride(data: Telemetry) -> int:
    """Return the step from one training window to the next that the prediction is learned from."""
    return max(1, len(data.train.series) // PREDICTION_ROWS)


def prediction_error(data: Telemetry, parts: Sequence[Any]) -> tuple[float, float]:
    """Return the root mean squared errors of a linear prediction for the validation windows and the test windows.

    ``parts`` are what it is made from: of each `prediction_stride`-th training window, the validation windows and the
    test windows.
    """
    assert data.train.y is not None
    assert data.validation.y is not None
    assert data.test.y is not None
    train, validation, test = (
        (part.toarray() if isinstance(part, sp.csr_matrix) else part).astype(np.float64) for part in parts
    )
    y = data.train.y[:: prediction_stride(data)]
    mean, level = train.mean(axis=0), y.mean(axis=0)
    values, vectors = scipy.linalg.eigh((train - mean).T @ (train - mean))
    projected = vectors.T @ ((train - mean).T @ (y - level))

    def error(rows: np.ndarray, truth: np.ndarray, penalty: float) -> float:
        weights = vectors @ (projected / (values.clip(min=0)[:, None] + penalty))
        return float(np.sqrt(np.square((rows - mean) @ weights + level - truth).mean()))

    found = {penalty: error(validation, data.validation.y, penalty) for penalty in PENALTIES}
    best = min(found, key=lambda penalty: found[penalty])
    return found[best], error(test, data.test.y, best)


def anomalies_found(data: Telemetry, decoded: np.ndarray) -> tuple[float, float]:
    """Return how well the squared error of each step of the test windows finds anomalies."""
    errors = np.square(decoded - data.test.rows).reshape(-1, data.n_columns, data.length).mean(axis=1)
    return _detection(data, errors.ravel())


def by_window(data: Telemetry, scores: np.ndarray) -> tuple[float, float]:
    """Return how well steps are found that each have the score of their window."""
    return _detection(data, np.repeat(scores, data.length))


def _detection(data: Telemetry, scores: np.ndarray) -> tuple[float, float]:
    """Return the area under the ROC curve, and the best F1, of scores of all steps."""
    assert data.test.is_anomaly is not None
    is_anomaly = data.test.is_anomaly.ravel()
    precision, recall, _ = precision_recall_curve(is_anomaly, scores)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
    return float(roc_auc_score(is_anomaly, scores)), float(f1.max())


def references(data: Telemetry) -> dict[str, float | None]:
    """Return what can be predicted from the windows themselves, and how anomalies are found otherwise."""
    names = ("kpi_error", "validation_kpi_error", "auroc_of_pca", "f1_of_pca", "auroc_of_forest", "f1_of_forest")
    found: dict[str, float | None] = dict.fromkeys(names)
    train, validation, test = data.train.rows, data.validation.rows, data.test.rows
    if data.train.y is not None:
        errors = prediction_error(data, [train[:: prediction_stride(data)], validation, test])
        found["validation_kpi_error"], found["kpi_error"] = errors
    if data.test.is_anomaly is not None:
        pca = PCA(EXPLAINED, random_state=0).fit(train)
        found["auroc_of_pca"], found["f1_of_pca"] = anomalies_found(data, pca.inverse_transform(pca.transform(test)))
        forest = IsolationForest(random_state=0).fit(train)
        found["auroc_of_forest"], found["f1_of_forest"] = by_window(data, -forest.score_samples(test))
    return found
