"""Write files atomically: a file is complete, or it is as it was before."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

# The umask can only be read by setting it. Do so at import, before other threads create files.
_UMASK = os.umask(0)
os.umask(_UMASK)

TEMPORARY = ".sdlgm-"
"""Prefix of temporary files. A process that is killed while it writes leaves one behind."""


def write_atomic(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Write a file atomically.

    The content goes to a temporary file in the same folder, which is flushed to disk and renamed. If anything fails,
    the temporary file is removed and ``path`` is unchanged. A symbolic link is followed.

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
    OSError
        If ``path`` is not a regular file, or cannot be written.

    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: exists and is not a regular file")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY, suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_UMASK)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return path


def temporary_files(folder: Path, *endings: str) -> list[Path]:
    """Return the temporary files with these suffixes in a folder.

    If no process is writing to the folder, killed processes have left them.
    """
    return [path for path in folder.glob(f"{TEMPORARY}*") if path.suffix in endings]


def remove_temporary_files(folder: Path, *endings: str) -> None:
    """Remove the temporary files with these suffixes from a folder that no other process writes to."""
    for left in temporary_files(folder, *endings):
        left.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text file atomically, in UTF-8."""
    return write_atomic(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


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
