"""Measure robustness: ``python -m robustness --out docs/results/robustness.json``, or ``make robustness``."""

import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reproduction.provenance import publish
from sdlgm import __version__
from sdlgm._signals import exit_code, sigterm_raises

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
err = Console(stderr=True, markup=False, emoji=False, highlight=False)

SECONDS_BETWEEN_LINES = 10.0
PROTOCOL = {
    "kills": "processes that train with checkpoints, save models, encode into a folder and write codes are ended by "
    "SIGKILL at random moments and started again; after each kill all files are read, and completed work is compared, "
    "bit for bit, with that of an uninterrupted process",
    "mutations": "up to four pieces of a valid file are replaced, and some files are cut off; each file is read in the "
    "same process",
    "budgets": "random, extreme and sparse rows of all precisions, encoded by all posteriors and predicted by all "
    "estimators, with weights scaled by up to 10¹² and temperatures from 10⁻³ to 10³; rows that are refused do not "
    "count",
    "memory": "files that declare or unpack to far more than they hold, and honest files for comparison, each read in "
    "a process of its own, whose largest memory is measured, imports included",
}

Section = Callable[[int, int], Any]
"""A measurement of some size, with a seed."""


def kills(n: int, seed: int) -> Any:
    """Kill processes."""
    from robustness.kills import try_kills

    with tempfile.TemporaryDirectory() as folder:
        return asdict(try_kills(n, seed, Path(folder), _lines("kills", n)))


def mutations(n: int, seed: int) -> Any:
    """Read changed files."""
    from robustness.mutations import try_mutations

    return [asdict(row) for row in try_mutations(n, seed, lambda text: err.print(f"mutations: {text}"))]


def budgets(n: int, seed: int) -> Any:
    """Encode adversarial rows."""
    from robustness.budgets import try_budgets

    return asdict(try_budgets(n, seed, _lines("budgets", n)))


def memory(_n: int, _seed: int) -> Any:
    """Measure the memory of readers: of files that pretend to hold much, and of files that hold it."""
    from robustness.bombs import BOMBS, HONEST, measure

    rows = []
    for kind, files in (("hostile", BOMBS), ("honest", HONEST)):
        for name, bomb in files.items():
            err.print(f"memory: {kind} {name}")
            with tempfile.TemporaryDirectory() as folder:
                path = bomb.make(Path(folder))
                measured = measure(bomb, path)
                n_bytes = sum(part.stat().st_size for part in Path(folder).rglob("*") if part.is_file())
            message = None if measured.error is None else measured.error.replace(f"{folder}/", "")
            found = {**asdict(measured), "error": message}
            rows.append({"kind": kind, "file": name, "reader": bomb.reader, "file_bytes": n_bytes, **found})
    return rows


SECTIONS: dict[str, Section] = {"kills": kills, "mutations": mutations, "budgets": budgets, "memory": memory}


def measure_all(out: Path, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    """Measure all sections. Those that the file has already, with the same settings, are not repeated."""
    found: dict[str, Any] = {}
    if out.exists():
        found = json.loads(out.read_text(encoding="utf-8"))["sections"]
    sections: dict[str, Any] = {}
    for name, section in SECTIONS.items():
        settings = {"size": sizes.get(name, 0), "seed": seed, "version": __version__}
        known = found.get(name)
        if known is not None and known["settings"] == settings:
            sections[name] = known
            continue
        start = time.monotonic()
        measured = section(settings["size"], seed)
        seconds = round(time.monotonic() - start, 1)
        sections[name] = {"settings": settings, "seconds": seconds, "result": measured}
        publish(out, {"sections": {**found, **sections}, "protocol": PROTOCOL})
    return publish(out, {"sections": sections, "protocol": PROTOCOL})


def _lines(name: str, total: int) -> Callable[[int], None]:
    """Return a function that prints progress, but not too often."""
    last = time.monotonic()

    def report(done: int) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            err.print(f"{name}: {done} of {total}")

    return report


@app.command()
def main(
    out: Annotated[Path, typer.Option(help="File for the results.")] = Path("robustness.json"),
    n_kills: Annotated[int, typer.Option("--kills", help="Number of kills.", min=1)] = 1000,
    n_mutations: Annotated[int, typer.Option("--mutations", help="Changed files for each reader.", min=1)] = 2000,
    n_rows: Annotated[int, typer.Option("--rows", help="Rows to encode.", min=1)] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Seed.", min=0)] = 0,
) -> None:
    """Measure kills, changed files, budgets and the memory of readers.

    The command can be interrupted: sections that are done are not repeated if their settings are the same.
    """
    try:
        with sigterm_raises():
            measure_all(out, {"kills": n_kills, "mutations": n_mutations, "budgets": n_rows}, seed)
    except KeyboardInterrupt as error:
        err.print("interrupted; run the same command again to resume")
        raise typer.Exit(exit_code(error)) from None
    Console(highlight=False).print(f"results: {out}", soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m robustness")
