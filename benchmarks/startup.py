"""Seconds until something happens: imports, the first fit of a process, errors; and fits, codes and reports by size.

Contestants are fresh processes that take turns, and the best of several rounds counts, as in `benchmarks.timing`. All
seconds are those of the processor, which on one thread are those of the clock of a machine with nothing else to do. Run
it with ``OMP_NUM_THREADS=1``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from sklearn.datasets import load_digits

from benchmarks.encoding import pictures
from benchmarks.timing import ROOT, best
from reproduction.provenance import publish
from sdlgm import SDLGM
from sdlgm.data import Dataset
from sdlgm.report import write_report

IMPORTS = {
    "import torch, sklearn": "import torch, sklearn",
    "from sdlgm import SDLGM": "from sdlgm import SDLGM",
}
ERRORS = {
    "sdlgm --help": ["--help"],
    "sdlgm fit nofile.csv --out m.sdlgm": ["fit", "nofile.csv", "--out", "m.sdlgm"],
    "sdlgm fit digits --out m.sdlgm --max-active 0": ["fit", "digits", "--out", "m.sdlgm", "--max-active", "0"],
    "sdlgm encode nomodel.sdlgm digits --out c.npz": ["encode", "nomodel.sdlgm", "digits", "--out", "c.npz"],
}
FITS = """
import json, sys, time, warnings
import numpy as np
from sdlgm import SDLGM
warnings.simplefilter("ignore")
X = (np.random.default_rng(0).random((500, 64)) < 0.3).astype(np.float32)
seconds = []
for _ in range(3):
    start = time.process_time()
    SDLGM(n_components=32, max_active=8, hidden=(64,), max_iter=20, random_state=0).fit(X)
    seconds.append(time.process_time() - start)
print(json.dumps(seconds))
"""
"""Three fits of twenty iterations in one process."""
ITERATIONS = 200
LONG = 5.0  # seconds after which a measurement is not repeated
SIZES: dict[str, tuple[int, dict[str, Any]]] = {
    "1,797 rows of 64 columns, 64 features": (
        64,
        {"n_components": 64, "max_active": 16, "hidden": (256, 128), "likelihood": "gaussian", "refine": 0},
    ),
    "10,000 rows of 784 columns, 200 features": (10_000, {}),
}


def processes(rounds: int, show: Callable[..., Any]) -> dict[str, Any]:
    """Imports, errors and first fits in fresh processes that take turns."""
    program = str(Path(sys.executable).with_name("sdlgm"))
    commands = {name: [sys.executable, "-c", code] for name, code in IMPORTS.items()}
    commands |= {name: [program, *arguments] for name, arguments in ERRORS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    fits: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        _run([sys.executable, "-c", FITS], folder)  # fills the caches of files and of kernels
        for _ in show(range(rounds), "processes"):
            for name, command in commands.items():
                start = _children()
                _run(command, folder)
                seconds[name].append(_children() - start)
            fits.append(json.loads(_run([sys.executable, "-c", FITS], folder)))
        compiling = json.loads(_run([sys.executable, "-c", FITS], folder, NUMBA_CACHE_DIR=str(Path(folder) / "new")))
    return {
        "seconds": best(seconds),
        "fits": {"first": min(fit[0] for fit in fits), "second": min(min(fit[1:]) for fit in fits)},
        "compiling": compiling[0],
    }


def _run(command: list[str], folder: str, **environment: str) -> str:
    """Run a command in a folder and return its output. Errors, which are measured here, have the code 2."""
    result = subprocess.run(  # noqa: S603
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    if result.returncode not in (0, 2):
        raise RuntimeError(f"{' '.join(command)}: {result.stderr}")
    return result.stdout


def sizes(show: Callable[..., Any]) -> Iterator[tuple[str, dict[str, float]]]:
    """Iterate over data of some sizes: seconds of the parts of the work, in this process."""
    for name, (size, settings) in show(SIZES.items(), "sizes"):
        X = _digits() if size == 64 else pictures(size)
        side = int(X.shape[1] ** 0.5)
        data = Dataset("digits", X, image_shape=(side, side))
        model = SDLGM(**settings, max_iter=ITERATIONS, random_state=0)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            times: list[float] = []
            model.fit(X, callback=lambda *_: times.append(time.process_time()))  # noqa: B023
            work: dict[str, Callable[[], object]] = {
                "transform": lambda: model.transform(X),  # noqa: B023
                "evaluate": lambda: model.evaluate(X, random_state=0),  # noqa: B023
                "report": lambda: write_report(model, data, page),  # noqa: B023
            }
            seconds = {part: _seconds(call) for part, call in work.items()}
        # The median: here one iteration in five is followed by a point of the curves, in a long run one in 200.
        yield name, {**seconds, "iteration": float(np.median(np.diff(times)))}


def _digits() -> np.ndarray:
    return np.asarray(load_digits(return_X_y=True)[0], np.float32) / 16


def _seconds(call: Callable[[], object]) -> float:
    """Return the seconds of a call: the best of two if it is short."""
    start = time.process_time()
    call()
    seconds = time.process_time() - start
    if seconds > LONG:
        return seconds
    start = time.process_time()
    call()
    return min(seconds, time.process_time() - start)


def _children() -> float:
    """Return the seconds of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each process")
    parser.add_argument("--out", type=Path, default=Path("docs/results/startup.json"))
    arguments = parser.parse_args()
    err = Console(stderr=True)

    def show(items: Any, what: str) -> Any:
        return track(list(items), what, console=err, transient=True)

    warnings.simplefilter("ignore")  # after so few iterations the models have hardly learned
    result: dict[str, Any] = {"rounds": arguments.rounds, "iterations": ITERATIONS}
    result["threads"] = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    result |= processes(arguments.rounds, show)
    result["default_max_iter"] = SDLGM._default_max_iter
    result["sizes"] = {}
    for name, seconds in sizes(show):
        result["sizes"][name] = seconds
        publish(arguments.out, result)
    err.print(f"results: {arguments.out}", highlight=False)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
