"""docs/results/counts.md: the counting of digits."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproduction.counts import DATA, SYSTEMS
from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Row = Mapping[str, Any]
Result = Mapping[str, Any]
GOALS = {"columns": 0.005, "scattered": 0.05}
"""The goal for the squared error of the expected counts."""


def table(rows: list[Row]) -> list[str]:
    """Return the table of one data set."""
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
    """Format the mean over the fits that were not interrupted."""
    timed = [value for value in seconds if value is not None]
    return f"{np.mean(timed):.0f}" if timed else ""


def summary(result: Result) -> list[str]:
    """Return a short table: the SDLGM, the best peer and the random forest on each data set."""
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


def goals(result: Result) -> list[str]:
    """State for each data set whether the goal was reached."""
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


def _reading(result: Result) -> list[str]:
    """Explain the control without a likelihood, and list the rows that are missing."""
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
            "*Patches, least squares* is a control: it has the encoder of the SDLGM without the likelihood of slots. "
            f"The difference to the SDLGM is the effect of the likelihood on the expected counts: {beside}. The "
            "difference to the flat networks is the effect of the patches. The likelihood also gives a distribution of "
            "the counts, and the budget.",
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


def page(result: Result) -> str:
    """Return the page."""
    sections: list[str] = []
    for data, pictures in DATA.items():
        rows = [row for row in result["rows"] if row["data"] == data]
        if rows:
            sections += [f"## {pictures.title}", "", *table(rows), ""]
            if any(row["system"] == "sdlgm_patches" for row in rows):
                sections += [
                    f"![Test pictures with predicted counts](counts-{data}.png)",
                    "",
                    "*The first test pictures with the counts that the SDLGM with patches (seed 0) predicts. Green: "
                    "all ten counts are right.*",
                    "",
                ]
    return "\n".join(
        [
            "# Counting digits",
            "",
            generated_from("counts.json"),
            "",
            "Mean squared error for each class of the expected counts and of the rounded counts, lower is better, and "
            "the share of test pictures with all ten counts right (*whole vector*); mean ± standard deviation over "
            "seeds. The paper reports 0.05 for the SDLGM and 0.16 for a random forest.",
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
