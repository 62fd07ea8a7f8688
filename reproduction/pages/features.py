"""docs/results/features.md: many features beside few."""

from collections.abc import Mapping
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
            "Features go out of use in two ways. While the KL has little weight, codes are as long as the budget "
            "allows, and features that come late in the order of the chain are seldom reached. When the prior is "
            "released, features that are rare become expensive, and rarer.",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
