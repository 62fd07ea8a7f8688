"""What docs/build.py makes of results/table2.json."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sdlgm.paper.markdown import heading, line, mean_and_deviation
from sdlgm.paper.provenance import protocol_lines
from sdlgm.paper.table2 import AVERAGES, DATA, PAPER, SYSTEMS
from sdlgm.report.figures import BLUE, GREY, ORANGE

Row = dict[str, Any]
PICTURED = "sdlgm_dis_trees"
"""The system whose numbers of labels are drawn."""
SUMMED_UP = ("birds", "emotions", "cal500")
"""Data sets that the paper has results for."""


def _of(result: dict[str, Any], data: str) -> list[Row]:
    return [row for row in result["rows"] if row["data"] == data]


def is_ours(row: Row) -> bool:
    return row["system"].startswith("sdlgm") and not row["system"].endswith("_paper")


def is_peer(row: Row) -> bool:
    """Neither an SDLGM nor one of the paper's baselines."""
    return not row["system"].startswith("sdlgm") and not row["paper"]


def table(rows: list[Row]) -> list[str]:
    lines = heading("system", "paper: micro", "macro", "micro F1", "95 %", "macro F1", "95 %", "present labels", "s")
    best = {average: max(np.mean(row[average]) for row in rows) for average in AVERAGES}
    for row in rows:
        scores = []
        for average in AVERAGES:
            text = mean_and_deviation(row[average])
            scores.append(f"**{text}**" if np.mean(row[average]) == best[average] else text)
        low, high = ([f"{end:.0f}" for end in row[f"{average}_interval"]] for average in AVERAGES)
        lines.append(
            line(
                row["title"],
                *([f"{value:.1f}" for value in row["paper"]] if row["paper"] else ["", ""]),
                scores[0],
                " to ".join(low),
                scores[1],
                " to ".join(high),
                mean_and_deviation(row["macro_present"]),
                f"{row['seconds']:.0f}",
            )
        )
    return lines


@dataclass(frozen=True)
class Column:
    """A column of the table: ours as the folds choose it, the best peer on the test rows, the paper's best."""

    data: str
    average: str
    ours: Row
    peer: Row
    printed: float


def _columns(result: dict[str, Any]) -> Iterator[Column]:
    for number, data in enumerate(SUMMED_UP):
        rows = _of(result, data)
        ours, peers = [row for row in rows if is_ours(row)], [row for row in rows if is_peer(row)]
        if not ours or not peers:
            continue
        for place, average in enumerate(AVERAGES):
            yield Column(
                data,
                average,
                max(ours, key=lambda row: _by_folds(row, average)),
                max(peers, key=lambda row: float(np.mean(row[average]))),
                max(values[number][place] for values in PAPER.values()),
            )


def summary(result: dict[str, Any]) -> list[str]:
    """For each column: the paper's best, ours as the folds choose it, and the best peer."""
    lines = heading("data", "F1", "paper's best", "SDLGM, chosen by the folds", "F1", "best peer", "F1")
    for column in _columns(result):
        sides = [
            text
            for row in (column.ours, column.peer)
            for text in (row["title"], mean_and_deviation(row[column.average]))
        ]
        lines.append(line(DATA[column.data], column.average, f"{column.printed:.1f}", *sides))
    return lines


def columns(result: dict[str, Any]) -> list[str]:
    """For each column, how far ours is from the paper's best and from the best peer, and how sure that is."""
    lines = []
    for column in _columns(result):
        average, chosen, peer, printed = column.average, column.ours, column.peer, column.printed
        f1, of_peer = float(np.mean(chosen[average])), float(np.mean(peer[average]))
        low, high = chosen[f"{average}_interval"]
        text = (
            f"- **{DATA[column.data]}, {average}**: {chosen['title']} has {f1:.1f} ({low:.0f} to {high:.0f}), "
            f"{_apart(f1 - printed)} the paper's best, {printed:.1f}, and {_apart(f1 - of_peer)} the best peer, "
            f"{peer['title']}, {of_peer:.1f}."
        )
        if f1 < of_peer:
            folds, of_peer_folds = _by_folds(chosen, average), _by_folds(peer, average)
            n_ours = sum(map(is_ours, _of(result, column.data)))
            if average == "micro":  # the interval of the macro average leaves out labels that a resample misses
                text += f" The peer's score {'lies' if low <= of_peer <= high else 'does not lie'} in our interval."
            text += (
                f" In the folds of the training rows ours has "
                f"{100 * folds:.1f}, as the largest of {n_ours} rows, and the peer {100 * of_peer_folds:.1f}. This "
                f"column is the peer's. {_networks_and_trees(result, column)}"
            )
        lines.append(text)
    return [*lines, "", *_protocol_alone(result)]


def _networks_and_trees(result: dict[str, Any], column: Column) -> str:
    """What networks alone, trees alone and both together have: why a column is not ours."""
    rows, average = _of(result, column.data), column.average
    alone = [row for row in rows if is_ours(row) and row["system"] != PICTURED]
    mean = {row["system"]: float(np.mean(row[average])) for row in rows}
    network = max(alone, key=lambda row: _by_folds(row, average))
    if not {"extra_trees", "mlp", PICTURED} <= set(mean):
        return ""
    return (
        f"With so few rows trees alone ({mean['extra_trees']:.1f}) do better than networks alone (ours "
        f"{mean[network['system']]:.1f}, mlp {mean['mlp']:.1f}); ours with trees has {mean[PICTURED]:.1f}."
    )


def _protocol_alone(result: dict[str, Any]) -> list[str]:
    """How far the same system, measured here and printed in the paper, lies apart."""
    logistic = [row for row in result["rows"] if row["system"] == "logistic" and row["data"] in SUMMED_UP]
    if not logistic:
        return []
    apart = "; ".join(
        f"{DATA[row['data']]} {_apart(np.mean(row['micro']) - row['paper'][0])} (micro), "
        f"{_apart(np.mean(row['macro']) - row['paper'][1])} (macro)"
        for row in logistic
    )
    return [
        "Not all of the distance to the paper is the model. Here rows without labels are left out, and settings and "
        "thresholds are chosen for micro and for macro F1 apart, for macro F1 with thresholds that follow the labels' "
        "frequencies; the paper has one threshold and one L0 a data set. Logistic regression measured here, beside "
        f"the printed one: {apart}."
    ]


def _apart(difference: float) -> str:
    return f"{abs(difference):.1f} {'above' if difference >= 0 else 'below'}"


def _by_folds(row: Row, average: str) -> float:
    return float(np.mean([selected["score"] for selected in row["selected"][average]]))


def numbers_picture(result: dict[str, Any]) -> Figure:
    """How many labels rows have, and how many are predicted for the test rows."""
    names = [data for data in SUMMED_UP if _of(result, data)]
    figure = Figure(figsize=(3.1 * len(names), 5.2), layout="constrained")
    axes = figure.subplots(2, len(names), squeeze=False)
    for column, data in enumerate(names):
        counts = result["label_numbers"][data]
        axes[0, column].bar(range(len(counts)), counts, color=GREY)
        axes[0, column].set(title=DATA[data], xlabel="labels of a row", ylabel="rows" if column == 0 else "")
        numbers = next((row["numbers"] for row in _of(result, data) if row["system"] == PICTURED), None)
        if numbers is None:
            continue
        true, predicted = np.array(numbers["true"]), np.array(numbers["predicted"])
        jitter = np.random.default_rng(0).uniform(-0.15, 0.15, (2, len(true)))
        axes[1, column].scatter(true + jitter[0], predicted + jitter[1], s=8, alpha=0.5, color=BLUE)
        largest = max(true.max(), predicted.max()) + 1
        axes[1, column].plot([0, largest], [0, largest], color=ORANGE, lw=1)
        axes[1, column].set(xlabel="labels of a test row", ylabel="predicted" if column == 0 else "")
    return figure


def page(result: dict[str, Any]) -> str:
    lines = [
        "# Table II, measured anew",
        "",
        "*This page is made by `docs/build.py` from [table2.json](table2.json).*",
        "",
        "Micro and macro F1 in percent, higher is better; mean ± standard deviation over reruns (CAL500: over splits). "
        "*95 %*: interval from resampling the test rows. *Present labels*: macro F1 over the labels that occur in the "
        "test rows. *s*: processor seconds for the search, the final fits and the predictions together; "
        f"{result['seconds'] / 60:.0f} minutes for all rows, half of that on two cores. Every system is tuned by the "
        "same rule, on training rows only; bold is the best of a column.",
        "",
        *summary(result),
        "",
        "*SDLGM, chosen by the folds*: of our rows, the one with the best F1 in the folds of the training rows. *Best "
        "peer*: of forests, boosted trees, classifier chain, neural network and the mean of network and trees, the one "
        "with the best F1 on the test rows, which is generous to them.",
        "",
        *columns(result),
        "",
    ]
    for data, title in DATA.items():
        rows = _of(result, data)
        if rows:
            lines += [f"## {title}", "", *table(rows), ""]
    missing = [
        f"{name} ({data})"
        for data in DATA
        for name, system in SYSTEMS.items()
        if data in system.data and not any(row["system"] == name for row in _of(result, data))
    ]
    if missing:
        lines += [f"Not measured yet: {', '.join(missing)}.", ""]
    return "\n".join(
        [
            *lines,
            "## How many labels",
            "",
            "![Labels of a row, and predicted against true numbers](../images/labels.png)",
            "",
            f"Above, all rows with a label; below, the test rows, predicted by {SYSTEMS[PICTURED].title}, mean over "
            "reruns (CAL500: the first split).",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
