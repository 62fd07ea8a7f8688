"""How many tokens a decision needs: attention with a budget beside seven peers, on texts and pictures."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reproduction.attention_data import MIN_OCCURRENCES, N_PICTURES, load_tokens
from reproduction.attention_network import TASKS, fitted, measured
from reproduction.attention_rules import Budgeted
from reproduction.provenance import code_hash, publish
from reproduction.runs import Run, run_all, versioned
from sdlgm import __version__

OWN = "sdlgm"
GATED = ("hardkuma", OWN)
"""Systems whose scores are multiplied by `GATE_SCALES`."""
GATE_SCALES = {"sst2": 4.0, "movies": 10.0, "digits": 4.0}
CUT = "_cut"
"""Ends the names of rows whose largest weights alone are kept in evaluation."""


@dataclass(frozen=True)
class Source:
    """A data set, in words."""

    title: str
    rows: str
    tokens: str
    """What a token is."""
    score: str
    budget: str
    is_error: bool = False
    """Whether a smaller score is better."""


SOURCES: Mapping[str, Source] = {
    "sst2": Source(
        "SST-2",
        "6,920 sentences for training, 872 for validation, 1,821 for testing",
        "words",
        "accuracy, %",
        "5 words",
    ),
    "movies": Source(
        "Movie reviews with rationales",
        "1,600 reviews for training, 200 for validation, 199 for testing, not truncated",
        "words",
        "macro F1, %",
        "a tenth of the words of the shortest review of a batch of about the same length",
    ),
    "digits": Source(
        "Scattered digits",
        f"{N_PICTURES['train']:,} pictures for training, {N_PICTURES['validation']:,} for validation, "
        f"{N_PICTURES['test']:,} for testing (`sdlgm.data.scattered_digits`: 56 x 84 pixels, 0 to 5 digits of MNIST "
        "anywhere, overlapping)",
        "patches",
        "mean absolute error of the number of digits",
        "8 of 96 patches of 7 x 7 pixels",
        is_error=True,
    ),
}


@dataclass(frozen=True)
class System:
    """A kind of attention, the settings to choose from, and whether it has a budget."""

    title: str
    grid: tuple[float, float, float]
    strength: str
    """What the settings are."""
    has_budget: bool = False


SCALES = (1.0, 3.0, 10.0)
SYSTEMS: Mapping[str, System] = {
    "softmax": System("softmax", SCALES, "scale of the scores"),
    "sparsemax": System("sparsemax", SCALES, "scale of the scores"),
    "entmax": System("entmax-1.5", SCALES, "scale of the scores"),
    "hardkuma": System("HardKuma", (0.5, 0.75, 1.0), "target number, as a share of the budget"),
    "top_k": System("top-k softmax", SCALES, "scale of the scores", has_budget=True),
    "gumbel": System("Gumbel top-k, straight-through", (0.3, 1.0, 3.0), "temperature", has_budget=True),
    "simple": System("SIMPLE, exact k-subsets", SCALES, "scale of the scores", has_budget=True),
    OWN: System("SDLGM, `SubsetGate`", (0.01, 0.03, 0.1), "weight of the KL divided by the budget", has_budget=True),
}
MEASURES = (
    "score",
    "token_f1",
    "sufficiency",
    "comprehensiveness",
    "mean_active",
    "mean_share",
    "max_active",
    "max_share",
)
PROTOCOL = {
    "network": "the same for all systems: vectors of tokens that are trained with the rest, a residual convolution "
    "over three neighbours (3 x 3 for patches), one learned query that scores the tokens, a linear classifier "
    "of the mean of their values. All have a learned null token that is always there and is not counted, like "
    "`add_bias_kv` of `torch.nn.MultiheadAttention`. HardKuma has a second score for each token, the SDLGM a bias: "
    + ", ".join(f"{name} width {task.width}" for name, task in TASKS.items()),
    "training": "Adam, "
    + "; ".join(
        f"{name} {task.epochs} epochs, batches of {task.batch}, rate {task.rate:g}, dropout {task.dropout:g}"
        for name, task in TASKS.items()
    )
    + ". The state after the epoch with the best validation score is kept",
    "choice": "each system has one setting with three values, of which that with the best validation score of seed 0 "
    "is taken, with fewer tokens if scores are equal: "
    + "; ".join(
        f"{system.title}: {system.strength} {', '.join(f'{value:g}' for value in system.grid)}"
        for system in SYSTEMS.values()
    )
    + ". Rows that are cut choose by their own validation score",
    "SDLGM": f"`SubsetGate` with `prior_active` {Budgeted.PRIOR:g} of the budget and `set_softmax`, as in "
    f"`SparseAttention` with one head; ReinMax, one draw a step; the most probable "
    "set in evaluation",
    "peers": "sparsemax and entmax from the package entmax; top-k, Gumbel top-k and SIMPLE use as many tokens as the "
    "budget has; in evaluation they take the largest scores. HardKuma holds the expected number at its target by a "
    "multiplier, and takes the most probable kind of value in evaluation. Scores of HardKuma and of the SDLGM are "
    f"multiplied by {GATE_SCALES['sst2']:g}, those of movie reviews by {GATE_SCALES['movies']:g}, chosen on validation "
    "rows",
    "cut": "of systems without a budget, the largest weights of each row are kept in evaluation, as many as the budget "
    "has, and divided by their sum",
    "words": f"those of the training texts that occur at least {MIN_OCCURRENCES} times; all others are one word",
    "explanations": "token F1: of tokens with a weight and those that people marked, mean over reviews. Sufficiency: "
    "probability of the predicted class less that from the chosen tokens alone (0 is best). Comprehensiveness: less "
    "that from all other tokens (more is better). Tokens that are left out are blanked before anything reads them",
    "scores": "of the test rows, which choose nothing",
}


def reproduce_attention(
    out: Path, *, data: Sequence[str], systems: Sequence[str], seeds: int, n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Choose the setting of each system on validation data, repeat it with other seeds, and write the rows.

    The file is updated after each run. Its rows of other data sets and systems are kept.
    """
    kept = _rows_of(out)

    def written(results: Sequence[Run]) -> dict[str, Any]:
        rows = kept | {
            (name, row["system"]): row for name in data for system in systems for row in rows_of(results, name, system)
        }
        order = [(name, variant) for name in SOURCES for system in SYSTEMS for variant in variants(system)]
        found = {name: vars(SOURCES[name]) for name in SOURCES if any(key[0] == name for key in rows)}
        return publish(out, {"data": found, "rows": [rows[key] for key in order if key in rows], "protocol": PROTOCOL})

    first = [
        _run(name, system, strength, 0) for name in data for system in systems for strength in SYSTEMS[system].grid
    ]
    tried = run_all(measure, first, work_folder, n_jobs, fresh=False, after_each=written)
    chosen = {
        (name, system, row["strength"]): None
        for name in data
        for system in systems
        for row in rows_of(tried, name, system)
    }
    # Seed by seed, so that all systems have about as many if it is interrupted.
    others = [_run(*key, seed) for seed in range(1, seeds) for key in chosen]

    def repeated(results: Sequence[Run]) -> None:
        written([*tried, *results])

    return written([*tried, *run_all(measure, others, work_folder, n_jobs, fresh=False, after_each=repeated)])


def _rows_of(out: Path) -> dict[tuple[str, str], Mapping[str, Any]]:
    if not out.exists():
        return {}
    return {(row["data"], row["system"]): row for row in json.loads(out.read_text(encoding="utf-8"))["rows"]}


def _run(data: str, system: str, strength: float, seed: int) -> Run:
    task = TASKS[data]
    settings = [vars(task), vars(SOURCES[data])]
    if system in GATED:
        settings += [GATE_SCALES[data]]
    if system == OWN:
        settings += [Budgeted.PRIOR, code_hash()]
    version = versioned(settings, __version__)
    return {
        "table": "attention",
        "data": data,
        "system": system,
        "strength": strength,
        "seed": seed,
        "version": version,
    }


def variants(system: str) -> list[str]:
    """Return the names of the rows of a system."""
    return [system] if SYSTEMS[system].has_budget else [system, f"{system}{CUT}"]


def rows_of(results: Sequence[Run], data: str, system: str) -> list[dict[str, Any]]:
    """Return the rows of a system, each with the setting that the validation rows choose."""
    found = [run for run in results if (run["data"], run["system"]) == (data, system)]
    if not {(run["strength"], run["seed"]) for run in found} >= {(value, 0) for value in SYSTEMS[system].grid}:
        return []
    rows = []
    for variant in variants(system):
        first = [run for run in found if run["seed"] == 0]
        of_validation = [run["measured"][variant]["validation"] for run in first]
        order = [(-of["goodness"], of["mean_active"]) for of in of_validation]
        strength = first[order.index(min(order))]["strength"]
        runs = sorted((run for run in found if run["strength"] == strength), key=lambda run: run["seed"])
        tests = [run["measured"][variant]["test"] for run in runs]
        validations = [run["measured"][variant]["validation"] for run in runs]
        rows.append(
            {
                "data": data,
                "system": variant,
                "title": SYSTEMS[system].title + (", cut" if variant.endswith(CUT) else ""),
                "within_budget": SYSTEMS[system].has_budget or variant.endswith(CUT),
                "strength": strength,
                **{measure: [test[measure] for test in tests] for measure in MEASURES},
                "validation_score": [of["score"] for of in validations],
                "parameters": runs[0]["parameters"],
                "seconds": [run["seconds"] for run in runs],
            }
        )
    return rows


def measure(run: Run, folder: Path) -> dict[str, Any]:
    """Train one network, and measure it on validation and on test rows, as it is and cut."""
    del folder
    data, task = load_tokens(run["data"]), TASKS[run["data"]]
    start = time.process_time()
    scale = GATE_SCALES[run["data"]]
    model = fitted(data, task, run["system"], run["strength"], run["seed"], gate_scale=scale)
    seconds = time.process_time() - start
    of_variants = {
        variant: {
            "validation": vars(measured(model, data.validation, cut=variant.endswith(CUT), explain=False)),
            "test": vars(measured(model, data.test, cut=variant.endswith(CUT))),
        }
        for variant in variants(run["system"])
    }
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"measured": of_variants, "parameters": parameters, "seconds": seconds, "code": code_hash()}
