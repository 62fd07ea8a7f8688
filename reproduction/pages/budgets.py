"""docs/results/budgets.md: the bound against the budget."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines
from sdlgm.report.figures import BLUE, GREY, ORANGE

Result = Mapping[str, Any]


def page(result: Result) -> str:
    """Return the page."""
    columns = {
        "validation": "validation",
        "tighter bound": "importance_weighted_100",
        "KL": "kl",
        "active, drawn": "mean_active",
        "active, given": "n_active_mean",
        "largest, given": "n_active_max",
        "bits, given": "code_bits",
    }
    lines = heading("budget", "discrete, test", *columns, "error a pixel")
    for row in result["rows"]:
        cells = [mean_and_deviation(row[key]) for key in columns.values()]
        error = mean_and_deviation(row["reconstruction_error"], 4)
        lines.append(line(str(row["max_active"]), mean_and_deviation(row["discrete"]["test"]), *cells, error))
    seeds = len(result["rows"][0]["seeds"])
    return "\n".join(
        [
            "# What a budget costs",
            "",
            generated_from("budgets.json"),
            "",
            "The default SDLGM with different `max_active` on MNIST, "
            f"{result['rows'][0]['iterations']:,} iterations, {seeds} run{'s' if seeds > 1 else ''} each. Negative "
            "ELBO in nats, lower is better. *Drawn* codes are samples of the posterior, to which the bound refers. "
            "*Given* codes are the output of `transform`.",
            "",
            "![Bound and length of a code against the budget](../images/budgets.png)",
            "",
            *lines,
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )


def picture(result: Result) -> Figure:
    """Plot both bounds and the number of active features against the budget."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    bounds, used = figure.subplots(1, 2)
    budgets = [row["max_active"] for row in result["rows"]]

    def means(key: str) -> list[float]:
        return [float(np.mean(row[key]["test"] if key == "discrete" else row[key])) for row in result["rows"]]

    bounds.plot(budgets, means("discrete"), "o-", color=BLUE, label="discrete")
    bounds.plot(budgets, means("importance_weighted_100"), "o--", color=BLUE, mfc="white", label="100 samples")
    bounds.set(ylabel="negative ELBO, test (nats)")
    used.plot(budgets, budgets, color=GREY, lw=1, label="budget")
    used.plot(budgets, means("mean_active"), "o-", color=BLUE, label="drawn codes")
    used.plot(budgets, means("n_active_mean"), "o-", color=ORANGE, label="given by transform")
    used.set(ylabel="active features, mean", yscale="log")
    used.set_yticks([5, 10, 20, 50, 100], ["5", "10", "20", "50", "100"])
    for axis in (bounds, used):
        axis.set(xscale="log", xlabel="budget, max_active")
        axis.set_xticks(budgets, [str(budget) for budget in budgets])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    return figure
