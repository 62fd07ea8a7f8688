"""Arrays and sparse matrices in ``.npz`` archives."""

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sdlgm._limits import check_memory, check_stated_size
from sdlgm.data.checks import check_array, float_dtype
from sdlgm.data.compressed import PIECE_BYTES, read_values
from sdlgm.data.formats.npy import NpyHeader, parse_header
from sdlgm.data.source import Block, WholeSource
from sdlgm.errors import DataError

_SPARSE = {"format", "shape", "data"}
# Bytes of the name of a sparse format, as scipy stores it, or of a shape.
_SMALL_BYTES = 64
_REMEDY = "save the array as .npy"


@dataclass(frozen=True)
class Member:
    """An array of an archive."""

    entry: zipfile.ZipInfo
    header: NpyHeader

    @property
    def size(self) -> int:
        """Number of values."""
        return math.prod(self.header.shape)

    @property
    def n_bytes(self) -> int:
        """Bytes of the values as they are stored."""
        return self.size * self.header.dtype.itemsize


class Archive:
    """The arrays of an archive by their names.

    Only the headers of arrays that are used are read: an archive may have many.

    Parameters
    ----------
    path : Path
        The archive.

    """

    def __init__(self, path: Path):
        self.path = path
        self._entries: dict[str, zipfile.ZipInfo] = {}
        self._members: dict[str, Member] = {}
        try:
            with zipfile.ZipFile(path) as archive:
                for entry in archive.infolist():
                    name = entry.filename.removesuffix(".npy")
                    if name in self._entries:
                        raise ValueError(f"two arrays are called {name[:40]!r}")
                    self._entries[name] = entry
        except Exception as error:  # damaged archives make zipfile, zlib and numpy fail in many ways
            raise self.damaged(error) from error

    @property
    def names(self) -> list[str]:
        """Names of the arrays."""
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __getitem__(self, name: str) -> Member:
        """Return an array's header, compared with the size of the member."""
        if name not in self._members:
            entry = self._entries[name]
            try:
                with zipfile.ZipFile(self.path) as archive, archive.open(entry) as file:
                    header = parse_header(file)
            except Exception as error:  # as above
                raise self.damaged(error) from error
            where = f"{self.path}: {entry.filename}"
            check_stated_size(where, header.shape, header.dtype.itemsize, header.offset, entry.file_size)
            self._members[name] = Member(entry, header)
        return self._members[name]

    @property
    def is_sparse(self) -> bool:
        """Whether the archive has a matrix that `scipy.sparse.save_npz` wrote."""
        return set(self._entries) >= _SPARSE

    def damaged(self, error: object) -> DataError:
        """Return the error for an archive that cannot be read."""
        return DataError(
            f"{self.path}: not a .npz archive of plain arrays, or damaged ({error}); save it with numpy.savez"
        )

    def check_memory(self, n_bytes: int, remedy: str = _REMEDY) -> None:
        """Raise if reading takes too much memory."""
        check_memory(self.path, n_bytes + 8 * PIECE_BYTES, self.path.stat().st_size, remedy)

    def read(self, name: str, dtype: np.dtype | None = None) -> np.ndarray:
        """Read an array.

        Parameters
        ----------
        name : str
            Name of the array.
        dtype : dtype or None, default=None
            Type to convert it to; None for the type in the file.

        Returns
        -------
        ndarray

        """
        member = self[name]
        header = member.header
        try:
            with zipfile.ZipFile(self.path) as archive, archive.open(member.entry) as file:
                file.read(header.offset)
                values = read_values(file, member.size, header.dtype, dtype or header.dtype.newbyteorder("="))
                file.read(PIECE_BYTES)  # at the end of a member its checksum is compared
        except Exception as error:  # as above
            raise self.damaged(error) from error
        return values.reshape(header.shape[::-1]).T if header.fortran_order else values.reshape(header.shape)

    def read_small(self, name: str) -> np.ndarray:
        """Read an array that describes the others."""
        if self[name].n_bytes > _SMALL_BYTES:
            raise self.damaged(f"its {name} has {self[name].n_bytes} bytes")
        return self.read(name)

    def read_shape(self) -> tuple[int, int]:
        """Read the shape of a sparse matrix."""
        shape = self.read_small("shape")
        if shape.shape != (2,) or shape.dtype.kind not in "iu":
            raise DataError(f"{self.path}: its shape is {shape.dtype} of shape {shape.shape}, not two whole numbers")
        return int(shape[0]), int(shape[1])

    def read_sparse(self, formats: Sequence[str]) -> sp.csr_matrix:
        """Read a sparse matrix.

        Parameters
        ----------
        formats : sequence of str
            Formats that are accepted: ``"csr"``, ``"csc"``. The conversion of others takes as much memory as their
            shape states.

        Returns
        -------
        CSR matrix

        """
        kind = str(self.read_small("format").astype("U").item())
        if kind not in formats:
            raise DataError(
                f"{self.path}: holds a sparse matrix in the format {kind}; convert it with .tocsr() and save it again"
            )
        shape = self.read_shape()
        if not {"indices", "indptr"} <= set(self._entries):
            raise self.damaged("it has no indices or no indptr")
        if self["data"].header.dtype.kind not in "biuf":
            raise DataError(f"{self.path}: holds {self['data'].header.dtype}, not real numbers")
        self._check_sparse_memory(kind, shape)
        try:
            parts = tuple(self.read(name) for name in ("data", "indices", "indptr"))
            matrix = {"csr": sp.csr_matrix, "csc": sp.csc_matrix}[kind](parts, shape=shape)
            matrix.check_format(full_check=True)
            return sp.csr_matrix(matrix)
        except DataError:
            raise
        except Exception as error:  # scipy fails in many ways
            raise self.damaged(error) from error

    def _check_sparse_memory(self, kind: str, shape: tuple[int, int]) -> None:
        data, indices, ends = (self[name] for name in ("data", "indices", "indptr"))
        n_values = max(data.size, indices.size)
        stored = data.n_bytes + indices.n_bytes + ends.n_bytes
        # Copies of the indices as another type, and of the values and row ends while they are checked.
        needed = stored + 9 * n_values + 16 * ends.size
        if kind == "csc":
            needed += data.n_bytes + 8 * n_values + 16 * (shape[0] + 1)
        self.check_memory(needed, "save fewer rows in a file")


class NpzFile(WholeSource):
    """Rows of a ``.npz`` archive: its array ``X``, its only array, or its sparse matrix.

    Parameters
    ----------
    path : Path
        The archive.
    target : str or None, default=None
        Array to read beside ``X``, if the archive has it.
    channels : bool, default=False
        Whether images may have channels.
    only_x : bool, default=False
        Accept rows in the array ``X`` only.

    """

    def __init__(self, path: Path, *, target: str | None = None, channels: bool = False, only_x: bool = False):
        self.path = path
        self.where = str(path)
        self.name = path.name
        self._archive = archive = Archive(path)
        names = archive.names
        self._target = target if target in archive else None
        self._key = "X" if "X" in archive else names[0] if len(names) == 1 and not only_x else None
        self._is_sparse = archive.is_sparse and not only_x
        if self._is_sparse:
            self._target = None
            self.row_shape = (archive.read_shape()[1],)
            return
        if self._key is None:
            found = ", ".join(name[:40] for name in names[:10])
            raise DataError(f"{path}: has the arrays {found}; name the observations X")
        header = archive[self._key].header
        check_array(f"{path}: {self._key}", header.shape, header.dtype, channels=channels)
        self.row_shape = header.shape[1:]

    def _load(self) -> Block:
        archive = self._archive
        if self._is_sparse or self._key is None:
            return Block(archive.read_sparse(("csr", "csc")))
        member = archive[self._key]
        header, dtype = member.header, float_dtype(member.header.dtype)
        # A matrix that is stored by columns is copied into rows.
        needed = member.size * dtype.itemsize * (2 if header.fortran_order else 1)
        if self._target is not None:
            target = archive[self._target]
            needed += target.n_bytes + 16 * target.size
        archive.check_memory(needed)
        rows = archive.read(self._key, dtype).reshape(header.shape[0], math.prod(self.row_shape))
        return Block(rows, {} if self._target is None else {self._target: archive.read(self._target)})
