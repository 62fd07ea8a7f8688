"""The paper's figures for MNIST, of the default model, and what its peers make of the same images."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from sdlgm import SDLGM, load
from sdlgm._files import write_text
from sdlgm.data import load_data
from sdlgm.data.dataset import Dataset
from sdlgm.paper import peers, table1
from sdlgm.paper.provenance import protocol_lines, publish
from sdlgm.paper.runs import run_all, run_folder
from sdlgm.report import figures

MODELS = ("sdlgm_chain", "sdlgm_ordered")
BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)
PEER_BUDGETS = (2, 4, 10, 40)
MAP_IMAGES = 3000  # as in the paper
SHOWN = 10
PROTOCOL = {
    "models": "seed 0 of the rows sdlgm_chain and sdlgm_ordered of Table I",
    "images": "the test images, as grey levels; what `transform` makes of them, decoded by `inverse_transform`",
    "bits of the SDLGM": "-log2 p(z) of the code under the model's own prior: the length of an ideal entropy code",
    "bits of the peers": "the length of an ideal entropy code too: whether each coefficient is there, and the rounded "
    f"values of those that are, by their frequencies in the codes of {peers.PRICED_IMAGES:,} training images; rounded "
    f"to as few levels as raise the error on these by at most {peers.ROUNDING_COST - 1:.0%}; the error is measured "
    "after that rounding",
    "top-k sparse autoencoder": "one linear layer each way, 200 features, trained on squared error with as many "
    "iterations and images as the SDLGM",
    "dictionary learning": f"MiniBatchDictionaryLearning of scikit-learn, 200 atoms, {peers.DICTIONARY_PASSES} passes "
    f"over {peers.DICTIONARY_IMAGES:,} images; codes by orthogonal matching pursuit",
}


def reproduce_figures(folder: Path, *, data: str, iterations: int, n_jobs: int, work_folder: Path) -> dict[str, Any]:
    """Train what is missing, draw everything into ``folder``, and write the numbers and a page beside it."""
    runs = [table1.run_of(name, data, iterations, 0) for name in MODELS]
    run_all(table1.train_and_measure, runs, work_folder, n_jobs)
    chain, ordered = (load(run_folder(work_folder, run) / "model.sdlgm") for run in runs)
    test = load_data(f"{data}:test")
    codes, drawn = chain.transform(test.X), chain.sample_codes(test.X, random_state=0)
    budget = chain.module_.config.n_slots
    comparison, decoded = compare(chain, ordered, load_data(f"{data}:train"), test, iterations)
    pictures = {
        "reconstructions": figures.reconstructions(chain, test, codes),
        "reading": figures.reading_a_code(chain, test, codes),
        "map": figures.code_map(test, codes, max_rows=MAP_IMAGES),
        "sparsity": figures.sparsity(chain, test, codes, drawn, budget),
        "progressive": progressive(ordered, test),
        "peers": peers_picture(comparison),
        "peers_images": peers_images(test, decoded),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in pictures.items():
        figure.savefig(folder / f"{name}.png", dpi=110)
    measured = {"data": data, "iterations": iterations, "codes": comparison, "protocol": PROTOCOL}
    result = publish(folder / "figures.json", measured)
    write_text(folder / "figures.md", page(result))
    return result


def compare(
    chain: SDLGM, ordered: SDLGM, train: Dataset, test: Dataset, iterations: int
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Bits and error of every way to code the test images, and some decoded images."""
    x_train, x_test = (np.asarray(figures.dense(part.X), dtype=np.float32) for part in (train, test))
    x_train, _ = table1.split(x_train)  # as the SDLGM was
    n_features = chain.module_.config.n_features
    coded = {"SDLGM": _sdlgm_coded(chain, x_test)}
    for m in _budgets(ordered, x_test):
        coded[f"SDLGM, ordered, first {m}"] = _sdlgm_coded(ordered, x_test, budget=m)
    for k in PEER_BUDGETS:
        coded[f"top-k sparse autoencoder, k = {k}"] = peers.top_k_autoencoder(
            x_train, x_test, n_features=n_features, k=k, iterations=iterations, seed=0
        )
    dictionary = peers.fitted_dictionary(x_train, n_features=n_features, seed=0)
    for k in PEER_BUDGETS:
        coded[f"dictionary learning, k = {k}"] = peers.dictionary_codes(dictionary, x_train, x_test, k=k)
    rows = [
        {"code": name, "bits": each.bits, "error": each.error, "n_active": each.n_active}
        for name, each in coded.items()
    ]
    shown = ["SDLGM", *(name for name in coded if name.endswith(("k = 4", "k = 40")))]
    return rows, {name: coded[name].decoded for name in shown}


def _sdlgm_coded(model: SDLGM, x: np.ndarray, budget: int | None = None) -> peers.Coded:
    codes = model.transform(x, budget=budget)
    with torch.no_grad():
        log_prior = model.module_.log_prior(torch.from_numpy(codes.toarray()).float())
    decoded = model.inverse_transform(codes)
    n_active = float(np.asarray(codes.sum(axis=1)).mean())
    error = float(np.square(decoded - x).mean())
    return peers.Coded(float(-log_prior.mean()) / math.log(2), error, n_active, decoded)


def _budgets(model: SDLGM, x: np.ndarray) -> list[int]:
    """Where codes are cut: up to the first budget that leaves all of them whole."""
    longest = int(model.transform(x).sum(axis=1).max())
    return [m for m, before in zip(BUDGETS, (0, *BUDGETS), strict=False) if before < longest]


def progressive(model: SDLGM, test: Dataset) -> Figure:
    """Images decoded from the first features of their codes alone."""
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
    """Error against bits."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axis = figure.subplots()
    families: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault(row["code"].partition(", k")[0].partition(", first")[0], []).append(row)
    colours = dict(zip(families, (figures.BLUE, figures.ORANGE, figures.GREY, "black"), strict=False))
    for name, family in families.items():
        points = sorted((row["bits"], row["error"]) for row in family)
        axis.plot(*zip(*points, strict=True), marker="o", color=colours[name], label=name)
    axis.set(xlabel="bits of a code, mean", ylabel="mean squared error a pixel", xscale="log", yscale="log")
    for along, ticks in ((axis.xaxis, (10, 20, 50, 100, 200, 500)), (axis.yaxis, (0.005, 0.01, 0.02, 0.05))):
        along.set_major_locator(FixedLocator(ticks))
        along.set_major_formatter(StrMethodFormatter("{x:g}"))
        along.set_minor_locator(NullLocator())
    axis.legend(frameon=False, fontsize=8)
    return figure


def _compared(codes: list[dict[str, Any]]) -> list[str]:
    """The error of the peers at the length of the SDLGM's code, between their points."""
    ours = next(row for row in codes if row["code"] == "SDLGM")
    found = []
    for peer in ("top-k sparse autoencoder", "dictionary learning"):
        points = sorted((row["bits"], row["error"]) for row in codes if row["code"].startswith(peer))
        bits, errors = np.log(np.array(points)).T
        if bits[0] <= math.log(ours["bits"]) <= bits[-1]:
            found.append(f"{math.exp(np.interp(math.log(ours['bits']), bits, errors)):.4f} ({peer})")
    if not found:
        return []
    return [
        f"The code of the SDLGM has {ours['bits']:.0f} bits and an error of {ours['error']:.4f}. At that length the "
        f"lines through the points of the peers are at {' and '.join(found)}. They are trained on squared error, the "
        "SDLGM on the likelihood of binary images.",
        "",
    ]


def page(result: dict[str, Any]) -> str:
    """The page that shows the pictures and the numbers."""
    table = ["| code | bits of an image | error a pixel | non-zeros |", "|---|---:|---:|---:|"]
    table += [
        f"| {row['code']} | {row['bits']:.0f} | {row['error']:.4f} | {row['n_active']:.1f} |" for row in result["codes"]
    ]
    titles = {
        "reconstructions": "Test images above what their codes decode to.",
        "reading": "What each feature of a code adds to the image (red) or removes from it (blue).",
        "map": f"The codes of {MAP_IMAGES:,} test images in two dimensions, coloured by digit; the model saw none.",
        "sparsity": "How many slots an image needs, and the gate logit, log-odds of the share of slots in use.",
        "progressive": "Ordered posterior: the same codes, cut after the first m positions.",
        "peers": "Error against the length of a code.",
        "peers_images": "The same images from the codes of the SDLGM and of its peers.",
    }
    pictures = [line for name, text in titles.items() for line in (f"![{text}]({name}.png)", "", f"*{text}*", "")]
    return "\n".join(
        [
            "# Figures",
            "",
            "*Made by `sdlgm reproduce figures` from [figures.json](figures.json) and the models behind it.*",
            "",
            *pictures,
            "## At the same budget",
            "",
            "An SDLGM code is discrete: it costs what its prior says. The coefficients of the peers are real numbers, "
            "which have to be rounded before they are a code.",
            "",
            *table,
            "",
            *_compared(result["codes"]),
            "## Protocol",
            "",
            f"- **data**: {result['data']}, {result['iterations']:,} iterations",
            *protocol_lines(result),
            "",
        ]
    )
