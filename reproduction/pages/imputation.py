"""docs/results/imputation.md: missing values, filled by the SDLGM and by scikit-learn."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Result = Mapping[str, Any]


def page(result: Result) -> str:
    """Return the page."""
    seeds = len(result["rows"][0]["seeds"])
    return "\n".join(
        [
            "# Filling missing values",
            "",
            generated_from("imputation.json"),
            "",
            "Errors of filled values in units of the variance of their columns, lower is better; mean of "
            f"{seeds} run{'s' if seeds > 1 else ''}. [Tables with holes](../missing.md) has the code.",
            "",
            *_errors(result),
            "",
            *_best(result),
            "",
            "## Time",
            "",
            *_table(result, "seconds", 1),
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def _errors(result: Result) -> list[str]:
    return _table(result, "errors", 3)


def _table(result: Result, quantity: str, digits: int) -> list[str]:
    titles = dict.fromkeys(row["system_title"] for row in result["rows"])
    lines = heading("data", "rows", "columns", "missing", *titles)
    groups: dict[tuple[str, float], list[Result]] = {}
    for row in result["rows"]:
        groups.setdefault((row["title"], row["missing"]), []).append(row)
    for (title, share), rows in groups.items():
        n_rows, n_columns = rows[0]["shape"]
        cells = [mean_and_deviation(row[quantity], digits) for row in rows]
        lines.append(line(title, f"{n_rows:,}", str(n_columns), f"{share:.0%}", *cells))
    return lines


def _best(result: Result) -> list[str]:
    """Say which system is best where."""
    groups: dict[tuple[str, float], dict[str, float]] = {}
    for row in result["rows"]:
        groups.setdefault((row["title"], row["missing"]), {})[row["system_title"]] = float(np.mean(row["errors"]))
    best = {group: min(errors, key=lambda title: errors[title]) for group, errors in groups.items()}
    parts = [f"{title} with {share:.0%} missing, {name}" for (title, share), name in best.items()]
    return [f"Best: {'; '.join(parts)}."]
