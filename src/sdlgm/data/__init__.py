"""Data: files of several kinds, and data sets by name."""

from pathlib import Path

from sdlgm.data.dataset import Dataset
from sdlgm.data.idx import read_idx
from sdlgm.data.named import DATASETS, fetch, find_file, load_named
from sdlgm.data.tables import CODES, TABLES, check_writable, read_codes, read_table, write_codes, write_table

__all__ = [
    "CODES",
    "DATASETS",
    "TABLES",
    "Dataset",
    "check_writable",
    "fetch",
    "find_file",
    "load_data",
    "read_codes",
    "read_idx",
    "read_table",
    "write_codes",
    "write_table",
]


def load_data(source: str, *, label_column: str | None = None) -> Dataset:
    """Load a file by its path or a data set by its name, such as ``digits`` or ``mnist:test``."""
    if Path(source).is_file() or "." in source or "/" in source:
        return read_table(source, label_column=label_column)
    return load_named(source)
