"""Rows of parquet and ``.npy`` files, or of folders of either, that need not fit into memory."""

import contextlib
import copy
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from sdlgm.data.columns import arrow_table
from sdlgm.data.formats import check_label_column, files_of
from sdlgm.data.formats.npy import NpyFile
from sdlgm.data.formats.parquet import ParquetFile
from sdlgm.data.loading import load_data
from sdlgm.data.named import DATASETS
from sdlgm.data.source import Part, TargetColumns
from sdlgm.errors import DataError

KINDS = ("parquet", "npy")


class RowFiles:
    """Rows of one or several files, read a part at a time.

    It has the shape of a matrix, and a slice of it is an array: estimators accept it as X.

    Parameters
    ----------
    name : str
        Name of the rows, such as that of the folder.
    sources : sequence of NpyFile or of ParquetFile
        The files. Those with named columns have the same names in any order.

    Attributes
    ----------
    parts : list of Part
        Parts of all files, in order: the row groups of parquet files, about 8 MB of ``.npy`` files.
    shape : tuple of int
        Number of rows and of columns.
    dtype : dtype
        Single precision if it represents every value of every file exactly, and double precision otherwise.
    feature_names : tuple of str or None
        Names of the columns, if the files have them.
    paths : list of Path
        The files.

    """

    ndim = 2

    def __init__(self, name: str, sources: Sequence[NpyFile] | Sequence[ParquetFile]):
        self.name = name
        self.paths = [source.path for source in sources]
        self.feature_names = sources[0].feature_names
        self._sources = {source.path: _in_order_of(sources[0], source) for source in sources}
        self._latest: tuple[Part, np.ndarray] | None = None
        self.dtype = max((source.dtype for source in sources), key=lambda dtype: dtype.itemsize)
        self.parts = _renumber([part for source in sources for part in source.parts])
        if not self.parts:
            raise DataError(f"{name}: has no rows")
        self.shape = (_n_rows(self.parts), int(np.prod(sources[0].row_shape)))

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, part: Part) -> np.ndarray:
        """Read the rows of a part.

        Parameters
        ----------
        part : Part
            One of `parts`.

        Returns
        -------
        ndarray of shape (part.n_rows, n_columns)

        Raises
        ------
        DataError
            If a value is missing, NaN or infinite. The message names its place.

        """
        return np.asarray(self._sources[part.path].read_part(part, self.dtype).X)

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(self.shape[0])
        found = [
            self._read_cached(part)[max(0, start - part.first) : stop - part.first]
            for part in self.parts[self._part_of(start) : self._part_of(max(start, stop - 1)) + 1]
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    @cached_property
    def _firsts(self) -> np.ndarray:
        return np.array([part.first for part in self.parts])

    def _part_of(self, row: int) -> int:
        return int(np.searchsorted(self._firsts, row, side="right")) - 1

    def _read_cached(self, part: Part) -> np.ndarray:
        """Read a part, and keep it until another one is read: consecutive slices use the same part."""
        if self._latest is None or self._latest[0] != part:
            self._latest = None  # free the memory before the next part is read
            self._latest = (part, self.read(part))
        return self._latest[1]

    def with_parts(self, parts: Sequence[Part]) -> Self:
        """Return some of the parts as rows of their own.

        Parameters
        ----------
        parts : sequence of Part
            Some of `parts`.

        Returns
        -------
        RowFiles

        """
        chosen = copy.copy(self)
        chosen.parts = _renumber(parts)
        chosen.shape = (_n_rows(chosen.parts), self.shape[1])
        chosen._latest = None
        chosen.__dict__.pop("_firsts", None)
        return chosen

    def absolute(self) -> Self:
        """Use absolute paths, for processes that work in another folder.

        Returns
        -------
        rows : RowFiles
            The same rows with absolute paths.

        """
        other = self.with_parts([replace(part, path=part.path.absolute()) for part in self.parts])
        other.paths = [path.absolute() for path in self.paths]
        other._sources = {path.absolute(): source.at(path.absolute()) for path, source in self._sources.items()}
        return other

    @property
    def head(self) -> Any:
        """The first row, with the names of the columns if they have names."""
        first = self[0:1]
        return first if self.feature_names is None else arrow_table(first, self.feature_names)


def _in_order_of(first: NpyFile | ParquetFile, source: NpyFile | ParquetFile) -> NpyFile | ParquetFile:
    """Return a source with the columns of the first one in their order, or raise if they are others."""
    if isinstance(source, ParquetFile) and first.feature_names is not None:
        if set(source.feature_names or ()) != set(first.feature_names):
            raise DataError(f"{source.where}: has other columns than {first.where}; give all files the same columns")
        return source.with_order(first.feature_names)
    n_columns, n_first = (int(np.prod(s.row_shape)) for s in (source, first))
    if n_columns != n_first:
        raise DataError(
            f"{source.where}: has {n_columns} columns, and {first.where} has {n_first}; give all files the same columns"
        )
    return source


def _renumber(parts: Sequence[Part]) -> list[Part]:
    firsts = np.cumsum([0, *(part.n_rows for part in parts)]).tolist()
    return [replace(part, first=first) for part, first in zip(parts, firsts, strict=False)]


def _n_rows(parts: Sequence[Part]) -> int:
    return parts[-1].first + parts[-1].n_rows if parts else 0


def open_rows(source: str | os.PathLike[str], *, label_column: str | None = None) -> RowFiles | None:
    """Open the rows of a parquet or ``.npy`` file, or of a folder of either.

    Parameters
    ----------
    source : str or path-like
        A file, or a folder. Files of a folder, and of the folders in it, are ordered by their names. Hidden files and
        those whose names begin with an underscore are ignored.
    label_column : str or None, default=None
        Column of parquet files that is a class and not a feature.

    Returns
    -------
    RowFiles or None
        None if the source is something else, such as a CSV file or the name of a data set.

    """
    path = Path(source)
    if path.is_dir():
        paths = files_of(path)
        kinds = {file.suffix.lower().removeprefix(".") for file in paths}
        if len(kinds) != 1 or not kinds <= set(KINDS):
            found = ", ".join(sorted(kinds)) or "no files"
            raise DataError(f"{path}: a folder of rows has .parquet files only, or .npy files only; this has {found}")
    else:
        paths, kinds = [path], {path.suffix.lower().removeprefix(".")}
        if not path.is_file() or not kinds <= set(KINDS):
            return None
    kind = kinds.pop()
    check_label_column(path, kind, label_column)
    if kind == "npy":
        return RowFiles(path.name, [_open_npy(file) for file in paths])
    targets = TargetColumns(() if label_column is None else (label_column,), values=False)
    files = [ParquetFile(file, targets) for file in paths]
    for file in files:
        file.check_parts()
    return RowFiles(path.name, files)


def _open_npy(path: Path) -> NpyFile:
    source = NpyFile(path)
    if source.fortran_order:
        raise DataError(f"{path}: is stored by columns (Fortran order); save it in C order to read it in parts")
    return source


class _TemporaryFolder:
    """A folder that is removed with the last reference to it."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="sdlgm-rows-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class SpooledRows(RowFiles):
    """Rows of an iterator, kept in a temporary folder so that they can be read more than once.

    Parameters
    ----------
    batches : iterable
        Arrays, sparse matrices or tables. Tables have the same columns, in any order. NaN is a missing value.

    """

    def __init__(self, batches: Iterable[Any]):
        self._folder = _TemporaryFolder()
        sources: list[NpyFile] = []
        names: list[str] | None = None
        for number, batch in enumerate(batches):
            own_names = _column_names(batch)
            if number == 0:
                names = own_names
            elif sorted(own_names or ()) != sorted(names or ()):
                raise DataError(f"batch {number} has other columns than the first; give all batches the same columns")
            elif own_names != names:
                batch = batch.select(names) if hasattr(batch, "select") else batch[names]  # noqa: PLW2901
            rows = np.ascontiguousarray(batch.toarray() if hasattr(batch, "toarray") else np.asarray(batch))
            if rows.dtype == object:  # such as columns of pandas that may have missing values
                with contextlib.suppress(TypeError, ValueError):
                    is_frame = hasattr(batch, "to_numpy")
                    rows = batch.to_numpy(np.float64, na_value=np.nan) if is_frame else rows.astype(np.float64)
                    rows = np.ascontiguousarray(rows)
            if rows.ndim != 2 or rows.dtype.kind not in "biuf":
                raise DataError(f"batch {number} is {rows.dtype} of shape {rows.shape}; batches are rows of numbers")
            if rows.shape[0]:
                path = self._folder.path / f"{number:09d}.npy"
                np.save(path, rows)
                sources.append(NpyFile(path, where=f"batch {number}", missing=True))
        if not sources:
            raise DataError("the batches have no rows")
        super().__init__("batches", sources)
        if names is not None:
            self.feature_names = tuple(names)


def _column_names(batch: Any) -> list[str] | None:
    """Return the names of the columns of a table, if all are text."""
    names: list[Any] = list(getattr(batch, "column_names", getattr(batch, "columns", ())))
    return names if names and all(isinstance(name, str) for name in names) else None


def rows_of(X: Any) -> Any:
    """Return the rows that X stands for.

    Parameters
    ----------
    X : path, iterator of batches, or array-like
        Rows.

    Returns
    -------
    RowFiles, table or X
        For a path of parquet or ``.npy`` files, or an iterator, rows in files. For another path or the name of a data
        set, a table in memory. Otherwise X itself.

    """
    if isinstance(X, str | os.PathLike):
        source = os.fspath(X)
        rows = None if source in DATASETS else open_rows(source)
        return load_data(source).table if rows is None else rows
    return SpooledRows(X) if is_stream(X) else X


def is_stream(X: Any) -> bool:
    """Return whether X is an iterable of batches, and not an array, a table or a sequence.

    Parameters
    ----------
    X : object

    Returns
    -------
    is_stream : bool

    """
    known = ("__getitem__", "shape", "__array__", "__dataframe__", "__arrow_c_stream__")
    return hasattr(X, "__iter__") and not any(hasattr(X, name) for name in known)
