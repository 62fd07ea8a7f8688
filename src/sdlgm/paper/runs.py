"""Many independent runs, in parallel processes, resumable one by one."""

import json
import multiprocessing
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sdlgm import __version__
from sdlgm._files import write_text

Run = dict[str, Any]
"""What identifies a run: plain values only, since it names the run's file."""


def run_all(
    work: Callable[[Run, Path], dict[str, Any]],
    runs: Sequence[Run],
    folder: Path,
    n_jobs: int,
    *,
    fresh: bool = True,
    known: Mapping[str, Run] = MappingProxyType({}),
    after_each: Callable[[list[Run]], object] | None = None,
) -> list[Run]:
    """``work(run, its folder)`` for each run; results come in the order of ``runs``.

    Each run has a fresh process unless told otherwise; its start can take longer than a short run. The result of a run
    is kept in its folder, so that a second call does only what is missing. A run that is interrupted goes on from
    whatever ``work`` has left in the folder. Results that are ``known`` by the `name_of` their run are not made again,
    and ``after_each`` is called with all results so far whenever a run is done.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    missing = [run for run in runs if name_of(run) not in known and not _result_path(folder, run).exists()]
    columns = (
        TextColumn("runs"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    # Processes with one thread each: what a run measures does not depend on its neighbours' torch.
    context = multiprocessing.get_context("spawn")
    limit = 1 if fresh else None  # nothing between: with other limits the pool of Python 3.11 can wait for ever
    with (
        Progress(*columns) as progress,
        ProcessPoolExecutor(n_jobs, mp_context=context, initializer=_one_thread, max_tasks_per_child=limit) as pool,
    ):
        task = progress.add_task("", total=len(runs), completed=len(runs) - len(missing))
        futures = {pool.submit(_work_and_keep, work, run, folder): run for run in missing}
        for future in as_completed(futures):
            future.result()
            if after_each is not None:
                after_each(_results(runs, folder, known))
            progress.update(task, advance=1, description=" ".join(str(value) for value in futures[future].values()))
    return _results(runs, folder, known)


def _results(runs: Sequence[Run], folder: Path, known: Mapping[str, Run]) -> list[Run]:
    """Those that are there; the folder has more of a run than what was published of it."""
    found = []
    for run in runs:
        path = _result_path(folder, run)
        if path.exists():
            found.append(json.loads(path.read_text(encoding="utf-8")))
        elif name_of(run) in known:
            found.append(known[name_of(run)])
    return found


def _one_thread() -> None:
    """In a new process, for libraries that it is still to import and for torch, which the script may have imported."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def _work_and_keep(work: Callable[[Run, Path], dict[str, Any]], run: Run, folder: Path) -> None:
    path = _result_path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(run | work(run, path.parent), allow_nan=False))


def versioned(settings: Any) -> str:
    """Tells results of other settings or other defaults under the same name apart."""
    return f"{__version__}-{zlib.crc32(json.dumps(settings, sort_keys=True).encode()):08x}"


def name_of(run: Run) -> str:
    """What a run is called."""
    return "-".join(str(value).replace(":", "_") for value in run.values())


def run_folder(folder: Path, run: Run) -> Path:
    """Where a run keeps what it needs and what it leaves."""
    return folder / name_of(run)


def _result_path(folder: Path, run: Run) -> Path:
    return run_folder(folder, run) / "result.json"
