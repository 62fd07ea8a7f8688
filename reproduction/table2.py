"""Reproduce Table II: multi-label classification of birds, emotions and music.

Settings and thresholds are chosen by five folds of the training rows, never by test rows. All settings that were tried,
and those that were chosen, are part of the results.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduction.internals import (
    POWERS,
    THRESHOLDS,
    best_threshold,
    best_thresholds,
    f1,
    labels_at,
    out_of_fold,
)
from reproduction.linear import LinearMultiLabel
from reproduction.multilabel_peers import GRIDS, N_MEMBERS, N_TREES, PEERS, QUICK, RankGauss
from reproduction.provenance import publish
from reproduction.runs import Run, run_all, versioned
from sdlgm import SDLGMClassifier
from sdlgm.data import load_mulan

N_FOLDS, QUICK_FOLDS = 5, 2
N_RERUNS = 5
CAL500_SPLITS = 5
CAL500_TRAIN = 400
N_BOOTSTRAP = 1000

Setting = dict[str, Any]
AVERAGES = ("micro", "macro")


@dataclass(frozen=True)
class Task:
    """Training and test rows."""

    X: np.ndarray
    Y: np.ndarray
    X_test: np.ndarray
    Y_test: np.ndarray
    unlabelled: np.ndarray
    """Training rows without labels, used as rows whose labels are unknown."""


DATA = {
    "birds": "Birds, site one-hot",
    "birds_without_site": "Birds, site dropped",
    "emotions": "Emotions",
    "cal500": "CAL500",
}
WITH_MANY_LABELS = ("cal500",)


def load_task(data: str, split: int) -> Task:
    """Load the official split, or a random one for CAL500, and separate the rows without labels."""
    name = data.removesuffix("_without_site")
    if name == "cal500":
        whole = load_mulan(name)
        order = np.random.default_rng(split).permutation(len(whole.X))
        parts = [(whole.X[rows], whole.Y[rows]) for rows in (order[:CAL500_TRAIN], order[CAL500_TRAIN:])]
    else:
        halves = [load_mulan(f"{name}:{part}") for part in ("train", "test")]
        kept = [not (data != name and feature.startswith("location=")) for feature in halves[0].feature_names]
        parts = [(half.X[:, kept], half.Y) for half in halves]
    (X, Y), (X_test, Y_test) = parts
    labelled, labelled_test = Y.any(axis=1), Y_test.any(axis=1)
    return Task(X[labelled], Y[labelled], X_test[labelled_test], Y_test[labelled_test], X[~labelled])


Prediction = tuple[np.ndarray, int | None]
"""Probabilities of the labels, and the budget of labels if the system has one."""
Predict = Callable[[Setting, int, Task, np.ndarray], Prediction]
"""Takes a setting, a seed, a task whose training rows are fitted, and the rows to predict."""


@dataclass(frozen=True)
class System:
    """One row of the table."""

    title: str
    _predict: Predict
    grid: Sequence[Setting]
    """Settings to choose from."""
    fixed: Setting = field(default_factory=dict)
    """Settings that are the same for the whole grid."""
    paper: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Micro and macro F1 in the paper."""
    data: tuple[str, ...] = tuple(DATA)
    needs_network: bool = False
    """Whether to add the network and the inputs that the folds of the split prefer to each setting."""
    grid_of_many: Sequence[Setting] | None = None
    """A smaller grid for data with many labels; None for the same grid."""

    quick: Setting = field(default_factory=dict)
    """Settings for a fast trial run."""

    def grid_of(self, data: str, quick: bool) -> list[Setting]:
        """Return the settings to choose from on a data set."""
        if quick:
            return [{**self.grid[0], **self.quick}]
        grid = self.grid if data not in WITH_MANY_LABELS or self.grid_of_many is None else self.grid_of_many
        return list(grid)

    def predict(self, setting: Setting, seed: int, task: Task, rows: np.ndarray) -> Prediction:
        """Fit the system to the training rows of a task and predict the labels of ``rows``."""
        return self._predict({**self.fixed, **setting}, seed, task, rows)


# The systems


def _linear(setting: Setting, _seed: int, task: Task, rows: np.ndarray) -> Prediction:
    model = make_pipeline(StandardScaler(), LinearMultiLabel(**setting))
    probs = model.fit(task.X, task.Y).predict_proba(rows)
    if setting["loss"] != "logistic":  # these scores sum to 1 over the labels
        probs = np.minimum(probs * task.Y.sum(axis=1).mean(), 1.0)
    return probs, None


def _peer(setting: Setting, seed: int, task: Task, rows: np.ndarray) -> Prediction:
    options = dict(setting)
    return PEERS[options.pop("peer")](**options, random_state=seed).fit(task.X, task.Y).predict_proba(rows), None


def _sdlgm(setting: Setting, seed: int, task: Task, rows: np.ndarray) -> Prediction:
    batch_size = SMALL_BATCH if task.Y.shape[1] > MANY_LABELS else BATCH
    options = {"max_iter": ITERATIONS, "batch_size": batch_size, **setting}
    inputs, budget = options.pop("inputs"), options.pop("budget", 1)
    further = task.unlabelled if options.pop("use_unlabelled", False) else None
    X: Any = task.X
    if inputs == "rank":
        ranks = RankGauss().fit(X)
        X, rows = ranks.transform(X), ranks.transform(rows)
        further = None if further is None else ranks.transform(further)
    max_active = budget * int(task.Y.sum(axis=1).max())
    # The inputs are those of the table, whatever the classifier would choose.
    model = SDLGMClassifier(**options, inputs="standard", max_active=max_active, random_state=seed)
    return model.fit(X, task.Y, unlabelled=further).predict_proba(rows), model.max_active_


ITERATIONS = 200
BATCH = 200
MANY_LABELS, SMALL_BATCH = 100, 100  # smaller batches save time
NETWORKS: dict[str, Setting] = {
    f"{width} {inputs}": {**network, "inputs": inputs}
    for width, network in {
        "wide": {"hidden": (256,), "input_dropout": 0.3, "weight_decay": 0.1},
        "narrow": {"hidden": (64,), "input_dropout": 0.5, "weight_decay": 1.0},
    }.items()
    for inputs in ("standard", "rank")
}
"""Networks and inputs. One is chosen for each split, with SDLGM-Dis, for all SDLGM rows."""
BUDGETS = [{"budget": 1}, {"budget": 2}]
"""L0 as a multiple of the largest number of labels of a training row."""
WEIGHTS = [{"reconstruction_weight": 0.003}, {"reconstruction_weight": 0.03}]
TEMPERATURES = [
    {"temperature": temperature, "budget": budget} for temperature, budget in ((2.5, 1), (3.0, 1), (3.5, 1), (3.0, 2))
]


def _grid(variant: str, form: str) -> list[Setting]:
    """Return the grid of a variant. The budget of a subset only truncates the codes, so it is rarely in the grid."""
    if form == "monte_carlo":
        return TEMPERATURES
    if variant == "dis":
        return [{}] if form == "subset" else BUDGETS
    return WEIGHTS if form == "subset" else [*WEIGHTS, {**WEIGHTS[0], "budget": 2}]


PAPER = {
    "logistic": ((45.78, 33.77), (66.75, 68.56), (48.88, 24.49)),
    "softmax": ((48.67, 37.06), (67.34, 67.51), (47.46, 23.51)),
    "sparsemax": ((49.44, 39.13), (66.38, 66.07), (48.47, 26.20)),
    "dis": ((50.75, 42.31), (70.99, 70.86), (49.58, 20.49)),
    "gen": ((49.96, 41.68), (71.35, 71.07), (44.22, 20.17)),
    "con": ((50.67, 43.15), (71.45, 71.22), (45.40, 25.74)),
}
VARIANTS = {"dis": "SDLGM-Dis", "gen": "SDLGM-Gen", "con": "SDLGM-Con"}
FORMS = {
    "monte_carlo": "the paper's form",
    "closed_form": "closed form",
    "multinomial": "multinomial",
    "subset": "subset",
}


def _printed(name: str) -> dict[str, tuple[float, float]]:
    birds, emotions, cal500 = PAPER[name]
    return {"birds": birds, "birds_without_site": birds, "emotions": emotions, "cal500": cal500}


def _systems() -> dict[str, System]:
    systems = {}
    for loss in ("logistic", "softmax", "sparsemax"):
        grid = [{"l2": l2} for l2 in (0.1, 1.0, 10.0, 100.0)]
        systems[loss] = System(
            loss, _linear, grid, {"loss": loss}, _printed(loss), grid_of_many=grid[1:], quick={"l2": 100.0}
        )
    for form, of_form in FORMS.items():
        for variant, title in VARIANTS.items():
            system = _own(variant, form, f"{title}, {of_form}")
            if variant != "dis" and form in ("closed_form", "multinomial"):
                system = replace(system, data=("birds", "emotions", "cal500"))
            name = "paper" if form == "monte_carlo" else form
            systems[f"sdlgm_{variant}_{name}"] = system
    for variant in ("dis", "con"):
        title = f"{VARIANTS[variant]}, subset, {N_MEMBERS} members"
        systems[f"sdlgm_{variant}_ensemble"] = _own(variant, "subset", title, n_members=N_MEMBERS)
    con_ensemble = systems["sdlgm_con_ensemble"]
    systems["sdlgm_con_ensemble"] = replace(con_ensemble, data=tuple(name for name in DATA if name != "cal500"))
    title = f"SDLGM-Dis, subset, {N_MEMBERS} members and {N_TREES} trees"
    systems["sdlgm_dis_trees"] = _own("dis", "subset", title, n_members=N_MEMBERS, n_trees=N_TREES)
    for variant in ("gen", "con"):
        title = f"{VARIANTS[variant]}, subset, with the rows without labels"
        system = _own(variant, "subset", title, use_unlabelled=True)
        systems[f"sdlgm_{variant}_unlabelled"] = replace(system, data=("birds", "birds_without_site"))
    for name in PEERS:
        systems[name] = System(name.replace("_", " "), _peer, GRIDS[name], {"peer": name}, quick=QUICK[name])
    for name in ("gradient_boosting", "mlp_and_extra_trees"):
        systems[name] = replace(systems[name], grid_of_many=systems[name].grid[:1])
    return systems


def _own(variant: str, form: str, title: str, **further: Any) -> System:
    fixed = {"variant": variant, "likelihood": form, **further}
    grid = _grid(variant, form)
    quick = {"max_iter": 20, **{name: 2 for name in ("n_members", "n_trees") if name in further}}
    # With many labels, the best macro F1 needs more labels than any training row has.
    grid_of_many = BUDGETS if (variant, form) == ("dis", "subset") else grid[:2]
    return System(
        title, _sdlgm, grid, fixed, _printed(variant), needs_network=True, grid_of_many=grid_of_many, quick=quick
    )


SYSTEMS = _systems()
# The protocol is part of the published results. Change it together with a new run.
QUICK_PROTOCOL = "one setting of each grid, two folds, a fraction of the training, one rerun or split: no result"
PROTOCOL = {
    "rows": "those without labels are removed from both parts; the two rows that say so use the attributes of such "
    "training rows",
    "splits": f"official for Birds and Emotions; CAL500 has none: {CAL500_SPLITS} random splits of {CAL500_TRAIN} and "
    f"102 rows, seeds 0 to {CAL500_SPLITS - 1}; the paper does not say which rows it tests with",
    "inputs": "standardised with the statistics of the training rows, or, if the folds prefer it (SDLGM, chain, neural "
    "network), brought to a normal distribution by their ranks among the training rows; trees take them as they are",
    "mlp and extra trees": f"half the mean of {N_MEMBERS} networks, half trees: a control for the SDLGM with trees",
    "softmax and sparsemax": "their outputs, which sum to 1, times the mean number of labels, at most 1, before they "
    "are compared with thresholds",
    "network": "which of four (two widths, standardised inputs or ranks) is chosen with SDLGM-Dis, subset, by the same "
    "folds, for all SDLGM rows, beside what their own grids have to choose; batches of 200 rows, of 100 for CAL500, "
    "200 iterations",
    "L0": "the largest number of labels of a training row, or twice that if the folds prefer it; predictions keep it",
    "choice": f"settings and thresholds by {N_FOLDS} iterative-stratified folds of the training rows, pooled "
    "out-of-fold probabilities; once for the largest micro F1, with one threshold for all labels, and once for the "
    "largest macro F1, with thresholds c * frequency ** power of which c and power are chosen; the same rule for every "
    "system",
    "CAL500": "to save time, the first two settings of the grids of the SDLGM, the first one of boosted trees and of "
    "the mean of networks and trees, and no l2 below 1 are tried; SDLGM-Dis, subset, also has twice the budget to "
    "choose",
    "reruns": f"{N_RERUNS} with different seeds for Birds and Emotions, one for each split for CAL500",
    "macro": "labels without positives in the test rows count as 0 (as in scikit-learn); 'present' leaves them out",
    "interval": f"95 %, {N_BOOTSTRAP} bootstrap samples of the test rows, of the mean over reruns; a label that a "
    "sample happens to miss is left out of its macro average; for CAL500 the mean of the intervals' ends over the "
    "splits",
    "time": "processor seconds on one thread for the search, the final fits and the predictions together, other runs "
    "beside it; for SDLGM rows with the choice of the network, which they share",
    "location": "the attribute location of Birds is the code of a site; one-hot and dropped are both reported",
}


# Measuring


def reproduce_table2(
    out: Path, *, systems: Sequence[str], data: Sequence[str], quick: bool, n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Measure the systems on the data sets and write the table to ``out``."""
    splits = [(name, split) for name in data for split in range(_n_splits(name, quick))]
    common = {"table": "table2", "quick": quick}
    searched = splits if any(SYSTEMS[system].needs_network for system in systems) else []
    searches = [
        {**common, "version": _version(list(NETWORKS)), "data": name, "split": split, "system": "network"}
        for name, split in searched
    ]
    networks = dict(zip(searched, run_all(choose_network, searches, work_folder, n_jobs), strict=True))
    runs = [
        {
            **common,
            "version": _version([SYSTEMS[system].grid_of(name, quick), SYSTEMS[system].fixed]),
            "data": name,
            "split": split,
            "system": system,
            "network": networks[name, split]["chosen"] if SYSTEMS[system].needs_network else "",
        }
        for name, split in splits
        for system in systems
        if name in SYSTEMS[system].data
    ]
    results = run_all(measure, runs, work_folder, n_jobs, fresh=False)
    rows = [
        _row(system, name, [r for r in results if (r["system"], r["data"]) == (system, name)], networks)
        for name in data
        for system in systems
        if name in SYSTEMS[system].data
    ]
    protocol = PROTOCOL | ({"quick": QUICK_PROTOCOL} if quick else {})
    return publish(
        out,
        {
            "rows": rows,
            "thresholds": list(THRESHOLDS),
            "powers": list(POWERS),
            "networks": {f"{name} {split}": search["scores"] for (name, split), search in networks.items()},
            "seconds": sum(result["seconds"] for result in [*networks.values(), *results]),
            "label_numbers": {name: _label_numbers(name) for name in data},
            "protocol": protocol,
        },
    )


def choose_network(run: Run, _folder: Path) -> dict[str, Any]:
    """Choose the network and the inputs with the best mean of micro and macro F1 of SDLGM-Dis in the folds."""
    start = time.process_time()
    task = load_task(run["data"], run["split"])
    system = _own("dis", "subset", "")
    names = list(NETWORKS)[: 1 if run["quick"] else None]
    settings = {name: {**NETWORKS[name], **(system.quick if run["quick"] else {})} for name in names}
    found = {name: _chosen(system, [setting], task, run["quick"]) for name, setting in settings.items()}
    scores = {name: float(np.mean([of[average]["score"] for average in AVERAGES])) for name, of in found.items()}
    best = max(scores, key=lambda name: scores[name])
    return {"chosen": best, "scores": scores, "seconds": time.process_time() - start}


def _version(settings: Any) -> str:
    sizes = [ITERATIONS, BATCH, SMALL_BATCH, MANY_LABELS, N_FOLDS, N_RERUNS, N_BOOTSTRAP, CAL500_TRAIN]
    sizes += [N_TREES, N_MEMBERS]
    defaults = SDLGMClassifier().get_params()
    return versioned([NETWORKS, sizes, defaults, list(THRESHOLDS), list(POWERS), settings])


def _n_splits(data: str, quick: bool) -> int:
    return CAL500_SPLITS if data == "cal500" and not quick else 1


def measure(run: Run, _folder: Path) -> dict[str, Any]:
    """Measure one system on one split: choose by the folds, fit again, score on the test rows."""
    system, quick = SYSTEMS[run["system"]], bool(run["quick"])
    task = load_task(run["data"], run["split"])
    network = NETWORKS[run["network"]] if system.needs_network else {}
    grid = [{**network, **setting} for setting in system.grid_of(run["data"], quick)]
    start = time.process_time()
    chosen = _chosen(system, grid, task, quick)
    seeds = [run["split"]] if run["data"] == "cal500" or quick else list(range(N_RERUNS))
    result: dict[str, Any] = {"selected": chosen}
    fitted: dict[tuple[str, int], Prediction] = {}
    for average in AVERAGES:
        setting, thresholds = chosen[average]["setting"], np.array(chosen[average]["thresholds"])
        predictions = []
        for seed in seeds:
            key = (repr(setting), seed)
            if key not in fitted:
                fitted[key] = system.predict(setting, seed, task, task.X_test)
            probs, budget = fitted[key]
            predictions.append(labels_at(probs, thresholds, budget))
        result |= _scores(task.Y_test, predictions, average)
        if average == "micro":
            result["numbers"] = {
                "true": task.Y_test.sum(axis=1).tolist(),
                "predicted": np.mean([p.sum(axis=1) for p in predictions], axis=0).tolist(),
            }
    return {**result, "seconds": time.process_time() - start}


def _chosen(system: System, grid: list[Setting], task: Task, quick: bool) -> dict[str, dict[str, Any]]:
    """Return for each average the setting with the largest out-of-fold F1, its thresholds and its score."""
    chosen: dict[str, dict[str, Any]] = {}
    for setting in grid:
        budgets: list[int | None] = []

        def fit_predict(train: np.ndarray, held_out: np.ndarray, setting: Setting = setting) -> np.ndarray:
            part = replace(task, X=task.X[train], Y=task.Y[train])
            probs, budget = system.predict(setting, 0, part, task.X[held_out])
            budgets.append(budget)  # noqa: B023 - called before the next setting
            return probs

        probs = out_of_fold(fit_predict, task.Y, QUICK_FOLDS if quick else N_FOLDS, seed=0)
        known = [budget for budget in budgets if budget is not None]
        budget = max(known) if known else None
        for average in AVERAGES:
            thresholds: Any = (best_threshold if average == "micro" else best_thresholds)(task.Y, probs, budget)
            score = f1(task.Y, labels_at(probs, thresholds, budget), average)
            if average not in chosen or score > chosen[average]["score"]:
                chosen[average] = {
                    "setting": setting,
                    "thresholds": np.asarray(thresholds).tolist(),
                    "score": score,
                }
    return chosen


def _scores(Y: np.ndarray, predictions: list[np.ndarray], average: str) -> dict[str, Any]:
    """Return the F1 of each prediction in percent, and the interval of their mean."""
    present = Y.any(axis=0)
    result = {
        average: [100 * f1(Y, predicted, average) for predicted in predictions],
        f"{average}_interval": _interval(Y, predictions, average),
    }
    if average == "macro":
        result["macro_present"] = [100 * f1(Y[:, present], p[:, present], average) for p in predictions]
    return result


def _interval(Y: np.ndarray, predictions: list[np.ndarray], average: str) -> list[float]:
    """Return the 95 % bootstrap interval of the mean F1 over test rows, in percent.

    The macro average of a resample leaves out labels that occur in the test rows but not in the resample.
    """
    n, positive = len(Y), Y > 0
    weights = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=N_BOOTSTRAP).astype(np.float64)
    scores = np.zeros(N_BOOTSTRAP)
    for predicted in predictions:
        hits = weights @ (predicted & positive)
        total = weights @ (predicted + positive.astype(int))
        if average == "micro":
            scores += 2 * hits.sum(1) / np.maximum(total.sum(1), 1)
        else:
            counted = (weights @ positive > 0) | ~positive.any(axis=0)
            scores += np.divide(2 * hits, total, out=np.zeros_like(hits), where=total > 0).mean(1, where=counted)
    return (100 * np.quantile(scores / len(predictions), [0.025, 0.975])).tolist()


def _row(system: str, data: str, results: list[Run], networks: Mapping[tuple[str, int], Run]) -> dict[str, Any]:
    """Return one row of the table from the results on its splits."""
    shared = [networks[data, r["split"]]["seconds"] for r in results] if SYSTEMS[system].needs_network else []
    joined = {key: [value for r in results for value in r[key]] for key in ("micro", "macro", "macro_present")}
    ends = {
        f"{average}_interval": np.mean([r[f"{average}_interval"] for r in results], axis=0).tolist()
        for average in AVERAGES
    }
    return {
        "system": system,
        "title": SYSTEMS[system].title,
        "data": data,
        "paper": SYSTEMS[system].paper.get(data),
        **joined,
        **ends,
        "selected": {average: [r["selected"][average] for r in results] for average in AVERAGES},
        "grid": SYSTEMS[system].grid_of(data, quick=False),
        "fixed": SYSTEMS[system].fixed,
        "numbers": results[0]["numbers"],
        "seconds": sum([*shared, *(r["seconds"] for r in results)]),
    }


def _label_numbers(data: str) -> list[int]:
    """Count the training and test rows by their number of labels."""
    task = load_task(data, 0)
    numbers = np.concatenate([task.Y, task.Y_test]).sum(axis=1)
    return np.bincount(numbers).tolist()
