"""docs/results/telemetry.md: rate against quality of windows of measurements."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, StrMethodFormatter

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines
from sdlgm.report.figures import BLUE, ORANGE

Result = Mapping[str, Any]
Row = Mapping[str, Any]

OWN = ("sdlgm", "sdlgm-levels")
OWN_COLOURS = {"sdlgm": BLUE, "sdlgm-levels": ORANGE}
PICTURE, PANELS = "../images/telemetry.png", 3
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
            f"![Error against bits a sample]({PICTURE})",
            "",
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


def pictures(result: Result) -> dict[str, Figure]:
    """Return the picture, by its file name."""
    return {Path(PICTURE).name: picture(result)}


def picture(result: Result) -> Figure:
    """Draw the error of test windows against their bits, with the best settings of each system."""
    names = list(result["data"])
    n_rows = -(-len(names) // PANELS)
    figure = Figure(figsize=(3.0 * PANELS, 2.6 * n_rows + 0.6), layout="constrained")
    axes = figure.subplots(n_rows, PANELS, squeeze=False).ravel()
    titles = {point["system"]: point["title"] for point in result["points"]}
    others = [system for system in titles if system not in OWN]
    for axis, name in zip(axes, names, strict=False):
        for system, title in titles.items():
            points = [point for point in result["points"] if (point["data"], point["system"]) == (name, system)]
            best = _best_settings(points)
            is_own = system in OWN
            axis.plot(
                [point["bits_per_sample"] for point in best],
                [point["fvu"] for point in best],
                color=OWN_COLOURS[system] if is_own else f"C{others.index(system)}",
                marker="o",
                ms=5 if is_own else 2,
                lw=2.2 if is_own else 0.9,
                alpha=1.0 if is_own else 0.8,
                zorder=3 if is_own else 2,
                label=title,
            )
        axis.set(xscale="log", yscale="log", xlim=(0.008, 1.3), title=result["data"][name]["title"])
        axis.spines[["top", "right"]].set_visible(False)
        axis.xaxis.set_major_locator(FixedLocator([0.01, 0.1, 1.0]))
        axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    for axis in axes[::PANELS]:
        axis.set_ylabel("error, share of the variance")
    for axis in axes[max(0, len(names) - PANELS) : len(names)]:
        axis.set_xlabel("bits a sample")
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside right upper", frameon=False, fontsize=8)
    return figure


def _best_settings(points: Sequence[Row]) -> list[Row]:
    """Return the settings that no other of the system beats for validation windows, in the order of their test bits."""
    kept, least = [], float("inf")
    for point in sorted(points, key=lambda point: (point["validation_bits_per_sample"], point["validation_fvu"])):
        if point["validation_fvu"] < least:
            kept.append(point)
            least = point["validation_fvu"]
    return sorted(kept, key=lambda point: point["bits_per_sample"])


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
        "of the SDLGM is relative to the best other one, whose name follows. The SDLGM is with or without levels "
        "apart, as validation windows choose. The others may use as many bits for the test windows as it does, or as "
        "the column says if that is more, with all their settings, and what lies on a line between two of them. Where "
        "the SDLGM or all others need more bits, there is nothing to compare:",
        "",
        *heading("data", *[f"at most {rate:g}" for rate in rates]),
    ]
    comparisons = {name: [_compared(result, name, rate) for rate in rates] for name in result["data"]}
    for name, source in result["data"].items():
        lines.append(line(source["title"], *[_verdict(found) for found in comparisons[name]]))
    titles = {name: source["title"] for name, source in result["data"].items()}
    met = [titles[name] for name, found in comparisons.items() if all(one and one[0] < 1 for one in found)]
    of_pca = [[_compared(result, name, rate, ("pca",)) for rate in rates] for name in titles]
    ahead = [
        title for title, found in zip(titles.values(), of_pca, strict=True) if all(one and one[0] < 1 for one in found)
    ]
    return [
        *lines,
        "",
        f"- Less error than all others at all these rates: {', '.join(met) or 'no data set'}; the goal is 5G and "
        f"{OTHERS_WANTED} others. Less than PCA as it is: {', '.join(ahead) or 'no data set'}.",
        *_ratio_goal(result),
        *_not_run(result),
    ]


def _not_run(result: Result) -> list[str]:
    """Say which systems some data sets lack."""
    titles = {"product": "product quantisation", "sparse": "top-k sparse autoencoder", "vq": "quantised autoencoder"}
    titles |= {point["system"]: point["title"] for point in result["points"]}
    missing = {
        source["title"]: [title for system, title in titles.items() if system not in source["systems"]]
        for source in result["data"].values()
    }
    texts = [
        *result["not_run"],
        *(f"{', '.join(systems)} for {title}" for title, systems in missing.items() if systems),
    ]
    return [f"- Not run: {'; '.join(texts)}."] if texts else []


def _verdict(found: tuple[float, str] | None) -> str:
    return "" if found is None else f"{found[0]:.2f}, {found[1]} ({'met' if found[0] < 1 else 'missed'})"


def _compared(result: Result, name: str, rate: float, systems: Sequence[str] = ()) -> tuple[float, str] | None:
    """Return the error of the SDLGM relative to the least of some others, or of all, and the title of that one."""
    own = [row for row in result["rows"] if (row["data"], row["rate"]) == (name, rate) and row["system"] in OWN]
    if not own:
        return None
    chosen = min(own, key=lambda row: row["validation_fvu"])
    most = max(rate, chosen["bits_per_sample"])
    points = [point for point in result["points"] if point["data"] == name and point["system"] not in OWN]
    found = {}
    for system in dict.fromkeys(point["system"] for point in points):
        of_system = [point for point in points if point["system"] == system]
        error = _least_error(of_system, most)
        if error is not None and (not systems or system in systems):
            found[of_system[0]["title"]] = error
    if not found:
        return None
    title = min(found, key=lambda title: found[title])
    return chosen["fvu"] / found[title], title


def _least_error(points: Sequence[Row], bits: float) -> float | None:
    """Return the least error at so many bits of the test windows: of a setting, or on a line between two."""
    at = [(point["bits_per_sample"], point["fvu"]) for point in points]
    below, above = ([one for one in at if (one[0] <= bits) == is_below] for is_below in (True, False))
    if not below:
        return None
    between = [
        error + (other_error - error) * (bits - used) / (other - used)
        for used, error in below
        for other, other_error in above
    ]
    return min([error for _, error in below] + between)


def _ratio_goal(result: Result) -> list[str]:
    """Say what the ratio is at the allowed loss, where there is a goal for it."""
    name, wanted = RATIO_WANTED
    if name not in result["data"]:
        return []
    title, allowed = result["data"][name]["title"], result["data"][name]["allowed"]
    ratios = [row for row in result["ratios"] if row["data"] == name]
    best = max((row for row in ratios if row["system"] in OWN), key=lambda row: row["ratio"], default=None)
    found = "no setting is within it" if best is None else f"it is {best['ratio']:.1f} ({best['title']})"
    verdict = "met" if best is not None and best["ratio"] >= wanted else "missed"
    others = _ratios([row for row in ratios if row["system"] not in OWN])
    return [
        f"- A ratio of {wanted:g} on {title} at {allowed:.0%} loss of the prediction: {found}, so the goal is "
        f"{verdict}. Others: {others}."
    ]


def _ratios(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: -row["ratio"])
    return ", ".join(f"{row['title']} {row['ratio']:.1f}" for row in ordered) or "none is within it"
