"""docs/results/attention.md: kinds of attention, their scores, and how many tokens they use."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Result = Mapping[str, Any]
Row = Mapping[str, Any]

OWN, REFERENCE = "sdlgm", "softmax"
SHARE_OF_SOFTMAX = 0.98
"""Goal: share of the accuracy of softmax over all words of SST-2."""
MACRO_F1, TOKEN_F1 = 0.90, 0.33
"""Goals for movie reviews."""
SEEDS = 5
"""Seeds of a complete measurement."""
WANTED = {"sst2": "SST-2", "movies": "Movie reviews", "digits": "Scattered digits"}


def page(result: Result) -> str:
    """Return the page."""
    return "\n".join(
        [
            "# Attention with a budget",
            "",
            generated_from("attention.json"),
            "",
            "How well a network decides that may read few tokens only, and which tokens it reads. All systems share "
            "one small network, which is trained from nothing, and differ in how scores become weights. Mean and "
            "standard deviation over seeds. [Attention with a budget](../attention.md) describes the layer.",
            "",
            "## Goals",
            "",
            *_goals(result),
            "",
            *[part for name in result["data"] for part in _section(result, name)],
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def _rows(result: Result, name: str) -> list[Row]:
    return [row for row in result["rows"] if row["data"] == name]


def _section(result: Result, name: str) -> list[str]:
    source, rows = result["data"][name], _rows(result, name)
    has_evidence = rows[0]["token_f1"][0] is not None
    columns = [source["score"], *(["token F1"] if has_evidence else []), "sufficiency", "comprehensiveness"]
    return [
        f"## {source['title']}",
        "",
        f"{source['rows']}. Budget: {source['budget']}. {_seeds(rows)}",
        "",
        *heading("system", *columns, f"{source['tokens']} used", "largest", "within the budget"),
        *[_line(row, is_error=source["is_error"], has_evidence=has_evidence) for row in rows],
        "",
    ]


def _seeds(rows: Sequence[Row]) -> str:
    numbers = sorted({len(row["score"]) for row in rows})
    text = " to ".join(str(number) for number in dict.fromkeys([numbers[0], numbers[-1]]))
    return f"{text} seed{'' if numbers == [1] else 's'}."


def _line(row: Row, *, is_error: bool, has_evidence: bool) -> str:
    score = mean_and_deviation(row["score"], 2) if is_error else mean_and_deviation([100 * x for x in row["score"]])
    title = f"**{row['title']}**" if row["system"] == OWN else row["title"]
    return line(
        title,
        score,
        *([mean_and_deviation(row["token_f1"], 2)] if has_evidence else []),
        *(mean_and_deviation(row[measure], 2) for measure in ("sufficiency", "comprehensiveness")),
        f"{np.mean(row['mean_active']):.1f} ({np.mean(row['mean_share']):.0%})",
        f"{max(row['max_active'])} ({max(row['max_share']):.0%})",
        "yes" if row["within_budget"] else "no",
    )


def _goals(result: Result) -> list[str]:
    """Say how far each goal is met or missed."""
    lines = []
    for name, title in WANTED.items():
        rows = {row["system"]: row for row in _rows(result, name)}
        if OWN not in rows:
            lines.append(f"- **{title}**: not measured yet.")
            continue
        lines += {"sst2": _goals_of_sentences, "movies": _goals_of_reviews, "digits": _goals_of_digits}[name](rows)
    fewest = min((len(row["score"]) for row in result["rows"]), default=0)
    if fewest < SEEDS:
        text = f"{fewest} seed{'' if fewest == 1 else 's'} of {SEEDS}"
        lines += ["", f"These results are preliminary: some rows have {text}, so that small differences mean nothing."]
    return lines


def _goals_of_sentences(rows: Mapping[str, Row]) -> list[str]:
    own, lines = _mean(rows[OWN]), []
    if REFERENCE in rows:
        share = own / _mean(rows[REFERENCE])
        lines.append(
            f"- **SST-2, at least {SHARE_OF_SOFTMAX:.0%} of the accuracy of softmax over all words**: "
            f"{_met(share - SHARE_OF_SOFTMAX)}: {share:.1%}, with {np.mean(rows[OWN]['mean_active']):.1f} words."
        )
    return [*lines, _ahead("SST-2", rows, "score")]


def _goals_of_reviews(rows: Mapping[str, Row]) -> list[str]:
    score, token_f1 = _mean(rows[OWN]), float(np.mean(rows[OWN]["token_f1"]))
    lines = [
        f"- **Movie reviews, macro F1 of at least {MACRO_F1:.2f}**: {_met(score - MACRO_F1)}: {score:.3f}.",
        f"- **Movie reviews, token F1 of at least {TOKEN_F1:.2f}**: {_met(token_f1 - TOKEN_F1)}: {token_f1:.3f}.",
    ]
    return [*lines, _ahead("Movie reviews", rows, "score"), _ahead("Movie reviews", rows, "token_f1")]


def _goals_of_digits(rows: Mapping[str, Row]) -> list[str]:
    own = rows[OWN]
    better = [row for row in _peers(rows) if _mean(row) <= _mean(own)]
    used = float(np.mean(own["mean_active"]))
    text = f"an error of {_mean(own):.2f} with {used:.1f} patches"
    fewer = [row for row in better if float(np.mean(row["mean_active"])) <= used]
    if fewer:
        best = min(fewer, key=_mean)
        text = f"missed: {text}; {best['title']} has {_mean(best):.2f} with {np.mean(best['mean_active']):.1f}"
    elif better:
        best = min(better, key=lambda row: float(np.mean(row["mean_active"])))
        text = (
            f"met: {text}; the peers within the budget with no larger error use at least "
            f"{np.mean(best['mean_active']):.1f}"
        )
    else:
        best = min(_peers(rows), key=_mean, default=None)
        text = f"met: {text}; no peer within the budget has as small an error" + (
            f" ({best['title']}: {_mean(best):.2f} with {np.mean(best['mean_active']):.1f})" if best else ""
        )
    return [f"- **Scattered digits, fewer patches at the same error**: {text}."]


def _peers(rows: Mapping[str, Row]) -> list[Row]:
    return [row for system, row in rows.items() if system != OWN and row["within_budget"]]


def _ahead(name: str, rows: Mapping[str, Row], measure: str) -> str:
    """Say how far ahead of the best peer within the budget the SDLGM is."""
    what = {"score": "score", "token_f1": "token F1"}[measure]
    goal = f"- **{name}, ahead of every peer within the budget by {what}**"
    peers = _peers(rows)
    if not peers:
        return f"{goal}: no peer was run."
    best = max(peers, key=lambda row: float(np.mean(row[measure])))
    difference = float(np.mean(rows[OWN][measure]) - np.mean(best[measure]))
    spread = float(np.std(rows[OWN][measure], ddof=1)) if len(rows[OWN][measure]) > 1 else None
    over = "" if spread is None else f"; the standard deviation over seeds is {100 * spread:.1f}"
    state = "met" if difference > 0 else "missed"
    return f"{goal}: {state}, {100 * difference:+.1f} points to {best['title']}{over}."


def _met(difference: float) -> str:
    return "met" if difference >= 0 else f"missed by {-100 * difference:.1f} points"


def _mean(row: Row) -> float:
    return float(np.mean(row["score"]))
