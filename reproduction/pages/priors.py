"""docs/results/priors.md: priors over codes on small data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines

Result = Mapping[str, Any]

SYSTEMS = ("slots", "chain")


def page(result: Result) -> str:
    """Return the page."""
    seeds = len(result["rows"][0]["seeds"])
    return "\n".join(
        [
            "# Priors on small data",
            "",
            generated_from("priors.json"),
            "",
            "Choose a prior for a small table, and see whether to stop early. Negative discrete ELBO of held-out rows "
            f"in nats, lower is better; mean of {seeds} run{'s' if seeds > 1 else ''}. The column of the chain has the "
            "differences from the slots with the same rows and seeds.",
            "",
            *summary(result),
            "",
            "## All quantities",
            "",
            "Bits and error are of the codes that `transform` gives. The error is the mean square of an entry in the "
            "units of the data.",
            "",
            *_quantities(result),
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def summary(result: Result) -> list[str]:
    """Return the table of bounds: those of the slots, and the differences of the chain from them."""
    chains = [system for system in SYSTEMS if system != "slots"]
    lines = heading("data", "rows", "early stopping", "slots", *chains)
    found = {(row["data"], row["early_stopping"], row["system"]): row for row in result["rows"]}
    for (name, early_stopping, system), slots in found.items():
        if system != "slots":
            continue
        others = [found[name, early_stopping, chain]["discrete"] for chain in chains]
        lines.append(
            line(
                slots["title"],
                f"{slots['shape'][0]:,}",
                "yes" if early_stopping else "no",
                mean_and_deviation(slots["discrete"], 2),
                *(difference(bounds, slots["discrete"]) for bounds in others),
            )
        )
    return lines


def difference(bounds: list[float], slots: list[float]) -> str:
    """Format the mean difference of paired runs, with its standard deviation if there are several."""
    values = np.subtract(bounds, slots)
    text = f"{values.mean():+.2f}"
    return f"{text} ± {values.std(ddof=1):.2f}" if len(values) > 1 else text


def _quantities(result: Result) -> list[str]:
    lines = heading("data", "early stopping", "prior", "iterations", "bound", "KL", "bits", "active", "error")
    for row in result["rows"]:
        cells = [mean_and_deviation(row[key], 2) for key in ("discrete", "kl", "code_bits", "n_active_mean")]
        error = f"{np.mean(row['reconstruction_error']):.4g}"
        lines.append(
            line(
                row["title"],
                "yes" if row["early_stopping"] else "no",
                row["system"],
                f"{np.mean(row['n_iter']):,.0f}",
                *cells,
                error,
            )
        )
    return lines
