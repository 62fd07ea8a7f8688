"""docs/results/telemetry.md: rate against quality of windows of measurements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

Result = Mapping[str, Any]
Row = Mapping[str, Any]

OWN = ("sdlgm", "sdlgm-levels")
GOAL = (0.05, 0.5)
"""The lowest and the highest rate at which the goal is the least error of all systems."""
OTHERS_WANTED = 2
"""Data sets beside 5G at which the goal is the least error."""
REFERENCES = {"pca": "error of principal components", "forest": "isolation forest"}
RATIO_WANTED = ("ettm1", 25.0)
ANOMALY_RATES = (0.02, 0.1, 0.5)


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
    ratios = [row for row in result["ratios"] if row["data"] == name]
    if ratios:
        lines += [
            "",
            f"The fewest bits whose prediction for validation windows is within {source['allowed']:.0%} of that from "
            "the windows as they are, and what they come to for the test windows. The ratio is to gzip:",
            "",
            *heading("system", "bits a sample", "ratio", "loss of the prediction"),
            *[
                line(row["title"], f"{row['bits_per_sample']:.3f}", f"{row['ratio']:.1f}", f"{row['loss']:+.1%}")
                for row in ratios
            ],
        ]
    if any(row["auroc"] is not None for row in rows):
        some = [row for row in rows if row["rate"] in ANOMALY_RATES]
        lines += [
            "",
            "Area under the ROC curve of anomalies and best F1, by the error of decoded steps; of the SDLGM also by "
            "the bound of the window, and by its code alone:",
            "",
            *_table(some, _found),
        ]
    return [*lines, "", *_references(source)]


def _references(source: Mapping[str, Any]) -> list[str]:
    references = source.get("references", {})
    if references.get("auroc_of_pca") is None:
        return []
    found = ((name, references[f"auroc_of_{key}"], references[f"f1_of_{key}"]) for key, name in REFERENCES.items())
    texts = [f"{name} {area:.3f}, {f1:.3f}" for name, area, f1 in found]
    return [f"References: {'; '.join(texts)}.", ""]


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
    kinds = {"": "", "_of_bound": "bound ", "_of_codes": "codes "}
    found = [(name, row[f"auroc{kind}"], row[f"f1{kind}"]) for kind, name in kinds.items()]
    return "; ".join(f"{name}{area:.3f}, {f1:.3f}" for name, area, f1 in found if area is not None)


def _verdicts(result: Result) -> list[str]:
    """Say for each data set and rate whether the SDLGM has the least error, and otherwise by how much it misses."""
    rates = [rate for rate in _rates(result["rows"]) if GOAL[0] <= rate <= GOAL[1]]
    lines = [
        f"The goal is the least error of all systems from {GOAL[0]:g} to {GOAL[1]:g} bits a sample. What the error "
        "of the SDLGM, with or without levels apart as validation windows choose, is relative to the best other system "
        "that has as many bits, whose name follows:",
        "",
        *heading("data", *[f"at most {rate:g}" for rate in rates]),
    ]
    for name, source in result["data"].items():
        rows = [row for row in result["rows"] if row["data"] == name]
        lines.append(line(source["title"], *[_verdict([row for row in rows if row["rate"] == rate]) for rate in rates]))
    return [*lines, "", *_goals(result, rates)]


def _verdict(rows: Sequence[Row]) -> str:
    others = [row for row in rows if row["system"] not in OWN]
    ratio = _relative_error(rows)
    if ratio is None:
        return "no setting" if others else ""
    best = min(others, key=lambda row: row["fvu"])
    return f"{ratio:.2f}, {best['title']} ({'met' if ratio < 1 else 'missed'})"


def _relative_error(rows: Sequence[Row]) -> float | None:
    """Return the error of the SDLGM relative to the least of the others, at one rate."""
    own = [row for row in rows if row["system"] in OWN]
    others = [row["fvu"] for row in rows if row["system"] not in OWN]
    if not own or not others:
        return None
    return min(own, key=lambda row: row["validation_fvu"])["fvu"] / min(others)


def _goals(result: Result, rates: Sequence[float]) -> list[str]:
    """Say which goals are met, and by how much the others are missed."""
    met, ahead_of_pca = [], []
    for name, source in result["data"].items():
        at_rates = [[row for row in result["rows"] if (row["data"], row["rate"]) == (name, rate)] for rate in rates]
        if all((ratio := _relative_error(rows)) is not None and ratio < 1 for rows in at_rates):
            met.append(source["title"])
        of_pca = [_relative_error([row for row in rows if row["system"] in (*OWN, "pca")]) for rows in at_rates]
        if all(ratio is not None and ratio < 1 for ratio in of_pca):
            ahead_of_pca.append(source["title"])
    lines = [
        f"- Least error of all systems at all these rates: {', '.join(met) or 'no data set'}. The goal is 5G and "
        f"{OTHERS_WANTED} others. Less error than PCA as it is at all these rates: "
        f"{', '.join(ahead_of_pca) or 'no data set'}.",
    ]
    name, wanted = RATIO_WANTED
    own = [row for row in result["ratios"] if row["data"] == name and row["system"] in OWN]
    if name in result["data"]:
        title, allowed = result["data"][name]["title"], result["data"][name]["allowed"]
        best = max(own, key=lambda row: row["ratio"], default=None)
        found = "no setting is within it" if best is None else f"it is {best['ratio']:.1f} ({best['title']})"
        verdict = "met" if best is not None and best["ratio"] >= wanted else "missed"
        lines.append(
            f"- A ratio of {wanted:g} on {title} at {allowed:.0%} loss of the prediction: {found}, so the goal is "
            f"{verdict}. Others:"
            f" {_ratios([row for row in result['ratios'] if row['data'] == name and row['system'] not in OWN])}."
        )
    return lines


def _ratios(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: -row["ratio"])
    return ", ".join(f"{row['title']} {row['ratio']:.1f}" for row in ordered) or "none is within it"
