"""Codes in a folder, one parquet file for each part of the data, so that an interrupted run can be continued."""

import copy
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse as sp

from sdlgm._files import naming_errors, remove_temporary_files, temporary_files, write_atomic, write_text
from sdlgm._limits import MAX_MANIFEST_BYTES, check_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA, arrow_file
from sdlgm.data.parquet_memory import list_memory, open_parquet
from sdlgm.data.rows import RowFiles
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from pyarrow import parquet

FORMAT = "sdlgm-codes"
VERSION = 1
MANIFEST = "_codes.json"
# Bytes of a code in memory, and of each of its features.
_ROW_BYTES, _VALUE_BYTES = 8, 8


@dataclass(frozen=True)
class Manifest:
    """Description of a folder of codes."""

    n_components: int
    n_rows: int
    n_parts: int
    settings: Mapping[str, object]
    """Fingerprint of the data, and the settings that the codes depend on."""

    def to_dict(self) -> dict[str, object]:
        """Return the content of the manifest file."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "n_components": self.n_components,
            "n_rows": self.n_rows,
            "n_parts": self.n_parts,
            **self.settings,
        }


class CodedParts:
    """Codes of the parts of some rows, in a folder.

    Each part is written, whole or not at all, to a file of its own. A run that was killed and is started again encodes
    the parts that are missing and ends with the same files. The folder has a manifest that describes the data and the
    settings. A folder with codes of other data or other settings is refused.

    Parameters
    ----------
    folder : str or path-like
        The folder. It is created if it does not exist.
    rows : RowFiles
        The data.
    n_components : int
        Number of columns of a code.
    settings : mapping
        Settings that the codes depend on, such as the checksum of the model. They are stored as JSON.

    """

    def __init__(
        self, folder: str | os.PathLike[str], rows: RowFiles, n_components: int, settings: Mapping[str, object]
    ):
        self.folder = Path(folder)
        self.rows = rows
        self.manifest = Manifest(n_components, len(rows), len(rows.parts), {"data": fingerprint(rows), **settings})

    def prepare(self) -> list[int]:
        """Create the folder, or check that it can be continued.

        Returns
        -------
        list of int
            Indices of the parts that are missing.

        """
        with naming_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / MANIFEST
        expected = self.manifest.to_dict()
        if path.exists():
            found = read_manifest(self.folder).to_dict()
            differing = sorted(name for name in expected if found.get(name) != expected[name])
            if differing:
                raise DataError(
                    f"{self.folder}: holds codes that were made with another {differing[0].replace('_', ' ')}; "
                    "write to another folder"
                )
        elif set(self.folder.iterdir()) - set(temporary_files(self.folder, path.suffix)):
            raise DataError(f"{self.folder}: is not empty, and holds no codes; write to another folder")
        else:
            write_text(path, json.dumps(expected, indent=1) + "\n")
        remove_temporary_files(self.folder, path.suffix, ".parquet")  # only now is the folder known to hold our files
        return [number for number in range(len(self.rows.parts)) if not self.path(number).exists()]

    def absolute(self) -> Self:
        """Use absolute paths, for processes that work in another folder.

        Returns
        -------
        parts : CodedParts
            The same parts with absolute paths.

        """
        other = copy.copy(self)
        other.folder = self.folder.absolute()
        other.rows = self.rows.absolute()
        return other

    def path(self, number: int) -> Path:
        """Return the file of a part.

        Parameters
        ----------
        number : int
            Number of the part, from 0.

        Returns
        -------
        path : Path

        """
        return _part_path(self.folder, number)

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

    def encode(
        self, transform: Callable[[RowFiles], sp.csr_matrix], advance: Callable[[int], object] = lambda _: None
    ) -> None:
        """Encode the parts that are missing, in order.

        Parameters
        ----------
        transform : callable
            Return the codes of some rows.
        advance : callable, default=no-op
            Called with the number of rows of each part, when its codes are there.

        """
        missing = set(self.prepare())
        for number, part in enumerate(self.rows.parts):
            if number in missing:
                self.encode_part(number, transform)
            advance(part.n_rows)

    def encode_part(self, number: int, transform: Callable[[RowFiles], sp.csr_matrix]) -> None:
        """Encode a part.

        Parameters
        ----------
        number : int
            Index of the part.
        transform : callable
            Return the codes of some rows.

        """
        self.write(number, transform(self.rows.with_parts([self.rows.parts[number]])))


def fingerprint(rows: RowFiles) -> str:
    """Return a hash of the names, sizes, times and parts of the files, which changes with the data."""
    files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in rows.paths]
    parts = [[part.n_rows, part.place] for part in rows.parts]
    return hashlib.sha256(json.dumps([files, parts]).encode()).hexdigest()


def checksum(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    str
        Hexadecimal digits.

    """
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the description of a folder of codes.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    Manifest

    """
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder}: holds no codes; write codes with 'sdlgm encode'")
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            raise ValueError("too long")
        content: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT or content["version"] != VERSION:
            raise ValueError(f"another format, or version {content['version']!r}")
        del content["version"]
        n_components, n_rows, n_parts = (
            _positive(name, content.pop(name)) for name in ("n_components", "n_rows", "n_parts")
        )
        if n_components > np.iinfo(np.int32).max:  # the type of the features in the files
            raise ValueError(f"{n_components} features")
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error}); encode the data again into another folder") from error
    return Manifest(n_components, n_rows, n_parts, content)


def _positive(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} is {value!r}")
    return value


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:06d}.parquet"


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
    manifest = read_manifest(folder)
    n_found = sum(1 for _ in folder.glob("part-*.parquet"))
    if n_found != manifest.n_parts:
        raise DataError(
            f"{folder}: has {n_found} of {manifest.n_parts} parts; run 'sdlgm encode' again to encode the others"
        )
    paths = [_part_path(folder, number) for number in range(n_found)]
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
