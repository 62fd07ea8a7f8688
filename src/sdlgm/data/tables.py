"""Whole tables: read and write the files of users."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdlgm._files import remove_abandoned_files, write_atomic
from sdlgm.data.checks import binary_labels
from sdlgm.data.columns import is_number
from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.formats import kind_of, open_file
from sdlgm.data.formats.csv import write_arrow_csv, write_csv
from sdlgm.data.formats.npy import write_npy
from sdlgm.data.formats.parquet import write_arrow_parquet, write_parquet
from sdlgm.data.source import Block, RowSource
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CODES",
    "TABLES",
    "check_no_input",
    "check_writable",
    "kind_of",
    "read_multi_label",
    "read_source",
    "read_table",
    "stack_targets",
    "write_columns",
    "write_table",
]

# Endings of the files that can be written.
TABLES = (".npy", ".csv", ".parquet")
CODES = (".npz",)


def read_table(path: str | os.PathLike[str], *, label_column: str | None = None) -> Dataset:
    """Read a data file: ``.npy``, ``.npz``, ``.csv``, ``.parquet``, ``.arff`` or IDX (``-ubyte``, also gzipped).

    Parameters
    ----------
    path : str or path-like
        The file.
    label_column : str or None, default=None
        Column of a ``.csv`` or ``.parquet`` file that is a class and not a feature. The labels of an ``.arff`` file,
        which the XML file beside it names, are left out.

    Returns
    -------
    Dataset

    """
    return read_source(open_file(Path(path), label_column))


def read_source(source: RowSource) -> Dataset:
    """Read all rows of a source.

    Parameters
    ----------
    source : RowSource
        Rows whose first target, if any, is the class of each row.

    Returns
    -------
    Dataset

    """
    block = source.read()
    labels = next(iter(block.targets.values()), None)
    if labels is not None and labels.shape != (len(block),):
        raise DataError(
            f"{source.where}: has {len(block)} rows but labels of shape {labels.shape}; give one label for each row"
        )
    return Dataset(source.name, block.X, labels, source.feature_names, source.image_shape)


def read_multi_label(source: RowSource) -> MultiLabelDataset:
    """Read all rows of a source whose targets are labels.

    Parameters
    ----------
    source : RowSource
        Rows with named features. Each target is a label with the values 0 and 1.

    Returns
    -------
    MultiLabelDataset

    """
    block = source.read()
    Y = stack_targets(block, lambda name, values: binary_labels(source.where, name, values))
    return MultiLabelDataset(source.name, np.asarray(block.X), Y, source.feature_names or (), tuple(block.targets))


def stack_targets(block: Block, check: Callable[[str, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the targets of a block as a matrix of integers.

    Parameters
    ----------
    block : Block
        Rows with targets.
    check : callable
        Return the values of a target as integers, given its name and its values, or raise.

    Returns
    -------
    ndarray of shape (n, targets)

    """
    stacked = np.empty((len(block), len(block.targets)), np.int64)
    for column, (name, values) in enumerate(block.targets.items()):
        stacked[:, column] = check(name, values)
    return stacked


def write_table(path: str | os.PathLike[str], X: np.ndarray, feature_names: tuple[str, ...] | None = None) -> Path:
    """Write a dense matrix. The file is written whole or not at all.

    Parameters
    ----------
    path : str or path-like
        The file: ``.npy``, ``.csv`` or ``.parquet``.
    X : ndarray of shape (n, D)
        The values.
    feature_names : tuple of str or None, default=None
        Names of the columns; ``x0``, ``x1``, ... if None. A ``.npy`` file has no names.

    Returns
    -------
    Path
        The file.

    """
    path = Path(path)
    names = list(feature_names) if feature_names else [f"x{i}" for i in range(X.shape[1])]
    writers: dict[str, Callable[[Path], None]] = {
        ".npy": lambda temporary: write_npy(temporary, X),
        ".csv": lambda temporary: write_csv(temporary, X, names),
        ".parquet": lambda temporary: write_parquet(temporary, X, names),
    }
    check_writable(path, TABLES)
    written = write_atomic(path, writers[path.suffix])
    remove_abandoned_files(written)
    return written


def write_columns(path: str | os.PathLike[str], table: "pa.Table | np.ndarray") -> Path:
    """Write a table with columns of any types. The file is written whole or not at all.

    Parameters
    ----------
    path : str or path-like
        The file: ``.csv``, ``.parquet``, or ``.npy`` if all columns are numbers.
    table : pyarrow.Table or ndarray of shape (n, D)

    Returns
    -------
    Path
        The file.

    """
    path = Path(path)
    check_writable(path, TABLES)
    if isinstance(table, np.ndarray):
        return write_table(path, table)
    if path.suffix == ".npy":
        for field in table.schema:
            if not is_number(field.type):
                raise DataError(
                    f"{path}: column {field.name!r} holds {field.type}, not numbers; write .csv or .parquet"
                )
        return write_table(path, np.column_stack([column.to_numpy().astype(np.float64) for column in table.columns]))
    write = write_arrow_csv if path.suffix == ".csv" else write_arrow_parquet
    written = write_atomic(path, lambda temporary: write(temporary, table))
    remove_abandoned_files(written)
    return written


def check_no_input(path: Path, inputs: Sequence[str | Path]) -> None:
    """Raise if a file to write is one of those that the work reads.

    Parameters
    ----------
    path : Path
        The file to write.
    inputs : sequence of str or Path

    """
    for given in map(Path, inputs):
        if path.is_file() and given.exists() and path.samefile(given):
            raise DataError(f"{path}: is an input of this work and would be overwritten; choose another name")


def check_writable(path: Path, endings: tuple[str, ...] = (), *, inputs: Sequence[str | Path] = ()) -> None:
    """Raise if a file cannot be written. Call this before long work.

    Parameters
    ----------
    path : Path
        The file.
    endings : tuple of str, default=()
        Endings that the name may have; any if empty.
    inputs : sequence of str or Path, default=()
        Files that the work reads, which must not be overwritten.

    """
    check_no_input(path, inputs)
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is a folder or a device; name a file to write")
    if endings and path.suffix not in endings:
        raise DataError(f"{path}: cannot write this kind of file; it is written as {' or '.join(endings)}")
    folder = path.parent
    if path.is_symlink():  # what it names is written
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            raise DataError(f"{path}: is a link to {path.readlink()}, and there is no such folder; make it first")
    if not folder.is_dir():
        raise DataError(f"{folder}: there is no such folder to write to; make it first")
    if not os.access(folder, os.W_OK):
        raise DataError(f"{folder}: this folder cannot be written to; choose another")
