"""The IDX format of the MNIST files, plain or gzipped."""

import io
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sdlgm._limits import check_memory
from sdlgm.data.checks import check_array, check_shape, float_dtype
from sdlgm.data.compressed import PIECE_BYTES, open_content, read_values
from sdlgm.data.source import Block, WholeSource
from sdlgm.errors import DataError

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


@dataclass(frozen=True)
class IdxHeader:
    """Header of an IDX file."""

    shape: tuple[int, ...]
    stored: np.dtype
    """Type of the values in the file."""

    @property
    def dtype(self) -> np.dtype:
        """The same type in the byte order of this machine."""
        return self.stored.newbyteorder("=")

    @property
    def row_dtype(self) -> np.dtype:
        """Type of the values as features."""
        return float_dtype(self.dtype)

    def memory(self, dtype: np.dtype) -> int:
        """Return the bytes that an array of another type takes."""
        return math.prod(self.shape) * dtype.itemsize


def parse_header(file: IO[bytes], where: str) -> IdxHeader:
    """Read the header of an IDX file.

    Parameters
    ----------
    file : binary file
        The content, at its start.
    where : str
        Name of the file in messages.

    Returns
    -------
    IdxHeader

    """
    start = file.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _DTYPES:
        raise DataError(f"{where}: not an IDX file")
    sides = file.read(4 * start[3])
    if start[3] == 0 or len(sides) < 4 * start[3]:
        raise DataError(f"{where}: the IDX header is cut short; copy the file again")
    shape = tuple(int.from_bytes(sides[i : i + 4], "big") for i in range(0, len(sides), 4))
    try:
        check_shape(shape)
    except ValueError as error:
        raise DataError(f"{where}: the IDX header is damaged ({error}); copy the file again") from error
    return IdxHeader(shape, np.dtype(_DTYPES[start[2]]))


def _read_array(file: IO[bytes], where: str, header: IdxHeader, dtype: np.dtype) -> np.ndarray:
    """Read the values that follow the header."""
    expected = header.memory(header.stored)
    try:
        values = read_values(file, math.prod(header.shape), header.stored, dtype)
    except EOFError as error:
        raise DataError(f"{where}: the IDX header states {expected} bytes, and {error}; copy it again") from error
    if file.read(1):
        raise DataError(f"{where}: the IDX header states {expected} bytes, and the file has more; copy it again")
    return values.reshape(header.shape)


def parse_idx(content: bytes, where: str) -> np.ndarray:
    """Convert the bytes of an IDX file.

    Parameters
    ----------
    content : bytes
        Content of the file.
    where : str
        Name of the file in messages.

    Returns
    -------
    ndarray

    """
    file = io.BytesIO(content)
    header = parse_header(file, where)
    expected, n_bytes = header.memory(header.stored), len(content) - file.tell()
    if n_bytes != expected:  # before memory is taken
        raise DataError(f"{where}: the IDX header states {expected} bytes, and the file has {n_bytes}; copy it again")
    return _read_array(file, where, header, header.dtype)


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an IDX file, gzipped or not.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    ndarray
        The array as it is stored: bytes stay ``uint8``.

    """
    return _read_labels(Path(path), 0, 0)


def _read_labels(path: Path, held: int, held_file_bytes: int) -> np.ndarray:
    """Read an array as it is stored, beside ``held`` bytes in memory that are from another file."""
    with open_content(path) as file:
        header = parse_header(file, str(path))
        needed = held + header.memory(header.dtype) + 3 * PIECE_BYTES
        check_memory(path, needed, held_file_bytes + path.stat().st_size, "cut it into smaller files")
        return _read_array(file, str(path), header, header.dtype)


def scale_pixels(images: np.ndarray) -> np.ndarray:
    """Return images as rows of single precision, with bytes scaled to [0, 1]."""
    rows = images.reshape(len(images), math.prod(images.shape[1:]))
    is_bytes = images.dtype == np.uint8
    rows = rows.astype(float_dtype(images.dtype), copy=is_bytes)
    return _scale_bytes(rows) if is_bytes else rows


def _scale_bytes(rows: np.ndarray) -> np.ndarray:
    rows /= 255
    return rows


class IdxFile(WholeSource):
    """Rows of an IDX file, with the labels of the file beside it.

    ``t10k-images-idx3-ubyte`` has its labels in ``t10k-labels-idx1-ubyte``. They are the target ``"label"``.

    Parameters
    ----------
    path : Path
        The file.

    """

    def __init__(self, path: Path):
        self.path = path
        self.where = str(path)
        self.name = path.name
        with open_content(path) as file:
            self._header = parse_header(file, self.where)
        check_array(self.where, self._header.shape, self._header.dtype)
        self.row_shape = self._header.shape[1:]

    def _load(self) -> Block:
        header, file_bytes = self._header, self.path.stat().st_size
        needed = header.memory(header.row_dtype) + 8 * PIECE_BYTES
        check_memory(self.where, needed, file_bytes, "cut it into smaller files")
        with open_content(self.path) as file:
            if parse_header(file, self.where) != header:
                raise DataError(f"{self.where}: was changed while it was read")
            rows = _read_array(file, self.where, header, header.row_dtype)
        rows = rows.reshape(len(rows), math.prod(self.row_shape))
        if header.stored.kind == "u":
            rows = _scale_bytes(rows)
        labels_path = self.path.with_name(self.path.name.replace("images-idx3", "labels-idx1"))
        has_labels = labels_path != self.path and labels_path.is_file()
        return Block(rows, {"label": _read_labels(labels_path, rows.nbytes, file_bytes)} if has_labels else {})
