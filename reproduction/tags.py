"""Tags of rows with all defaults: the decisions of the SDLGM, and peers whose threshold is chosen by folds."""

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from reproduction.internals import best_threshold, f1, labels_at, out_of_fold
from reproduction.multilabel_peers import N_TREES, extra_trees
from reproduction.provenance import code_hash, publish
from reproduction.runs import Run, run_all, versioned
from reproduction.telemetry_data import data_file
from sdlgm import SDLGMClassifier, __version__
from sdlgm.data import load_mulan

N_FOLDS = 5
CAL500_TRAIN = 400
HELD_OUT = 0.2
"""Share of the training rows of Delicious that the threshold of a peer is chosen on, in place of folds."""
DECISIONS = ("f1", "count", "mode", "threshold")
OWN, OWN_CV = "sdlgm", "sdlgm_cv"
LARGEST = 5
"""Labels of a row that rankings are scored on."""

MEASURED_APART = ("scaling", "memory")
"""What `benchmarks.labels` writes to the same file."""

Fit = Callable[[Any, np.ndarray, int], Any]
Split = tuple[Any, np.ndarray, Any, np.ndarray]
"""Rows, sparse if they are so in the file, and labels for training and for testing."""


@dataclass(frozen=True)
class Source:
    """A data set, in words, and the number of seeds."""

    title: str
    rows: str
    seeds: int
    is_large: bool = False
    """Whether X is sparse, and folds would take hours."""


SOURCES: Mapping[str, Source] = {
    "emotions": Source("Emotions", "the published split", 5),
    "birds": Source("Birds", "the published split", 5),
    "cal500": Source("CAL500", f"{CAL500_TRAIN} rows and the other 102, chosen by the seed", 5),
    "delicious": Source("Delicious", "the published split", 1, is_large=True),
}


def _logistic(X, Y, seed: int) -> Any:
    del seed
    return _one_for_each(LogisticRegression(max_iter=1000), X).fit(X, Y)


def _sgd(X, Y, seed: int) -> Any:
    return _one_for_each(SGDClassifier(loss="log_loss", random_state=seed), X).fit(X, Y)


def _one_for_each(model: Any, X: Any) -> OneVsRestClassifier:
    # Words of texts are zeros and ones already; divided by their deviations, rare ones would drown the others.
    return OneVsRestClassifier(model if sp.issparse(X) else make_pipeline(StandardScaler(), model))


def _trees(X, Y, seed: int) -> Any:
    return extra_trees(random_state=seed).fit(X, Y)


PEERS: Mapping[str, tuple[str, Fit]] = {
    "logistic": ("logistic regression for each label", _logistic),
    "sgd": ("SGD for each label", _sgd),
    "extra_trees": ("extra trees", _trees),
}
SMALL_ONLY = ("extra_trees", OWN_CV)
SYSTEMS = (OWN, OWN_CV, *PEERS)
TITLES: Mapping[str, str] = {
    **{f"{OWN}_{decision}": f'SDLGM, `decision="{decision}"`' for decision in DECISIONS},
    OWN_CV: 'SDLGM, `threshold="cv"`',
    **{name: title for name, (title, _) in PEERS.items()},
}
PROTOCOL = {
    "rows": "all rows, those without labels too",
    "SDLGM": "the defaults of `SDLGMClassifier`. The four decisions are those of the same model; the threshold is 0.5 "
    f'but for `threshold="cv"`, which chooses it by {N_FOLDS} folds of the training rows',
    "peers": "the defaults of scikit-learn (`LogisticRegression`, `SGDClassifier` with `loss='log_loss'`, "
    f"`ExtraTreesRegressor` with {N_TREES} trees for the 0/1 labels), columns standardised for the first two but those "
    f"of sparse rows; one threshold for all labels, with the largest micro F1 of {N_FOLDS} iterative-stratified folds "
    f"of the training rows. On Delicious, of {HELD_OUT:.0%} of the training rows that the model was not fitted to",
    "scores": "on the test rows, which choose nothing. Micro and macro F1 as scikit-learn's with `zero_division=0`; "
    "row F1 is the mean over rows, 1 if a row has no labels and none is predicted; set accuracy is the share of rows "
    "with exactly the true labels, Hamming loss that of wrong entries. P@1 and P@5 are the shares of true labels among "
    "the one and the five of a row with the largest probabilities, nDCG@5 weighs those five by 1 / log2(1 + rank), "
    "over the best possible sum, for rows with labels",
    "seconds": "processor seconds of one thread for fit, choice of the threshold and prediction",
    "memory": "the largest resident memory of the process during these, in MB, with Python, the libraries and the data",
}


def measured_apart(out: Path) -> dict[str, Any]:
    """Return what the benchmarks of many labels have added to the file, which stays."""
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    return {name: found[name] for name in MEASURED_APART if name in found}


def reproduce_tags(
    out: Path, *, data: Sequence[str], systems: Sequence[str], n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Measure all systems on all data sets, and write the rows."""
    version = versioned([PROTOCOL, code_hash()], __version__)
    runs: list[Run] = [
        {"table": "tags", "data": name, "system": system, "seed": seed, "version": version}
        for name in data
        for system in systems
        if not (SOURCES[name].is_large and system in SMALL_ONLY)
        for seed in range(SOURCES[name].seeds)
    ]

    def written(results: Sequence[Run]) -> dict[str, Any]:
        sources = {
            name: {"title": SOURCES[name].title, "rows": SOURCES[name].rows, "shape": run["shape"]}
            for name in data
            for run in results
            if run["data"] == name
        }
        rows = [row for name in data for system in TITLES if (row := _row(name, system, results))]
        return publish(out, {"data": sources, "rows": rows, "protocol": PROTOCOL, **measured_apart(out)})

    return written(run_all(measure, runs, work_folder, n_jobs, fresh=False, after_each=written))


def _row(name: str, system: str, results: Sequence[Run]) -> dict[str, Any] | None:
    """Return the row of a system, with a value of each seed for every score; None if it was not run."""
    found = [run for run in results if run["data"] == name and system in run["scores"]]
    if not found:
        return None
    scores = {score: [run["scores"][system][score] for run in found] for score in found[0]["scores"][system]}
    seconds, peak = ([run[quantity] for run in found] for quantity in ("seconds", "peak_mb"))
    return {"data": name, "system": system, "title": TITLES[system], **scores, "seconds": seconds, "peak_mb": peak}


def load_split(name: str, seed: int) -> Split:
    """Return rows and labels for training and for testing."""
    if name == "cal500":
        whole = load_mulan(name)
        order = np.random.default_rng(seed).permutation(len(whole.X))
        train, test = order[:CAL500_TRAIN], order[CAL500_TRAIN:]
        return whole.X[train], whole.Y[train], whole.X[test], whole.Y[test]
    if SOURCES[name].is_large:
        files = (data_file("mulan", f"{name}-{part}.arff") for part in ("train", "test"))
        of_train, of_test = (load_mulan(file, sparse=True) for file in files)
        return of_train.X, of_train.Y.toarray(), of_test.X, of_test.Y.toarray()
    of_train, of_test = (load_mulan(f"{name}:{part}") for part in ("train", "test"))
    return of_train.X, of_train.Y, of_test.X, of_test.Y


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run."""
    del folder
    X, Y, X_test, Y_test = load_split(run["data"], run["seed"])
    _forget_peak()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # labels without a training row
        start = time.process_time()
        if run["system"] in (OWN, OWN_CV):
            scores = _own_scores(run, X, Y, X_test, Y_test)
        else:
            scores = {run["system"]: _peer_scores(run, X, Y, X_test, Y_test)}
        seconds = time.process_time() - start
    shape = [len(Y), len(Y_test), X.shape[1], Y.shape[1]]
    return {"scores": scores, "seconds": seconds, "peak_mb": _peak_mb(), "shape": shape, "code": code_hash()}


def _own_scores(run: Run, X, Y, X_test, Y_test) -> dict[str, dict[str, float]]:
    if run["system"] == OWN_CV:
        model = SDLGMClassifier(threshold="cv", random_state=run["seed"]).fit(X, Y)
        return {OWN_CV: scores_of(Y_test, np.asarray(model.predict(X_test)), model.predict_proba(X_test))}
    model = SDLGMClassifier(random_state=run["seed"]).fit(X, Y)
    probs = model.predict_proba(X_test)
    return {
        f"{OWN}_{decision}": scores_of(Y_test, np.asarray(model.predict(X_test, decision=decision)), probs)
        for decision in DECISIONS
    }


def _peer_scores(run: Run, X, Y, X_test, Y_test) -> dict[str, float]:
    fit, seed = PEERS[run["system"]][1], run["seed"]
    if SOURCES[run["data"]].is_large:
        order = np.random.default_rng(seed).permutation(len(Y))
        held_out, kept = np.split(order, [round(HELD_OUT * len(Y))])
        threshold = best_threshold(Y[held_out], fit(X[kept], Y[kept], seed).predict_proba(X[held_out]))
    else:
        probs = out_of_fold(lambda train, rows: fit(X[train], Y[train], seed).predict_proba(X[rows]), Y, N_FOLDS, seed)
        threshold = best_threshold(Y, probs)
    probs = fit(X, Y, seed).predict_proba(X_test)
    return scores_of(Y_test, labels_at(probs, threshold, None), probs)


def scores_of(true: np.ndarray, predicted: np.ndarray, probs: np.ndarray) -> dict[str, float]:
    """Return the scores of a prediction.

    Parameters
    ----------
    true, predicted : ndarray of shape (n_rows, n_labels)
        Indicator matrices.
    probs : ndarray of the same shape
        Probabilities of the labels.

    """
    known, found = true > 0, predicted > 0
    total = known.sum(axis=1) + found.sum(axis=1)
    of_rows = np.where(total > 0, 2 * (known & found).sum(axis=1) / np.maximum(total, 1), 1.0)
    return {
        "micro": f1(true, found, "micro"),
        "macro": f1(true, found, "macro"),
        "row": float(of_rows.mean()),
        **_ranking(known, probs),
        "hamming": float((known != found).mean()),
        "set_accuracy": float((known == found).all(axis=1).mean()),
        "n_predicted": float(found.sum(axis=1).mean()),
        "n_true": float(known.sum(axis=1).mean()),
    }


def _ranking(known: np.ndarray, probs: np.ndarray) -> dict[str, float]:
    """Return P@1 and P@5 of all rows, and nDCG@5 of those with labels."""
    order = np.argsort(-probs, axis=1, kind="stable")[:, :LARGEST]
    hits = np.take_along_axis(known, order, axis=1)
    gains = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    best = np.cumsum(gains)[np.minimum(known.sum(axis=1), hits.shape[1]) - 1]
    labelled = known.any(axis=1)
    return {
        "p_at_1": float(hits[:, 0].mean()),
        "p_at_5": float(hits.mean()),
        "ndcg_at_5": float(((hits @ gains) / best)[labelled].mean()),
    }


def _forget_peak() -> None:
    """Let the peak of the memory of this process begin anew, where the system can (Linux)."""
    file = Path("/proc/self/clear_refs")
    if file.exists():
        file.write_text("5", encoding="ascii")


def _peak_mb() -> float | None:
    """Return the peak of the memory of this process since then, in MB."""
    file = Path("/proc/self/status")
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), None)
