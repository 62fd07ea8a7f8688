"""Columns of pyarrow tables, and their conversion to numbers and text."""

import contextlib
import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sdlgm._files import printable
from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.source import Block
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

EXTRA = "data"
MISSING_LABEL = "(none)"
# Bytes of a text: the object, its hash, and its place in a list and in a dictionary.
_TEXT_BYTES = 256


class TextMemory:
    """Texts of a file. Equal texts are one object: a small file can repeat a long one.

    Parameters
    ----------
    path : Path
        The file.

    Attributes
    ----------
    n_bytes : int
        Memory of the texts so far.
    held : int
        Memory that the rest of the file takes.

    """

    def __init__(self, path: Path):
        self._path = path
        self._texts: dict[str, str] = {}
        self.n_bytes = 0
        self.held = 0

    def share(self, texts: "pa.Array") -> list[str]:
        """Return the texts of an array as objects that are shared with equal ones of other arrays."""
        # A character takes up to four bytes.
        needed = self.held + self.n_bytes + len(texts) * _TEXT_BYTES + 4 * texts.nbytes
        check_memory(self._path, needed, self._path.stat().st_size, "leave out the label column")
        shared = []
        for value in texts.to_pylist():
            text = MISSING_LABEL if value in (None, "") else str(value)
            if text not in self._texts:
                self._texts[text] = text
                self.n_bytes += _TEXT_BYTES + 4 * len(text)
            shared.append(self._texts[text])
        return shared


def arrow_table(X: np.ndarray | sp.csr_matrix, names: Sequence[str]) -> "pa.Table":
    """Return a pyarrow table with the columns of a matrix.

    Parameters
    ----------
    X : ndarray of shape (n, D)
        The values.
    names : sequence of str
        Names of the columns.

    Returns
    -------
    pyarrow.Table

    """
    pa = optional_import("pyarrow", EXTRA)
    return pa.table({printable(name): X[:, i] for i, name in enumerate(names)})


def arrow_file(path: Path, mode: str = "rb") -> "pa.OSFile":
    """Open a file for pyarrow, which cannot open one by a name that is not UTF-8."""
    return optional_import("pyarrow", EXTRA).OSFile(os.fsencode(path), mode)


@contextlib.contextmanager
def arrow_errors(path: Path, kind: str) -> Iterator[None]:
    """Raise errors of pyarrow as errors that name the file."""
    pa = optional_import("pyarrow", EXTRA)
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as {kind} ({error})") from error


def is_text(kind: "pa.DataType") -> bool:
    """Return whether a type is text, dictionary-encoded or not."""
    types = optional_import("pyarrow", EXTRA).types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind)


def is_number(kind: "pa.DataType") -> bool:
    """Return whether a type is a number or a truth value."""
    types = optional_import("pyarrow", EXTRA).types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def check_flat(path: Path, fields: Iterable["pa.Field"]) -> None:
    """Raise if a column holds values of any size other than text, such as lists."""
    types = optional_import("pyarrow", EXTRA).types
    for field in fields:
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        if not (is_text(kind) or types.is_primitive(kind) or types.is_null(kind)):
            raise DataError(f"{path}: column {field.name!r} holds {field.type}, not numbers; remove it")


def check_features(path: Path, fields: Iterable["pa.Field"]) -> None:
    """Raise if a column of features holds anything but numbers."""
    for field in fields:
        if not is_number(field.type):
            raise DataError(
                f"{path}: column {field.name!r} holds {field.type}, not numbers; remove it, encode it as numbers, or "
                "name it as the label column"
            )


def check_targets(path: Path, fields: Iterable["pa.Field"]) -> None:
    """Raise if a column of labels or counts holds anything but numbers or truth values."""
    for field in fields:
        if not is_number(field.type):
            raise DataError(
                f"{path}: column {field.name!r} holds {field.type}; labels and counts are numbers, or false or true"
            )


def table_block(
    path: Path,
    table: "pa.Table",
    features: Sequence[str],
    targets: Sequence[str] = (),
    *,
    place: str,
    texts: TextMemory | None = None,
    out: np.ndarray | None = None,
) -> Block:
    """Convert a pyarrow table.

    Parameters
    ----------
    path : Path
        File, for messages.
    table : pyarrow.Table
        Rows of the file.
    features, targets : sequence of str
        Columns to convert.
    place : str
        Which rows of the file these are, for messages.
    texts : TextMemory or None, default=None
        If given, targets are text, and equal texts are one object across all tables with the same memory. Otherwise
        targets are double precision numbers.
    out : ndarray of shape (n, features) or None, default=None
        Array for the features; a new one of double precision if None.

    Returns
    -------
    Block

    """
    X = np.empty((table.num_rows, len(features))) if out is None else out
    columns = dict(zip(table.column_names, table.columns, strict=True))
    for i, name in enumerate(features):
        X[:, i] = _numbers(path, name, columns[name], place)
    if texts is None:
        values = {name: _numbers(path, name, columns[name], place).astype(np.float64) for name in targets}
    else:
        values = {name: _texts(columns[name], texts) for name in targets}
    return Block(X, values)


def _numbers(path: Path, name: str, column: "pa.ChunkedArray", place: str) -> np.ndarray:
    if column.null_count:
        raise DataError(
            f"{path}: column {name!r} has {column.null_count} missing values in {place}; fill or drop them first"
        )
    return column.to_numpy()


def _texts(column: "pa.ChunkedArray", texts: TextMemory) -> np.ndarray:
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    shared = texts.share(encoded.dictionary)
    return np.array([*shared, MISSING_LABEL], dtype=object)[encoded.indices.fill_null(len(shared)).to_numpy()]
