"""Codes in a folder, one parquet file for each part of the data, so that an interrupted run can be continued."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdlgm._files import write_atomic
from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA, arrow_file
from sdlgm.data.parquet_memory import list_memory, open_parquet
from sdlgm.data.part_folder import FolderKind, Manifest, PartFolder, part_paths
from sdlgm.data.rows import RowFiles
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from pyarrow import parquet

CODES = FolderKind("sdlgm-codes", "_codes.json", ".parquet", "codes", "sdlgm encode")
# Bytes of a code in memory, and of each of its features.
_ROW_BYTES, _VALUE_BYTES = 8, 8


class CodedParts(PartFolder):
    """Codes of the parts of some rows, in a folder. See `PartFolder`."""

    kind = CODES

    def write(self, number: int, codes: sp.csr_matrix) -> None:
        """Write the codes of a part.

        Parameters
        ----------
        number : int
            Index of the part.
        codes : CSR matrix of shape (rows of the part, n_components)
            The codes.

        """
        pa, parquet = optional_import("pyarrow", EXTRA), optional_import("pyarrow.parquet", EXTRA)
        expected = (self.rows.parts[number].n_rows, self.manifest.n_components)
        if codes.shape != expected:
            raise ValueError(f"codes of shape {codes.shape} for part {number}, which has {expected}")
        ends = pa.array(codes.indptr, pa.int32())
        columns = {
            name: pa.ListArray.from_arrays(ends, pa.array(values.astype(np.int32)))
            for name, values in (("features", codes.indices), ("counts", codes.data))
        }

        def write(temporary: Path) -> None:
            with arrow_file(temporary, "wb") as file:
                parquet.write_table(pa.table(columns), file)

        write_atomic(self.path(number), write)

    def encode_part(self, number: int, work: Callable[[RowFiles], sp.csr_matrix]) -> None:
        """Encode a part.

        Parameters
        ----------
        number : int
            Index of the part.
        work : callable
            Return the codes of some rows.

        """
        self.write(number, work(self.part_rows(number)))


def read_code_folder(folder: Path) -> sp.csr_matrix:
    """Read all codes of a folder, in the order of the data.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    CSR matrix of shape (n_rows, n_components)

    """
    manifest, paths = part_paths(folder, CODES)
    _check_folder_memory(folder, paths, manifest)
    parts = [_read_part(path, manifest.n_components) for path in paths]
    codes = parts[0] if len(parts) == 1 else sp.csr_matrix(sp.vstack(parts, format="csr"))
    if codes.shape[0] != manifest.n_rows:
        raise DataError(
            f"{folder}: has {codes.shape[0]} rows, and should have {manifest.n_rows}; encode the data again"
        )
    return codes


def _check_folder_memory(folder: Path, paths: Sequence[Path], manifest: Manifest) -> None:
    """Raise if the codes take too much memory."""
    matrices = largest = file_bytes = 0
    for path in paths:
        with open_parquet(path) as file:
            _check_columns(path, file)
            memory = list_memory(path, file.metadata)
        # A code has each feature at most once.
        if memory.n_values > max(1, manifest.n_components) * memory.n_rows:
            raise DataError(f"{path}: holds more features than its codes can have; encode the data again")
        matrices += _ROW_BYTES * memory.n_rows + _VALUE_BYTES * memory.n_values
        largest = max(largest, memory.whole)
        file_bytes += path.stat().st_size
    # The parts are joined, so that the codes are in memory twice.
    check_memory(folder, (1 if len(paths) == 1 else 2) * matrices + largest, file_bytes, "read its parts on their own")


def _check_columns(path: Path, file: "parquet.ParquetFile") -> None:
    pa = optional_import("pyarrow", EXTRA)
    types = {field.name: field.type for field in file.schema_arrow}
    if types != {"features": pa.list_(pa.int32()), "counts": pa.list_(pa.int32())}:
        raise DataError(f"{path}: holds no codes, but {types}")


def _read_part(path: Path, n_components: int) -> sp.csr_matrix:
    with open_parquet(path, pre_buffer=False) as file:
        table = file.read(use_threads=False)
        if table.num_rows != file.metadata.num_rows:
            raise DataError(f"{path}: has another number of rows than it states; encode the data again")
    try:
        features, counts = (table[name].combine_chunks() for name in ("features", "counts"))
        ends = np.concatenate([[0], np.cumsum(features.value_lengths().to_numpy())])
        if not np.array_equal(np.diff(ends), counts.value_lengths().to_numpy()):
            raise ValueError("not as many counts as features")
        matrix = sp.csr_matrix(
            (counts.flatten().to_numpy(), features.flatten().to_numpy(), ends), shape=(table.num_rows, n_components)
        )
        matrix.check_format(full_check=True)
        if matrix.nnz and matrix.data.min() < 1:
            raise ValueError(f"a feature has the count {matrix.data.min()}")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: holds no codes ({error}); encode the data again") from error
    return matrix
