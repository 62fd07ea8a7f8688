"""docs/results/tags.md: decisions about the labels of a row, and peers with a threshold."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Result = Mapping[str, Any]

DEFAULT = "sdlgm_f1"
SCORES = {
    "micro": "micro F1",
    "macro": "macro F1",
    "row": "row F1",
    "p_at_1": "P@1",
    "p_at_5": "P@5",
    "ndcg_at_5": "nDCG@5",
    "hamming": "Hamming loss",
    "set_accuracy": "set accuracy",
}


def page(result: Result) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Tags with all defaults",
            "",
            generated_from("tags.json"),
            "",
            "Labels of test rows without any search for settings: the SDLGM with its ways to decide how many labels a "
            "row gets, and peers that choose a threshold by folds. In percent, mean and standard deviation over seeds. "
            "[Multi-label classification](../classification.md) says what the decisions are.",
            "",
            *_summary(result),
            "",
            *[part for name in result["data"] for part in _section(result, name)],
            *_many_labels(result),
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def _summary(result: Result) -> list[str]:
    """Say how far the default is from the best peer."""
    lines = heading("data", *(f"{SCORES[score]} of the default, less the best peer's" for score in ("micro", "macro")))
    for name, source in result["data"].items():
        rows = {row["system"]: row for row in result["rows"] if row["data"] == name}
        peers = [row for system, row in rows.items() if not system.startswith("sdlgm")]
        if DEFAULT not in rows or not peers:
            continue
        cells = []
        for score in ("micro", "macro"):
            best = max(peers, key=lambda row: float(np.mean(row[score])))
            difference = 100 * (np.mean(rows[DEFAULT][score]) - np.mean(best[score]))
            cells.append(f"{difference:+.1f} ({best['title']})")
        lines.append(line(source["title"], *cells))
    return lines


def _section(result: Result, name: str) -> list[str]:
    source = result["data"][name]
    n_train, n_test, n_columns, n_labels = source["shape"]
    rows = [row for row in result["rows"] if row["data"] == name]
    n_true = float(np.mean(rows[0]["n_true"]))
    seeds = max(len(row["micro"]) for row in rows)
    scores = [score for score in SCORES if all(score in row for row in result["rows"])]
    return [
        f"## {source['title']}",
        "",
        f"{n_labels} labels, {n_true:.2f} of them a test row; {n_train:,} rows for training and {n_test:,} for testing "
        f"of {n_columns:,} columns ({source['rows']}); {seeds} seed{'s' if seeds > 1 else ''}.",
        "",
        *heading("system", *(SCORES[score] for score in scores), "labels predicted", "seconds"),
        *[_line(row, scores) for row in rows],
        "",
    ]


def _many_labels(result: Result) -> list[str]:
    """Return what `benchmarks.labels` has measured, if it has."""
    if "scaling" not in result:
        return []
    large = result["memory"][0]
    return [
        "## Time and memory with many labels",
        "",
        "One iteration of the SDLGM and of a network with the same trunk and a sigmoid for each label, of 200 sparse "
        "rows with 20 labels each, on one thread; the best of several.",
        "",
        *heading("labels", "SDLGM, ms", "sigmoid, ms", "ratio"),
        *[
            line(
                f"{row['labels']:,}",
                f"{row['ms']:.1f}",
                f"{row['sigmoid_ms']:.1f}",
                f"{row['ms'] / row['sigmoid_ms']:.2f}",
            )
            for row in result["scaling"]
        ],
        "",
        f"Peak of the resident memory for {large['rows']:,} sparse rows of {large['columns']:,} columns with "
        f"{large['labels']:,} labels, in one process; prediction and evaluation are of 1,000 rows. "
        "`python -m benchmarks.labels` repeats both.",
        "",
        *heading("step", "GB"),
        *[line(f"`{row['step']}`", f"{row['peak_mb'] / 1000:.1f}") for row in result["memory"]],
        "",
    ]


def _line(row: Mapping[str, Any], scores: Sequence[str]) -> str:
    cells = [mean_and_deviation([100 * value for value in row[score]]) for score in scores]
    n_predicted, seconds = (float(np.mean(row[quantity])) for quantity in ("n_predicted", "seconds"))
    return line(row["title"], *cells, f"{n_predicted:.2f}", f"{seconds:.1f}")
