"""docs/results/table2.md: multi-label classification."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines
from reproduction.table2 import AVERAGES, DATA, PAPER, SYSTEMS
from sdlgm.report.figures import BLUE, GREY, ORANGE

Row = Mapping[str, Any]
Result = Mapping[str, Any]
PICTURED = "sdlgm_dis_trees"
"""The system of the picture."""
SUMMED_UP = ("birds", "emotions", "cal500")
"""Data sets of the paper."""


def _of(result: Result, data: str) -> list[Row]:
    return [row for row in result["rows"] if row["data"] == data]


def is_ours(row: Row) -> bool:
    """Return whether a row is an SDLGM other than in the paper's form."""
    return row["system"].startswith("sdlgm") and not row["system"].endswith("_paper")


def is_peer(row: Row) -> bool:
    """Return whether a row is neither an SDLGM nor a baseline of the paper."""
    return not row["system"].startswith("sdlgm") and not row["paper"]


def table(rows: list[Row]) -> list[str]:
    """Return the table of one data set."""
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
    """A score on a data set: the SDLGM that the folds choose, the best peer on the test rows, the best in the paper."""

    data: str
    average: str
    ours: Row
    peer: Row
    printed: float


def columns_of(result: Result) -> Iterator[Column]:
    """Yield micro and macro F1 of each data set of the paper."""
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


def summary(result: Result) -> list[str]:
    """Return a short table: the best of the paper, the SDLGM that the folds choose, and the best peer."""
    lines = heading("data", "F1", "paper's best", "SDLGM, chosen by the folds", "F1", "best peer", "F1")
    for column in columns_of(result):
        sides = [
            text
            for row in (column.ours, column.peer)
            for text in (row["title"], mean_and_deviation(row[column.average]))
        ]
        lines.append(line(DATA[column.data], column.average, f"{column.printed:.1f}", *sides))
    return lines


def comparisons(result: Result) -> list[str]:
    """Compare the SDLGM with the best of the paper and with the best peer, with intervals."""
    lines = []
    for column in columns_of(result):
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
            if average == "micro":  # the macro interval leaves out labels that are not in a resample
                text += f" The score of the peer is {'inside' if low <= of_peer <= high else 'outside'} this interval."
            text += (
                f" In the folds of the training rows the SDLGM has {100 * folds:.1f}, the largest of {n_ours} rows, "
                f"and the peer {100 * of_peer_folds:.1f}. The peer is better. {_networks_and_trees(result, column)}"
            )
        lines.append(text)
    return [*lines, "", *_effect_of_protocol(result)]


def _networks_and_trees(result: Result, column: Column) -> str:
    """State the scores of networks alone, trees alone and both together."""
    rows, average = _of(result, column.data), column.average
    alone = [row for row in rows if is_ours(row) and row["system"] != PICTURED]
    mean = {row["system"]: float(np.mean(row[average])) for row in rows}
    network = max(alone, key=lambda row: _by_folds(row, average))
    if not {"extra_trees", "mlp", PICTURED} <= set(mean):
        return ""
    return (
        f"Trees alone have {mean['extra_trees']:.1f}, networks alone {mean[network['system']]:.1f} (SDLGM) and "
        f"{mean['mlp']:.1f} (mlp), and the SDLGM with trees {mean[PICTURED]:.1f}."
    )


def _effect_of_protocol(result: Result) -> list[str]:
    """Compare logistic regression here with logistic regression in the paper."""
    logistic = [row for row in result["rows"] if row["system"] == "logistic" and row["data"] in SUMMED_UP]
    if not logistic:
        return []
    apart = "; ".join(
        f"{DATA[row['data']]} {_apart(np.mean(row['micro']) - row['paper'][0])} (micro), "
        f"{_apart(np.mean(row['macro']) - row['paper'][1])} (macro)"
        for row in logistic
    )
    return [
        "A part of the difference to the paper is due to the protocol. Here rows without labels are left out. Settings "
        "and thresholds are chosen separately for micro and macro F1, for macro F1 with thresholds that depend on the "
        "frequency of a label. The paper has one threshold and one L0 for each data set. Logistic regression here, "
        f"compared with the paper: {apart}."
    ]


def _apart(difference: float) -> str:
    return f"{abs(difference):.1f} {'above' if difference >= 0 else 'below'}"


def _by_folds(row: Row, average: str) -> float:
    return float(np.mean([selected["score"] for selected in row["selected"][average]]))


def picture(result: Result) -> Figure:
    """Plot the number of labels of all rows, and predicted against true numbers of the test rows."""
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


def page(result: Result) -> str:
    """Return the page."""
    lines = [
        "# Table II: multi-label classification",
        "",
        generated_from("table2.json"),
        "",
        "Micro and macro F1 in percent, higher is better; mean ± standard deviation over reruns (CAL500: over splits). "
        "Every system is tuned by the same rule, on training rows only. Bold: the best of a column. *95 %*: interval "
        "from resampling the test rows. *Present labels*: macro F1 over the labels that occur in the test rows. *s*: "
        "processor seconds for the search, the final fits and the predictions; "
        f"{result['seconds'] / 60:.0f} minutes for all rows, half of that on two cores.",
        "",
        *summary(result),
        "",
        "*SDLGM, chosen by the folds*: the SDLGM row with the best F1 in the folds of the training rows. *Best peer*: "
        "the best F1 on the test rows of forests, boosted trees, classifier chain, neural network and the mean of "
        "networks and trees. This choice favours the peers.",
        "",
        *comparisons(result),
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
            "## Number of labels",
            "",
            "![Labels of a row, and predicted against true numbers](../images/labels.png)",
            "",
            f"Top: all rows with a label. Bottom: the test rows, predicted by {SYSTEMS[PICTURED].title}, mean over "
            "reruns (CAL500: the first split).",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
