"""Draw the figures of the paper with the model of Table I, and compare its codes with those of peers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from reproduction import code_lengths, image_peers, table1
from reproduction.image_peers import Coded
from reproduction.internals import code_bits
from reproduction.provenance import publish
from reproduction.runs import Run, run_all, run_folder, versioned
from sdlgm import SDLGM, load
from sdlgm.data import Dataset, load_data
from sdlgm.report import figures

MODELS = ("sdlgm_chain_prior_one_layer", "sdlgm_ordered")
"""Rows of Table I: the model of the figures, and the one of the short codes."""
RATES = (0.5, 1.0, 1.2, 2.0)
CANDIDATES, CANDIDATE_RATES = 64, (0.5, 1.0, 2.0)
OF_CANDIDATES = f"SDLGM, best of {CANDIDATES} candidates"
COMPARED = ("SDLGM", f"{OF_CANDIDATES}, rate 1")
"""Codes that are compared with those of the peers."""
BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)
PEERS = {"top_k": "top-k sparse autoencoder", "dictionary": "dictionary learning"}
PEER_BUDGETS = (2, 4, 6, 8, 10, 16, 40)
SHOWN_BUDGETS = (4, 40)
MAP_IMAGES = 3000  # as in the paper
SHOWN = 10
# The protocol is part of the published results. Change it together with a new run.
PROTOCOL = {
    "models": f"seed 0 of the rows {MODELS[0]} and {MODELS[1]} of Table I",
    "images": "the test images, as grey levels; what `transform` makes of them, decoded by `inverse_transform`",
    "bits of the SDLGM": "-log2 p(z) of the code under the model's own prior: the length of an ideal entropy code",
    "rates": f"models trained like {MODELS[0]}, but with another weight of the KL, `rate`; seed 0",
    "candidates": f"the best of the usual code and {CANDIDATES} draws, "
    f"`transform(n_candidates={CANDIDATES}, rate=...)`, of the model with rate 1",
    "bits of the peers": "the length of an ideal entropy code too: which coefficients are there, and the rounded "
    "values of those that are",
    "rounding of the peers": "to as few levels as raise the error on "
    f"{image_peers.ROUNDED_IMAGES:,} training images by at most {image_peers.ROUNDING_COST - 1:.0%}; the error is "
    "measured after that rounding",
    "which coefficients are there": "-log2 p under a chain prior, the family of the SDLGM's, with "
    f"{code_lengths.HIDDEN} hidden units (the SDLGM has 256) and no budget, fitted by maximum likelihood to the "
    "codes of ten elevenths of the training images; the epoch, and the length of the training out of "
    f"{', '.join(map(str, code_lengths.EPOCHS))} epochs, are chosen on the other training images; where independent "
    "frequencies are shorter on these, they are used",
    "values of the peers": "by the frequencies of the rounded levels in the same codes, of all features together or of "
    "each feature, whichever is shorter on the same other training images",
    "same length": "between the points of a peer, the logarithm of the error is interpolated linearly in the logarithm "
    "of the bits",
    "top-k sparse autoencoder": "one linear layer each way, 200 features, trained on squared error with as many "
    "iterations and images as the SDLGM",
    "dictionary learning": "MiniBatchDictionaryLearning of scikit-learn, 200 atoms, "
    f"{image_peers.DICTIONARY_PASSES} passes over {image_peers.DICTIONARY_IMAGES:,} images; codes by orthogonal "
    "matching pursuit",
}


def reproduce_figures(folder: Path, *, data: str, iterations: int, n_jobs: int, work_folder: Path) -> dict[str, Any]:
    """Do the runs that are missing, and write the pictures and figures.json to ``folder``."""
    of_rates = {rate: rate_run(rate, data, iterations) for rate in RATES}
    of_ordered = table1.run_of(MODELS[1], data, iterations, 0)
    of_peers = [peer_run(peer, k, data, iterations) for peer in PEERS for k in PEER_BUDGETS]
    runs = [*of_rates.values(), of_ordered, *of_peers]
    results = run_all(train_or_measure, runs, work_folder, n_jobs)
    chain, ordered = (load(run_folder(work_folder, run) / "model.sdlgm") for run in (of_rates[1.0], of_ordered))
    test = load_data(f"{data}:test")
    codes, drawn = chain.transform(test.X), chain.sample_codes(test.X, random_state=0)
    budget = chain.module_.config.n_slots
    rows = [
        *(_rate_row(rate, result["evaluation"]) for rate, result in zip(RATES, results[: len(RATES)], strict=True)),
        *candidate_rows(chain, test),
        *ordered_rows(ordered, test),
        *(_peer_row(result) for result in results[-len(of_peers) :]),
    ]
    decoded = {"SDLGM": chain.inverse_transform(codes[:SHOWN])} | {
        _peer_code(result): np.array(result["decoded"]) for result in results if result.get("k") in SHOWN_BUDGETS
    }
    pictures = {
        "reconstructions": figures.reconstructions(chain, test, codes),
        "reading": figures.reading_a_code(chain, test, codes),
        "map": figures.code_map(test, codes, max_rows=MAP_IMAGES),
        "sparsity": figures.sparsity(chain, test, codes, drawn, budget),
        "progressive": progressive(ordered, test),
        "peers": peers_picture(rows),
        "peers_images": peers_images(test, decoded),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    measured = {"data": data, "iterations": iterations, "codes": rows, "equal_bits": equal_bits(rows)}
    return publish(folder / "figures.json", measured | {"protocol": PROTOCOL})


# Runs


def rate_run(rate: float, data: str, iterations: int) -> Run:
    """Return the run of the model with another weight of the KL; that of rate 1 is the run of Table I."""
    if rate == 1.0:
        return table1.run_of(MODELS[0], data, iterations, 0)
    version = table1.run_version(_row_at(MODELS[0], rate).estimator())
    run = {"figure": "rates", "row": MODELS[0], "rate": rate, "data": data, "iterations": iterations, "seed": 0}
    return run | {"version": version}


def peer_run(peer: str, k: int, data: str, iterations: int) -> Run:
    """Return the run of a peer with at most k coefficients."""
    settings = [PROTOCOL, code_lengths.LEARNING_RATE, code_lengths.BATCH, image_peers.LEVELS]
    run = {"figure": "peers", "peer": peer, "k": k, "data": data, "iterations": iterations, "seed": 0}
    return run | {"version": versioned(settings)}


def train_or_measure(run: Run, folder: Path) -> dict[str, Any]:
    """Do one run: of a model or of a peer."""
    if "peer" in run:
        return measure_peer(run)
    return table1.train_row(_row_at(run["row"], run.get("rate", 1.0)), run, folder)


def _row_at(name: str, rate: float) -> table1.Row:
    row = table1.ROWS[name]
    return row if rate == 1.0 else replace(row, options={**row.options, "rate": rate})


def measure_peer(run: Run) -> dict[str, Any]:
    """Fit a peer, and measure its codes of the test images."""
    train, test = (load_data(f"{run['data']}:{part}").X for part in ("train", "test"))
    x_train, x_test = (np.asarray(figures.dense(part), dtype=np.float32) for part in (train, test))
    x_train, _ = table1.split(x_train)  # the images that the SDLGM was trained on
    n_features: int = table1.ROWS[MODELS[0]].estimator().n_components
    coded = _coded_by(run, x_train, x_test, n_features)
    result = {name: value for name, value in vars(coded).items() if name != "decoded"}
    return result | {"decoded": coded.decoded[:SHOWN].round(4).tolist()}


def _coded_by(run: Run, train: np.ndarray, test: np.ndarray, n_features: int) -> Coded:
    k, seed = run["k"], run["seed"]
    if run["peer"] == "dictionary":
        dictionary = image_peers.fitted_dictionary(train, n_features=n_features, seed=seed)
        return image_peers.dictionary_codes(dictionary, train, test, k=k, seed=seed)
    return image_peers.top_k_autoencoder(
        train, test, n_features=n_features, k=k, iterations=run["iterations"], seed=seed
    )


# Codes: a row for each, with its bits, its error and the family that it is a point of


def _row(code: str, family: str, bits: float, error: float, n_active: float) -> dict[str, Any]:
    return {"code": code, "family": family, "bits": bits, "error": error, "n_active": n_active}


def _rate_row(rate: float, evaluation: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a trained model from its evaluation on the test images."""
    code = "SDLGM" if rate == 1.0 else f"SDLGM, rate {rate:g}"
    measured = (evaluation[name] for name in ("code_bits", "reconstruction_error", "n_active_mean"))
    return _row(code, f"SDLGM, rate {min(RATES):g} to {max(RATES):g}", *measured)


def candidate_rows(model: SDLGM, test: Dataset) -> list[dict[str, Any]]:
    """Return the rows of codes that are the best of some candidates."""
    return [
        _row(
            f"{OF_CANDIDATES}, rate {rate:g}",
            OF_CANDIDATES,
            *measured(model, test, model.transform(test.X, n_candidates=CANDIDATES, rate=rate)),
        )
        for rate in CANDIDATE_RATES
    ]


def ordered_rows(model: SDLGM, test: Dataset) -> list[dict[str, Any]]:
    """Return the rows of the first features of ordered codes."""
    return [
        _row(
            f"SDLGM, ordered, first {m}",
            "SDLGM, ordered",
            *measured(model, test, model.transform(test.X, budget=m)),
        )
        for m in _budgets(model, test.X)
    ]


def _peer_row(result: Run) -> dict[str, Any]:
    row = _row(_peer_code(result), PEERS[result["peer"]], result["bits"], result["error"], result["n_active"])
    return row | {name: result[name] for name in ("supports", "values", "support_bits")}


def _peer_code(result: Run) -> str:
    return f"{PEERS[result['peer']]}, k = {result['k']}"


def measured(model: SDLGM, test: Dataset, codes: Any) -> tuple[float, float, float]:
    """Return the mean bits, the error of a pixel and the mean number of active features of codes."""
    error = np.square(model.inverse_transform(codes) - figures.dense(test.X), dtype=np.float64).mean()
    return code_bits(model, codes), float(error), float(codes.sum(axis=1).mean())


def equal_bits(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare codes of the SDLGM with each peer at the same length, by interpolation between the points of the peer.

    They are the usual ones and the best of candidates (`COMPARED`). Peers without a point on either side are left out.
    Logarithms of bits and errors are interpolated.
    """
    found = []
    for ours in (row for row in rows if row["code"] in COMPARED):
        for peer in PEERS.values():
            points = sorted((row["bits"], row["error"]) for row in rows if row["code"].startswith(f"{peer}, k"))
            bits, errors = np.log(np.array(points)).T
            place = np.log(ours["bits"])
            if bits[0] <= place <= bits[-1]:
                error = float(np.exp(np.interp(place, bits, errors)))
                both = {"bits": ours["bits"], "error": ours["error"], "peer_error": error}
                found.append({"code": ours["code"], "peer": peer, **both, "reduction": 1 - ours["error"] / error})
    return found


def _budgets(model: SDLGM, x: Any) -> list[int]:
    """Return the budgets up to the first that is not smaller than any code."""
    longest = int(model.transform(x).sum(axis=1).max())
    return [m for m, before in zip(BUDGETS, (0, *BUDGETS), strict=False) if before < longest]


def progressive(model: SDLGM, test: Dataset) -> Figure:
    """Draw images decoded from the first features of their codes."""
    x = np.asarray(figures.dense(test.X[:SHOWN]), dtype=np.float32)
    budgets = _budgets(model, x)
    figure = Figure(figsize=(SHOWN * 0.8, (len(budgets) + 1) * 0.8), layout="constrained")
    axes = figure.subplots(len(budgets) + 1, SHOWN, squeeze=False)
    lines = {"original": x} | {f"first {m}": model.inverse_transform(model.transform(x, budget=m)) for m in budgets}
    for row, (name, images) in zip(axes, lines.items(), strict=True):
        figures.picture_row(row, images, test, name)
    return figure


def peers_images(test: Dataset, decoded: dict[str, np.ndarray]) -> Figure:
    """The same images from the codes of each peer."""
    lines = {"original": np.asarray(figures.dense(test.X[:SHOWN])), **decoded}
    figure = Figure(figsize=(SHOWN * 0.8 + 1.2, len(lines) * 0.8), layout="constrained")
    axes = figure.subplots(len(lines), SHOWN, squeeze=False)
    for row, (name, images) in zip(axes, lines.items(), strict=True):
        figures.picture_row(row, images[:SHOWN], test, name.replace(", k", ",\nk").replace("sparse ", "sparse\n"))
    return figure


def peers_picture(rows: list[dict[str, Any]]) -> Figure:
    """Plot the reconstruction error against the length of a code, a line for each family."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axis = figure.subplots()
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    styles = (
        (figures.BLUE, "o", "-"),
        (figures.BLUE, "x", ":"),
        (figures.BLUE, "^", "--"),
        (figures.ORANGE, "s", "-"),
        (figures.GREY, "D", "-"),
    )
    for (name, family), (colour, marker, line) in zip(families.items(), styles, strict=True):
        points = sorted((row["bits"], row["error"]) for row in family)
        axis.plot(*zip(*points, strict=True), marker=marker, ls=line, ms=5, color=colour, label=name)
    for row in families[rows[0]["family"]]:
        rate = row["code"].partition("rate ")[2] or "1"
        place = {"xy": (row["bits"], row["error"]), "xytext": (-5, -3), "textcoords": "offset points"}
        axis.annotate(f"rate {rate}", **place, ha="right", va="top", fontsize=7, color=figures.BLUE)
    axis.margins(x=0.08)
    axis.set(xlabel="bits of a code, mean", ylabel="mean squared error a pixel", xscale="log", yscale="log")
    for along, ticks in ((axis.xaxis, (10, 20, 50, 100, 200, 500)), (axis.yaxis, (0.005, 0.01, 0.02, 0.05))):
        along.set_major_locator(FixedLocator(ticks))
        along.set_major_formatter(StrMethodFormatter("{x:g}"))
        along.set_minor_locator(NullLocator())
    axis.legend(frameon=False, fontsize=8)
    return figure
