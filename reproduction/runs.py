"""Do many independent runs in parallel processes. Every run can be resumed."""

import json
import math
import multiprocessing
import os
import time
import warnings
import zlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

from sdlgm import __version__
from sdlgm._files import write_text
from sdlgm.errors import FitInterruptedWarning

if TYPE_CHECKING:
    from rich.progress import TaskID

Run = dict[str, Any]
"""The values that identify a run. They also name its folder, so only plain values are allowed."""
Report = tuple[Run, float, str]
"""A run, the fraction of it that is done, and a text for its progress bar."""


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
    """Call ``work`` for each run, in parallel processes of one thread each.

    The result of a run is kept in its folder, so that a second call does only the missing runs. An interrupted run
    resumes from what ``work`` has left in the folder. If a run fails, the running ones end and no other is started.

    Parameters
    ----------
    work : callable
        Takes a run and its folder, and returns the result. It must be importable by another process.
    runs : sequence of dict
        The runs.
    folder : Path
        The folder that has a folder for each run.
    n_jobs : int
        Number of processes.
    fresh : bool, default=True
        Start a new process for each run. The start can take longer than a short run.
    known : mapping, default={}
        Results by the name of their run (`name_of`). These runs are not repeated.
    after_each : callable, default=None
        Called with all results so far whenever a run is done.

    Returns
    -------
    list of dict
        The runs with their results, in the order of ``runs``.

    """
    missing = [run for run in runs if name_of(run) not in known and not _result_path(folder, run).exists()]
    # One thread for each process, so that the time of a run does not depend on its neighbours.
    context = multiprocessing.get_context("spawn")
    reports = context.SimpleQueue()
    limit = 1 if fresh else None  # with other limits the pool of Python 3.11 can deadlock
    with (
        RunsProgress(runs, completed=len(runs) - len(missing)) as progress,
        ProcessPoolExecutor(
            n_jobs, mp_context=context, initializer=_start, initargs=(reports,), max_tasks_per_child=limit
        ) as pool,
    ):
        waiting, running = deque(missing), {}
        try:
            while waiting or running:
                while waiting and len(running) < n_jobs:  # the pool would also start queued runs after a failure
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
        except KeyboardInterrupt:
            for process in multiprocessing.active_children():  # SIGTERM reaches this process only
                process.terminate()
            raise
        finally:  # a full queue of reports would block the processes that are still running after a failure
            while wait(running, timeout=0.2).not_done:
                progress.take(reports)
    return _results(runs, folder, known)


def report(run: Run, fraction: float, state: str) -> None:
    """Report the progress of a run to the process that shows it. Outside `run_all`, do nothing."""
    if _reports is not None:
        _reports.put((run, fraction, state))


_reports: "SimpleQueue[Report] | None" = None
"""The queue to the process that shows the progress, in a process of `run_all`."""


class RunsProgress:
    """Show on stderr a progress bar for all runs and one for each that reports; without a terminal, lines of text."""

    SECONDS_BETWEEN_LINES = 30.0

    def __init__(self, runs: Sequence[Run], completed: int):
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        self.total, self.finished = len(runs), completed
        keys = dict.fromkeys(key for run in runs for key in run if key != "version")
        self.varying = [key for key in keys if len({str(run.get(key)) for run in runs}) > 1]
        self.bars: dict[str, TaskID] = {}
        self.start, self.line = time.monotonic(), -math.inf
        self.rich = Progress(  # at most 80 columns wide
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TaskProgressColumn(),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=Console(stderr=True),
            speed_estimate_period=3600.0,  # runs take minutes
        )
        self.task = self.rich.add_task("runs", total=self.total, state="")
        self._show()

    def take(self, reports: "SimpleQueue[Report]") -> None:
        """Show all reports that are in the queue."""
        while not reports.empty():
            self.report(*reports.get())

    def report(self, run: Run, fraction: float, state: str) -> None:
        """Update the bar of a run."""
        name = name_of(run)
        if name not in self.bars:
            self.bars[name] = self.rich.add_task(self._label(run), total=1.0, state=state)
        self.rich.update(self.bars[name], completed=fraction, state=state)
        self._show()

    def finish(self, run: Run) -> None:
        """Count a run as done and remove its bar."""
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
        """Return the values in which a run differs from others."""
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
    """Return the results so far. A file in the folder has more fields than a known result, so it comes first."""
    found = []
    for run in runs:
        path = _result_path(folder, run)
        if path.exists():
            found.append(json.loads(path.read_text(encoding="utf-8")))
        elif name_of(run) in known:
            found.append(known[name_of(run)])
    return found


def _start(reports: "SimpleQueue[Report]") -> None:
    """Initialise a process: one thread for torch and for libraries that are imported later."""
    global _reports  # noqa: PLW0603 the only way to pass a queue to the tasks of a pool
    _reports = reports
    warnings.simplefilter("error", FitInterruptedWarning)  # a run that Ctrl-C has stopped is not a result
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    torch.set_num_threads(1)


def _work_and_keep(work: Callable[[Run, Path], dict[str, Any]], run: Run, folder: Path) -> None:
    path = _result_path(folder, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(run | work(run, path.parent), allow_nan=False))


def versioned(settings: Any, version: str = __version__) -> str:
    """Return a version of `sdlgm` with a checksum of the settings, to tell runs with other settings apart."""
    return f"{version}-{zlib.crc32(json.dumps(settings, sort_keys=True).encode()):08x}"


def name_of(run: Run) -> str:
    """Return the name of a run, which is also the name of its folder."""
    return "-".join(str(value).replace(":", "_") for value in run.values())


def run_folder(folder: Path, run: Run) -> Path:
    """Return the folder of a run, with its checkpoint, model and result."""
    return folder / name_of(run)


def _result_path(folder: Path, run: Run) -> Path:
    return run_folder(folder, run) / "result.json"
