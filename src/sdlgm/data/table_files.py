"""Tables of CSV and parquet files as they are: text, dates and missing values included."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.checks import check_column_names, check_has_rows
from sdlgm.data.columns import EXTRA, arrow_errors, check_flat, is_text
from sdlgm.data.formats import COLUMN_FORMATS, existing_file, kind_of
from sdlgm.data.formats.delimited import Layout
from sdlgm.data.loading import is_path
from sdlgm.data.parquet_memory import REMEDY, GroupMemory, group_memory, open_parquet
from sdlgm.data.raw_columns import KEPT_AS_TEXT
from sdlgm.data.source import some_names
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

# Memory of a value: its number in the matrix of all columns, and in a copy of that.
_VALUE_BYTES = 16
# Memory of a value of the column that is being converted: trimmed text, its numbers, and what is missing.
_CONVERTED_BYTES = 64
# A number with a decimal comma, in files whose fields are separated by semicolons.
_DECIMAL_COMMA = r"^(\s*[+-]?\d+),(\d+(?:[eE][+-]?\d+)?\s*)$"
_REMEDY = "leave out columns, or cut it into smaller files"


def is_table_file(source: str) -> bool:
    """Return whether a source is a CSV or parquet file, and not a folder, another file or the name of a data set.

    Parameters
    ----------
    source : str

    Returns
    -------
    bool

    """
    return is_path(source) and not Path(source).is_dir() and kind_of(existing_file(Path(source))) in COLUMN_FORMATS


def open_table(source: str, skip: Collection[str] = ()) -> "CsvTable | ParquetTable":
    """Open a CSV or parquet file.

    Parameters
    ----------
    source : str
        The file.
    skip : collection of str, default=()
        Columns that are not read. Those that the file does not have are ignored.

    Returns
    -------
    CsvTable or ParquetTable

    """
    path = existing_file(Path(source))
    return CsvTable(path, skip) if kind_of(path) == "csv" else ParquetTable(path, skip)


def _kept(path: Path, names: list[str], skip: Collection[str]) -> list[str]:
    check_column_names(path, names)
    kept = [name for name in names if name not in skip]
    if not kept:
        raise DataError(f"{path}: no column is left of {some_names(names)}; leave out fewer")
    return kept


class CsvTable:
    """The table of a CSV file. All columns are text: what they mean is found by all of their values.

    Parameters
    ----------
    path : Path
        The file, which may be gzipped.
    skip : collection of str, default=()
        Columns that are not read.

    """

    n_rows = None

    def __init__(self, path: Path, skip: Collection[str] = ()):
        self.path = path
        self._layout = Layout.of(path)
        with arrow_errors(path, "csv"), self._layout.reader() as reader:
            names = list(reader.schema.names)
        self.column_names = _kept(path, names, skip)

    def batches(self) -> "Iterator[pa.Table]":
        """Read the rows about a megabyte of the content at a time.

        Yields
        ------
        pyarrow.Table

        """
        pa, arrow = optional_import("pyarrow", EXTRA), optional_import("pyarrow.csv", EXTRA)
        types = dict.fromkeys(self.column_names, pa.string())
        convert = arrow.ConvertOptions(column_types=types, include_columns=self.column_names)
        n_rows = 0
        with arrow_errors(self.path, "csv"), self._layout.reader(convert) as reader:
            for batch in reader:
                n_rows += batch.num_rows
                if batch.num_rows:
                    yield self._with_points(pa.Table.from_batches([batch]))
        check_has_rows(self.path, n_rows)

    def _with_points(self, table: "pa.Table") -> "pa.Table":
        if self._layout.separator != ";":
            return table
        compute: Any = optional_import("pyarrow.compute", EXTRA)
        columns = [compute.replace_substring_regex(column, _DECIMAL_COMMA, r"\1.\2") for column in table.columns]
        return table.from_arrays(columns, names=table.column_names)

    def read(self) -> "pa.Table":
        """Read all rows.

        Returns
        -------
        pyarrow.Table

        """
        return join_parts(self.path, self.batches(), self.path.stat().st_size)


def join_parts(path: Path, parts: "Iterable[pa.Table]", file_bytes: int) -> "pa.Table":
    """Return the rows of all parts of a table, or raise if they take too much memory.

    Parameters
    ----------
    path : Path
        File or folder, for the message.
    parts : iterable of pyarrow.Table
    file_bytes : int
        Size of the files.

    Returns
    -------
    pyarrow.Table

    """
    joined, n_bytes = [], 0
    for part in parts:
        n_bytes += part.nbytes + part.num_rows * (_VALUE_BYTES * part.num_columns + _CONVERTED_BYTES)
        check_memory(path, n_bytes, file_bytes, _REMEDY)
        joined.append(part)
    return optional_import("pyarrow", EXTRA).concat_tables(joined)


class ParquetTable:
    """The table of a parquet file.

    Parameters
    ----------
    path : Path
        The file.
    skip : collection of str, default=()
        Columns that are not read.

    """

    def __init__(self, path: Path, skip: Collection[str] = ()):
        self.path = path
        with open_parquet(path) as file:
            fields = {field.name: field for field in file.schema_arrow}
            names = [field.name for field in file.schema_arrow]
            self.n_rows = int(file.metadata.num_rows)
        self.column_names = _kept(path, names, skip)
        self._indices = [names.index(name) for name in self.column_names]
        self._fields = [fields[name] for name in self.column_names]
        check_flat(path, fields.values())
        types = optional_import("pyarrow", EXTRA).types
        # Text is read as numbers of distinct texts: a small file can repeat a long one.
        self._texts = [
            field.name for field in self._fields if is_text(field.type) and not types.is_dictionary(field.type)
        ]

    def batches(self, size: int = 10_000) -> "Iterator[pa.Table]":
        """Read the rows some at a time.

        Parameters
        ----------
        size : int, default=10_000
            Rows at a time.

        Yields
        ------
        pyarrow.Table

        """
        pa = optional_import("pyarrow", EXTRA)
        check_has_rows(self.path, self.n_rows)
        with open_parquet(self.path, buffer_size=1 << 16, pre_buffer=False, read_dictionary=self._texts) as file:
            for group in self._groups(file):
                n_rows = min(size, group.n_rows)
                needed = group.batch(n_rows) + n_rows * (_VALUE_BYTES * len(self.column_names) + _CONVERTED_BYTES)
                self._check_memory(needed, "write smaller pages or row groups")
            for batch in file.iter_batches(size, columns=self.column_names):
                yield self._marked(pa.Table.from_batches([batch]))

    def read(self) -> "pa.Table":
        """Read all rows.

        Returns
        -------
        pyarrow.Table

        """
        pa = optional_import("pyarrow", EXTRA)
        check_has_rows(self.path, self.n_rows)
        with open_parquet(self.path, read_dictionary=self._texts) as file:
            groups = self._groups(file)
            needed = self.n_rows * (_VALUE_BYTES * len(self.column_names) + _CONVERTED_BYTES)
            needed += sum(group.values for group in groups) + 2 * max(group.whole for group in groups)
            self._check_memory(needed, REMEDY)
            parts = [file.read_row_group(number, columns=self.column_names) for number in range(len(groups))]
        return self._marked(pa.concat_tables(parts))

    def _groups(self, file: "parquet.ParquetFile") -> list[GroupMemory]:
        metadata = file.metadata
        return [
            group_memory(self.path, metadata, self._fields, self._indices, number)
            for number in range(metadata.num_row_groups)
        ]

    def _check_memory(self, n_bytes: int, remedy: str) -> None:
        check_memory(self.path, n_bytes, self.path.stat().st_size, remedy)

    def _marked(self, table: "pa.Table") -> "pa.Table":
        """Mark the columns that are text and not categories."""
        fields = [field.with_metadata(KEPT_AS_TEXT) if field.name in self._texts else field for field in table.schema]
        return table.cast(optional_import("pyarrow", EXTRA).schema(fields))


def texts_of(table: "pa.Table", name: str) -> np.ndarray:
    """Return a column as text, for labels of figures.

    Parameters
    ----------
    table : pyarrow.Table
    name : str

    Returns
    -------
    ndarray of str objects

    """
    column = table.column(name)
    pa = optional_import("pyarrow", EXTRA)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
    names = ["(none)" if value in (None, "") else str(value) for value in encoded.dictionary.to_pylist()]
    return np.array([*names, "(none)"], object)[encoded.indices.cast(pa.int64()).fill_null(len(names)).to_numpy()]
