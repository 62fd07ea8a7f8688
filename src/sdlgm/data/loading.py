"""Rows of a file or of a data set that has a name: all at once, or a batch at a time if they are too many."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.mulan import read_mulan
from sdlgm.data.named import DATASETS, load_named
from sdlgm.data.rows import open_rows
from sdlgm.data.tables import (
    check_columns,
    csv_options,
    from_array,
    from_columns,
    kind_of,
    npy_layout,
    read_table,
    reading,
)
from sdlgm.errors import DataError

BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Batches:
    """Rows that come in batches, each of which an estimator takes; they can be gone through once."""

    n_rows: int | None
    """None if only the end of the file will tell."""
    batches: Iterator[Any]

    def __iter__(self) -> Iterator[Any]:
        return self.batches


def load_data(source: str, *, label_column: str | None = None) -> Dataset:
    """Load a file by its path or a data set by its name, such as ``digits`` or ``mnist:test``.

    A folder of files is not loaded but opened, by `open_rows`.

    Of multi-label data, such as ``birds``, these are the observations without their labels.
    """
    if Path(source).is_dir() and source not in DATASETS:
        raise DataError(f"{source}: is a folder, and one file, or data with a name, are asked for")
    if is_file(source):
        return read_table(source, label_column=label_column)
    dataset = load_named(source)
    return dataset.observations if isinstance(dataset, MultiLabelDataset) else dataset


def load_mulan(name_or_path: str | os.PathLike[str]) -> MultiLabelDataset:
    """Load an ARFF file that has the XML file with the names of its labels beside it, or a multi-label data set by its
    name: ``birds``, ``emotions`` (also with ``:train`` or ``:test``) or ``cal500``.
    """
    source = os.fspath(name_or_path)
    if is_file(source):
        return read_mulan(source)
    dataset = load_named(source)
    if not isinstance(dataset, MultiLabelDataset):
        raise DataError(f"{source}: is no multi-label data set; a row has one class")
    return dataset


def is_file(source: str) -> bool:
    """Whether this is meant as a path, and not as the name of a data set."""
    return Path(source).is_file() or "." in source or "/" in source


def open_batches(source: str, *, label_column: str | None = None, size: int = BATCH_ROWS) -> Batches:
    """The rows that `load_data` would load, or those of a folder, in batches.

    ``.npy``, ``.csv`` and ``.parquet`` files are read as the batches are asked for: of the first two no more than a
    batch is in memory at a time, of the last what pyarrow needs of a row group. Other kinds of files and the named data
    sets are loaded first. Whatever ``size`` is, rows of a CSV file come in batches of about a megabyte, and those of a
    folder in the parts of its files.
    """
    path = Path(source)
    if path.is_dir() and (files := open_rows(path, label_column=label_column)):
        return Batches(len(files), (files.with_parts([part]) for part in files.parts))
    kind = kind_of(path) if path.is_file() else None
    if kind == "npy" and label_column is None:
        rows = _npy_batches(path, size)
    elif kind == "parquet":
        rows = _parquet_batches(path, label_column, size)
    elif kind == "csv":
        rows = Batches(None, _csv_batches(path, label_column))
    else:
        rows = _slices(load_data(source, label_column=label_column), size)
    return Batches(rows.n_rows, _some(source, rows.batches))


def _some(source: str, batches: Iterator[Any]) -> Iterator[Any]:
    empty = True
    for batch in batches:
        empty = False
        yield batch
    if empty:
        raise DataError(f"{source}: has no rows")


def _slices(dataset: Dataset, size: int) -> Batches:
    n_rows: int = dataset.X.shape[0]
    table = dataset.table
    part = table.slice if hasattr(table, "slice") else lambda start, length: table[start : start + length]
    return Batches(n_rows, (part(start, size) for start in range(0, n_rows, size)))


def _npy_batches(path: Path, size: int) -> Batches:
    """Plain reads, not a memory map: mapped pages count as memory of the process until the system wants them back."""
    layout = npy_layout(path)
    shape, dtype, start = layout.shape, layout.dtype, layout.start
    from_array(path, np.empty((0, *shape[1:]), dtype))  # refuse what is no table before anything is read
    if layout.by_columns:  # a row is all over the file
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        parts = (np.array(mapped[first : first + size]) for first in range(0, shape[0], size))
        return Batches(shape[0], (from_array(path, part).X for part in parts))
    row_shape = shape[1:]
    n_values = int(np.prod(row_shape))

    def batches() -> Iterator[Any]:
        with path.open("rb") as file:
            file.seek(start)
            for first in range(0, shape[0], size):
                n_rows = min(size, shape[0] - first)
                values = np.fromfile(file, dtype, n_rows * n_values)
                yield from_array(path, values.reshape(n_rows, *row_shape)).X

    return Batches(shape[0], batches())


def _parquet_batches(path: Path, label_column: str | None, size: int) -> Batches:
    import pyarrow as pa
    from pyarrow import parquet

    with reading(path, "parquet"):
        n_rows = parquet.read_metadata(path).num_rows
        names = parquet.read_schema(path).names
    check_columns(path, names, label_column)

    def batches() -> Iterator[Any]:
        with reading(path, "parquet"), parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as file:
            for batch in file.iter_batches(size):
                yield from_columns(path, pa.Table.from_batches([batch]), label_column).table

    return Batches(n_rows, batches())


def _csv_batches(path: Path, label_column: str | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    options = csv_options(path)
    with reading(path, "csv"):
        with arrow_csv.open_csv(path, read_options=options) as first:
            schema = first.schema
        check_columns(path, schema.names, label_column)
        # The types are guessed from the first megabyte; what looks whole or empty there may have fractions later.
        types = {
            field.name: pa.string() if field.name == label_column else pa.float64()
            for field in schema
            if field.name == label_column or pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        }
        convert = arrow_csv.ConvertOptions(column_types=types)
        with arrow_csv.open_csv(path, read_options=options, convert_options=convert) as reader:
            for batch in reader:
                if batch.num_rows:
                    yield from_columns(path, pa.Table.from_batches([batch]), label_column).table
