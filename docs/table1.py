"""What docs/build.py makes of results/table1.json and results/long.json."""

from typing import Any

import numpy as np
from markdown_table import heading, line, mean_and_deviation
from matplotlib.figure import Figure

from sdlgm.paper.provenance import protocol_lines
from sdlgm.paper.table1 import ROWS
from sdlgm.report.figures import BLUE, GREY, ORANGE

LATENTS = {"bernoulli": "200 Bernoulli", "categorical": "20 categorical of 10", "slots": "40 slots of 200"}
COLOURS = {"bernoulli": GREY, "categorical": ORANGE, "slots": BLUE}
PAPER_BOUND = 99.05
COUPLED = {
    "bernoulli": ("reinmax_few", "reinmax_coupled_few"),
    "categorical": ("reinmax", "reinmax_coupled"),
    "slots": ("sdlgm_subset", "sdlgm_chain"),
}
"""For each kind of code, a system, and the same one with a posterior in which later variables see earlier ones."""

CONTROLS = ("reinmax_coupled", "reinmax_few", "reinmax_coupled_few")
"""Baselines that are given something of the SDLGM's."""

Row = dict[str, Any]


def table(rows: list[Row]) -> list[str]:
    """The table with all that is measured."""
    lines = heading(
        "system",
        "paper",
        "discrete, test",
        "discrete, train",
        "relaxed, test",
        "tighter bound",
        "KL",
        "active",
        "ms",
        "seeds",
    )
    for latent, title in LATENTS.items():
        lines.append(line(f"**{title}**", *[""] * 9))
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
        mean_and_deviation(row["importance_weighted_100"]),
        mean_and_deviation(row["kl"]),
        mean_and_deviation(row["mean_active"]),
        "" if seconds is None else f"{1000 * seconds:.0f}",
        str(len(row["seeds"])),
    )


def best(rows: list[Row]) -> Row:
    """The row with the best discrete bound on validation images."""
    return min(rows, key=lambda row: float(np.mean(row["validation"])))


def of_latent(rows: list[Row], latent: str) -> list[Row]:
    return [row for row in rows if row["latent"] == latent]


def summary(rows: list[Row]) -> list[str]:
    """A short table: the best of each kind, chosen on validation images, and the paper's own setting."""
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


def paper_criterion(rows: list[Row]) -> list[str]:
    """The paper's criterion beside the discrete bound of the same models."""
    lines = heading("setting", "relaxed, test", "relaxed, train", "discrete, test", "temperatures", "KL")
    for row in rows:
        if row["system"] in ("sdlgm_paper", "sdlgm_relaxed"):
            gate, feature = np.mean(row["temperatures"], axis=0)
            lines.append(
                line(
                    row["title"],
                    mean_and_deviation(row["relaxed"]["test"], 2),
                    mean_and_deviation(row["relaxed"]["train"], 2),
                    mean_and_deviation(row["discrete"]["test"], 2),
                    f"{gate:.2f} (gates), {feature:.2f} (features)",
                    mean_and_deviation(row["kl"]),
                )
            )
    return lines


def long_lines(result: dict[str, Any]) -> list[str]:
    """What the long run came to."""
    curve = result["curve"]
    test, train = result["test"], result["train"]
    reached = [point for point in curve if point["validation"] <= PAPER_BOUND]
    when = (
        f"The validation bound passes {PAPER_BOUND}, the number that the paper prints for its relaxed criterion, after "
        f"{reached[0]['seconds'] / 60:.0f} minutes."
        if reached
        else f"The validation bound does not reach {PAPER_BOUND}, the number that the paper prints for its relaxed "
        "criterion."
    )
    return [
        f"{result['iterations']:,} iterations of the default model, {curve[-1]['seconds'] / 60:.0f} minutes of "
        "one processor core: discrete negative ELBO "
        f"**{-test['discrete']:.2f}** on the test images ({-result['validation']['discrete']:.2f} on validation, "
        f"{-train['discrete']:.2f} on training images), {-result['importance_weighted_100']:.2f} with 100 importance "
        f"samples, KL {test['kl']:.1f} nats. A code drawn from the posterior has {test['n_active_expected']:.1f} "
        f"active slots on average, one that `transform` gives {test['n_active_mean']:.1f} and no more than "
        f"{test['n_active_max']}; the budget is {test['max_active']}. {when}",
    ]


def honesty_picture(rows: list[Row]) -> Figure:
    """Relaxed criterion and discrete bound of every row, one point a seed."""
    ordered = [row for latent in LATENTS for row in of_latent(rows, latent)]
    figure = Figure(figsize=(8.5, 0.27 * len(ordered) + 1), layout="constrained")
    axis = figure.subplots()
    for place, row in enumerate(ordered):
        relaxed, discrete = row["relaxed"]["test"], row["discrete"]["test"]
        axis.plot([np.mean(relaxed), np.mean(discrete)], [place, place], color="#c9ced6", lw=2, zorder=1)
        axis.scatter(
            relaxed, [place] * len(relaxed), facecolors="white", edgecolors=COLOURS[row["latent"]], s=24, zorder=2
        )
        axis.scatter(discrete, [place] * len(discrete), color=COLOURS[row["latent"]], s=24, zorder=3)
        if row["paper"] is not None:
            axis.scatter([row["paper"]], [place], color="black", marker="|", s=60, zorder=4)
    axis.scatter([], [], color="black", marker="|", label="printed in the paper")
    axis.scatter([], [], facecolors="white", edgecolors="black", label="relaxed, measured")
    axis.scatter([], [], color="black", label="discrete, measured")
    axis.set_yticks(range(len(ordered)), [f"{row['title']} ({row['latent']})" for row in ordered], fontsize=7)
    axis.invert_yaxis()
    axis.set_xscale("log")
    ticks = [60, 80, 100, 120, 150, 200, 400, 800, 1300]
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("negative ELBO on MNIST test (nats, logarithmic)")
    axis.legend(frameon=False, fontsize=8)
    return figure


def long_picture(result: dict[str, Any]) -> Figure:
    """The validation bound of the long run against time."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis = figure.subplots()
    minutes = [point["seconds"] / 60 for point in result["curve"]]
    axis.plot(minutes, [point["validation"] for point in result["curve"]], color=BLUE, label="discrete, validation")
    axis.axhline(PAPER_BOUND, color="black", lw=1, ls="--", label=f"{PAPER_BOUND}, the paper's relaxed number")
    axis.scatter(minutes[-1], -result["test"]["discrete"], color=ORANGE, zorder=3, label="discrete, test, at the end")
    axis.set(xlabel="minutes of one processor core", ylabel="negative ELBO (nats)", ylim=(90, 130))
    axis.legend(frameon=False, fontsize=8)
    return figure


def _missing(rows: list[Row]) -> list[str]:
    """What the command would measure and this file does not have."""
    found = {(row["system"], row["latent"]): len(row["seeds"]) for row in rows}
    seeds = [(row, found.get((row.system, row.latent), 0)) for row in ROWS.values()]
    lists = {
        "Not measured yet": [row.name for row, n in seeds if n == 0],
        "With fewer seeds than `sdlgm reproduce table1` takes": [row.name for row, n in seeds if 0 < n < row.seeds],
    }
    return [line for title, names in lists.items() if names for line in (f"{title}: {', '.join(names)}.", "")]


def controls(rows: list[Row]) -> list[str]:
    """How the SDLGM compares with the best baseline that is given something of its own."""
    given = [row for row in rows if row["system"] in CONTROLS]
    if not given:
        return [
            "The SDLGM's coupling of features, and its start with few of them, are not given to any baseline here.",
            "",
        ]
    control, ours = best(given), best(of_latent(rows, "slots"))
    lead = _lead(_mean(ours["discrete"]["test"]), _mean(control["discrete"]["test"]))
    return [
        "Some baselines are given what the SDLGM has and the paper's baselines do not, as controls. By the validation "
        f'images the best of them is "{control["title"]}" with {LATENTS[control["latent"]]} latents; the SDLGM is '
        f"{lead} it on the test images, {_mean(control['discrete']['test']):.1f}. It has no budget: "
        f"{_mean(control['mean_active']):.0f} variables are in use on average, "
        f"{_mean(ours['mean_active']):.0f} slots of the SDLGM.{_price_of_the_budget(control, ours)}",
        "",
    ]


def _price_of_the_budget(control: Row, ours: Row) -> str:
    same = (control["system"], ours["system"]) == ("reinmax_coupled_few", "sdlgm_chain")
    if not same or _mean(ours["discrete"]["test"]) < _mean(control["discrete"]["test"]):
        return ""
    return (
        " Networks, estimator and start of the two are the same, and so is the posterior but for the limit. What is "
        "between them is the price of the budget: the limit itself, and the prior that goes with it, 40 slots in the "
        "place of 200 independent variables. How much is due to which is not measured."
    )


def coupling(rows: list[Row]) -> list[str]:
    """What a coupled posterior is worth to each kind of code, and so how much of the SDLGM's lead is due to it."""
    test = {(row["latent"], row["system"]): float(np.mean(row["discrete"]["test"])) for row in rows}
    worth = {
        latent: (test[latent, without], test[latent, coupled])
        for latent, (without, coupled) in COUPLED.items()
        if {(latent, without), (latent, coupled)} <= set(test)
    }
    if not worth:
        return []
    start = {"bernoulli": " (a tenth on at first)"}
    changes = "; ".join(
        f"{LATENTS[latent]}{start.get(latent, '')} {before:.1f} to {after:.1f}, {before - after:.1f} nats"
        for latent, (before, after) in worth.items()
    )
    lines = [
        "Posteriors of the baselines in the paper, and all of the SDLGM's but the chain, draw their variables "
        "independently or know only how many there are. A posterior whose later variables see the earlier ones can be "
        f"given to every code, and this is what it does on the test images, all with ReinMax: {changes}."
    ]
    if set(worth) == set(LATENTS):
        coupled_rows = {(latent, with_it) for latent, (_, with_it) in COUPLED.items() if latent != "slots"}
        latent = best([row for row in rows if (row["latent"], row["system"]) in coupled_rows])["latent"]
        (slots, chain), (without, coupled) = worth["slots"], worth[latent]
        lines[0] += (
            f" {LATENTS[latent]} latents, the better kind with it by the validation images, are a fair peer of the "
            f"SDLGM: with the coupling on both sides the SDLGM is {_lead(chain, coupled)} them, without it on either "
            f"side {_lead(slots, without)} them. When only the SDLGM has it, it is {_lead(chain, without)} them."
        )
    return [*lines, ""]


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _lead(ours: float, theirs: float) -> str:
    ahead = theirs - ours
    return f"{abs(ahead):.1f} nats {'ahead of' if ahead > 0 else 'behind'}"


def page(result: dict[str, Any], long: dict[str, Any]) -> str:
    rows = result["rows"]
    baselines = [row for row in rows if row["latent"] != "slots" and row["system"] not in CONTROLS]
    baseline, ours = best(baselines), best(of_latent(rows, "slots"))
    tightest = min(np.mean(row["importance_weighted_100"]) for row in baselines)
    return "\n".join(
        [
            "# Table I, measured anew",
            "",
            "*This page is made by `docs/build.py` from [table1.json](table1.json) and [long.json](long.json).*",
            "",
            "Negative ELBO in nats on MNIST, lower is better; mean ± standard deviation over seeds, "
            f"{', '.join(f'{n:,}' for n in sorted({row['iterations'] for row in rows}))} iterations. *Paper*: the "
            "number printed in the paper, for the baselines copied there from Jang, Gu and Poole (2017), who trained "
            "ten times as long as the paper says of itself. *Discrete*: with hard codes, a bound on log p(x). "
            "*Relaxed*: the paper's criterion, with relaxed samples, not a bound; for estimators with hard draws it is "
            "the same model decoded from samples that it never saw. *Tighter bound*: discrete, 100 importance samples. "
            "*Active*: variables or slots in use. *ms*: processor time of an iteration, blank if all runs of a "
            "row were interrupted.",
            "",
            *table(rows),
            "",
            *_missing(rows),
            f"Chosen by the validation images, the best baseline is {baseline['title']} with "
            f'{LATENTS[baseline["latent"]]} latents, the best SDLGM is "{ours["title"]}". On the test images the '
            f"SDLGM is {_lead(_mean(ours['discrete']['test']), _mean(baseline['discrete']['test']))} it. By the "
            f"tighter bound it is {_lead(_mean(ours['importance_weighted_100']), tightest)} the best of all baselines: "
            "a part of the first number is how close the posterior comes to the true one, and not how well images are "
            "modelled.",
            "",
            *controls(rows),
            *coupling(rows),
            "What relaxed and discrete have to do with each other: [How honest is the bound](../honesty.md).",
            "",
            "## With a longer budget",
            "",
            *long_lines(long),
            "",
            "![Validation bound against time](../images/long.png)",
            "",
            "## Protocol",
            "",
            *protocol_lines(result),
            "",
            "Of the long run:",
            "",
            *protocol_lines(long),
            "",
        ]
    )
