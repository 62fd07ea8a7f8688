"""What docs/build.py makes of results/gradients.json."""

from typing import Any

from sdlgm.paper.markdown import heading, line
from sdlgm.paper.provenance import protocol_lines

FAMILIES = {
    "bernoulli": "Bernoulli variables",
    "categorical": "Categorical variables",
    "coupled_bernoulli": "Bernoulli variables that look at those before them",
    "coupled_categorical": "Categorical variables that look at those before them",
    "slots": "Slots that share a distribution (posterior `shared`)",
    "subset": "Subsets within the budget (posterior `subset`)",
    "chain": "Subsets whose features look at each other (posterior `chain`)",
    "ordered": "A length and a feature for each position (posterior `ordered`)",
}


def page(result: dict[str, Any]) -> str:
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
            "*This page is made by `docs/build.py` from [gradients.json](gradients.json).*",
            "",
            "A model small enough to sum over all of its codes has an exact gradient. Here is how far each estimator "
            "is from it, in units of the length of that gradient. Unbiased estimators differ from it by Monte Carlo "
            "error only; the tests hold that. With two symbols `reinmax` and `darn` are the same estimator. "
            "`annealed_straight_through` has a steeper posterior, and is compared with the exact gradient of that one. "
            "How well a model trains is not decided by the bias in a tiny one: `reinmax` is the default for what it "
            "does in [Table I](table1.md).",
            "",
            *sections,
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
        ]
    )
