"""Limits of the readers: a small or damaged file must not take more memory than its content needs.

There is one rule. The memory that a reader takes at its peak is computed before it is taken, and is at most
`max_memory()`, or eight times the size of the file if that is more: a byte in a file may become a double in memory.
"""

import math
import os
import re
from pathlib import Path

from sdlgm.errors import DataError, SDLGMError

VARIABLE = "SDLGM_MAX_MEMORY"
"""Environment variable with the memory that a reader may take, such as ``4G``."""
# With the imports of a whole process this stays below 2 GiB.
DEFAULT_MEMORY = 3 * 2**29
RATIO = 8
# Bytes of files with a few names or settings. Their parsers take up to a hundred times as much.
MAX_XML_BYTES = 2**24
MAX_MANIFEST_BYTES = 10**6

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:iB|B)?\s*", re.IGNORECASE)


def max_memory() -> int:
    """Return the bytes that a reader may take for a small file."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT_MEMORY
    match = _SIZE.fullmatch(text)
    n_bytes = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if n_bytes < 1:
        raise DataError(f"{VARIABLE} is {text!r}, not a size; set it to a number of bytes, or to one such as 4G")
    return n_bytes


def allowed_memory(file_bytes: int) -> int:
    """Return the bytes that a reader may take for a file of this size."""
    return max(max_memory(), RATIO * file_bytes)


def check_memory(
    where: str | Path, n_bytes: int, file_bytes: int, remedy: str = "", error: type[SDLGMError] = DataError
) -> None:
    """Raise if a reader would take more memory than it may.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    n_bytes : int
        Memory at the peak: what is decompressed, its copies in other types, and what is handed on.
    file_bytes : int
        Size of the file.
    remedy : str, default=""
        What else helps than more memory, as an imperative.
    error : type, default=DataError
        The error to raise.

    """
    most = allowed_memory(file_bytes)
    if not 0 <= n_bytes <= most:
        raise error(
            f"{where}: takes {format_bytes(n_bytes)} of memory to read, more than {format_bytes(most)}; "
            f"{remedy + ', or set' if remedy else 'set'} {VARIABLE} to a larger size, such as 8G"
        )


def format_bytes(n_bytes: int) -> str:
    """Return a number of bytes as text."""
    for unit in "TGM":
        if abs(n_bytes) >= _UNITS[unit]:
            return f"{n_bytes / _UNITS[unit]:.1f} {unit}iB"
    return f"{n_bytes} bytes"


def check_stated_size(where: str | Path, shape: tuple[int, ...], itemsize: int, offset: int, n_bytes: int) -> None:
    """Raise if the header of an array states more bytes than the file has.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    shape : tuple of int
        Shape of the array.
    itemsize : int
        Bytes of a value.
    offset : int
        Bytes before the first value.
    n_bytes : int
        Bytes of the file.

    """
    stated = offset + math.prod(shape) * itemsize
    if stated > n_bytes:
        raise DataError(f"{where}: is cut short; its header states {stated} bytes, and it has {n_bytes}; copy it again")
