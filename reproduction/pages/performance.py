"""docs/performance.md: time and memory compared with the peers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reproduction.pages.markdown import command_text, heading, line
from sdlgm.report import figures

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Ratio:
    """A ratio of two measurements and its goal, such as "at most 1.25"; empty for none."""

    text: str
    goal: str = ""
    goal_of_two: str = ""
    """The goal on two threads, if it is another one."""

    @property
    def on_two_threads(self) -> str:
        return self.goal_of_two or self.goal

    @property
    def goals(self) -> str:
        """The text of the goals on one and on two threads."""
        return f"{self.goal}; on two threads {self.goal_of_two}" if self.goal_of_two else self.goal


RATIOS = {
    "default_vs_gumbel_softmax": Ratio("iteration, default model, over a Gumbel-Softmax VAE", "at most 1.25"),
    "default_vs_limit": Ratio(
        "iteration, default model, over bare products and optimiser", "at most 1.45", goal_of_two="at most 1.6"
    ),
    "reinmax_shared_vs_gumbel_softmax": Ratio(
        "iteration, shared posterior with ReinMax, over a Gumbel-Softmax VAE", "at most 1.08"
    ),
    "reinmax_shared_vs_limit": Ratio("the same over its bare products and optimiser", "at most 1.35"),
    "paper_vs_gumbel_softmax": Ratio("iteration, the paper's setting, over a Gumbel-Softmax VAE", "at most 1.25"),
    "naive_vs_paper": Ratio("iteration, plain PyTorch, over ours, both the paper's model", "at least 2"),
    "transform_vs_bare": Ratio("rows a second, `transform` (default), over its bare encoder", "at least 0.9"),
    "transform_shared_vs_bare": Ratio("the same for the shared posterior", "at least 0.9"),
    "transform_vs_omp": Ratio(
        "rows a second, `transform` (default), over OMP of scikit-learn with 40 non-zeros", "at least 50"
    ),
    "transform_vs_short_omp": Ratio("the same over OMP with as few non-zeros as `transform` needs"),
}
CONTESTANTS = {
    "limit": "bare products and optimiser",
    "limit, shared": "bare products and optimiser, shared posterior",
    "gumbel_softmax_silu": "Gumbel-Softmax VAE, default networks",
    "default": "SDLGM, default",
    "gumbel_softmax_relu": "Gumbel-Softmax VAE, paper's networks",
    "paper": "SDLGM, paper's setting",
    "naive": "SDLGM, paper's setting, plain PyTorch",
}
OURS = {"default", "paper"}
WHAT = {"reinmax": "ReinMax", "gumbel_softmax": "relaxed", "transform": "transform"}
COLOURS = {"reinmax": figures.BLUE, "gumbel_softmax": figures.ORANGE, "transform": figures.GREY}


def ratios_table(result: Result) -> list[str]:
    """Return the table of all ratios and their goals."""
    two = result["iteration"]["2"]["ratios"]
    one = result["ratios"]
    lines = heading("", "goal", "one thread", "two threads")
    for name, ratio in RATIOS.items():
        with_two = with_verdict(two[name], ratio.on_two_threads) if name in two else ""
        lines.append(line(ratio.text, ratio.goals, with_verdict(one[name], ratio.goal), with_two))
    return lines


def with_verdict(ratio: float, goal: str) -> str:
    """Format a ratio, and state whether it meets its goal."""
    if not goal:
        return f"{ratio:.2f}"
    kind, _, limit = goal.rpartition(" ")
    missed = ratio > float(limit) if kind == "at most" else ratio < float(limit)
    return f"{ratio:.2f} ({'missed' if missed else 'met'})"


def blocks(result: Result) -> dict[str, list[str]]:
    """Return all blocks of the page."""
    return {
        "ratios": [*ratios_table(result), "", *_seconds(result)],
        "profile": _profile(result),
        "pieces": _pieces(result),
        "growth": _growth(result),
        "features": _features(result),
        "stream": _stream(result),
        "startup": _startup(result),
    }


def _seconds(result: Result) -> list[str]:
    lines = heading("ms an iteration, batch of 100, L0 = 40, K = 200", "one thread", "two threads")
    one, two = (result["iteration"][n]["seconds"] for n in ("1", "2"))
    names = {**CONTESTANTS, **{name: f"SDLGM, {name}" for name in one if name not in CONTESTANTS}}
    lines += [line(text, f"{1000 * one[name]:.1f}", f"{1000 * two[name]:.1f}") for name, text in names.items()]
    rates = result["encoding"]["rows_per_second"]
    spent = result["encoding"]["n_nonzeros"]
    encoding = ", ".join(
        f"{name} {rate:,.0f}" + (f" (non-zeros: {spent[name]:.3g})" if name in spent else "")
        for name, rate in rates.items()
    )
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [
        *lines,
        "",
        f"Rows a second on one thread: {encoding}. Best of {result['rounds']} rounds (rows a second: of "
        f"{result['encoding']['rounds']}) on a machine with {result['cores']} cores; {versions}; "
        f"{command_text(result['command'])}.",
    ]


def _profile(result: Result) -> list[str]:
    lines = heading("ms an iteration, with the profiler's own cost", *(CONTESTANTS[name] for name in result["profile"]))
    for group in next(iter(result["profile"].values())):
        lines.append(line(group, *(f"{parts[group]:.1f}" for parts in result["profile"].values())))
    return lines


def _pieces(result: Result) -> list[str]:
    lines = heading("piece, for a batch of 100", "way", "ms")
    for name, ways in result["pieces"].items():
        for number, (way, seconds) in enumerate(ways.items()):
            lines.append(line(name if number == 0 else "", way, f"{1000 * seconds:.2f}"))
    return lines


def _growth(result: Result) -> list[str]:
    lines: list[str] = []
    for axis, key in (("L0", "n_slots"), ("K", "n_features"), ("batch", "batch"), ("rows", "rows")):
        points = [point for point in result["growth"] if point["axis"] == axis]
        sizes = sorted({point[key] for point in points})
        lines += ["", *heading(axis, *map(str, sizes))]
        for what in dict.fromkeys(point["what"] for point in points):
            found = {point[key]: point for point in points if point["what"] == what}
            lines.append(line(f"{WHAT[what]}, ms", *(f"{1000 * found[size]['seconds']:.1f}" for size in sizes)))
            lines.append(line(f"{WHAT[what]}, MB", *(f"{found[size]['memory'] / 1e6:.0f}" for size in sizes)))
            if what == "transform":
                lines.append(line("of which output, MB", *(f"{found[size]['output'] / 1e6:.1f}" for size in sizes)))
    return lines[1:]


def _features(result: Result) -> list[str]:
    lines = heading("K", "SDLGM, ms", "top-k, ms", "ratio", "SDLGM, MB", "top-k, MB")
    for point in result["growth_k"]:
        times = (f"{point[f'{name}_ms']:.1f}" for name in ("default", "topk"))
        memory = (f"{point[f'{name}_memory'] / 1e6:,.0f}" for name in ("default", "topk"))
        lines.append(line(f"{point['k']:,}", *times, f"{point['ratio']:.2f}", *memory))
    encoding = result["encoding_k"]
    return [
        *lines,
        "",
        f"With {encoding['k']:,} features, `transform` encodes {encoding['rows_per_second']:,.0f} rows a second, "
        f"{encoding['ratio']:.2f} times as many as its bare encoder ({encoding['bare_rows_per_second']:,.0f}). A code "
        f"has {encoding['n_nonzeros']:.1f} non-zeros.",
    ]


def _stream(result: Result) -> list[str]:
    stream = result["stream"]
    return [
        f"A file of {stream['bytes'] / 1e9:.1f} GB ({stream['rows']:,} rows) was encoded at "
        f"{stream['rows_per_second']:,.0f} rows a second by the default model on one thread. The peak memory was "
        f"{stream['memory'] / 1e6:.0f} MB, "
        f"{(stream['memory'] - stream['memory_small_file']) / 1e6:.0f} MB more than for a file of 1,000 rows; "
        "most of it is torch itself. One row in a hundred is an image. The rest is a hole in the file that reads as "
        "zeros, so the time includes the encoding of all rows but not the reading from a disk."
    ]


def _startup(result: Result) -> list[str]:
    lines = heading("", "seconds")
    return lines + [line(f"`{name}`", f"{seconds:.2f}") for name, seconds in result["startup"].items()]


def picture(result: Result) -> Figure:
    """Plot the time of an iteration compared with the peers, and its growth with L0 and K."""
    figure = Figure(figsize=(11, 5.6), layout="constrained")
    top, bottom = figure.subfigures(2, 1, squeeze=False, height_ratios=[1, 1.15])[:, 0]
    _bars(top.subplots(), result)
    axes = bottom.subplots(1, 4)
    for axis, (name, key, label) in zip(
        axes,
        (("L0", "n_slots", "slots L0"), ("K", "n_features", "features K")) * 2,
        strict=True,
    ):
        measure = "seconds" if axis in axes[:2] else "memory"
        _curves(axis, result, name, key, measure)
        axis.set_xlabel(label)
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def _bars(axis: Axes, result: Result) -> None:
    seconds = result["iteration"]["1"]["seconds"]
    values = [1000 * seconds[name] for name in CONTESTANTS]
    colours = [figures.BLUE if name in OURS else figures.GREY for name in CONTESTANTS]
    bars = axis.barh(range(len(values)), values, color=colours)
    axis.bar_label(bars, fmt="%.1f", padding=3)
    axis.set_yticks(range(len(values)), list(CONTESTANTS.values()))
    axis.invert_yaxis()
    axis.set_xlabel("ms an iteration, one thread (batch 100, L0 = 40, K = 200)")
    axis.spines[["top", "right"]].set_visible(False)


def _curves(axis: Axes, result: Result, name: str, key: str, measure: str) -> None:
    for what in ("reinmax", "gumbel_softmax"):
        points = [point for point in result["growth"] if point["axis"] == name and point["what"] == what]
        factor = 1000 if measure == "seconds" else 1e-6
        axis.plot(
            [point[key] for point in points],
            [factor * point[measure] for point in points],
            "o-",
            ms=4,
            color=COLOURS[what],
            label=WHAT[what],
        )
    axis.set(xscale="log", yscale="log", title="ms an iteration" if measure == "seconds" else "MB of memory")
    axis.title.set_fontsize(10)
    ticks = sorted({point[key] for point in result["growth"] if point["axis"] == name})
    axis.set_xticks(ticks[::2], [str(tick) for tick in ticks[::2]], fontsize=8)
    low, high = axis.get_ylim()
    heights = [height for height in (10, 15, 20, 30, 50, 100, 200, 500) if low <= height <= high]
    axis.set_yticks(heights, [str(height) for height in heights], fontsize=8)
    axis.minorticks_off()
    axis.spines[["top", "right"]].set_visible(False)
