"""Folders of CSV files, each of which is one series."""

import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA
from sdlgm.data.formats import files_of
from sdlgm.data.table_files import CsvTable, join_parts
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

FILE_COLUMN = "file"
"""Column that says which file a row is of; it is the group of the series."""
_REMEDY = "give all files of the folder the same columns"
_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def is_series_folder(source: str | os.PathLike[str]) -> bool:
    """Return whether a source is a folder with CSV files, each of which is one series.

    Parameters
    ----------
    source : str or path-like

    Returns
    -------
    bool

    """
    path = Path(source)
    return path.is_dir() and any(file.name.lower().endswith(_ENDINGS) for file in files_of(path))


def read_series(folder: str | os.PathLike[str]) -> "pa.Table":
    """Read a folder of CSV files, each of which is one series.

    Parameters
    ----------
    folder : str or path-like
        Files of a folder, and of the folders in it, are ordered by their names. They have the same columns, in any
        order. Hidden files and those whose names begin with an underscore are ignored.

    Returns
    -------
    pyarrow.Table
        The rows of all files, and a column ``file`` with the name of the file. Give it to `windows` with
        ``group="file"``: no window spans two files.

    """
    return SeriesFolder(Path(folder)).read()


class SeriesFolder:
    """The table of several CSV files with the same columns, and a column with the name of the file.

    Parameters
    ----------
    path : Path
        The folder, or a single file, which is one series.
    skip : collection of str, default=()
        Columns that are not read.

    """

    n_rows = None

    def __init__(self, path: Path, skip: Collection[str] = ()):
        self.path = path
        if not path.exists():
            raise DataError(f"{path}: there is no such folder")
        paths = files_of(path) if path.is_dir() else [path]
        for other in paths:
            if not other.name.lower().endswith(_ENDINGS):
                raise DataError(f"{other}: a folder of series has CSV files only; move this file elsewhere")
        if not paths:
            raise DataError(f"{path}: has no CSV files")
        files = [CsvTable(other, skip) for other in paths]
        for file in files:
            if FILE_COLUMN in file.column_names:
                raise DataError(
                    f"{file.path}: has a column {FILE_COLUMN!r}, and a column of that name gets the names of the "
                    "files; rename it"
                )
            _check_columns(files[0], file)
        self.column_names = [*files[0].column_names, FILE_COLUMN]
        self._files = files

    def read(self) -> "pa.Table":
        """Read the rows of all files.

        Returns
        -------
        pyarrow.Table

        """
        file_bytes = sum(file.path.stat().st_size for file in self._files)
        return join_parts(self.path, self._parts(), file_bytes)

    def _parts(self) -> "Iterator[pa.Table]":
        pa = optional_import("pyarrow", EXTRA)
        for file in self._files:
            group = file.path.relative_to(self.path).as_posix() if self.path.is_dir() else file.path.name
            for part in file.batches():
                groups = pa.array([group] * part.num_rows, pa.string())
                yield part.select(self.column_names[:-1]).append_column(FILE_COLUMN, groups)


def file_at_fault(
    table: "pa.Table", work: "Callable[[pa.Table], object]", error: DataError
) -> tuple[str, DataError] | None:
    """Return the file because of which work on the table of a folder fails, and its error; None if it is not one file.

    It is one that fails in this way by itself, as none before it does, or without which the others do not.

    Parameters
    ----------
    table : pyarrow.Table
        The rows of all files, as `read_series` gives them.
    work : callable
        What raises for this table.
    error : DataError
        What it raises.

    """
    names = table.column(FILE_COLUMN).combine_chunks().dictionary_encode()
    places = names.indices.to_numpy()  # from 0 on, in the order of the files
    n_files = int(places[-1]) + 1
    ends = np.searchsorted(places, np.arange(n_files), side="right").tolist()

    def files(first: int, last: int) -> "pa.Table":
        start = ends[first - 1] if first else 0
        return table.slice(start, ends[last] - start)

    def error_of(part: "pa.Table") -> DataError | None:
        try:
            work(part)
        except DataError as found:
            return found if _without_numbers(found) == _without_numbers(error) else None
        return None

    works, fails = -1, n_files - 1
    while fails - works > 1:
        middle = (works + fails) // 2
        if error_of(files(0, middle)) is None:
            works = middle
        else:
            fails = middle
    own = error_of(files(fails, fails))
    if own is not None:
        others_fail = fails == 0 and (n_files == 1 or error_of(files(1, 1)) is not None)  # any file would do
        return None if others_fail else (names.dictionary[fails].as_py(), own)
    if n_files < 3:  # they contradict each other
        return None
    pa = optional_import("pyarrow", EXTRA)
    for place in (fails, 0):
        rest = [files(0, place - 1)] if place else []
        rest += [files(place + 1, n_files - 1)] if place < n_files - 1 else []
        if error_of(pa.concat_tables(rest)) is None:
            return names.dictionary[place].as_py(), error
    return None


def _without_numbers(error: DataError) -> str:
    """Return the message of an error without what depends on the number of rows."""
    return re.sub(r"\d+", "", str(error))


def _check_columns(first: CsvTable, file: CsvTable) -> None:
    """Raise if a file has other columns than the first one."""
    own, found = set(first.column_names), set(file.column_names)
    for name in file.column_names:
        if name not in own:
            raise DataError(f"{file.path}: has the column {name!r}, and {first.path} has not; {_REMEDY}")
    for name in first.column_names:
        if name not in found:
            raise DataError(f"{file.path}: has no column {name!r}, and {first.path} has one; {_REMEDY}")
