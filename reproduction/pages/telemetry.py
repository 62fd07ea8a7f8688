"""docs/results/telemetry.md: rate against quality of windows of measurements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

Result = Mapping[str, Any]
Row = Mapping[str, Any]

OWN = "sdlgm"


def page(result: Result) -> str:
    """Return the page."""
    names = result["data"]
    return "\n".join(
        [
            "# Measurements by few bits",
            "",
            generated_from("telemetry.json"),
            "",
            "Windows of several series, described by at most so many bits a sample, and decoded: the squared error as "
            "a fraction of the variance, lower is better. Settings are chosen on validation windows; the bits of the "
            "test windows are in brackets. [Codes on the wire](../wire.md) says how to make such bytes.",
            "",
            *[part for name in names for part in _section(result, name)],
            "## Where the SDLGM stands",
            "",
            *_verdicts(result),
            "",
            result["limits"],
            "",
            "## Protocol",
            "",
            *[f"- **{source['title']}**: {source['rows']}." for source in names.values()],
            *protocol_lines(result),
            "",
        ]
    )


def _section(result: Result, name: str) -> list[str]:
    source, rows = result["data"][name], [row for row in result["rows"] if row["data"] == name]
    n_train, n_validation, n_test, n_columns, length = source["shape"]
    lines = [
        f"## {source['title']}",
        "",
        f"{n_train:,} windows for training, {n_validation:,} for validation and {n_test:,} for testing, of {length} "
        f"steps of {n_columns} columns.",
        "",
    ]
    if not rows:
        return [*lines, *_references(source)]
    lines += _table(rows, lambda row: f"{row['fvu']:.3f} ({row['bits_per_sample']:.2f})")
    references = source.get("references", {})
    if (raw := references.get("kpi_error")) and source["predicted"]:
        lines += [
            "",
            f"Error of {source['predicted']}, predicted from decoded windows, relative to that from the windows as "
            "they are (from the codes themselves in brackets):",
            "",
            *_table(rows, lambda row: _relative(row, raw)),
        ]
    if any(row["auroc"] is not None for row in rows):
        lines += [
            "",
            "Area under the ROC curve of anomalies, by the error of decoded steps (by the bound in brackets):",
        ]
        lines += ["", *_table(rows, _found)]
    return [*lines, "", *_references(source)]


def _references(source: Mapping[str, Any]) -> list[str]:
    references = source.get("references", {})
    if references.get("auroc_of_pca") is None:
        return []
    return [
        f"References: error of principal components {references['auroc_of_pca']:.3f}, isolation forest "
        f"{references['auroc_of_forest']:.3f}.",
        "",
    ]


def _rates(rows: Sequence[Row]) -> list[float]:
    return sorted({row["rate"] for row in rows})


def _table(rows: Sequence[Row], cell: Callable[[Row], str]) -> list[str]:
    lines = heading("system", "bits", *[f"at most {rate:g}" for rate in _rates(rows)])
    for title, coding in dict.fromkeys((row["title"], row["coding"]) for row in rows):
        found = {row["rate"]: row for row in rows if row["title"] == title}
        lines.append(line(title, coding, *[cell(found[rate]) if rate in found else "" for rate in _rates(rows)]))
    return lines


def _relative(row: Row, raw: float) -> str:
    of_codes = row["kpi_error_from_codes"]
    return f"{row['kpi_error'] / raw:.2f}" + ("" if of_codes is None else f" ({of_codes / raw:.2f})")


def _found(row: Row) -> str:
    of_bound = row["auroc_of_bound"]
    return f"{row['auroc']:.3f}" + ("" if of_bound is None else f" ({of_bound:.3f})")


def _verdicts(result: Result) -> list[str]:
    """Say for each data set and rate whether the SDLGM has the least error, and otherwise by how much it misses."""
    rates = _rates(result["rows"])
    lines = [
        f"The goal is the least error of all systems from {rates[0]:g} to {rates[-1]:g} bits a sample. What the error "
        "of the SDLGM is relative to the best other one, whose name follows:",
        "",
        *heading("data", *[f"at most {rate:g}" for rate in rates]),
    ]
    for name, source in result["data"].items():
        rows = [row for row in result["rows"] if row["data"] == name]
        lines.append(line(source["title"], *[_verdict([row for row in rows if row["rate"] == rate]) for rate in rates]))
    return lines


def _verdict(rows: Sequence[Row]) -> str:
    own = [row for row in rows if row["system"] == OWN]
    others = [row for row in rows if row["system"] != OWN]
    if not own:
        return "no setting" if others else ""
    if not others:
        return "no other"
    best = min(others, key=lambda row: row["fvu"])
    ratio = own[0]["fvu"] / best["fvu"]
    return f"{ratio:.2f}, {best['title']} ({'met' if ratio < 1 else 'missed'})"
