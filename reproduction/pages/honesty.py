"""docs/honesty.md: the relaxed criterion compared with the discrete bound."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from reproduction.pages.markdown import heading, line, mean_and_deviation
from reproduction.pages.table1 import LATENTS, Row, of_latent
from sdlgm.report.figures import BLUE, GREY, ORANGE

COLOURS = {"bernoulli": GREY, "categorical": ORANGE, "slots": BLUE}


def blocks(result: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the block with the criterion of the paper, from the results of Table I."""
    return {"paper's criterion": _paper_criterion(result["rows"])}


def _paper_criterion(rows: list[Row]) -> list[str]:
    """Return a table of the criterion of the paper and the discrete bound of the same models."""
    lines = heading("setting", "relaxed, test", "relaxed, train", "discrete, test", "temperatures", "KL")
    for system in ("sdlgm_paper", "sdlgm_relaxed_paper", "sdlgm_relaxed"):
        for row in (row for row in rows if row["system"] == system):
            gate, feature = np.mean(row["temperatures"], axis=0)
            lines.append(
                line(
                    row["title"],
                    mean_and_deviation(row["relaxed"]["test"], 2),
                    mean_and_deviation(row["relaxed"]["train"], 2),
                    mean_and_deviation(row["discrete"]["test"], 2),
                    f"{gate:.2f} (gates), {feature:.2f} (features)",
                    mean_and_deviation(row["kl"]),
                )
            )
    return lines


def picture(result: Mapping[str, Any]) -> Figure:
    """Plot both criteria of every row, one point for each seed. The right part has a logarithmic scale."""
    rows = result["rows"]
    ordered = [row for latent in LATENTS for row in of_latent(rows, latent)]
    figure = Figure(figsize=(9.5, 0.29 * len(ordered) + 1.2), layout="constrained")
    near, far = figure.subplots(1, 2, sharey=True, width_ratios=[4, 1])
    for axis in (near, far):
        for place, row in enumerate(ordered):
            relaxed, discrete = row["relaxed"]["test"], row["discrete"]["test"]
            colour = COLOURS[row["latent"]]
            axis.plot([np.mean(relaxed), np.mean(discrete)], [place, place], color="#c9ced6", lw=2, zorder=1)
            axis.scatter(discrete, [place + 0.16] * len(discrete), color=colour, s=18, zorder=2)
            axis.scatter(relaxed, [place - 0.16] * len(relaxed), facecolors="white", edgecolors=colour, s=18, zorder=3)
            if row["paper"] is not None:
                axis.scatter([row["paper"]], [place], color="black", marker="|", s=70, zorder=4)
        axis.spines[["top", "right"]].set_visible(False)
    near.set(xlim=(55, 145), xlabel="negative ELBO on MNIST test (nats)")
    far.set(xlim=(165, 2200), xscale="log", xlabel="logarithmic")
    far.set_xticks([200, 500, 1200], ["200", "500", "1200"])
    far.minorticks_off()
    far.spines["left"].set_visible(False)
    far.tick_params(axis="y", left=False)
    near.set_yticks(range(len(ordered)), [row["title"] for row in ordered], fontsize=7)
    near.set_ylim(len(ordered) - 0.4, -0.6)
    marks = [
        Line2D([], [], color="black", marker="|", ls="", label="printed in the paper"),
        Line2D([], [], color="black", markerfacecolor="white", marker="o", ms=4.5, ls="", label="relaxed, measured"),
        Line2D([], [], color="black", marker="o", ms=4.5, ls="", label="discrete, measured"),
        *(Line2D([], [], color=COLOURS[k], marker="s", ls="", label=title) for k, title in LATENTS.items()),
    ]
    figure.legend(handles=marks, loc="outside upper center", ncols=6, frameon=False, fontsize=7)
    return figure
