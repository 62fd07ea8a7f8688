"""Files that are written whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

# The system tells the mask only by setting it; done once, at import, so that no other thread writes meanwhile.
_UMASK = os.umask(0)
os.umask(_UMASK)


# Of files that are not whole yet; one that is left behind was being written when its process was killed.
TEMPORARY = ".sdlgm-"


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> Path:
    """Let ``write`` fill a temporary file beside ``path``, flush it to disk and rename it into place.

    If anything fails on the way, ``path`` is as it was and the temporary file is gone. The temporary name ends like
    ``path``, for writers that go by the ending. A symbolic link is followed; a device or pipe is not replaced.
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


def left_in(folder: Path, *endings: str) -> list[Path]:
    """What killed processes have left of files with these endings, if nobody is writing to the folder."""
    return [path for path in folder.glob(f"{TEMPORARY}*") if path.suffix in endings]


def remove_left(folder: Path, *endings: str) -> None:
    """Remove what is `left_in` a folder that nobody else writes to."""
    for left in left_in(folder, *endings):
        left.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    return write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last, where the system allows a folder to be opened."""
    with _opened(folder) as handle:
        if handle is not None:
            os.fsync(handle)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        yield None
        return
    try:
        yield handle
    finally:
        os.close(handle)
