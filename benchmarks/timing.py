"""Fair timing on a machine that others use too: contestants take turns, and the best of several rounds counts."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]


def alternate(
    contestants: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    repeats: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of every contestant in every round: the best of ``repeats`` calls, after one that does not count.

    What others do on the machine only ever adds to a time, so the best is the nearest to the truth. Each round has an
    order of its own, so that none always follows the same neighbour. ``time.process_time`` as the clock leaves out the
    time that others had the processor.
    """
    order, shuffle = list(contestants), random.Random(0)  # noqa: S311 - not for secrets
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        shuffle.shuffle(order)
        for name in order:
            call = contestants[name]
            call()
            times[name].append(min(_seconds(call, clock) for _ in range(repeats)))
    return times


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    call()
    return clock() - start


def best(times: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: min(values) for name, values in times.items()}


@contextmanager
def threads(n: int) -> Iterator[None]:
    """Let torch use n threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def peak_memory(process: int | str = "self") -> int:
    """Bytes that a process has had in memory at its highest, or since `forget_peak` (Linux).

    Not ``getrusage``: its peak is that of the parent, if that was larger.
    """
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return 1024 * next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def forget_peak() -> int:
    """Let the peak of this process begin anew; what it has in memory now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_memory()


def run(*command: str, **environment: str) -> tuple[float, int]:
    """Run a command; its seconds and its peak of memory in bytes."""
    memory, start = 0, time.perf_counter()
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL) as process:  # noqa: S603
        while process.poll() is None:
            memory = max(memory, peak_memory(process.pid))
            time.sleep(0.005)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return time.perf_counter() - start, memory


def in_new_process(module: str, *arguments: str) -> str:
    """Run a module in a new process, which has its own peak of memory, and return its output."""
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout  # noqa: S603
