"""Arrays in ``.npy`` files."""

import io
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from sdlgm._limits import check_stated_size
from sdlgm.data.checks import check_array, check_has_rows, check_shape, float_dtype
from sdlgm.data.source import Block, Part, PartedSource
from sdlgm.errors import DataError

# Bytes of a part.
PART_BYTES = 1 << 23
# More bytes than numpy accepts as a header.
_HEADER_BYTES = 1 << 16


@dataclass(frozen=True)
class NpyHeader:
    """Header of a ``.npy`` file."""

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran_order: bool
    offset: int
    """Bytes before the first value."""


def parse_header(file: IO[bytes]) -> NpyHeader:
    """Read the header of a ``.npy`` file.

    Parameters
    ----------
    file : binary file
        The file, at its start.

    Returns
    -------
    NpyHeader

    Raises
    ------
    ValueError
        If the array has Python objects or an impossible shape. Damaged headers raise other errors as well.

    """
    # The header states its own length, and a member of an archive can unpack to any length.
    file = io.BytesIO(file.read(_HEADER_BYTES))
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, fortran_order, dtype = readers[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or dtype.subdtype is not None or dtype.names is not None:
        raise ValueError(f"it holds {str(dtype)[:80]}")
    check_shape(shape)
    return NpyHeader(shape, dtype, fortran_order, file.tell())


def read_header(path: Path) -> NpyHeader:
    """Read the header of a ``.npy`` file and compare it with the size of the file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    NpyHeader

    """
    try:
        with path.open("rb") as file:
            header = parse_header(file)
            n_bytes = os.fstat(file.fileno()).st_size
    except Exception as error:  # a damaged header makes numpy fail in many ways
        raise DataError(f"{path}: not a plain .npy array ({error}); save it with numpy.save") from error
    check_stated_size(path, header.shape, header.dtype.itemsize, header.offset, n_bytes)
    return header


class NpyFile(PartedSource):
    """Rows of a ``.npy`` file.

    Parameters
    ----------
    path : Path
        The file.
    where : str or None, default=None
        Name in messages; the path if None.
    channels : bool, default=False
        Whether images may have channels.
    missing : bool, default=False
        Whether NaN stands for a missing value. Otherwise it is an error.

    """

    def __init__(self, path: Path, *, where: str | None = None, channels: bool = False, missing: bool = False):
        self.path = path
        self.has_missing_values = missing
        self.where = str(path) if where is None else where
        self.name = path.name
        self._header = header = read_header(path)
        check_array(self.where, header.shape, header.dtype, channels=channels)
        self.row_shape = header.shape[1:]
        self.dtype = float_dtype(header.dtype)
        size = max(1, PART_BYTES // (self._n_columns * header.dtype.itemsize))
        n_rows = header.shape[0]
        self.parts = [Part(path, first, min(size, n_rows - first), first) for first in range(0, n_rows, size)]

    @property
    def fortran_order(self) -> bool:
        """Whether the array is stored by columns."""
        return self._header.fortran_order

    @property
    def _n_columns(self) -> int:
        return math.prod(self.row_shape)

    def describe(self, part: Part, row: int) -> str:
        return f"row {part.place + row}"

    def _read_part(self, part: Part, dtype: np.dtype | None) -> Block:
        return Block(self._read_rows(part.place, part.n_rows).astype(dtype or self.dtype, copy=False))

    def _read_batches(self, size: int) -> Iterator[Block]:
        n_rows = self._header.shape[0]
        for first in range(0, n_rows, size):
            yield self._read_part(Part(self.path, first, min(size, n_rows - first), first), None)

    def read(self) -> Block:
        n_rows = self._header.shape[0]
        check_has_rows(self.where, n_rows)
        return self.read_part(Part(self.path, 0, n_rows, 0))  # one read; parts would take the memory twice

    def _read_rows(self, first: int, n_rows: int) -> np.ndarray:
        header = self._header
        try:
            if header.fortran_order:  # a row is all over the file
                mapped = np.load(self.path, mmap_mode="r", allow_pickle=False)
                return np.array(mapped[first : first + n_rows]).reshape(n_rows, self._n_columns)
            # A plain read, since the pages of a memory map count as memory of the process.
            offset = header.offset + first * self._n_columns * header.dtype.itemsize
            values = np.fromfile(self.path, header.dtype, n_rows * self._n_columns, offset=offset)
        except (OSError, ValueError) as error:
            raise DataError(f"{self.where}: cannot be read as npy ({error})") from error
        if values.size < n_rows * self._n_columns:
            raise DataError(f"{self.where}: ends before row {first + n_rows}; it was changed while it was read")
        return values.reshape(n_rows, self._n_columns)


def write_npy(path: Path, X: np.ndarray) -> None:
    """Write an array as ``.npy``."""
    np.save(path, X)
