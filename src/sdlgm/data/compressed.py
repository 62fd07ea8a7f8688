"""Content of files that may be gzipped, read a piece at a time."""

import contextlib
import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import numpy as np

from sdlgm._limits import check_memory
from sdlgm.errors import DataError

PIECE_BYTES = 1 << 20


@contextlib.contextmanager
def open_content(path: Path) -> Iterator[IO[bytes]]:
    """Open the content of a file, decompressed if it is gzipped.

    Parameters
    ----------
    path : Path
        The file.

    Yields
    ------
    binary file

    """
    try:
        with path.open("rb") as file:
            is_gzipped = file.read(2) == b"\x1f\x8b"
        with cast(IO[bytes], gzip.open(path) if is_gzipped else path.open("rb")) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Read the content of a file, decompressed if it is gzipped.

    Parameters
    ----------
    path : Path
        The file.
    most : int or None, default=None
        Largest number of bytes to read; None for all.

    Returns
    -------
    bytes

    """
    content = io.BytesIO()
    with open_content(path) as file:
        file_bytes = path.stat().st_size
        while piece := file.read(PIECE_BYTES if most is None else min(PIECE_BYTES, most - content.tell())):
            # A buffer that grows may be in memory twice.
            check_memory(path, 2 * (content.tell() + len(piece)), file_bytes, "cut it into smaller files")
            content.write(piece)
    return content.getvalue()


def read_values(file: IO[bytes], size: int, stored: np.dtype, dtype: np.dtype) -> np.ndarray:
    """Read values into an array of another type. Beside the array, only a piece of the content is in memory.

    Parameters
    ----------
    file : binary file
        The content, at the first value.
    size : int
        Number of values.
    stored : dtype
        Type of the values in the file.
    dtype : dtype
        Type of the array.

    Returns
    -------
    ndarray of shape (size,)

    Raises
    ------
    EOFError
        If there are fewer values.

    """
    values = np.empty(size, dtype)
    step = max(1, PIECE_BYTES // stored.itemsize)
    for start in range(0, size, step):
        n_values = min(step, size - start)
        content = file.read(n_values * stored.itemsize)
        if len(content) < n_values * stored.itemsize:
            raise EOFError(f"it ends after {start + len(content) // stored.itemsize} of {size} values")
        values[start : start + n_values] = np.frombuffer(content, stored)
    return values
