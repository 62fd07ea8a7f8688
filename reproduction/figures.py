"""Draw the figures of the paper with the default model, and compare its codes with those of peers."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from reproduction import table1
from reproduction.image_peers import (
    DICTIONARY_IMAGES,
    DICTIONARY_PASSES,
    PRICED_IMAGES,
    ROUNDING_COST,
    Coded,
    dictionary_codes,
    fitted_dictionary,
    top_k_autoencoder,
)
from reproduction.provenance import publish
from reproduction.runs import run_all, run_folder
from sdlgm import SDLGM, load
from sdlgm.data import Dataset, load_data
from sdlgm.report import figures

MODELS = ("sdlgm_chain", "sdlgm_ordered")
BUDGETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)
PEER_BUDGETS = (2, 4, 10, 40)
MAP_IMAGES = 3000  # as in the paper
SHOWN = 10
# The protocol is part of the published results. Change it together with a new run.
PROTOCOL = {
    "models": "seed 0 of the rows sdlgm_chain and sdlgm_ordered of Table I",
    "images": "the test images, as grey levels; what `transform` makes of them, decoded by `inverse_transform`",
    "bits of the SDLGM": "-log2 p(z) of the code under the model's own prior: the length of an ideal entropy code",
    "bits of the peers": "the length of an ideal entropy code too: whether each coefficient is there, and the rounded "
    f"values of those that are, by their frequencies in the codes of {PRICED_IMAGES:,} training images; rounded "
    f"to as few levels as raise the error on these by at most {ROUNDING_COST - 1:.0%}; the error is measured "
    "after that rounding",
    "top-k sparse autoencoder": "one linear layer each way, 200 features, trained on squared error with as many "
    "iterations and images as the SDLGM",
    "dictionary learning": f"MiniBatchDictionaryLearning of scikit-learn, 200 atoms, {DICTIONARY_PASSES} passes "
    f"over {DICTIONARY_IMAGES:,} images; codes by orthogonal matching pursuit",
}


def reproduce_figures(folder: Path, *, data: str, iterations: int, n_jobs: int, work_folder: Path) -> dict[str, Any]:
    """Train the models that are missing, and write the pictures and figures.json to ``folder``."""
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
    return publish(folder / "figures.json", measured)


def compare(
    chain: SDLGM, ordered: SDLGM, train: Dataset, test: Dataset, iterations: int
) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """Return the length and the error of the codes of every system, and decoded images of some."""
    x_train, x_test = (np.asarray(figures.dense(part.X), dtype=np.float32) for part in (train, test))
    x_train, _ = table1.split(x_train)  # the images that the SDLGM was trained on
    n_features = chain.module_.config.n_features
    coded = {"SDLGM": _sdlgm_coded(chain, x_test)}
    for m in _budgets(ordered, x_test):
        coded[f"SDLGM, ordered, first {m}"] = _sdlgm_coded(ordered, x_test, budget=m)
    for k in PEER_BUDGETS:
        coded[f"top-k sparse autoencoder, k = {k}"] = top_k_autoencoder(
            x_train, x_test, n_features=n_features, k=k, iterations=iterations, seed=0
        )
    dictionary = fitted_dictionary(x_train, n_features=n_features, seed=0)
    for k in PEER_BUDGETS:
        coded[f"dictionary learning, k = {k}"] = dictionary_codes(dictionary, x_train, x_test, k=k)
    rows = [
        {"code": name, "bits": each.bits, "error": each.error, "n_active": each.n_active}
        for name, each in coded.items()
    ]
    shown = ["SDLGM", *(name for name in coded if name.endswith(("k = 4", "k = 40")))]
    return rows, {name: coded[name].decoded for name in shown}


def _sdlgm_coded(model: SDLGM, x: np.ndarray, budget: int | None = None) -> Coded:
    codes = model.transform(x, budget=budget)
    with torch.no_grad():
        log_prior = model.module_.log_prior(torch.from_numpy(codes.toarray()).float())
    decoded = model.inverse_transform(codes)
    n_active = float(np.asarray(codes.sum(axis=1)).mean())
    error = float(np.square(decoded - x).mean())
    return Coded(float(-log_prior.mean()) / math.log(2), error, n_active, decoded)


def _budgets(model: SDLGM, x: np.ndarray) -> list[int]:
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
    """Plot the reconstruction error against the length of a code."""
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
