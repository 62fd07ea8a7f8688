"""Rows of files for a model: read, as far as columns are needed, and encoded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sdlgm._limits import check_memory
from sdlgm.data import frames
from sdlgm.data.batches import open_batches
from sdlgm.data.dataset import Dataset
from sdlgm.data.loading import load_data
from sdlgm.data.schema import Column, Schema
from sdlgm.data.series import MAX_GAP, WindowPlan
from sdlgm.data.series_files import FILE_COLUMN, SeriesFolder, file_at_fault, is_series_folder
from sdlgm.data.source import some_names
from sdlgm.data.table_files import CsvTable, ParquetTable, is_table_file, open_table, texts_of
from sdlgm.data.windowing import EncodedRows, Windows, encode_table, encode_windows
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

WINDOWS_AT_ONCE = 10_000
"""Windows that are encoded at a time."""
# Windows are in memory as a matrix, and in a copy that is checked or scaled.
_MATRIX_BYTES = 16


@dataclass(frozen=True)
class TableOptions:
    """Options of a user about the columns of a table; see `Schema.of` and `windows`."""

    columns: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    time_column: str | None = None
    categorical: tuple[str, ...] = ()
    na_values: tuple[str, ...] = ()
    window: int | None = None
    stride: int | None = None
    group: str | None = None
    max_gap: float = MAX_GAP

    @property
    def plan(self) -> WindowPlan | None:
        """How series are cut; None if they are not. A ``max_gap`` of 0 bridges all gaps."""
        if self.window is None:
            return None
        return WindowPlan(self.window, self.stride or 1, float(self.max_gap) or None)


def read_for_fit(
    source: str, options: TableOptions, label_column: str | None = None
) -> "EncodedRows | Windows | np.ndarray | sp.csr_matrix | pa.Table":
    """Read rows to fit a model to.

    Parameters
    ----------
    source : str
        A file, a folder of CSV files that are series, or the name of a data set.
    options : TableOptions
    label_column : str or None, default=None
        A column that is a class and not a feature.

    Returns
    -------
    EncodedRows, Windows, ndarray, CSR matrix or pyarrow.Table
        What an estimator accepts as X.

    """
    if is_series_folder(source):
        options = _of_files(source, options)
        left_out = _left_out(source, SeriesFolder(Path(source)).column_names, options, label_column)
        table = SeriesFolder(Path(source), left_out).read()
    elif not is_table_file(source):
        table, left_out = load_data(source, label_column=label_column).table, ()
        if options == TableOptions():
            return table
    else:
        file = open_table(source)
        left_out = _left_out(source, file.column_names, options, label_column)
        table = open_table(source, left_out).read()

    def encode(table: Any) -> EncodedRows | Windows:
        schema = Schema.of(
            table,
            columns=[name for name in options.columns if name not in left_out] or None,
            drop=[name for name in options.drop if name not in left_out],
            categorical=options.categorical,
            time_column=options.time_column,
            group=options.group,
            na_values=options.na_values,
        )
        schema = replace(schema, ignored=(*schema.ignored, *left_out), window=options.plan)
        return _encoded(source, schema, table)

    return _naming(source, encode, table)


def _of_files(source: str, options: TableOptions) -> TableOptions:
    """Return the options for a folder whose files are the series."""
    if options.window is None:
        raise DataError(f"{source}: a folder of CSV files is read as series, one in each file; give --window as well")
    if options.group is not None:
        raise DataError(f"{source}: each file of a folder is one series, so that there is no --group to name")
    return replace(options, group=FILE_COLUMN)


def _left_out(source: str, known: list[str], options: TableOptions, label_column: str | None) -> tuple[str, ...]:
    """Return the columns that need not be read."""
    labels = () if label_column is None else (label_column,)
    for name in (*labels, *options.drop, *options.columns):
        if name not in known:
            raise DataError(f"{source}: has no column {name!r}; its columns are {some_names(known)}")
    needed = {options.time_column, options.group}
    chosen = set(options.columns) or set(known)
    out = {*labels, *options.drop}
    return tuple(name for name in known if name not in needed and (name in out or name not in chosen))


def _encoded(source: str, schema: Schema, table: Any) -> EncodedRows | Windows:
    rows = encode_table(schema, table)
    if isinstance(rows, Windows):
        n_bytes = _MATRIX_BYTES * rows.shape[0] * rows.shape[1]
        check_memory(source, n_bytes, 0, "set a larger --stride, a smaller --window, or fewer columns")
    return rows


def read_for_model(source: str, model: Any, label_column: str | None = None, stride: int | None = None) -> Any:
    """Read rows for a fitted model, which says what their columns mean.

    Parameters
    ----------
    source : str
        A file, or the name of a data set.
    model : SDLGM
        The fitted model.
    label_column : str or None, default=None
        A column that is a class and not a feature.
    stride : int or None, default=None
        Rows from the beginning of a window to that of the next; None for that of the fit.

    Returns
    -------
    Windows, EncodedRows, ndarray, CSR matrix or pyarrow.Table
        What the model accepts as X.

    """
    schema = _schema_of(model)
    if schema is None or (schema.window is None and not _is_table(source)):
        return load_data(source, label_column=label_column).table
    if not _is_table(source):
        table = load_data(source, label_column=label_column).table
    else:
        table = _open(source, schema, label_column).read()

    def encode(table: Any) -> Any:
        if schema.window is None:
            return table if model.schema_ is not None else EncodedRows(schema, schema.encode(table))
        return _encoded(source, _with_stride(schema, stride), table)

    return _naming(source, encode, table)


Result = TypeVar("Result")


def _naming(source: str, work: Callable[[Any], Result], table: Any) -> Result:
    """Work on the table of a source. Errors name the source, or the file of a folder that is at fault."""
    try:
        return work(table)
    except DataError as error:
        found = file_at_fault(table, work, error) if is_series_folder(source) else None
        if found is not None:
            raise DataError(f"{Path(source) / found[0]}: {found[1]}") from error
        raise DataError(f"{source}: {error}") from error


def _schema_of(model: Any) -> Schema | None:
    """Return the schema of a model; of one that was fitted to a table of numbers, that of numbers."""
    if model.schema_ is not None or not hasattr(model, "feature_names_in_"):
        return model.schema_
    return Schema(tuple(Column(name, "number", "float") for name in model.feature_names_in_))


def _with_stride(schema: Schema, stride: int | None) -> Schema:
    if stride is None or schema.window is None:
        return schema
    return replace(schema, window=replace(schema.window, stride=stride))


def _is_table(source: str) -> bool:
    return is_series_folder(source) or is_table_file(source)


def _open(source: str, schema: Schema, label_column: str | None) -> CsvTable | ParquetTable | SeriesFolder:
    if is_series_folder(source):
        if schema.window is None:
            raise DataError(f"{source}: a folder of CSV files is read as series, and the model was not fitted to any")
        return SeriesFolder(Path(source), {*schema.ignored, label_column} - {None})  # type: ignore[arg-type]
    if schema.group == FILE_COLUMN and FILE_COLUMN not in open_table(source).column_names:
        return SeriesFolder(Path(source), {*schema.ignored, label_column} - {None})  # type: ignore[arg-type]
    if label_column is not None and label_column not in open_table(source).column_names:
        raise DataError(f"{source}: has no column {label_column!r}")
    apart = () if schema.window is not None else (schema.time_column, schema.group)
    return open_table(source, {*schema.ignored, *apart, label_column} - {None})  # type: ignore[arg-type]


@dataclass(frozen=True)
class ModelBatches:
    """Batches of rows for a fitted model. They can be iterated over once."""

    n_rows: int | None
    """Number of rows; None if only the end of the file tells it."""
    batches: Iterator[Any]
    windows: Windows | None = None
    """The windows, if the rows are windows."""


def open_for_model(source: str, model: Any, label_column: str | None = None, stride: int | None = None) -> ModelBatches:
    """Open the rows of a source in batches for a fitted model.

    Series are read whole, because their rows are sorted by time. Of other files no more than a batch is in memory.

    Parameters
    ----------
    source : str
        A file, a folder, or the name of a data set.
    model : SDLGM
        The fitted model.
    label_column : str or None, default=None
        A column that is a class and not a feature.
    stride : int or None, default=None
        Rows from the beginning of a window to that of the next; None for that of the fit.

    Returns
    -------
    ModelBatches

    """
    schema = _schema_of(model)
    if schema is not None and schema.window is not None:
        if _is_table(source):
            table = _open(source, schema, label_column).read()
        else:
            table = load_data(source, label_column=label_column).table
        plan = _with_stride(schema, stride)
        found = _naming(source, lambda table: encode_windows(plan, table), table)
        return ModelBatches(len(found), found.batches(WINDOWS_AT_ONCE), found)
    if schema is None or not is_table_file(source):
        batches = open_batches(source, label_column=label_column)
        return ModelBatches(batches.n_rows, iter(batches))
    file = _open(source, schema, label_column)
    assert not isinstance(file, SeriesFolder)  # those have windows
    if model.schema_ is None:
        return ModelBatches(file.n_rows, (EncodedRows(schema, schema.encode(part)) for part in file.batches()))
    return ModelBatches(file.n_rows, file.batches())


def load_for_model(source: str, model: Any, label_column: str | None = None) -> Dataset:
    """Load rows with their labels for figures of a fitted model.

    Parameters
    ----------
    source : str
        A file, or the name of a data set.
    model : SDLGM
        The fitted model.
    label_column : str or None, default=None
        A column that is a class and not a feature.

    Returns
    -------
    Dataset

    """
    schema = _schema_of(model)
    if schema is None or (schema.window is None and not is_table_file(source)):
        return load_data(source, label_column=label_column)
    rows = read_for_model(source, model, label_column)
    name, labels = Path(source).name, None
    if label_column is not None and is_table_file(source):
        file = open_table(source)
        labels = texts_of(open_table(source, [n for n in file.column_names if n != label_column]).read(), label_column)
    if isinstance(rows, Windows):
        labels = None if labels is None else labels[rows.last_rows]
    matrix = rows.matrix if isinstance(rows, Windows | EncodedRows) else schema.encode(_features(rows, schema))
    return Dataset(name, matrix, labels, schema.feature_names, schema=schema)


def _features(table: Any, schema: Schema) -> Any:
    """Return a table, or raise if it has columns that were not there at fit."""
    more = sorted(set(frames.column_names(table)) - {column.name for column in schema.columns})
    if more:
        raise DataError(f"the columns {some_names(more)} were not there at fit; drop them")
    return table
