"""Measure the memory that readers take, in a process of their own. Linux only."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sdlgm._limits import VARIABLE

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
    start_bytes: int
    """Resident memory before the file was read."""
    is_named: bool
    """Whether the error is one of sdlgm."""


def measure_readers(
    files: Sequence[tuple[str, Path]], *, max_memory: str | None = None, timeout: float = 300
) -> list[Measured]:
    """Read files, one after the other, in a process of their own.

    Parameters
    ----------
    files : sequence of (str, Path)
        The name of a reader in `robustness.bombs.READERS`, and what it reads.
    max_memory : str or None, default=None
        Value of ``SDLGM_MAX_MEMORY``; None for the default limit.
    timeout : float, default=300
        Seconds after which the process is ended.

    Returns
    -------
    list of Measured

    """
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    if max_memory is not None:
        environment[VARIABLE] = max_memory
    given = json.dumps([(reader, str(path)) for reader, path in files])
    command = [sys.executable, "-m", "robustness.memory", given]
    result = subprocess.run(  # noqa: S603 - our own command
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )
    if result.returncode:
        raise RuntimeError(f"the process ended with {result.returncode}: {result.stderr[-2000:]}")
    return [Measured(**measured) for measured in json.loads(result.stdout.splitlines()[-1])]


def measure_here(read: Callable[[Path], object], path: Path) -> Measured:
    """Read a file in this process, and measure its peak from now on."""
    from sdlgm.errors import SDLGMError

    Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is resident now
    start = peak_memory()
    outcome, message, is_named = READ, None, False
    try:
        read(path)
    except Exception as error:
        outcome, message, is_named = type(error).__name__, str(error), isinstance(error, SDLGMError)
    return Measured(outcome, message, peak_memory(), start, is_named)


def peak_memory() -> int:
    """Return the largest resident memory of this process, in bytes.

    ``ru_maxrss`` is no such measure: a process has that of the one that started it.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise OSError("the kernel does not tell the peak of the memory")


def main() -> None:
    from robustness.bombs import READERS

    files = json.loads(sys.argv[1])
    sys.stdout.write(json.dumps([asdict(measure_here(READERS[name], Path(path))) for name, path in files]) + "\n")


if __name__ == "__main__":
    main()
