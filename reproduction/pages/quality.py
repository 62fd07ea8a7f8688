"""docs/results/quality.md: codes of several data sets after the same time."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines
from reproduction.quality import REFERENCE, SECONDS, TITLES
from reproduction.quality_data import SOURCES
from sdlgm.report.figures import BLUE, GREY, ORANGE

Result = Mapping[str, Any]
Rows = Sequence[Result]

OWN = "sdlgm"
GOAL_SECONDS, GOAL_POINTS = 120, 3
"""From these seconds on, the SDLGM is to be the first discrete code, with a probe at most so many points below."""
COLOURS = {
    "sdlgm": BLUE,
    "top_k": ORANGE,
    "batch_top_k": "#7b3294",
    "vq": "#c51b7d",
    "dictionary": "#1b7837",
    "nmf": "#8c6d31",
    "pca": GREY,
}
"""Colours by system; what is measured of the support has the colour of the whole code."""
KINDS = {"discrete": "-", "real": "--"}
MEASURES = {"classes": "accuracy", "labels": "mean average precision", "number": "R²"}
NOTE = (
    "*Best other* is the best of the other discrete codes that were measured, *real* the real-valued code with the "
    "best probe."
)
INCOMPLETE = (
    "These results are from several runs of the command, of which the last is recorded below. What has not been "
    "measured, so that the comparisons lack it:"
)
MARGIN = 0.5
"""What is drawn below zero of an R², as a share of the best one."""


def page(result: Result) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Quality of codes for time",
            "",
            generated_from("quality.json"),
            "",
            "What codes keep of a row, and what can be predicted from them, after the same processor seconds and with "
            "the same number of non-zeros. *Discrete* codes are which features are present, or indices of words; "
            "*real-valued* codes have numbers.",
            "",
            *summary(result),
            "",
            *not_measured(result),
            *(text for name in result["data"] for text in _section(name, result)),
            "## Protocol",
            "",
            *[
                f"- **{source['title']}**: {source['rows']}; to predict: {source['predicted']}."
                for source in _sources(result)
            ],
            *protocol_lines(result),
            "",
        ]
    )


def _sources(result: Result) -> list[Result]:
    return list(result["data"].values())


def rows_of(result: Result, data: str, **values: Any) -> list[Result]:
    """Return the rows of a data set that have these values."""
    given = {"data": data, **values}
    return [row for row in result["rows"] if all(row[name] == value for name, value in given.items())]


# Goals


def comparisons(result: Result) -> Iterator[dict[str, Any]]:
    """Compare the SDLGM with the peers of each data set at each time.

    ``best_error`` and ``best_probe`` are the rows of the best other discrete codes and ``real`` that of the
    real-valued code with the best probe; None if there is none.
    """
    for data in result["data"]:
        for own in rows_of(result, data, system=OWN):
            at_once = rows_of(result, data, seconds=own["seconds"])
            others = [row for row in at_once if row["kind"] == "discrete" and row["system"] != OWN]
            real = [row for row in at_once if row["kind"] == "real"]
            yield {
                "data": data,
                "own": own,
                "best_error": min(others, key=lambda row: row["error"], default=None),
                "best_probe": max(others, key=lambda row: row["probe"], default=None),
                "real": max(real, key=lambda row: row["probe"], default=None),
            }


def verdicts(compared: Mapping[str, Any]) -> dict[str, bool | None]:
    """Return which goals are met: first in error and in probe of discrete codes, and close to real-valued ones."""
    own, real = compared["own"], compared["real"]
    error, probe = compared["best_error"], compared["best_probe"]
    return {
        "error": None if error is None else own["error"] <= error["error"],
        "probe": None if probe is None else own["probe"] >= probe["probe"],
        "real": None if real is None else 100 * (real["probe"] - own["probe"]) <= GOAL_POINTS,
    }


def summary(result: Result) -> list[str]:
    """Return the goals, how many are met and by how much others are missed, and a line for each data set and time."""
    every = list(comparisons(result))
    compared = [each for each in every if each["own"]["seconds"] >= GOAL_SECONDS]
    texts = {
        "error": "of all discrete codes, the least error",
        "probe": "of all discrete codes, the best probe",
        "real": f"a probe within {GOAL_POINTS} points of the best real-valued code",
    }
    lines = [f"There is no result of {GOAL_SECONDS} s or more.", ""]
    if compared:
        lines = [f"From {GOAL_SECONDS} s on, the goals of the SDLGM, counted over data sets and times:", ""]
        for goal, text in texts.items():
            known = [(each, met) for each in compared if (met := verdicts(each)[goal]) is not None]
            if not known:
                continue
            missed = [_shortfall(result, each, goal) for each, met in known if not met]
            behind = f". Behind: {'; '.join(missed)}" if missed else ""
            lines.append(f"- {text}: {sum(met for _, met in known)} of {len(known)}{behind}")
        lines.append("")
    lines += heading(
        "data", "seconds", "error", "best other", "first", "probe", "best other", "first", "real", "within"
    )
    for each in every:
        own, verdict = each["own"], verdicts(each)
        cells = [
            f"{own['seconds']:g}",
            _number(own["error"]),
            _other(each["best_error"], "error"),
            _word(verdict["error"]),
            _number(own["probe"]),
            _other(each["best_probe"], "probe"),
            _word(verdict["probe"]),
            _other(each["real"], "probe"),
            _word(verdict["real"]),
        ]
        lines.append(line(result["data"][each["data"]]["title"], *cells))
    return [*lines, "", NOTE]


def _shortfall(result: Result, compared: Mapping[str, Any], goal: str) -> str:
    """Return where a goal is missed, by how much, and by comparison with what."""
    own = compared["own"]
    other = compared["real" if goal == "real" else f"best_{goal}"]
    measure = "error" if goal == "error" else "probe"
    difference = f"{abs(own[measure] - other[measure]):.3f}"
    place = f"{result['data'][compared['data']]['title']} after {own['seconds']:g} s"
    return f"{place} by {difference} ({other['title']})"


def not_measured(result: Result) -> list[str]:
    """Return what the benchmark has and these results have not."""
    measured = {(row["data"], row["system"], row["seconds"]) for row in result["rows"]}
    absent = [source.title for name, source in SOURCES.items() if name not in result["data"]]
    lines = [f"- data sets: {'; '.join(absent)}"] if absent else []
    for seconds in SECONDS:
        without = [about["title"] for name, about in result["data"].items() if (name, OWN, seconds) not in measured]
        if without:
            lines.append(f"- {seconds:g} s: {'all' if len(without) == len(result['data']) else '; '.join(without)}")
    systems: dict[str, list[str]] = {}
    for system in TITLES:
        if system in (OWN, REFERENCE):
            continue
        where = [
            f"{result['data'][name]['title']} after {seconds:g} s"
            for name, of, seconds in sorted(measured, key=lambda key: (list(result["data"]).index(key[0]), key[2]))
            if of == OWN and (name, system, seconds) not in measured
        ]
        if where:
            systems.setdefault("; ".join(where), []).append(TITLES[system])
    lines += [f"- {'; '.join(titles)}: {where}" for where, titles in systems.items()]
    return [INCOMPLETE, "", *lines, ""] if lines else []


def _number(value: float) -> str:
    return f"{value:.3f}"


def _other(row: Result | None, measure: str) -> str:
    return "" if row is None else f"{_number(row[measure])} ({row['title']})"


def _word(met: bool | None) -> str:
    return {True: "yes", False: "**no**", None: ""}[met]


# A data set


def _section(name: str, result: Result) -> list[str]:
    source, rows = result["data"][name], rows_of(result, name)
    train, validation, test, columns = source["shape"]
    seconds = sorted({row["seconds"] for row in rows if row["kind"] in KINDS})
    measure = MEASURES[source["task"]]
    titles = ("error", f"probe, {measure}", "kNN", "bits", "non-zeros", "alive", "seconds used")
    lines = heading("code", "kind", *titles)
    for system in dict.fromkeys(row["system"] for row in rows):
        lines.append(_line_of(rows_of(result, name, system=system), seconds))
    return [
        f"## {source['title'][0].upper()}{source['title'][1:]}",
        "",
        f"{train:,} rows for training, {validation:,} for validation and {test:,} for testing, of {columns} columns; "
        f"to predict: {source['predicted']}. Numbers after {' / '.join(f'{limit:g}' for limit in seconds)} s.",
        "",
        f"![Error and probe against seconds, {source['title']}](../images/{picture_name(name)})",
        "",
        *lines,
        "",
    ]


def _line_of(rows: Rows, seconds: Sequence[float]) -> str:
    """Return the line of a system, with its numbers at all times in each cell."""
    by_time = {row["seconds"]: row for row in rows}
    found = [by_time.get(limit) for limit in seconds] if rows[0]["kind"] in KINDS else list(rows)

    def cell(quantity: str, digits: int) -> str:
        known = [None if row is None else row[quantity] for row in found]
        if all(value is None for value in known):
            return ""
        return " / ".join("–" if value is None else f"{value:.{digits}f}" for value in known)

    kinds = {"discrete": "discrete", "real": "real-valued", "reference": ""}
    digits = {"error": 3, "probe": 3, "knn": 3, "bits": 1, "n_active": 1, "alive": 0, "seconds_used": 0}
    return line(rows[0]["title"], kinds[rows[0]["kind"]], *(cell(name, number) for name, number in digits.items()))


def picture_name(data: str) -> str:
    """Return the file name of the picture of a data set."""
    return f"quality-{data}.png"


def pictures(result: Result) -> dict[str, Figure]:
    """Return a picture of each data set, by its file name."""
    return {picture_name(name): picture(result, name) for name in result["data"]}


def picture(result: Result, name: str) -> Figure:
    """Draw error and probe against seconds: discrete codes solid and filled, real-valued dashed and hollow."""
    figure = Figure(figsize=(9.0, 3.3), layout="constrained")
    axes = figure.subplots(1, 2)
    reference = [row["probe"] for row in rows_of(result, name, kind="reference")]
    drawn = [row for row in rows_of(result, name) if row["kind"] in KINDS]
    for axis, quantity in zip(axes, ("error", "probe"), strict=True):
        for system in dict.fromkeys(row["system"] for row in drawn):
            rows = sorted((row for row in drawn if row["system"] == system), key=lambda row: row["seconds"])
            axis.plot(
                [row["seconds"] for row in rows],
                [row[quantity] for row in rows],
                ls=KINDS[rows[0]["kind"]],
                color=COLOURS[system.removesuffix("_support")],
                marker="o",
                ms=7 if system == OWN else 4,
                mfc="white" if rows[0]["kind"] == "real" else COLOURS[system.removesuffix("_support")],
                lw=2.5 if system == OWN else 1.2,
                zorder=3 if system == OWN else 2,
                label=rows[0]["title"],
            )
        seconds = sorted({row["seconds"] for row in drawn})
        axis.set(xscale="log", xlabel="processor seconds")
        axis.xaxis.set_major_locator(FixedLocator(seconds))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set(ylabel="error, share of the variance", ylim=(0, None))
    axes[1].set(ylabel=f"linear probe, {MEASURES[result['data'][name]['task']]}")
    for value in reference:
        axes[1].axhline(value, color=GREY, lw=0.8, ls=":", label="the columns themselves")
    lowest = min((row["probe"] for row in drawn), default=0.0)
    highest = max([*(row["probe"] for row in drawn), *reference], default=1.0)
    if highest > 0 > lowest + MARGIN * highest:  # an R² can be far below zero
        axes[1].set_ylim(-MARGIN * highest, 1.05 * highest)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize=8)
    return figure
