"""Measure the memory that a reader takes: it reads one file in a process of its own.

`python -m robustness.memory READER PATH` prints what `measure` returns, as JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
READ = "read"
"""Outcome of a file that was read."""


@dataclass(frozen=True)
class Measured:
    """What became of a file, and the memory that it took."""

    outcome: str
    """``"read"``, or the name of the error."""
    error: str | None
    """Message of the error."""
    peak_bytes: int
    """Largest resident memory of the whole process, its imports included."""


def measure(reader: str, path: Path, *, timeout: float = 120, max_memory: str | None = None) -> Measured:
    """Read a file in a process of its own.

    Parameters
    ----------
    reader : str
        Name of a reader in `robustness.bombs.READERS`.
    path : Path
        The file or folder.
    timeout : float, default=120
        Seconds after which the process is ended.
    max_memory : str or None, default=None
        Value of ``SDLGM_MAX_MEMORY``; None for the default limit.

    Returns
    -------
    Measured

    """
    environment = {name: value for name, value in os.environ.items() if name != "SDLGM_MAX_MEMORY"}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    if max_memory is not None:
        environment["SDLGM_MAX_MEMORY"] = max_memory
    command = [sys.executable, "-m", "robustness.memory", reader, str(path)]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if result.returncode:
        # Such as a process that the system ended because it had no more memory.
        return Measured(f"exit status {result.returncode}", result.stderr[-500:], 0)
    return Measured(**json.loads(result.stdout.splitlines()[-1]))


def measure_here(read: Callable[[Path], object], path: Path) -> Measured:
    """Read a file in this process, and measure its peak from now on."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is resident now
    outcome, message = READ, None
    try:
        read(path)
    except Exception as error:  # the outcome may be any error; the tests say which are right
        outcome, message = type(error).__name__, str(error)
    return Measured(outcome, message, peak_memory())


def peak_memory() -> int:
    """Return the largest resident memory of this process, in bytes. Linux only."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("the kernel does not tell the peak of the memory")


def main() -> None:
    from robustness.bombs import READERS

    name, path = sys.argv[1:]
    print(json.dumps(asdict(measure_here(READERS[name], Path(path)))))


if __name__ == "__main__":
    main()
