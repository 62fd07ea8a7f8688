"""Codes in a folder, one parquet file for each part of the data: work that can be killed and done again."""

import copy
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdlgm._files import left_in, remove_left, write_text, write_whole
from sdlgm.data.rows import RowFiles
from sdlgm.data.tables import MAX_VALUES, reading
from sdlgm.errors import DataError

FORMAT = "sdlgm-codes"
VERSION = 1
MANIFEST = "_codes.json"
# More features than a code can have columns, and more bytes than a description of a folder can have.
LARGEST_N_COMPONENTS = 10**8
LARGEST_MANIFEST = 10**6


class CodedParts:
    """The codes of the parts of some rows, in a folder.

    A part is written whole or not at all, under a name of its own, so that a run that was killed and is started again
    does what is missing and ends with the same files. What is coded, and how, is written into the folder first; codes
    of something else are refused.
    """

    def __init__(self, folder: str | os.PathLike[str], rows: RowFiles, n_components: int, settings: dict[str, Any]):
        self.folder = Path(folder)
        self.rows = rows
        self.manifest = {
            "format": FORMAT,
            "version": VERSION,
            "n_components": n_components,
            "n_rows": len(rows),
            "n_parts": len(rows.parts),
            "data": fingerprint(rows),
            **settings,
        }

    def prepare(self) -> list[int]:
        """Make the folder, or go on with it; returns the numbers of the parts that are missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / MANIFEST
        if path.exists():
            found = read_manifest(self.folder)
            differing = sorted(name for name in self.manifest if found.get(name) != self.manifest[name])
            if differing:
                raise DataError(
                    f"{self.folder}: holds codes that were made with another {differing[0].replace('_', ' ')}; "
                    "write to another folder"
                )
        elif set(self.folder.iterdir()) - set(left_in(self.folder, path.suffix)):
            raise DataError(f"{self.folder}: is not empty, and holds no codes; write to another folder")
        else:
            write_text(path, json.dumps(self.manifest, indent=1) + "\n")
        remove_left(self.folder, path.suffix, ".parquet")  # now that it is known to be ours
        return [number for number in range(len(self.rows.parts)) if not self.path(number).exists()]

    def absolute(self) -> "CodedParts":
        """The same, for processes that work in another folder."""
        elsewhere = copy.copy(self)
        elsewhere.folder = self.folder.absolute()
        elsewhere.rows = self.rows.absolute()
        return elsewhere

    def path(self, number: int) -> Path:
        return _part_path(self.folder, number)

    def write(self, number: int, codes: sp.csr_matrix) -> None:
        """The codes of one part."""
        import pyarrow as pa
        from pyarrow import parquet

        expected = (self.rows.parts[number].n_rows, self.manifest["n_components"])
        if codes.shape != expected:
            raise ValueError(f"codes of shape {codes.shape} for part {number}, which has {expected}")
        ends = pa.array(codes.indptr, pa.int32())
        columns = {
            name: pa.ListArray.from_arrays(ends, pa.array(values.astype(np.int32)))
            for name, values in (("features", codes.indices), ("counts", codes.data))
        }
        write_whole(self.path(number), lambda temporary: parquet.write_table(pa.table(columns), temporary))

    def encode(
        self, transform: Callable[[RowFiles], sp.csr_matrix], advance: Callable[[int], object] = lambda _: None
    ) -> None:
        """Code all that is missing, one part after the other; ``advance`` hears the number of rows."""
        missing = set(self.prepare())
        for number, part in enumerate(self.rows.parts):
            if number in missing:
                self.encode_part(number, transform)
            advance(part.n_rows)

    def encode_part(self, number: int, transform: Callable[[RowFiles], sp.csr_matrix]) -> None:
        self.write(number, transform(self.rows.with_parts([self.rows.parts[number]])))


def fingerprint(rows: RowFiles) -> str:
    """Names, sizes and numbers of rows of the files: enough to see that the data are not those of another day."""
    files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in rows.paths]
    parts = [[part.n_rows, part.place] for part in rows.parts]
    return hashlib.sha256(json.dumps([files, parts]).encode()).hexdigest()


def checksum(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder of codes says about itself."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataError(f"{folder}: holds no codes; they are what 'sdlgm encode' writes")
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise ValueError("too long")
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT or manifest["version"] != VERSION:
            raise ValueError(f"format {manifest['format']!r}, version {manifest['version']!r}")
        for name in ("n_components", "n_rows", "n_parts"):
            if type(manifest[name]) is not int or manifest[name] < 1:
                raise ValueError(f"{name} is {manifest[name]!r}")
        if manifest["n_components"] > LARGEST_N_COMPONENTS:
            raise ValueError(f"{manifest['n_components']} features")
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return manifest


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"part-{number:06d}.parquet"


def read_coded(folder: str | os.PathLike[str]) -> sp.csr_matrix:
    """All codes of a folder, in the order of the data."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    n_found = sum(1 for _ in folder.glob("part-*.parquet"))
    if n_found != manifest["n_parts"]:
        raise DataError(
            f"{folder}: has {n_found} of {manifest['n_parts']} parts; run 'sdlgm encode' again, which does the rest"
        )
    parts = [_read_part(_part_path(folder, number), manifest["n_components"]) for number in range(n_found)]
    codes = sp.csr_matrix(sp.vstack(parts, format="csr"))
    if codes.shape[0] != manifest["n_rows"]:
        raise DataError(f"{folder}: has {codes.shape[0]} rows, and should have {manifest['n_rows']}")
    return codes


def _read_part(path: Path, n_components: int) -> sp.csr_matrix:
    import pyarrow as pa
    from pyarrow import parquet

    with reading(path, "parquet"), parquet.ParquetFile(path) as file:
        kinds = {field.name: field.type for field in file.schema_arrow}
        if kinds != {"features": pa.list_(pa.int32()), "counts": pa.list_(pa.int32())}:
            raise DataError(f"{path}: holds no codes, but {kinds}")
        # A code has a feature once, if at all.
        most = min(MAX_VALUES, file.metadata.num_rows * n_components)
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        for place in range(2):
            if sum(group.column(place).num_values for group in groups) > max(most, file.metadata.num_rows):
                raise DataError(f"{path}: holds more features than its codes can have")
        table = file.read()
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
        raise DataError(f"{path}: holds no codes ({error})") from error
    return matrix
