"""Rows with many labels as text: the format of the Extreme Classification Repository, and svmlight's with labels.

A row is ``3,17 0:1 254:0.5``: its labels, then the features that are not 0, each by its number from 0. A row without
labels begins with a space or with its first feature. The repository's files have a first line with the number of rows,
of features and of labels.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from sdlgm._limits import allowed_memory, check_memory
from sdlgm.data.compressed import open_content
from sdlgm.data.dataset import SparseLabelledDataset
from sdlgm.data.formats.sparse_rows import sparse_rows
from sdlgm.errors import DataError

# Bytes for a byte of a line: its tokens as text, beside the numbers.
_LINE_RATIO = 64
_LARGEST = 2**31 - 1


def read_extreme(path: Path, n_features: int | None, n_labels: int | None) -> SparseLabelledDataset:
    """Read a file; see `sdlgm.data.load_extreme`."""
    values, columns, ends = array("d"), array("i"), array("q", [0])
    labels, label_ends = array("i"), array("q", [0])
    file_bytes, stated = path.stat().st_size, None
    longest = 0
    with open_content(path) as file:
        for number, line in enumerate(_lines(path, file, file_bytes), start=1):
            tokens = line.split("#", 1)[0].split()
            if number == 1 and len(tokens) == 3 and ":" not in line and "," not in line:
                stated = [_whole(path, number, token) for token in tokens]
                continue
            if not tokens and "#" in line:
                continue
            for token in tokens[0].split(",") if tokens and ":" not in tokens[0] else ():
                labels.append(_whole(path, number, token))
            for token in tokens[1:] if tokens and ":" not in tokens[0] else tokens:
                column, separator, value = token.partition(":")
                if not separator:
                    raise DataError(f"{path}: line {number}: {token[:40]!r} is not a feature; expected number:value")
                columns.append(_whole(path, number, column))
                values.append(_number(path, number, value))
            ends.append(len(columns))
            label_ends.append(len(labels))
            longest = max(longest, len(line))
            # The numbers, and the matrices that are made of them.
            n_bytes = 2 * (12 * len(columns) + 4 * len(labels) + 16 * len(ends)) + _LINE_RATIO * longest
            check_memory(path, n_bytes, file_bytes, "cut it into smaller files")
    if len(ends) == 1:
        raise DataError(f"{path}: has no rows")
    if stated is not None and stated[0] != len(ends) - 1:
        raise DataError(f"{path}: states {stated[0]} rows in its first line, and has {len(ends) - 1}; copy it again")
    n_features = n_features if stated is None else stated[1]
    n_labels = n_labels if stated is None else stated[2]
    X = _matrix(path, "feature", np.frombuffer(values), columns, ends, n_features)
    ones = np.ones(len(labels), np.int64)  # see `ArffFile.read_sparse`
    Y = _matrix(path, "label", ones, labels, label_ends, n_labels)
    return SparseLabelledDataset(path.name, X, Y)


def _lines(path: Path, file: IO[bytes], file_bytes: int) -> Iterator[str]:
    longest = allowed_memory(file_bytes) // _LINE_RATIO
    while line := file.readline(longest + 1):
        check_memory(path, _LINE_RATIO * len(line), file_bytes, "cut it into smaller files")
        try:
            yield line.decode("ascii")
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: is not text in ASCII ({error})") from error


def _matrix(
    path: Path, what: str, values: np.ndarray, columns: array, ends: array, n_columns: int | None
) -> sp.csr_array:
    places = np.frombuffer(columns, np.int32) if len(columns) else np.zeros(0, np.int32)
    n_found = int(places.max(initial=-1)) + 1
    if n_columns is None:
        n_columns = n_found
    if n_found > n_columns:
        raise DataError(f"{path}: has the {what} {n_found - 1}, and there are {n_columns}, numbered from 0")
    if n_columns < 1:
        raise DataError(f"{path}: has no {what}s")
    matrix = sparse_rows(values, places, np.frombuffer(ends, np.int64), n_columns)
    n_stored = matrix.nnz
    matrix.sum_duplicates()
    if matrix.nnz < n_stored:
        raise DataError(f"{path}: a row has a {what} twice")
    return matrix


def _whole(path: Path, line: int, text: str) -> int:
    try:
        number = int(text) if text.isdecimal() else -1
    except ValueError:  # more digits than Python reads
        number = -1
    if not 0 <= number <= _LARGEST:
        raise DataError(f"{path}: line {line}: {text[:40]!r} is not a whole number from 0 to {_LARGEST}")
    return number


def _number(path: Path, line: int, text: str) -> float:
    try:
        number = float(text) if "_" not in text else float("nan")  # Python reads 1_0 as 10
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise DataError(f"{path}: line {line}: {text[:40]!r} is not a finite number")
    return number
