"""Arrays and sparse matrices in ``.npz`` archives."""

import math
import zipfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sdlgm.data.checks import check_array, float_dtype
from sdlgm.data.formats.npy import NpyHeader, parse_header
from sdlgm.data.limits import check_stated_size, check_unpacked_size
from sdlgm.data.source import Block, WholeSource
from sdlgm.errors import DataError

_SPARSE = {"format", "shape", "data"}


def read_headers(path: Path) -> dict[str, NpyHeader]:
    """Read the headers of the arrays of an archive, and compare them with the sizes of its members.

    Parameters
    ----------
    path : Path
        The archive.

    Returns
    -------
    dict
        Headers by the names of the arrays.

    """
    headers = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_unpacked_size(path, sum(member.file_size for member in members))
            for member in members:
                with archive.open(member) as file:
                    header = parse_header(file)
                where = f"{path}: {member.filename}"
                check_stated_size(where, header.shape, header.dtype.itemsize, header.offset, member.file_size)
                headers[member.filename.removesuffix(".npy")] = header
    except DataError:
        raise
    except Exception as error:  # damaged archives make zipfile, zlib and numpy fail in many ways
        raise _damaged(path, error) from error
    return headers


def read_sparse(path: Path) -> sp.csr_matrix | None:
    """Read a sparse matrix that `scipy.sparse.save_npz` wrote.

    Parameters
    ----------
    path : Path
        The archive.

    Returns
    -------
    CSR matrix or None
        None if the archive holds something else.

    """
    if not set(read_headers(path)) >= _SPARSE:
        return None
    return _load_sparse(path)


def _load_sparse(path: Path) -> sp.csr_matrix:
    try:
        with path.open("rb") as file:  # numpy does not close a file that it cannot read
            matrix = sp.csr_matrix(sp.load_npz(file))
        matrix.check_format(full_check=True)
    except Exception as error:  # as above
        raise _damaged(path, error) from error
    return matrix


def _damaged(path: Path, error: Exception) -> DataError:
    return DataError(f"{path}: not a .npz archive of plain arrays, or damaged ({error}); save it with numpy.savez")


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
        headers = read_headers(path)
        names = list(headers)
        self._target = target if target in headers else None
        self._key = "X" if "X" in headers else names[0] if len(names) == 1 and not only_x else None
        self._is_sparse = set(headers) >= _SPARSE and not only_x
        if self._is_sparse:
            self._target = None
            self.row_shape = (self._sparse_width(headers["shape"]),)
            return
        if self._key is None:
            found = ", ".join(name[:40] for name in names[:10])
            raise DataError(f"{path}: has the arrays {found}; name the observations X")
        header = headers[self._key]
        check_array(f"{path}: {self._key}", header.shape, header.dtype, channels=channels)
        self.row_shape = header.shape[1:]

    def _sparse_width(self, header: NpyHeader) -> int:
        if header.shape != (2,):
            raise DataError(f"{self.path}: its shape is an array of shape {header.shape}, not of two numbers")
        return int(self._arrays("shape")["shape"][1])

    def _arrays(self, *names: str) -> dict[str, np.ndarray]:
        try:
            with self.path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in names}
        except Exception as error:  # as above
            raise _damaged(self.path, error) from error

    def _load(self) -> Block:
        if self._is_sparse or self._key is None:
            return Block(_load_sparse(self.path))
        targets = () if self._target is None else (self._target,)
        arrays = self._arrays(self._key, *targets)
        array = arrays[self._key]
        rows = array.reshape(len(array), math.prod(self.row_shape)).astype(float_dtype(array.dtype), copy=False)
        return Block(rows, {name: arrays[name] for name in targets})
