"""The IDX format of the MNIST files, plain or gzipped."""

import gzip
import math
import os
import zlib
from pathlib import Path

import numpy as np

from sdlgm.errors import DataError

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# A gzip file of a few kilobytes can unpack to gigabytes; nothing that is read here is this large.
MAX_BYTES = 2**31


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Content of a file, unpacked if it is gzipped."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: unpacks to more than {MAX_BYTES} bytes")
    return content


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """The array in the bytes of an IDX file; ``name`` is for the messages."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES:
        raise DataError(f"{name}: not an IDX file")
    dtype, n_dimensions = np.dtype(_DTYPES[content[2]]), content[3]
    start = 4 + 4 * n_dimensions
    if n_dimensions == 0 or len(content) < start:
        raise DataError(f"{name}: the IDX header is cut short")
    shape = tuple(int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(n_dimensions))
    expected = math.prod(shape) * dtype.itemsize
    if len(content) - start != expected:
        raise DataError(f"{name}: the IDX header promises {expected} bytes, the file has {len(content) - start}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    return parse_idx(read_bytes(path), str(path))
