"""Every benchmark, one after the other, into one file of results."""

import argparse
import json
import sys
from collections.abc import Iterable
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="turns of each contestant")
    parser.add_argument("--out", type=Path, default=Path("docs/results/speed.json"))
    parser.add_argument("--quick", action="store_true", help="a few rounds and a small file, to see that it works")
    arguments = parser.parse_args()
    quick: bool = arguments.quick
    rounds = 2 if quick else arguments.rounds

    def show(items: Iterable[Any], what: str = "growth") -> Iterable[Any]:
        return track(list(items)[:: 9 if quick else 1], what, console=err, transient=True)

    result: dict[str, Any] = {"rounds": rounds, "batch": iteration.BATCH}
    result["iteration"] = {n: iteration.measure(n, rounds, 10) for n in show((1, 2), "iterations")}
    result["encoding"] = encoding.measure(max(2, rounds // 2))
    result["ratios"] = {**result["iteration"][1]["ratios"], **result["encoding"]["ratios"]}
    err.print(_table(result["ratios"]))
    result["profile"] = {name: iteration.profiled(name) for name in show(("naive", "paper", "default"), "profile")}
    result["pieces"] = pieces.measure(rounds)
    result["startup"] = startup(max(2, rounds // 6))
    result["growth"] = growth.measure(2 if quick else 10, show)
    result["growth_k"] = features.measure(rounds, show)
    result["encoding_k"] = features.encoding(max(2, rounds // 4))
    with err.status("a file of 10 GB"):
        result["stream"] = encoding.stream(10**8 if quick else encoding.STREAM_BYTES)
    write_text(arguments.out, json.dumps(result | provenance(), indent=1) + "\n")
    err.print(f"results: {arguments.out}", highlight=False)


def _table(ratios: dict[str, float]) -> Table:
    table = Table("ratio", "measured")
    for name, value in ratios.items():
        table.add_row(name, f"{value:.3f}")
    return table


if __name__ == "__main__":
    main()
