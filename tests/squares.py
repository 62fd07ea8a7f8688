"""Work for `reproduction.runs.run_all`, in a module that its processes can import."""

import time
from pathlib import Path

from reproduction.runs import report


def square(run: dict, folder: Path) -> dict:
    (folder / "left").write_text("something")
    report(run, 0.5, "half way")
    return {"square": run["number"] ** 2}


def refuse_the_first(run: dict, folder: Path) -> dict:
    """The first fails at once; another reports more than a pipe holds after that."""
    if run["number"] == 0:
        raise ValueError("no square of nothing")
    while not (folder.parent / "failed").exists():
        time.sleep(0.01)
    for step in range(1000):
        report(run, step / 1000, 200 * "x")
    return square(run, folder)
