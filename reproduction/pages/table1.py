"""docs/results/table1.md: every system by both criteria."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from reproduction.pages.markdown import generated_from, heading, line, mean_and_deviation, protocol_lines
from reproduction.table1 import ONE_LAYER, ROWS

LATENTS = {"bernoulli": "200 Bernoulli", "categorical": "20 categorical of 10", "slots": "40 slots of 200"}
COUPLED = {
    "bernoulli": ("reinmax_few", "reinmax_coupled_few", "reinmax_coupled_few_chain_prior"),
    "categorical": ("reinmax", "reinmax_coupled", "reinmax_coupled_chain_prior"),
    "slots": ("sdlgm_subset", "sdlgm_chain", "sdlgm_chain_prior"),
}
"""For each kind of code, a system without a coupling, with a coupled posterior, and with a chain prior too."""

CONTROLS = (
    "reinmax_coupled",
    "reinmax_coupled_few",
    "reinmax_coupled_chain_prior",
    "reinmax_coupled_few_chain_prior",
    f"reinmax_coupled_chain_prior{ONE_LAYER}",
    f"reinmax_coupled_few_chain_prior{ONE_LAYER}",
)
"""Baselines with the coupled posterior of the SDLGM's chain, and with its chain prior."""

Row = Mapping[str, Any]


def table(rows: list[Row]) -> list[str]:
    """Return the whole table."""
    lines = heading(
        "system",
        "paper",
        "discrete, test",
        "discrete, train",
        "relaxed, test",
        "relaxed, train",
        "tighter bound",
        "KL",
        "active",
        "ms",
        "seeds",
    )
    for latent, title in LATENTS.items():
        lines.append(line(f"**{title}**", *[""] * 10))
        lines += [_line(row) for row in of_latent(rows, latent)]
    return lines


def _line(row: Row) -> str:
    seconds = row["seconds_per_iteration"]
    return line(
        row["title"],
        "" if row["paper"] is None else f"{row['paper']:g}",
        mean_and_deviation(row["discrete"]["test"]),
        mean_and_deviation(row["discrete"]["train"]),
        mean_and_deviation(row["relaxed"]["test"]),
        mean_and_deviation(row["relaxed"]["train"]),
        mean_and_deviation(row["importance_weighted_100"]),
        mean_and_deviation(row["kl"]),
        mean_and_deviation(row["mean_active"]),
        "" if seconds is None else f"{1000 * seconds:.0f}",
        str(len(row["seeds"])),
    )


def best(rows: list[Row]) -> Row:
    """Return the row with the best discrete bound on validation images."""
    return min(rows, key=lambda row: float(np.mean(row["validation"])))


def of_latent(rows: list[Row], latent: str) -> list[Row]:
    """Return the rows with one kind of code."""
    return [row for row in rows if row["latent"] == latent]


def summary(rows: list[Row]) -> list[str]:
    """Return a short table: the best system of each kind, chosen on validation images, and the paper's setting."""
    chosen = [best([r for r in of_latent(rows, latent) if r["system"] not in CONTROLS]) for latent in LATENTS]
    chosen += [row for row in rows if row["system"] == "sdlgm_paper"]
    columns = ("validation", "discrete, test", "relaxed, test", "tighter bound", "KL", "active", "seeds")
    lines = heading("code", "system", *columns)
    lines += [
        line(
            LATENTS[row["latent"]],
            row["title"],
            mean_and_deviation(row["validation"]),
            mean_and_deviation(row["discrete"]["test"]),
            mean_and_deviation(row["relaxed"]["test"]),
            mean_and_deviation(row["importance_weighted_100"]),
            mean_and_deviation(row["kl"]),
            mean_and_deviation(row["mean_active"]),
            str(len(row["seeds"])),
        )
        for row in chosen
    ]
    return lines


def _missing(rows: list[Row]) -> list[str]:
    """List the rows and seeds that the whole table has and this one does not."""
    found = {(row["system"], row["latent"]): len(row["seeds"]) for row in rows}
    seeds = [(row, found.get((row.system, row.latent), 0)) for row in ROWS.values()]
    lists = {
        "Not measured yet": [row.name for row, n in seeds if n == 0],
        "With fewer seeds than `python -m reproduction table1` runs": [
            row.name for row, n in seeds if 0 < n < row.seeds
        ],
    }
    return [line for title, names in lists.items() if names for line in (f"{title}: {', '.join(names)}.", "")]


def _versions(rows: list[Row]) -> list[str]:
    """State which version of `sdlgm` measured which rows, if there are several."""
    by_version: dict[str, list[str]] = {}
    for row in rows:
        name = row["system"] if row["latent"] == "slots" else f"{row['system']}-{row['latent']}"
        by_version.setdefault(row["version"].partition("-")[0], []).append(name)
    if len(by_version) < 2:
        return []
    most = max(by_version, key=lambda version: len(by_version[version]))
    others = [f"{version}: {', '.join(names)}" for version, names in by_version.items() if version != most]
    return [f"Measured by sdlgm {'; by '.join(others)}; by {most}: all other rows.", ""]


def standing(rows: list[Row]) -> list[str]:
    """Compare the best SDLGM with the best baselines, without and with a coupled posterior."""
    baselines = [row for row in rows if row["latent"] != "slots"]
    plain = [row for row in baselines if row["system"] not in CONTROLS]
    coupled = [row for row in baselines if row["system"] in CONTROLS]
    slots = of_latent(rows, "slots")
    if not plain or not slots:
        return []
    ours, baseline = best(slots), best(plain)
    text = (
        f"Selected on the validation images, the best baseline is {_named(baseline)} and the best SDLGM is "
        f'"{ours["title"]}": {_compared(ours, baseline)}.'
    )
    if coupled:
        control = best(coupled)
        text += (
            " In a chain, of the posterior or the prior, each variable is conditioned on those before it. As controls, "
            "the baselines get such posteriors and priors too. The best control is "
            f"{_named(control)}: {_compared(ours, control)}. It has no budget and "
            f"{_mean(control['mean_active']):.0f} active variables on average; the SDLGM has "
            f"{_mean(ours['mean_active']):.0f}."
        )
    uncoupled = [row for row in slots if "chain" not in row["system"]]
    if coupled and uncoupled:
        text += (
            " Without a coupling on either side, the best SDLGM is "
            f'"{best(uncoupled)["title"]}": {_compared(best(uncoupled), baseline)}.'
        )
    return [text, ""]


def _named(row: Row) -> str:
    return f'"{row["title"]}" ({LATENTS[row["latent"]]} variables)'


def _compared(ours: Row, theirs: Row) -> str:
    """Compare two rows on the test images by both bounds."""
    bound, tighter = (
        _lead(_mean(ours_has), _mean(theirs_has))
        for ours_has, theirs_has in (
            (ours["discrete"]["test"], theirs["discrete"]["test"]),
            (ours["importance_weighted_100"], theirs["importance_weighted_100"]),
        )
    )
    return f"on the test images the SDLGM is {bound} the baseline, and {tighter} it by the tighter bound"


def coupling(rows: list[Row]) -> list[str]:
    """State the effect of a coupled posterior, and of a chain prior beside it, on each kind of code."""
    test = {(row["latent"], row["system"]): _mean(row["discrete"]["test"]) for row in rows}
    start = {"bernoulli": " (a tenth on at first)"}
    lines = []
    for step, what in enumerate(("a coupled posterior", "a chain prior beside the coupled posterior")):
        pairs = {
            latent: [(latent, system) for system in systems[step : step + 2]] for latent, systems in COUPLED.items()
        }
        changes = "; ".join(
            f"{LATENTS[latent]}{start.get(latent, '')} {test[before]:.1f} to {test[after]:.1f}, "
            f"{test[before] - test[after]:.1f} nats"
            for latent, (before, after) in pairs.items()
            if {before, after} <= set(test)
        )
        if changes:
            lines += [f"Effect of {what} on the discrete bound of the test images, all with ReinMax: {changes}.", ""]
    return lines


def _hours(rows: list[Row]) -> float:
    """Return the hours of all runs. Runs without a time count as long as the others of their row."""
    seconds = (row["iterations"] * len(row["seeds"]) * (row["seconds_per_iteration"] or 0.0) for row in rows)
    return sum(seconds) / 3600


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _lead(ours: float, theirs: float) -> str:
    ahead = theirs - ours
    return f"{abs(ahead):.1f} nats {'ahead of' if ahead > 0 else 'behind'}"


def page(result: Mapping[str, Any]) -> str:
    """Return the page."""
    rows = result["rows"]
    return "\n".join(
        [
            "# Table I: negative ELBO on images",
            "",
            generated_from("table1.json"),
            "",
            f"Negative ELBO in nats on {result['data'].upper()}, lower is better; mean ± standard deviation over "
            f"seeds, {', '.join(f'{n:,}' for n in sorted({row['iterations'] for row in rows}))} iterations.",
            "",
            "- *Paper*: the number in the paper. Those of the baselines are copied from Jang, Gu and Poole (2017), who "
            "trained ten times as long as the paper reports for itself.",
            "- *Discrete*: with hard codes. It is a bound on log p(x).",
            "- *Relaxed*: the criterion of the paper, with relaxed samples. It is not a bound. Estimators with hard "
            "draws are not trained on such samples.",
            "- *Tighter bound*: discrete, with 100 importance samples. It depends less on the posterior.",
            "- *Active*: active variables or slots.",
            "- *ms*: processor time of an iteration; blank if all runs of a row were interrupted.",
            "",
            *table(rows),
            "",
            *_missing(rows),
            *_versions(rows),
            *standing(rows),
            *coupling(rows),
            "## Protocol",
            "",
            *protocol_lines(result),
            f"- **work**: training took {_hours(rows):.0f} hours of one core",
            "",
        ]
    )
