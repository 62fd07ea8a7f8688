"""Rows a second from files and from memory, by threads and by processes, and of encoding with and without Ray.

`python -m benchmarks.scaling` writes docs/results/scaling.json; it needs a quiet machine and some minutes.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.timing import alternate, best
from reproduction.provenance import publish
from sdlgm import SDLGM, load
from sdlgm.data import CodedParts, open_rows
from sdlgm.estimators._ray import encode_with_ray

N_ROWS, N_COLUMNS, GROUP = 40_000, 784, 4_000
SETTINGS: dict[str, Any] = {"batch_size": 100, "random_state": 0, "likelihood": "bernoulli", "hidden": (512, 384, 256)}
ENGINES = ("local", "ray, 2 workers")
BATCHES = (100, 500)
"""With which two processes are compared to one."""
TEAMS = {"one process": (1, 1), "one process, two threads": (1, 2), "two processes": (2, 1)}
"""Processes, and threads in each."""
N_COPIES = 20
"""How often the rows are encoded: the workers of a cluster take seconds to start."""
PROCESSES = """
import sys, time
import torch
from sdlgm import SDLGM
from sdlgm.train import Trainer

devices, n_threads, n_iter, batch = (int(argument) for argument in sys.argv[2:])
torch.set_num_threads(n_threads)
step, times = Trainer.step, []

def timed(self, batch_of_rows):
    times.append(time.perf_counter())
    if self.iteration == n_iter:
        if self.processes.is_first:
            first = n_iter // 10
            print(batch * (n_iter - first) / (times[-1] - times[first]), flush=True)
        raise RuntimeError("enough")
    return step(self, batch_of_rows)

Trainer.step = timed  # in processes that are started anew too

if __name__ == "__main__":
    try:
        SDLGM(**{**SETTINGS, "batch_size": batch}, devices=devices).fit(sys.argv[1])
    except Exception as error:
        assert "enough" in str(error), error
"""


def write_files(folder: Path) -> dict[str, Path]:
    """The same rows as .npy and as parquet files, four of each."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    kinds = {kind: folder / kind for kind in ("npy", "parquet")}
    for path in kinds.values():
        path.mkdir()
    for number in range(4):
        rows = rng.random((N_ROWS // 4, N_COLUMNS), dtype=np.float32)
        np.save(kinds["npy"] / f"{number}.npy", rows)
        table = pa.table({f"c{i}": rows[:, i] for i in range(N_COLUMNS)})
        parquet.write_table(table, kinds["parquet"] / f"{number}.parquet", row_group_size=GROUP, use_dictionary=False)
    return kinds


class EnoughError(Exception):
    """Ends a fit that would go on."""


def training(kinds: dict[str, Path], rounds: int, n_iter: int) -> dict[str, float]:
    """Rows a second in the first iterations of a fit with default settings, without what comes before the first."""
    rows = np.concatenate([np.load(path) for path in sorted(kinds["npy"].iterdir())])
    took: dict[str, list[float]] = {}

    def fit(name: str, X: Any) -> None:
        times: list[float] = []

        def note(_module: Any, iteration: int) -> None:
            times.append(time.perf_counter())
            if iteration == n_iter:
                raise EnoughError

        with contextlib.suppress(EnoughError):
            SDLGM(**SETTINGS).fit(X, callback=note)
        took.setdefault(name, []).append((times[-1] - times[n_iter // 10]) / (n_iter - 1 - n_iter // 10))

    contestants: dict[str, Any] = {"memory": rows, **kinds}
    alternate({name: lambda name=name, X=X: fit(name, X) for name, X in contestants.items()}, rounds=rounds)
    return {name: SETTINGS["batch_size"] / seconds for name, seconds in best(took).items()}


def processes(path: Path, rounds: int, n_iter: int) -> dict[str, float]:
    """Rows a second in the first iterations of a fit with default settings, by one process or thread and by two."""
    found: dict[str, list[float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PROCESSES)
        script.flush()
        for _ in range(rounds):
            for batch in BATCHES:
                for team, (devices, threads) in TEAMS.items():
                    command = [sys.executable, script.name, str(path), *map(str, (devices, threads, n_iter, batch))]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                    rates = found.setdefault(f"{team}, batches of {batch}", [])
                    rates.append(float(done.stdout.splitlines()[-1]))
    return {name: max(rates) for name, rates in found.items()}


def encoding(kinds: dict[str, Path], folder: Path, rounds: int) -> dict[str, float]:
    """Rows a second into a folder, by this process and by two workers of Ray, once they are there.

    The rows are encoded once and many times over; the difference has no start in it.
    """
    import ray  # pyright: ignore[reportMissingImports]  (an extra)

    model_path = folder / "model.sdlgm"
    SDLGM(**SETTINGS, max_iter=50).fit(kinds["npy"]).save(model_path)
    estimator = load(model_path)
    many = folder / "many"
    many.mkdir()
    for number in range(N_COPIES):
        for path in kinds["npy"].iterdir():
            (many / f"{number}-{path.name}").symlink_to(path)
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    times: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds):
        for name in ENGINES:
            for rows in (open_rows(kinds["npy"]), open_rows(many)):
                assert rows is not None
                out = folder / f"{name}-{len(rows)}-{number}"
                coded = CodedParts(out, rows, estimator.module_.config.n_features, {})
                start = time.perf_counter()
                if name == "local":
                    coded.encode(estimator.transform)
                else:
                    encode_with_ray(model_path, coded, SDLGM.transform, n_workers=2)
                times.setdefault((name, len(rows)), []).append(time.perf_counter() - start)
    ray.shutdown()
    few, all_rows = N_ROWS, N_COPIES * N_ROWS
    took = {key: min(values) for key, values in times.items()}
    rates = {name: (all_rows - few) / (took[name, all_rows] - took[name, few]) for name in ENGINES}
    return rates | {"ray, start": took[ENGINES[1], few] - few / rates[ENGINES[1]]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/scaling.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=300)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = write_files(folder)
        result = {
            "training": training(kinds, arguments.rounds, arguments.iterations),
            "processes": processes(kinds["npy"], arguments.rounds, arguments.iterations),
            "encoding": encoding(kinds, folder, arguments.rounds),
        }
    protocol = {
        "rows": f"{N_ROWS:,} of {N_COLUMNS} numbers in four files, parquet files in row groups of {GROUP:,}; "
        f"{N_COPIES} times over to encode",
        "start": "training without the first tenth of its iterations, encoding without the start of the workers",
        "model": "the default one; one thread in each process where nothing else is said",
        "best of": f"{arguments.rounds} rounds in which the contestants take turns",
    }
    facts = {
        "n_columns": N_COLUMNS,
        "batch_size": SETTINGS["batch_size"],
        "batches": BATCHES,
        "teams": list(TEAMS),
        "default_iterations": SDLGM._default_max_iter,
    }
    publish(arguments.out, {**result, **facts, "protocol": protocol})
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
