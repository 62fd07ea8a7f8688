"""Rows in batches, for files that do not fit into memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sdlgm.data.columns import arrow_table
from sdlgm.data.dataset import Table
from sdlgm.data.loading import open_source
from sdlgm.data.named import DATASETS
from sdlgm.data.rows import RowFiles, open_rows
from sdlgm.data.source import DEFAULT_BATCH_ROWS, RowSource


@dataclass(frozen=True)
class Batches:
    """Batches of rows. An estimator takes each of them. They can be iterated over once."""

    n_rows: int | None
    """Number of rows; None if only the end of the file tells it."""
    batches: Iterator["Table | RowFiles"]

    def __iter__(self) -> Iterator["Table | RowFiles"]:
        return self.batches


def open_batches(source: str, *, label_column: str | None = None, size: int = DEFAULT_BATCH_ROWS) -> Batches:
    """Open the rows of a file, a folder or a named data set in batches.

    ``.npy``, ``.csv`` and ``.parquet`` files are read as the batches are used: no more than a batch is in memory, and
    for parquet the pages that it needs of a row group. Other files and named data sets are loaded first.

    Parameters
    ----------
    source : str
        Path of a file or of a folder, or name of a data set.
    label_column : str or None, default=None
        Column of a ``.csv`` or ``.parquet`` file that is a class and not a feature.
    size : int, default=10_000
        Rows of a batch. Batches of a CSV file have about a megabyte instead, and those of a folder are the parts of its
        files.

    Returns
    -------
    Batches

    """
    path = Path(source)
    if source not in DATASETS and path.is_dir() and (files := open_rows(path, label_column=label_column)):
        return Batches(len(files), (files.with_parts([part]) for part in files.parts))
    rows = open_source(source, label_column, labels=False)
    return Batches(rows.n_rows, _tables(rows, size))


def _tables(rows: RowSource, size: int) -> Iterator[Table]:
    names = rows.feature_names
    for block in rows.batches(size):
        yield block.X if names is None else arrow_table(block.X, names)
