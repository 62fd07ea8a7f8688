"""Measure the bound of the default model with budgets of different sizes."""

from pathlib import Path
from typing import Any

from reproduction.provenance import publish
from reproduction.runs import Run, run_all
from reproduction.table1 import CHAIN_PRIOR, WIDE, Row, run_version, table_row, train_row
from reproduction.table1 import PROTOCOL as TABLE1_PROTOCOL

BUDGETS = (5, 10, 20, 40, 80)
AT_FIRST = 20
"""Active features at the start of training: as many as with the default budget, or half of a smaller budget."""


def row_of(budget: int) -> Row:
    """Return the default model with another budget."""
    options = {**CHAIN_PRIOR, **WIDE, "max_active": budget, "gate_prior": min(0.5, AT_FIRST / budget)}
    return Row(f"sdlgm_chain_{budget}", "slots", f"at most {budget} active", None, options)


ROWS = {budget: row_of(budget) for budget in BUDGETS}
PROTOCOL = {
    "model": "the defaults of SDLGM, but for `max_active`, and for `gate_prior` where "
    f"the budget is larger than the default one: {AT_FIRST} features are on at first, or half of a smaller budget",
    **{name: TABLE1_PROTOCOL[name] for name in ("binarisation", "training", "test and train", "time")},
    "drawn and given": "codes drawn from the posterior, which the bounds are about, and codes that `transform` gives, "
    "which are the most probable choices; bits and reconstruction error are of the latter",
}


def reproduce_budgets(
    out: Path, *, data: str, iterations: int, seeds: int, n_jobs: int, work_folder: Path
) -> dict[str, Any]:
    """Train a model with every budget and write the results to ``out``."""
    runs: list[Run] = [
        {
            "table": "budgets",
            "budget": n,
            "data": data,
            "iterations": iterations,
            "seed": seed,
            "version": run_version(row.estimator()),
        }
        for n, row in ROWS.items()
        for seed in range(seeds)
    ]
    results = run_all(_measure, runs, work_folder, n_jobs)
    rows = []
    for n, row in ROWS.items():
        of_row = [result for result in results if result["budget"] == n]
        given = ("n_active_mean", "code_bits", "reconstruction_error")
        further = {key: [result["evaluation"][key] for result in of_row] for key in given}
        rows.append({"max_active": n, **table_row(row, iterations, of_row), **further})
    return publish(out, {"data": data, "rows": rows, "protocol": PROTOCOL})


def _measure(run: Run, folder: Path) -> dict[str, Any]:
    return train_row(ROWS[run["budget"]], run, folder)
