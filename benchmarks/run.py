"""Every benchmark, one after the other, into one file of results."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks import encoding, features, growth, iteration, pieces
from benchmarks.timing import best, run
from reproduction.provenance import provenance
from sdlgm._files import write_text

err = Console(stderr=True)


def startup(rounds: int) -> dict[str, float]:
    """Seconds from the shell until it is back, best of several."""
    folder = Path(sys.executable).parent
    commands = {
        "python, doing nothing": [sys.executable, "-c", "pass"],
        "import sdlgm": [sys.executable, "-c", "import sdlgm"],
        "sdlgm --help": [str(folder / "sdlgm"), "--help"],
        "sdlgm data list": [str(folder / "sdlgm"), "data", "list"],
        "from sdlgm import SDLGM": [sys.executable, "-c", "from sdlgm import SDLGM"],
    }
    return best({name: [run(*command)[0] for _ in range(rounds)] for name, command in commands.items()})


def _show(items: Iterable[Any], what: str = "growth") -> Iterable[Any]:
    return track(list(items), what, console=err, transient=True)


def _show_some(items: Iterable[Any], what: str = "growth") -> Iterable[Any]:
    return _show(list(items)[::9], what)


def _iterations(rounds: int) -> dict[str, Any]:
    return {str(n): iteration.measure(n, rounds, 10) for n in _show((1, 2), "iterations")}


def _profiles() -> dict[str, Any]:
    return {name: iteration.profiled(name) for name in _show(("naive", "paper", "default"), "profile")}


PARTS: dict[str, Callable[[int, bool], Any]] = {
    "iteration": lambda rounds, _: _iterations(rounds),
    "encoding": lambda rounds, _: encoding.measure(max(2, rounds // 2)),
    "profile": lambda *_: _profiles(),
    "pieces": lambda rounds, _: pieces.measure(rounds),
    "startup": lambda rounds, _: startup(max(2, rounds // 6)),
    "growth": lambda _, quick: growth.measure(2, _show_some) if quick else growth.measure(10, _show),
    "growth_k": lambda rounds, quick: features.measure(rounds, _show_some if quick else _show),
    "encoding_k": lambda rounds, _: features.encoding(max(2, rounds // 4)),
    "stream": lambda _, quick: encoding.stream(10**8 if quick else encoding.STREAM_BYTES),
}
"""The parts of the result: each from the rounds and whether only to see that it works."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="turns of each contestant")
    parser.add_argument("--out", type=Path, default=Path("docs/results/speed.json"))
    parser.add_argument("--quick", action="store_true", help="a few rounds and a small file, to see that it works")
    parser.add_argument("--only", choices=PARTS, help="measure one part again, and keep the others of the file")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    rounds = 2 if quick else arguments.rounds
    if arguments.only:
        result = json.loads(arguments.out.read_text(encoding="utf-8"))
        result[arguments.only] = PARTS[arguments.only](rounds, quick)
    else:
        result = {"rounds": rounds, "batch": iteration.BATCH}
        result |= {name: measure(rounds, quick) for name, measure in PARTS.items()}
        result |= provenance()
    result["ratios"] = {**result["iteration"]["1"]["ratios"], **result["encoding"]["ratios"]}
    err.print(_table(result["ratios"]))
    write_text(arguments.out, json.dumps(result, indent=1) + "\n")
    err.print(f"results: {arguments.out}", highlight=False)


def _table(ratios: dict[str, float]) -> Table:
    table = Table("ratio", "measured")
    for name, value in ratios.items():
        table.add_row(name, f"{value:.3f}")
    return table


if __name__ == "__main__":
    main()
