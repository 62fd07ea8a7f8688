"""Rows a second from files and from memory, by one process and by two, and of encoding with and without Ray.

`python benchmarks/scaling.py` writes docs/results/scaling.json; it needs a quiet machine and some minutes.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import alternate, best

from sdlgm import SDLGM, load
from sdlgm.cluster import encode_with_ray
from sdlgm.data import CodedParts, open_rows
from sdlgm.paper.provenance import publish

N_ROWS, N_COLUMNS, GROUP = 40_000, 784, 4_000
SETTINGS: dict[str, Any] = {"batch_size": 100, "random_state": 0}
BATCHES = (100, 1000)
"""With which two processes are compared to one."""
PROCESSES = """
import sys, time
import numpy as np, torch
torch.set_num_threads(1)
from sdlgm import SDLGM

def main():
    devices, n_iter, batch = (int(argument) for argument in sys.argv[2:])
    start = time.perf_counter()
    SDLGM(batch_size=batch, random_state=0, devices=devices, max_iter=n_iter).fit(sys.argv[1])
    print(time.perf_counter() - start)

if __name__ == "__main__":
    main()
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


def training(kinds: dict[str, Path], rounds: int, n_iter: int) -> dict[str, float]:
    """Rows a second of an iteration, without what comes before the first."""
    rows = np.concatenate([np.load(path) for path in sorted(kinds["npy"].iterdir())])
    took: dict[str, list[float]] = {}

    def fit(name: str, X: Any) -> None:
        times: list[float] = []
        model = SDLGM(**SETTINGS, max_iter=n_iter)
        model.fit(X, callback=lambda _module, _iteration: times.append(time.perf_counter()))
        took.setdefault(name, []).append((times[-1] - times[n_iter // 10]) / (n_iter - 1 - n_iter // 10))

    contestants: dict[str, Any] = {"memory": rows, **kinds}
    alternate({name: lambda name=name, X=X: fit(name, X) for name, X in contestants.items()}, rounds=rounds)
    return {name: SETTINGS["batch_size"] / seconds for name, seconds in best(took).items()}


def processes(path: Path, rounds: int, n_iter: int) -> dict[str, float]:
    """Rows a second of training with one and two processes: the difference of a long and a short run."""
    found: dict[str, list[float]] = {}
    with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
        script.write(PROCESSES)
        script.flush()
        for _ in range(rounds):
            for batch in BATCHES:
                for devices in (1, 2):
                    seconds = []
                    for n in (n_iter // 4, n_iter):
                        command = [sys.executable, script.name, str(path), str(devices), str(n), str(batch)]
                        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
                        seconds.append(float(done.stdout.splitlines()[-1]))
                    rate = batch * (n_iter - n_iter // 4) / (seconds[1] - seconds[0])
                    found.setdefault(f"{devices} processes, batches of {batch}", []).append(rate)
    return {name: max(rates) for name, rates in found.items()}


def encoding(kinds: dict[str, Path], folder: Path, rounds: int) -> dict[str, float]:
    """Rows a second into a folder, by this process and by two workers of Ray, which start before."""
    import ray  # pyright: ignore[reportMissingImports]  (an extra)

    model_path = folder / "model.sdlgm"
    SDLGM(**SETTINGS, max_iter=50).fit(kinds["npy"]).save(model_path)
    estimator = load(model_path)
    rows = open_rows(kinds["npy"])
    assert rows is not None
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    times: dict[str, list[float]] = {"local": [], "ray, 2 workers": []}
    for number in range(rounds):
        for name, of_name in times.items():
            coded = CodedParts(folder / f"{name}-{number}", rows, estimator.module_.config.n_features, {})
            start = time.perf_counter()
            if name == "local":
                coded.encode(estimator.transform)
            else:
                encode_with_ray(model_path, coded, {}, n_workers=2)
            of_name.append(time.perf_counter() - start)
    ray.shutdown()
    return {name: len(rows) / seconds for name, seconds in best(times).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/results/scaling.json"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=800)
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
        "rows": f"{N_ROWS:,} of {N_COLUMNS} numbers in four files, parquet files in row groups of {GROUP:,}",
        "model": "the default one; one thread in each process",
        "best of": f"{arguments.rounds} rounds in which the contestants take turns",
    }
    facts = {
        "n_columns": N_COLUMNS,
        "batch_size": SETTINGS["batch_size"],
        "batches": BATCHES,
        "default_iterations": SDLGM().max_iter,
    }
    publish(arguments.out, {**result, **facts, "protocol": protocol})
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
