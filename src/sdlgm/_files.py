"""Write files atomically: a file is complete, or it is as it was before."""

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from sdlgm.errors import WriteError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# The umask can only be read by setting it. Do so at import, before other threads create files.
_UMASK = os.umask(0)
os.umask(_UMASK)

TEMPORARY = ".sdlgm-"
"""Prefix of temporary files. A process that is killed while it writes leaves one behind."""
_TEMPORARY_NAME = re.compile(re.escape(TEMPORARY) + r"[a-z0-9_]{8}(\.[^.]+)?")

ABANDONED_AFTER = 3600.0
"""Seconds without a change after which a temporary file counts as left behind; see `remove_abandoned_files`."""


def write_atomic(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Write a file atomically.

    The content goes to a temporary file in the same folder, which is flushed to disk and renamed. If anything fails,
    the temporary file is removed and ``path`` is unchanged. A symbolic link is followed: what it names is written, and
    made if it does not exist.

    Parameters
    ----------
    path : path
        File to write.
    write : callable
        Function that writes the content to the path it is given, which has the suffix of ``path``.

    Returns
    -------
    Path
        The file written, with symbolic links resolved.

    Raises
    ------
    WriteError
        If ``path`` is not a regular file, or cannot be written.

    """
    target = Path(os.path.realpath(path))
    with naming_errors(path):
        if target.exists() and not target.is_file():
            raise OSError("it exists and is not a regular file")
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=TEMPORARY, suffix=target.suffix)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "rb+") as file:
                _lock(file)  # until it is renamed
                write(temporary)
                os.fsync(file.fileno())
                temporary.chmod(0o666 & ~_UMASK)
                temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    return target


@contextlib.contextmanager
def naming_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of the system as `WriteError` of a file that is being written."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        place = Path(path)
        if place.is_symlink() and not place.exists():
            reason = f"{reason}; it is a link to {place.readlink()}"
        raise WriteError(f"{path}: cannot be written ({reason}); make room there, or choose another place") from error


def why_missing(path: Path) -> str:
    """Return why a path names no file, for messages."""
    if path.is_symlink():
        return f"is a link to {path.readlink()}, which does not exist"
    return "there is no such file"


# Temporary files


def check_folder(folder: Path) -> None:
    """Raise `OSError` if no file can be made in a folder."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=TEMPORARY)
    os.close(handle)
    Path(name).unlink()


def temporary_files(folder: Path, *endings: str) -> list[Path]:
    """Return the temporary files with these suffixes, or with any if none are given, in a folder.

    If no process is writing to the folder, killed processes have left them.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _TEMPORARY_NAME.fullmatch(entry.name)]
    return [folder / name for name in sorted(names) if not endings or Path(name).suffix in endings]


def remove_temporary_files(folder: Path, *endings: str) -> None:
    """Remove the temporary files with these suffixes from a folder that no other process writes to."""
    for left in temporary_files(folder, *endings, ""):
        left.unlink(missing_ok=True)


def remove_abandoned_files(written: Path) -> None:
    """Remove temporary files beside a file that was written just now, if killed processes have left them.

    The folder may be shared by processes of several machines, so a number of a process says nothing about whether it is
    alive. A temporary file is removed if it has not changed for an hour and if nobody on this machine holds its lock.
    Its age is taken from the times of the two files, which are of the same clock even if the folder is on a server. A
    process of another machine that was stopped for an hour in the middle of a write loses its file, and raises
    `WriteError`; what was there before stays.
    """
    with contextlib.suppress(OSError):
        oldest = written.stat().st_mtime - ABANDONED_AFTER
        for path in temporary_files(written.parent):
            with contextlib.suppress(OSError):  # of another user, or already removed
                if path.is_file() and not path.is_symlink() and path.stat().st_mtime < oldest and not _is_locked(path):
                    path.unlink()


def _lock(file: IO[bytes]) -> None:
    """Lock a file while it is open, on systems that can."""
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_locked(path: Path) -> bool:
    if fcntl is None:
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a file system without locks
            return False
    return False


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically, in UTF-8; see `printable` for file names that are not."""
    return write_atomic(path, lambda temporary: temporary.write_bytes(printable(text).encode()))


def printable(text: str) -> str:
    r"""Return a text with ``\xff`` for a byte that is not UTF-8, which a file name can have."""
    try:
        return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
    except UnicodeEncodeError:  # half of a pair of code units
        return text.encode(errors="backslashreplace").decode()


def _sync_folder(folder: Path) -> None:
    """Flush a rename to disk, on systems that can open a folder."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
