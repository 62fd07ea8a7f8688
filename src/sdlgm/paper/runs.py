"""Many independent runs, in parallel processes, resumable one by one."""

import json
import math
import multiprocessing
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from sdlgm import __version__
from sdlgm._files import write_text

if TYPE_CHECKING:
    from rich.progress import TaskID

Run = dict[str, Any]
"""What identifies a run: plain values only, since it names the run's file."""
Report = tuple[Run, float, str]


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
    and ``after_each`` is called with all results so far whenever a run is done. If one fails, no other is begun.
    """
    missing = [run for run in runs if name_of(run) not in known and not _result_path(folder, run).exists()]
    # Processes with one thread each: what a run measures does not depend on its neighbours' torch.
    context = multiprocessing.get_context("spawn")
    reports = context.SimpleQueue()
    limit = 1 if fresh else None  # nothing between: with other limits the pool of Python 3.11 can wait for ever
    with (
        RunsProgress(runs, completed=len(runs) - len(missing)) as progress,
        ProcessPoolExecutor(
            n_jobs, mp_context=context, initializer=_start, initargs=(reports,), max_tasks_per_child=limit
        ) as pool,
    ):
        waiting, running = deque(missing), {}
        try:
            while waiting or running:
                while waiting and len(running) < n_jobs:  # none is queued, which a pool would do even after a failure
                    run = waiting.popleft()
                    running[pool.submit(_work_and_keep, work, run, folder)] = run
                done, _ = wait(running, timeout=0.2, return_when=FIRST_COMPLETED)
                progress.take(reports)
                for future in done:
                    run = running.pop(future)
                    future.result()
                    if after_each is not None:
                        after_each(_results(runs, folder, known))
                    progress.finish(run)
        finally:  # after a failure: those that are running end, and none of them waits for somebody to hear its reports
            while wait(running, timeout=0.2).not_done:
                progress.take(reports)
    return _results(runs, folder, known)


def report(run: Run, fraction: float, state: str) -> None:
    """How far ``run`` has come, from 0 to 1, and what to show of it; nothing happens outside `run_all`."""
    if _reports is not None:
        _reports.put((run, fraction, state))


_reports: "SimpleQueue[Report] | None" = None
"""In a process of `run_all`: the way to the one that shows the progress."""


class RunsProgress:
    """A bar for all runs, with the time left, and below it one for each that reports; a line now and then in a log."""

    SECONDS_BETWEEN_LINES = 30.0

    def __init__(self, runs: Sequence[Run], completed: int):
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self.total, self.finished = len(runs), completed
        keys = dict.fromkeys(key for run in runs for key in run if key != "version")
        self.varying = [key for key in keys if len({str(run.get(key)) for run in runs}) > 1]
        self.bars: dict[str, TaskID] = {}
        self.start, self.line = time.monotonic(), -math.inf
        self.rich = Progress(  # eighty columns wide at the most
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            speed_estimate_period=3600.0,  # runs of minutes, several at a time
        )
        self.task = self.rich.add_task("runs", total=self.total, state="")
        self._show()

    def take(self, reports: "SimpleQueue[Report]") -> None:
        """Show what has been reported since the last time."""
        while not reports.empty():
            self.report(*reports.get())

    def report(self, run: Run, fraction: float, state: str) -> None:
        name = name_of(run)
        if name not in self.bars:
            self.bars[name] = self.rich.add_task(self._label(run), total=1.0, state=state)
        self.rich.update(self.bars[name], completed=fraction, state=state)
        self._show()

    def finish(self, run: Run) -> None:
        name = name_of(run)
        if name in self.bars:
            self.rich.remove_task(self.bars.pop(name))
        self.finished += 1
        self._show()
        now = time.monotonic()
        if not self.rich.console.is_terminal and now - self.line >= self.SECONDS_BETWEEN_LINES:
            self.line = now
            so_far = f"{self.finished}/{self.total} runs after {now - self.start:.0f} s"
            self.rich.console.print(f"{so_far}: {self._label(run)}")

    def _label(self, run: Run) -> str:
        """In what it differs from others."""
        return " ".join(str(run[key]) for key in self.varying if key in run)

    def _show(self) -> None:
        done = self.finished + sum(task.completed for task in self.rich.tasks if task.id != self.task)
        self.rich.update(self.task, completed=done, state=f"{self.finished}/{self.total}")

    def __enter__(self) -> Self:
        self.rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rich.stop()


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


def _start(reports: "SimpleQueue[Report]") -> None:
    """In a new process: one thread, for libraries still to import and for torch, which the script may have imported."""
    global _reports  # noqa: PLW0603 the one thing that a process of the pool is told before its work
    _reports = reports
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
