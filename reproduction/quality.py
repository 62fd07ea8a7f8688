"""Compare codes of nine data sets after the same time: error, what can be predicted from them, and length."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from reproduction import quality_measures, quality_networks, quality_peers
from reproduction.internals import code_bits, limited_by_processor_time
from reproduction.provenance import code_hash, publish
from reproduction.quality_data import LARGEST, SOURCES, QualityData, load_quality
from reproduction.quality_measures import linear_probe, neighbours, unexplained
from reproduction.quality_networks import Stopwatch
from reproduction.quality_peers import PEERS, TRIAL, Coded, Wanted, in_all_parts
from reproduction.runs import Run, run_all, versioned
from sdlgm import SDLGM, __version__

SECONDS = (30.0, 120.0, 480.0)
N_COMPONENTS, MAX_ACTIVE = 256, 32
LIKELIHOODS = ("auto", "gaussian")
LOADING_ITERATIONS = 20
"""Of a fit that loads, or compiles, what the first fit of a process does."""
OWN, REFERENCE = "sdlgm", "raw"
TITLES: Mapping[str, str] = {
    OWN: "SDLGM",
    **{name: title for peer in PEERS.values() for name, title in peer.titles.items()},
    REFERENCE: "the columns themselves",
}
"""Titles of all rows, in the order of the tables."""
SYSTEMS = (OWN, *PEERS, REFERENCE)
"""What can be run. A run of a sparse autoencoder makes two rows."""
_percent = f"{TRIAL:.1%}"
PROTOCOL = {
    "columns": "those that do not vary in training are left out, missing values get the last value before in their "
    "window, or the mean; all are centred and divided by their standard deviation in training (pixels by a common "
    f"one), and values beyond {LARGEST:g} are moved to it. All systems get the same numbers",
    "time": "processor seconds of one thread for training, without the reading of data, the start of the process, "
    f"looks at the validation error, and trials: every setting of a grid is tried for {_percent} of the time, the best "
    "on the validation rows gets all of it, and the better of its two results counts. Each time is a run of its own",
    "SDLGM": f"`n_components={N_COMPONENTS}`, `max_active={MAX_ACTIVE}`, the time, otherwise the defaults; "
    f"likelihood {' or '.join(LIKELIHOODS)}, the only choice, by such trials. It sees the training rows alone. Its "
    "codes are those of `transform`",
    "non-zeros": "peers get as many as the codes of the SDLGM have on average on the validation rows after the same "
    "time, rounded; BatchTopK as an average over the validation rows. PCA and NMF have that many components",
    "training of the peers": "autoencoders: Adam, batches of "
    f"{quality_networks.BATCH}, learning rate falling to zero over the second half of the time, the parameters with "
    f"the least validation error; they end early after {quality_networks.PATIENCE:.0%} of the time without a better "
    "one. Grids: learning rates "
    f"{' and '.join(map(str, quality_peers.LEARNING_RATES))} with linear networks and with one hidden layer each way, "
    f"{quality_peers.WIDE[0]} units, {quality_peers.NARROW[0]} below {quality_peers.FEW_ROWS:,} rows",
    "support": "which coefficients of the same autoencoder are not zero, decoded by ridge regression or by a network "
    f"with a hidden layer that is trained for another {_percent} of the time, not counted; the validation rows choose",
    "vector-quantised autoencoder": "as many codebooks of "
    f"{' or '.join(map(str, quality_peers.WORDS))} words as have the bits of the SDLGM on the validation rows, moving "
    "averages as words, fresh starts of words without use; linear or one hidden layer; probes take one-hot indices or "
    "words",
    "dictionary learning": "MiniBatchDictionaryLearning and OMP of scikit-learn, alpha "
    f"{', '.join(map(str, quality_peers.ALPHAS))}",
    "NMF": "MiniBatchNMF of scikit-learn, of the columns minus their minimum in training",
    "error": "squared error of decoded test rows as a fraction of that of the mean of the training rows",
    "probe": "accuracy of logistic regression for classes, mean average precision of one for each label, and R² of "
    "ridge regression for numbers, on the test rows; trained on the codes of the training rows, divided by one number; "
    "the validation rows choose the penalty",
    "kNN": "the same measures, of 5 or 20 neighbours by Euclidean or cosine distance, chosen likewise",
    "bits": "length of an ideal entropy code of the test rows. SDLGM: -log2 p(z) under its own prior. Supports and "
    "indices: by independent frequencies in training. Values: rounded to as few levels as raise the validation error "
    f"by at most {quality_measures.ROUNDING_COST - 1:.0%}, by their frequencies, plus the support; their error is that "
    "without rounding",
    "alive": "features that the codes of the training rows use; words of a vector-quantised autoencoder",
}


def reproduce_quality(
    out: Path,
    *,
    data: Sequence[str],
    systems: Sequence[str],
    seconds: Sequence[float],
    n_jobs: int,
    work_folder: Path,
) -> dict[str, Any]:
    """Measure systems on data sets after some times, and write the rows; other rows of the file are kept.

    The file is written after each run. The SDLGM is run for every data set, because it says how many non-zeros and bits
    the others get.
    """
    kept = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"rows": [], "data": {}}
    done: dict[tuple[str, str, float], Run] = {key_of(row): row for row in kept["rows"]}
    sources = dict(kept["data"])

    def written(results: Sequence[Run]) -> dict[str, Any]:
        for result in results:
            done.update({key_of(row): row for row in result["rows"]})
            sources[result["data"]] = result["source"]
        rows = sorted(done.values(), key=_order)
        ordered = {name: sources[name] for name in SOURCES if name in sources}
        return publish(out, {"data": ordered, "rows": rows, "protocol": PROTOCOL})

    runs_of_own = [_run(name, OWN, limit, 0, 0.0) for name in data for limit in seconds]
    own = run_all(measure, runs_of_own, work_folder, n_jobs, fresh=False, after_each=written)
    result = written(own)
    runs = [_run(name, REFERENCE, 0.0, 0, 0.0) for name in data if REFERENCE in systems]
    runs += [
        _run(of["data"], system, of["seconds"], of["wanted_k"], round(of["wanted_bits"], 1))
        for of in own
        for system in systems
        if system in PEERS
    ]
    if runs:
        result = written(run_all(measure, runs, work_folder, n_jobs, fresh=False, after_each=written))
    return result


def key_of(row: Mapping[str, Any]) -> tuple[str, str, float]:
    """Return what there is one row of."""
    return row["data"], row["system"], row["seconds"]


def _order(row: Mapping[str, Any]) -> tuple[int, int, float]:
    return list(SOURCES).index(row["data"]), list(TITLES).index(row["system"]), row["seconds"]


def _run(data: str, system: str, seconds: float, k: int, bits: float) -> Run:
    """Return a run; k and bits are what the SDLGM needs, for peers."""
    version = versioned([PROTOCOL, code_hash()] if system == OWN else PROTOCOL, __version__)
    of_run = {"table": "quality", "data": data, "system": system, "seconds": seconds, "k": k, "bits": bits, "seed": 0}
    return of_run | {"version": version}


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run, and measure the codes that it makes."""
    del folder
    with threadpool_limits(1):  # a thread that waits takes processor seconds too
        return _measured(run)


def _measured(run: Run) -> dict[str, Any]:
    data, source = load_quality(run["data"]), SOURCES[run["data"]]
    facts = {"title": source.title, "rows": source.rows, "predicted": source.predicted}
    result: dict[str, Any] = {"source": {**facts, "task": data.task, "shape": data.shape}}
    if run["system"] == OWN:
        coded, wanted = own_codes(data, run["seconds"], run["seed"])
        result |= {"wanted_k": wanted.k, "wanted_bits": wanted.bits}
        all_coded = [coded]
    elif run["system"] == REFERENCE:
        all_coded = [_columns(data)]
    else:
        wanted = Wanted(N_COMPONENTS, run["k"], run["bits"], run["seconds"], run["seed"])
        all_coded = PEERS[run["system"]].run(data, wanted)
    return result | {"rows": [_row(run, data, coded) for coded in all_coded]}


def _row(run: Run, data: QualityData, coded: Coded) -> dict[str, Any]:
    return {
        "data": run["data"],
        "system": coded.system,
        "title": TITLES[coded.system],
        "kind": coded.kind,
        "seconds": run["seconds"],
        "error": coded.unexplained,
        "probe": linear_probe(data, coded.views),
        "knn": neighbours(data, coded.views),
        "bits": coded.bits,
        "n_active": coded.n_active,
        "alive": coded.alive,
        "iterations": coded.iterations,
        "seconds_used": coded.seconds,
        "setting": coded.setting,
        "code": code_hash(),
    }


def _columns(data: QualityData) -> Coded:
    """Return the columns as if they were a code."""
    view = (data.train.X, data.validation.X, data.test.X)
    n_columns = data.train.X.shape[1]
    return Coded(REFERENCE, "reference", [view], 0.0, None, float(n_columns), n_columns, 0, 0.0)


def own_codes(data: QualityData, seconds: float, seed: int) -> tuple[Coded, Wanted]:
    """Fit the SDLGM for a time. Return its codes and what peers get."""

    def new(likelihood: str) -> SDLGM:
        return SDLGM(
            n_components=N_COMPONENTS,
            max_active=MAX_ACTIVE,
            likelihood=likelihood,  # type: ignore[arg-type]
            random_state=seed,
        )

    def error(model: SDLGM) -> float:
        decoded = model.inverse_transform(model.transform(data.validation.X))
        return float(np.square(decoded - data.validation.X).mean())

    likelihood = LIKELIHOODS[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # trials may be too short to learn anything
        # This also compiles what the first fit of a process compiles.
        chosen = new("auto").set_params(max_iter=LOADING_ITERATIONS).fit(data.train.X).likelihoods_
        if set(chosen) != {likelihood}:
            tried = {name: fit_for(new(name), data.train.X, TRIAL * seconds)[0] for name in LIKELIHOODS}
            likelihood = min(tried, key=lambda name: error(tried[name]))
    model, used = fit_for(new(likelihood), data.train.X, seconds)
    codes = in_all_parts(model.transform, data)
    train, validation, test = codes
    wanted = Wanted(
        N_COMPONENTS, max(1, round(validation.nnz / len(data.validation))), code_bits(model, validation), seconds, seed
    )
    coded = Coded(
        system=OWN,
        kind="discrete",
        views=[codes],
        unexplained=unexplained(model.inverse_transform(test), data.test.X, data.train.X.mean(axis=0)),
        bits=code_bits(model, test),
        n_active=test.nnz / len(data.test),
        alive=int((train.getnnz(axis=0) > 0).sum()),
        iterations=model.n_iter_,
        seconds=used,
        setting={"likelihood": likelihood},
    )
    return coded, wanted


def fit_for(model: SDLGM, X: np.ndarray, seconds: float) -> tuple[SDLGM, float]:
    """Fit a model for a time of the processor. Return it with the processor seconds that it took."""
    watch = Stopwatch(seconds)
    with limited_by_processor_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the measurements say whether codes carry something
        model.set_params(max_iter="auto", max_time=seconds).fit(X)
    return model, watch.elapsed
