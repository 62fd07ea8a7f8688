"""Codes in one file: scipy's ``.npz`` format of sparse matrices."""

import contextlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
import scipy.sparse as sp

from sdlgm._files import naming_errors, remove_abandoned_files, write_atomic
from sdlgm.data.code_folder import read_code_folder
from sdlgm.data.formats import existing_file
from sdlgm.data.formats.npz import Archive
from sdlgm.data.tables import CODES, check_writable
from sdlgm.errors import DataError


def read_codes(path: str | os.PathLike[str]) -> sp.csr_matrix:
    """Read codes.

    Parameters
    ----------
    path : str or path-like
        A ``.npz`` file that `write_codes` or `CodesWriter` wrote, or a folder that `CodedParts` wrote.

    Returns
    -------
    CSR matrix of shape (n, n_components)

    """
    path = Path(path)
    if path.is_dir():
        return read_code_folder(path)
    archive = Archive(existing_file(path))
    if not archive.is_sparse:
        raise DataError(f"{path}: holds no sparse matrix; write codes with 'sdlgm encode'")
    return archive.read_sparse(("csr",))


class CodesWriter:
    """Write batches of codes to one ``.npz`` file, in scipy's format of sparse matrices.

    Use it in a ``with`` statement. The file is written, whole, when the statement ends without an error. Until then the
    codes are in temporary files beside it.

    Parameters
    ----------
    path : str or path-like
        The file.
    beside : dict of str to ndarray or None, default=None
        Further arrays for the file, such as those of `origin_arrays`.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    n_active_total, n_active_max : int
        Sum and maximum of the active slots of a row, so far.

    """

    def __init__(self, path: str | os.PathLike[str], beside: Mapping[str, np.ndarray] | None = None):
        self.path = Path(path)
        self.beside = dict(beside or {})
        check_writable(self.path, CODES)
        self.n_rows = 0
        self.n_active_total = 0
        self.n_active_max = 0
        self._n_columns: int | None = None
        self._n_nonzero = 0

    def __enter__(self) -> Self:
        folder = self.path.resolve().parent
        with naming_errors(self.path):
            files = (tempfile.TemporaryFile(dir=folder) for _ in range(3))  # noqa: SIM115 - closed in __exit__
            self._values, self._indices, self._row_ends = files
            self._row_ends.write(np.zeros(1, np.int64).tobytes())
        return self

    def append(self, codes: sp.csr_matrix) -> None:
        """Add the codes of a batch of rows.

        Parameters
        ----------
        codes : CSR matrix of shape (n, n_components)
            Codes with as many columns as those before.

        """
        if self._n_columns not in (None, codes.shape[1]):
            raise ValueError(f"codes with {codes.shape[1]} columns after codes with {self._n_columns}")
        self._n_columns = int(codes.shape[1])
        with naming_errors(self.path):
            self._values.write(codes.data.astype(np.int32).tobytes())
            self._indices.write(codes.indices.astype(np.int32).tobytes())
            self._row_ends.write((codes.indptr[1:].astype(np.int64) + self._n_nonzero).tobytes())
        self._n_nonzero += int(codes.indptr[-1])
        self.n_rows += int(codes.shape[0])
        if codes.shape[0]:
            n_active = np.asarray(codes.sum(axis=1)).ravel()
            self.n_active_total += int(n_active.sum())
            self.n_active_max = max(self.n_active_max, int(n_active.max()))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                if self._n_columns is None:
                    raise DataError(f"{self.path}: there are no rows to write")
                remove_abandoned_files(write_atomic(self.path, self._assemble))
        finally:
            for file in (self._values, self._indices, self._row_ends):
                with contextlib.suppress(OSError):  # what a full disk could not take; an error is raised already
                    file.close()

    def _assemble(self, temporary: Path) -> None:
        layout = {"format": np.array(b"csr"), "shape": np.array([self.n_rows, self._n_columns])}
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, array in (layout | self.beside).items():
                with archive.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            self._copy(archive, "data", self._values, np.dtype(np.int32), self._n_nonzero)
            self._copy(archive, "indices", self._indices, np.dtype(np.int32), self._n_nonzero)
            self._copy(archive, "indptr", self._row_ends, np.dtype(np.int64), self.n_rows + 1)

    @staticmethod
    def _copy(archive: zipfile.ZipFile, name: str, values: IO[bytes], dtype: np.dtype, size: int) -> None:
        values.seek(0)
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            shutil.copyfileobj(values, member, 1 << 20)


def write_codes(path: str | os.PathLike[str], codes: sp.csr_matrix) -> Path:
    """Write codes to one file.

    Parameters
    ----------
    path : str or path-like
        The ``.npz`` file.
    codes : CSR matrix of shape (n, n_components)
        The codes.

    Returns
    -------
    Path
        The file.

    """
    with CodesWriter(path) as writer:
        writer.append(codes)
    return Path(path)
