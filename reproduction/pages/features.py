"""docs/results/features.md: many features beside few."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Result = Mapping[str, Any]

SHARES = {
    "drawn": "drawn",
    "alive": "alive",
    "used, after the warm-up": "used_after_warm_up",
    "used, at the end": "used_at_end",
}


def page(result: Result) -> str:
    """Return the page."""
    lines = heading("data", "rows", "features", "held out", "training", "KL", "bits", "active", "error", *SHARES)
    for row in result["rows"]:
        cells = [
            mean_and_deviation(row[key], 1) for key in ("discrete", "training", "kl", "code_bits", "n_active_mean")
        ]
        error = f"{np.mean(row['reconstruction_error']):.4g}"
        shares = [f"{np.mean(row[key]):.0%}" for key in SHARES.values()]
        lines.append(line(row["data"], f"{row['shape'][0]:,}", f"{row['n_components']:,}", *cells, error, *shares))
    by_data: dict[str, list[Result]] = {}
    for row in result["rows"]:
        by_data.setdefault(row["data"], []).append(row)
    return "\n".join(
        [
            "# Many features",
            "",
            generated_from("features.json"),
            "",
            "See what more features bring, and how many of them are in use. Negative discrete ELBO in nats, of "
            "held-out and of training rows, lower is better. Bits and error are of the codes that `transform` gives. A "
            "feature is *drawn* if a code drawn for one of the training rows contains it, and *alive* if one in a "
            "thousand of these codes does. It is *used* if a code of one of 500 rows contains it.",
            "",
            *lines,
            "",
            "The goal is that 4,096 features have no worse bound of held-out rows than 256, with 90 % of them alive. "
            + " ".join(_verdict(rows) for rows in by_data.values()),
            "",
            "Without care, features go out of use in two ways. While the KL has little weight, codes are as long as "
            "the budget allows, and features that come late in the order of the chain are seldom reached. When the "
            "prior is released, features that are rare become expensive, and rarer. So from 1,000 features on, the "
            "posterior starts with codes as long as the prior expects and with frequencies that fall like those of "
            "words, and a penalty keeps features from becoming much rarer than the average one. From 513 features on, "
            "the coupling of the posterior has rank 32, and from 1,025 on the hidden layer of the prior is narrower; "
            "both cost some of the bound, and each feature is in fewer rows to learn from.",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def _verdict(rows: Sequence[Result]) -> str:
    """Return the sentence about one data set: many features beside few."""
    few, many = sorted(rows, key=lambda row: row["n_components"])
    difference = np.mean(many["discrete"]) - np.mean(few["discrete"])
    better = "worse" if difference > 0 else "better"
    alive = f"{np.mean(many['alive']):.0%} are alive"
    return f"On {few['data']}, {alive} and the bound is {abs(difference):.1f} nats {better}."
