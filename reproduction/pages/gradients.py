"""docs/results/gradients.md: bias and variance of the gradient estimators."""

from collections.abc import Mapping
from typing import Any

from reproduction.pages.markdown import generated_from, heading, line, protocol_lines

FAMILIES = {
    "bernoulli": "Bernoulli variables",
    "categorical": "Categorical variables",
    "coupled_bernoulli": "Bernoulli variables, each conditioned on those before it",
    "coupled_categorical": "Categorical variables, each conditioned on those before it",
    "slots": "Slots that share a distribution (posterior `shared`)",
    "subset": "Subsets within the budget (posterior `subset`)",
    "chain": "Subsets whose features depend on each other (posterior `chain`)",
    "ordered": "A length and a feature for each position (posterior `ordered`)",
}


def page(result: Mapping[str, Any]) -> str:
    """Return the page."""
    sections = []
    for family, title in FAMILIES.items():
        lines = heading(
            "gradient", "bias", "Monte Carlo error", "deviation of one draw", "cosine with the exact gradient"
        )
        rows = [row for row in result["rows"] if row["family"] == family]
        for row in sorted(rows, key=lambda row: (not row["unbiased"], row["bias"])):
            bias = f"{row['bias']:.3f}" + (" (unbiased)" if row["unbiased"] else "")
            lines.append(
                line(
                    f"`{row['gradient']}`",
                    bias,
                    f"{row['bias_error']:.3f}",
                    f"{row['deviation']:.2f}",
                    f"{row['cosine']:.3f}",
                )
            )
        sections += [f"## {title}", "", *lines, ""]
    return "\n".join(
        [
            "# Bias and variance of the gradients",
            "",
            generated_from("gradients.json"),
            "",
            "The exact gradient of a tiny model is a sum over all of its codes. The tables show how far each "
            "estimator is from it, relative to the norm of the exact gradient. Unbiased estimators differ from it by "
            "Monte Carlo error only; the tests check that. With two symbols, `reinmax` and `darn` are the same "
            "estimator. `annealed_straight_through` divides the logits of the posterior by a temperature, and is "
            "compared with the exact gradient of that posterior. The bias in a tiny model does not predict how well a "
            "large model trains: `reinmax` is the default because of its results in [Table I](table1.md).",
            "",
            *sections,
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
