"""What docs/build.py makes of results/counts.json."""

from typing import Any

import numpy as np

from sdlgm.paper.counts import DATA, SYSTEMS
from sdlgm.paper.markdown import heading, line, mean_and_deviation
from sdlgm.paper.provenance import protocol_lines

Row = dict[str, Any]
GOALS = {"columns": 0.005, "scattered": 0.05}
"""Largest squared error of the expected counts that would do."""


def table(rows: list[Row]) -> list[str]:
    columns = ("paper", "expected counts", "rounded counts", "whole vector, %", "training, s", "seeds")
    lines = heading("system", *columns)
    best = min(np.mean(row["mse_expected"]) for row in rows)
    for row in rows:
        error = mean_and_deviation(row["mse_expected"], 4)
        lines.append(
            line(
                row["title"],
                "" if row["paper"] is None else f"{row['paper']:.2f}",
                f"**{error}**" if np.mean(row["mse_expected"]) == best else error,
                mean_and_deviation(row["mse_rounded"], 4),
                mean_and_deviation([100 * share for share in row["whole_vector"]]),
                _mean_seconds(row["seconds"]),
                str(len(row["seeds"])),
            )
        )
    return lines


def _mean_seconds(seconds: list[float | None]) -> str:
    """Over the fits that were not interrupted."""
    timed = [value for value in seconds if value is not None]
    return f"{np.mean(timed):.0f}" if timed else ""


def summary(result: dict[str, Any]) -> list[str]:
    """Ours, the best peer and the forest that the paper compares with, for each data set."""
    lines = heading("pictures", "paper: SDLGM", "forest", "here: SDLGM", "best peer", "error", "random forest")
    for data, pictures in DATA.items():
        rows = {row["system"]: row for row in result["rows"] if row["data"] == data}
        if not {"sdlgm_patches", "random_forest"} <= set(rows):
            continue
        peers = [row for name, row in rows.items() if not name.startswith("sdlgm")]
        peer = min(peers, key=lambda row: float(np.mean(row["mse_expected"])))
        ours, forest = rows["sdlgm_patches"], rows["random_forest"]
        lines.append(
            line(
                pictures.title,
                *("" if row["paper"] is None else f"{row['paper']:.2f}" for row in (ours, forest)),
                mean_and_deviation(ours["mse_expected"], 4),
                peer["title"],
                mean_and_deviation(peer["mse_expected"], 4),
                mean_and_deviation(forest["mse_expected"], 3),
            )
        )
    return lines


def goals(result: dict[str, Any]) -> list[str]:
    """Whether the errors are as small as they should be."""
    lines = []
    for row in result["rows"]:
        if row["system"] == "sdlgm_patches":
            error, goal = float(np.mean(row["mse_expected"])), GOALS[row["data"]]
            verdict = "reached" if error <= goal else "not reached"
            tried = sorted({setting["max_iter"] for setting in row["grid"]})
            length = f", with {row['selected']['max_iter']:,} iterations (see *length* in the protocol)"
            chosen = length if len(tried) > 1 else ""
            lines.append(f"- {DATA[row['data']].title}: goal at most {goal}, {verdict} with {error:.4f}{chosen}.")
    return lines


def _reading(result: dict[str, Any]) -> list[str]:
    """How to read the rows that are there, and which are not."""
    measured = {(row["data"], row["system"]) for row in result["rows"]}
    lines = []
    if any(name == "patches_regression" for _, name in measured):
        errors = {(row["data"], row["system"]): row["mse_expected"] for row in result["rows"]}
        beside = "; ".join(
            f"{pictures.title.lower()} {np.mean(errors[data, 'sdlgm_patches']):.4f} with the likelihood, "
            f"{np.mean(errors[data, 'patches_regression']):.4f} without ({_seeds(errors[data, 'patches_regression'])})"
            for data, pictures in DATA.items()
            if {(data, "sdlgm_patches"), (data, "patches_regression")} <= set(errors)
        )
        lines += [
            "*Patches, least squares* has the encoder of the SDLGM and no likelihood of slots, so the difference "
            f"between the two rows is what the likelihood is worth for the expected counts: {beside}. The distance to "
            "the flat networks is what the votes of patches are worth. The likelihood gives a distribution of the "
            "counts, and the budget, beside their mean.",
            "",
        ]
    missing = [
        f"{system.title} ({DATA[data].title.lower()})"
        for name, system in SYSTEMS.items()
        for data in system.seeds
        if (data, name) not in measured
    ]
    if missing:
        lines += [f"Not measured yet: {', '.join(missing)}.", ""]
    return lines


def _seeds(errors: list[float]) -> str:
    return "one seed" if len(errors) == 1 else f"{len(errors)} seeds"


def page(result: dict[str, Any]) -> str:
    sections: list[str] = []
    for data, pictures in DATA.items():
        rows = [row for row in result["rows"] if row["data"] == data]
        if rows:
            sections += [f"## {pictures.title}", "", *table(rows), ""]
            if any(row["system"] == "sdlgm_patches" for row in rows):
                sections += [
                    f"![Test pictures with predicted counts](counts-{data}.png)",
                    "",
                    "*The first test pictures, and what the SDLGM with patches (seed 0) finds in them. Green: all ten "
                    "counts are right.*",
                    "",
                ]
    return "\n".join(
        [
            "# Counting digits, measured anew",
            "",
            "*This page is made by `docs/build.py` from [counts.json](counts.json).*",
            "",
            "Mean squared error a class of the expected counts and of the counts rounded to whole numbers, lower is "
            "better, and the share of test pictures with the whole vector right; mean ± standard deviation over seeds. "
            "The paper prints 0.05 for the SDLGM and 0.16 for a random forest.",
            "",
            *goals(result),
            "",
            *sections,
            *_reading(result),
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
