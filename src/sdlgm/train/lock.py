"""A lock on a folder that ends with its process."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from sdlgm._files import TEMPORARY
from sdlgm.errors import CheckpointError

NAME = f"{TEMPORARY}lock"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Raise `CheckpointError` if another run, in this process or another one, has locked the folder.

    The operating system releases the lock of a process that ends, however it ends. The file that a killed process
    leaves does not lock the folder. Where files cannot be locked, as in some network folders, warn and go on.
    """
    handle = _lock(folder)
    try:
        yield
    finally:
        if handle is not None:
            # Removed before it is released, so that nobody removes the file of the next run. Windows refuses that.
            with contextlib.suppress(OSError):
                (folder / NAME).unlink()
            os.close(handle)


def _lock(folder: Path) -> int | None:
    """Return the open file that holds the lock, or None if there are no locks."""
    path = folder / NAME
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock_file(handle)
        except (BlockingIOError, PermissionError) as error:
            os.close(handle)
            raise CheckpointError(
                f"{folder}: another run writes its checkpoints there; give each run a checkpoint_dir of its own, and "
                "none to the runs of a parameter search"
            ) from error
        except OSError as error:
            os.close(handle)
            warnings.warn(
                f"{folder}: files cannot be locked there ({error.strerror}), so that two runs with this checkpoint_dir "
                "would not notice each other",
                stacklevel=2,
            )
            return None
        if _is_at(path, handle):
            return handle
        os.close(handle)  # the run before has just ended and removed the file


def _lock_file(handle: int) -> None:
    """Lock an open file, or raise at once."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(path: Path, handle: int) -> bool:
    """Return whether a path is that of an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
