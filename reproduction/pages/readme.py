"""README.md: the headline numbers, and the picture of codes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from reproduction.pages import performance, table1, table2
from sdlgm import SDLGM, load
from sdlgm.data import load_data
from sdlgm.report.figures import GREY, GREYS, dense

DIGITS = (2, 3, 5, 8)
CANDIDATES = 1000
"""Number of test images among which one of each digit is chosen: the one at the tenth percentile of the error."""
STEPS = (1, 2, 3, 4, 6, 8)
"""Numbers of features after which the decoded image is shown."""


def blocks(results: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the headline: one line each for the bound, the labels and the speed."""
    return {
        "headline": [
            _bound(results["table1"]["rows"]),
            _labels(results["table2"]),
            _speed(results["speed"]),
        ]
    }


def _bound(rows: list[table1.Row]) -> str:
    ours = table1.best(table1.of_latent(rows, "slots"))
    others = [row for row in rows if row["latent"] != "slots"]
    baseline = table1.best([row for row in others if row["system"] not in table1.CONTROLS])
    control = table1.best([row for row in others if row["system"] in table1.CONTROLS])
    bound, of_baseline, of_control = (float(np.mean(row["discrete"]["test"])) for row in (ours, baseline, control))
    better = ", which is better" if of_control < bound else ", which is worse"
    if len(ours["seeds"]) > 1 and abs(of_control - bound) < np.std(ours["discrete"]["test"], ddof=1):
        better = ", which is level within the deviation between seeds"
    return (
        f"- **MNIST**, discrete negative ELBO in nats: {ours['title']} {bound:.1f}; best baseline "
        f"({baseline['title']}, {table1.LATENTS[baseline['latent']]}) {of_baseline:.1f}; best baseline with the "
        f"coupling of the SDLGM ({control['title']}, {table1.LATENTS[control['latent']]}) {of_control:.1f}{better} "
        "and has no budget."
    )


def _labels(result: Mapping[str, Any]) -> str:
    columns = [column for column in table2.columns_of(result) if column.average == "micro"]
    names = ", ".join(table2.DATA[column.data].partition(",")[0] for column in columns)
    ours, peers = (
        ", ".join(f"{np.mean(row['micro']):.1f} ({row['title']})" for row in rows)
        for rows in ([column.ours for column in columns], [column.peer for column in columns])
    )
    return f"- **Multi-label**, micro F1 on {names}: {ours}; best peers {peers}."


def _speed(result: Mapping[str, Any]) -> str:
    one, two = result["ratios"], result["iteration"]["2"]["ratios"]

    def both(name: str) -> str:
        goal = performance.RATIOS[name].goal
        return f"{' and '.join(performance.with_verdict(ratios[name], goal) for ratios in (one, two))}, goal {goal}"

    return (
        "- **Speed**, time of an iteration relative to a Gumbel-Softmax VAE, with one and two threads: "
        f"{both('default_vs_gumbel_softmax')}; with the paper's posterior {both('reinmax_shared_vs_gumbel_softmax')}."
    )


def codes_picture(model_path: Path) -> Figure:
    """Draw how the features of a code build up an image, for one test image of each of `DIGITS`.

    Parameters
    ----------
    model_path : Path
        A model of MNIST, such as ``sdlgm fit mnist:train --out mnist.sdlgm`` writes.

    Returns
    -------
    Figure
        Images decoded from the first features of their codes, from whole codes, and the originals.

    """
    model, data = load(model_path), load_data("mnist:test")
    if data.labels is None or data.image_shape is None:
        raise ValueError("the picture needs labelled images")
    candidates, labels = dense(data.X[:CANDIDATES]), data.labels[:CANDIDATES].astype(int)
    error = np.square(model.inverse_transform(model.transform(candidates)) - candidates).mean(axis=1)
    n_columns = len(STEPS) + 2
    layout = ConstrainedLayoutEngine(w_pad=0.02, h_pad=0.02)
    figure = Figure(figsize=(n_columns * 1.05, len(DIGITS) * 1.05 + 0.3), layout=layout)
    for axes, digit in zip(figure.subplots(len(DIGITS), n_columns), DIGITS, strict=True):
        rows = np.flatnonzero(labels == digit)
        image = candidates[_well_decoded(rows, error[rows])]
        code = model.transform(image[None])
        order = greedy_order(model, image, code)
        sizes = [*STEPS, len(order)]
        decoded = model.inverse_transform(_codes([order[:n] for n in sizes], code.shape[1]))
        for axis, picture, size in zip(axes, [*decoded, image], [*sizes, 0], strict=True):
            if size > len(order):
                axis.axis("off")  # the code is shorter
            else:
                _show(axis, picture.reshape(data.image_shape))
        axes[-2].set_xlabel(f"{len(order)} features", fontsize=8, labelpad=2)
        if digit == DIGITS[0]:
            titles = [*(f"{n} feature{'s' if n > 1 else ''}" for n in STEPS), "whole code", "original"]
            for axis, title in zip(axes, titles, strict=True):
                axis.set_title(title, fontsize=9)
    return figure


def _well_decoded(rows: np.ndarray, error: np.ndarray) -> int:
    """Return the row at the tenth percentile of the error."""
    return int(rows[np.argsort(error)[len(rows) // 10]])


def greedy_order(model: SDLGM, image: np.ndarray, code: sp.csr_matrix) -> list[int]:
    """Order the features of a code: each is the one that raises the likelihood of the image most, given those before.

    Parameters
    ----------
    model : SDLGM
        A fitted model of images with values in [0, 1].
    image : ndarray of shape (n_pixels,)
        The image.
    code : csr_matrix of shape (1, n_components)
        Its code.

    Returns
    -------
    list of int
        The features.

    """
    order: list[int] = []
    remaining = code.indices.tolist()
    while remaining:
        candidates = _codes([[*order, k] for k in remaining], code.shape[1])
        probs = np.clip(model.inverse_transform(candidates), 1e-6, 1 - 1e-6)
        log_likelihood = (image * np.log(probs) + (1 - image) * np.log1p(-probs)).sum(axis=1)
        order.append(remaining.pop(int(np.argmax(log_likelihood))))
    return order


def _codes(features: Sequence[Sequence[int]], n_components: int) -> sp.csr_matrix:
    codes = np.zeros((len(features), n_components), dtype=np.float32)
    for row, present in zip(codes, features, strict=True):
        row[list(present)] = 1
    return sp.csr_matrix(codes)


def _show(axis: Axes, image: np.ndarray) -> None:
    axis.imshow(image, cmap=GREYS, vmin=0, vmax=1)
    axis.set(xticks=[], yticks=[])
    for spine in axis.spines.values():
        spine.set(linewidth=0.4, color=GREY)
