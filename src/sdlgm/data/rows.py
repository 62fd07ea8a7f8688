"""Rows in files, which need not fit into memory: parquet and ``.npy`` files, or folders of either."""

import contextlib
import copy
import math
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.dataset import arrow_table
from sdlgm.data.tables import (
    NpyLayout,
    check_columns,
    check_flat,
    check_size,
    from_array,
    from_columns,
    kind_of,
    npy_layout,
    reading,
    working_dtype,
)
from sdlgm.errors import DataError

KINDS = ("parquet", "npy")
_EXACT_IN_SINGLE = ("float", "halffloat", "bool", "int8", "uint8", "int16", "uint16")
# Of a .npy file, so much is read at a time; of a parquet file, a row group.
PART_BYTES = 1 << 23


@dataclass(frozen=True)
class Part:
    """Rows that are read at once."""

    path: Path
    first: int
    """Number of the first row, of all files."""
    n_rows: int
    place: int
    """Of a parquet file, which row group; of a ``.npy`` file, which row is the first."""


class RowFiles:
    """Rows of one or several files, read a part at a time.

    It has the shape of a matrix, and a slice of it is one: estimators take it where they take X.
    """

    def __init__(self, name: str, kind: str, paths: list[Path], label_column: str | None = None):
        self.name = name
        self.kind = kind
        self.paths = paths
        self.label_column = label_column
        self.parts: list[Part] = []
        self._layouts: dict[Path, NpyLayout] = {}
        self.feature_names: tuple[str, ...] | None = None
        self._latest: tuple[Part, np.ndarray] | None = None
        self.dtype: np.dtype = np.dtype(np.float32)
        """Of the rows: single precision if it holds every number of every file exactly, otherwise double."""
        n_columns = {path: self._add(path) for path in paths}
        if not self.parts:
            raise DataError(f"{name}: has no rows")
        different = [path for path in paths if n_columns[path] != n_columns[paths[0]]]
        if different:
            raise DataError(
                f"{different[0]}: has {n_columns[different[0]]} columns, and {paths[0]} has {n_columns[paths[0]]}"
            )
        self.shape = (self.parts[-1].first + self.parts[-1].n_rows, n_columns[paths[0]])

    ndim = 2

    def __len__(self) -> int:
        return self.shape[0]

    def _add(self, path: Path) -> int:
        """Note the parts of a file; returns its number of columns."""
        return self._add_parquet(path) if self.kind == "parquet" else self._add_npy(path)

    def _next_row(self) -> int:
        return self.parts[-1].first + self.parts[-1].n_rows if self.parts else 0

    def _add_parquet(self, path: Path) -> int:
        from pyarrow import parquet

        with reading(path, "parquet"), parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            texts = set(check_flat(path, file.schema_arrow)) - {self.label_column}
            if texts:
                raise DataError(
                    f"{path}: column {min(texts)!r} holds text, not numbers; remove it, or encode it as numbers"
                )
            features = [field for field in file.schema_arrow if field.name != self.label_column]
            if not all(str(field.type) in _EXACT_IN_SINGLE for field in features):
                self.dtype = np.dtype(np.float64)
            groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
            for group in groups:
                check_size(path, group)
            n_rows = [group.num_rows for group in groups]
        check_columns(path, names, self.label_column)
        found = tuple(field.name for field in features)
        if self.feature_names is None:
            self.feature_names = found
        elif set(found) != set(self.feature_names):
            raise DataError(f"{path}: has other columns than {self.paths[0]}")
        for group, n in enumerate(n_rows):
            if n:
                self.parts.append(Part(path, self._next_row(), n, group))
        return len(found)

    def _add_npy(self, path: Path) -> int:
        layout = self._layouts[path] = npy_layout(path)
        if layout.by_columns:
            raise DataError(f"{path}: is stored by columns (Fortran order); save it in C order to read it in parts")
        n_columns = math.prod(layout.shape[1:])
        if layout.dtype.kind not in "biuf" or len(layout.shape) not in (2, 3) or n_columns == 0:
            raise DataError(
                f"{path}: holds {layout.dtype} of shape {layout.shape}; expected numbers, (rows, features) or (rows, "
                "height, width)"
            )
        self.dtype = np.promote_types(self.dtype, working_dtype(layout.dtype))
        size = max(1, PART_BYTES // (n_columns * layout.dtype.itemsize))
        for first in range(0, layout.shape[0], size):
            self.parts.append(Part(path, self._next_row(), min(size, layout.shape[0] - first), first))
        return n_columns

    def read(self, part: Part) -> np.ndarray:
        """The rows of a part, as numbers; those that are not finite are refused with their place."""
        rows = self._read(part)
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            where = f"row {part.place + row}" if self.kind == "npy" else f"row {row} of row group {part.place}"
            raise DataError(
                f"{self._name_of(part)}: Input X contains NaN or infinity, in {where}, column {column}; fill or drop "
                "such rows first"
            )
        return rows

    def _name_of(self, part: Part) -> str:
        return str(part.path)

    def _read(self, part: Part) -> np.ndarray:
        if self.kind == "npy":
            layout = self._layouts[part.path]
            n_values = part.n_rows * self.shape[1]
            offset = layout.start + part.place * self.shape[1] * layout.dtype.itemsize
            # A plain read, not a memory map: mapped pages count as memory of the process.
            with reading(part.path, "npy"):
                values = np.fromfile(part.path, layout.dtype, n_values, offset=offset)
            if values.size < n_values:
                raise DataError(f"{part.path}: ends before row {part.place + part.n_rows}")
            rows = from_array(part.path, values.reshape(part.n_rows, self.shape[1])).X
            return np.asarray(rows, self.dtype)
        from pyarrow import parquet

        with reading(part.path, "parquet"), parquet.ParquetFile(part.path, pre_buffer=False) as file:
            table = file.read_row_group(part.place, columns=list(self.feature_names or ()), use_threads=False)
        table = table.select(list(self.feature_names or ()))
        return np.asarray(from_columns(part.path, table, None, self.dtype).X)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        found = [
            self._kept(part)[max(0, start - part.first) : stop - part.first]
            for part in self.parts[self._part_of(start) : self._part_of(max(start, stop - 1)) + 1]
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    @cached_property
    def _firsts(self) -> np.ndarray:
        return np.array([part.first for part in self.parts])

    def _part_of(self, row: int) -> int:
        return int(np.searchsorted(self._firsts, row, side="right")) - 1

    def _kept(self, part: Part) -> np.ndarray:
        """The rows of a part; those of the latest one are remembered, for slices that go through them."""
        if self._latest is None or self._latest[0] != part:
            self._latest = None  # let go of the one before the next is there
            self._latest = (part, self.read(part))
        return self._latest[1]

    def with_parts(self, parts: list[Part]) -> "RowFiles":
        """Some of the parts, numbered anew."""
        chosen = copy.copy(self)
        firsts = np.cumsum([0, *[part.n_rows for part in parts]])
        chosen.parts = [replace(part, first=int(first)) for part, first in zip(parts, firsts, strict=False)]
        chosen.shape = (int(firsts[-1]), self.shape[1])
        chosen._latest = None
        chosen.__dict__.pop("_firsts", None)
        return chosen

    def absolute(self) -> "RowFiles":
        """The same, for processes that work in another folder."""
        elsewhere = self.with_parts([replace(part, path=part.path.absolute()) for part in self.parts])
        elsewhere.paths = [path.absolute() for path in self.paths]
        elsewhere._layouts = {path.absolute(): layout for path, layout in self._layouts.items()}
        return elsewhere

    @property
    def head(self) -> Any:
        """The first row, with the names of the columns if they have any."""
        first = self[0:1]
        return first if self.feature_names is None else arrow_table(first, self.feature_names)


def open_rows(source: str | os.PathLike[str], *, label_column: str | None = None) -> RowFiles | None:
    """The rows of a parquet or ``.npy`` file, or of a folder of either; None if it is some other kind of data.

    Files of a folder, and of the folders in it, come in the order of their names. Hidden files, and those that begin
    with an underscore, are left out.
    """
    path = Path(source)
    if path.is_dir():
        files = sorted(
            file for file in path.rglob("*") if file.is_file() and not _is_hidden(file.relative_to(path).parts)
        )
        kinds = {file.suffix.lower().removeprefix(".") for file in files}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            found = ", ".join(sorted(kinds)) or "no files"
            raise DataError(f"{path}: a folder of rows has .parquet files only, or .npy files only; this has {found}")
        kind = kinds.pop()
    elif path.is_file() and path.suffix.lower().removeprefix(".") in KINDS:
        files, kind = [path], kind_of(path)
    else:
        return None
    if kind == "npy" and label_column is not None:
        raise DataError(f"{path}: a label column can be named for .csv and .parquet only")
    return RowFiles(path.name, kind, files, label_column)


def _is_hidden(parts: tuple[str, ...]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


class SpooledRows(RowFiles):
    """Rows of an iterator, which can be gone through once, kept in a temporary folder."""

    def __init__(self, batches: Iterable[Any]):
        folder = Path(tempfile.mkdtemp(prefix="sdlgm-rows-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        paths: list[Path] = []
        names: list[str] | None = None
        for number, batch in enumerate(batches):
            own = _column_names(batch)
            if number == 0:
                names = own
            elif sorted(own or ()) != sorted(names or ()):
                raise DataError(f"batch {number} has other columns than the first")
            elif own != names:
                batch = batch.select(names) if hasattr(batch, "select") else batch[names]  # noqa: PLW2901
            rows = np.ascontiguousarray(batch.toarray() if hasattr(batch, "toarray") else np.asarray(batch))
            if rows.dtype == object:  # such as columns of pandas that may have missing values
                with contextlib.suppress(TypeError, ValueError):
                    rows = rows.astype(np.float64)
            if rows.ndim != 2 or rows.dtype.kind not in "biuf":
                raise DataError(f"batch {number} is {rows.dtype} of shape {rows.shape}; batches are rows of numbers")
            if rows.shape[0]:
                paths.append(folder / f"{number:09d}.npy")
                np.save(paths[-1], rows)
        if not paths:
            raise DataError("the batches have no rows")
        super().__init__("batches", "npy", paths)
        if names is not None:
            self.feature_names = tuple(names)

    def _name_of(self, part: Part) -> str:
        return f"batch {int(part.path.stem)}"


def _column_names(batch: Any) -> list[str] | None:
    """The names of the columns of a table, if all are text."""
    names: list[Any] = list(getattr(batch, "column_names", getattr(batch, "columns", ())))
    return names if names and all(isinstance(name, str) for name in names) else None


def rows_of(X: Any) -> Any:
    """X itself, or if it is a path or an iterator of batches, its rows: from files, without loading them, if they are
    parquet or ``.npy`` files, and otherwise in memory.
    """
    if isinstance(X, str | os.PathLike):
        from sdlgm.data.loading import load_data

        source = os.fspath(X)
        rows = open_rows(source)
        return load_data(source).table if rows is None else rows
    return SpooledRows(X) if is_stream(X) else X


def is_stream(X: Any) -> bool:
    """Whether X gives batches of rows that can be gone through, and is nothing else."""
    known = ("__getitem__", "shape", "__array__", "__dataframe__", "__arrow_c_stream__")
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in known)
