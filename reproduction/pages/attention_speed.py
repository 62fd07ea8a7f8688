"""docs/results/attention_speed.md: time and memory of attention beside its peers."""

from collections.abc import Mapping
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

Result = Mapping[str, Any]

TITLES = {
    "sdlgm": "`SparseAttention`, training",
    "sdlgm_mode": "`SparseAttention`, evaluation",
    "softmax": "softmax",
    "topk": "top-k",
    "entmax_bisect": "entmax-1.5 by bisection",
}
GOALS = ("topk", "entmax_bisect")
"""The peers of the goal."""
KINDS = {1: "Many keys count", 4: "Few keys count"}


def page(result: Result) -> str:
    """Return the page."""
    spreads = sorted({row["spread"] for row in result["rows"]})
    return "\n".join(
        [
            "# Speed of attention",
            "",
            generated_from("attention_speed.json"),
            "",
            f"Forward and backward pass of self-attention with {result['heads']} heads on one thread. "
            "[Attention with a budget](../attention.md) says what it computes.",
            "",
            _summary(result),
            "",
            *[part for spread in spreads for part in _section(result, spread)],
            "## Protocol",
            "",
            *protocol_lines({**result, "protocol": _protocol(result)}),
            "",
        ]
    )


def _summary(result: Result) -> str:
    """Say whether the goal is met."""
    texts = []
    for peer in GOALS:
        ratios = [row["ratios"][peer] for row in result["rows"]]
        verdict = "met" if max(ratios) <= result["goal"] else "missed"
        texts.append(f"{min(ratios):.2f} to {max(ratios):.2f} times as long as {TITLES[peer]} ({verdict})")
    dense = [row["ratios"]["softmax"] for row in result["rows"]]
    memory = [row["memory"]["sdlgm"] / row["memory"]["softmax"] for row in result["rows"]]
    return (
        f"Training takes {' and '.join(texts)}; the goal is at most {result['goal']} times. It takes "
        f"{min(dense):.2f} to {max(dense):.2f} times as long as softmax, and "
        f"{min(memory):.2f} to {max(memory):.2f} times its memory."
    )


def _section(result: Result, spread: int) -> list[str]:
    rows = [row for row in result["rows"] if row["spread"] == spread]
    lines = [f"## {KINDS.get(spread, 'Scores')}: standard deviation of the scores {spread}", ""]
    keys = [f"{row['keys']:,} keys" for row in rows]
    lines += heading("milliseconds", *keys)
    lines += [line(title, *(f"{1000 * row['seconds'][name]:.1f}" for row in rows)) for name, title in TITLES.items()]
    lines += ["", *heading("training, times as long as", *keys)]
    lines += [line(TITLES[peer], *(f"{row['ratios'][peer]:.2f}" for row in rows)) for peer in (*GOALS, "softmax")]
    lines += ["", *heading("peak of memory, MB", *keys)]
    lines += [line(title, *(f"{row['memory'][name] / 1e6:.1f}" for row in rows)) for name, title in TITLES.items()]
    return [*lines, ""]


def _protocol(result: Result) -> dict[str, str]:
    return {
        "inputs": f"as many normal queries as keys, {result['width']} wide; single precision; all systems get the same",
        "budget": f"{result['budget']} keys, as those of top-k; training draws, with the divergence in the gradient",
        "peers": "written out, so that the weights of all keys exist, as they do in `SparseAttention`",
        "times": f"seconds of the processor, the best of {result['rounds']} turns in an order that changes; other work "
        f"ran on the machine (load of {result['load']:.1f}), which slows memory that is shared",
        "memory": "peak during a pass beyond what was there before, in a process of its own",
        "not measured": "other devices, where torch's own operations take the place of the kernels",
    }
