"""People's own data with labels or with counts."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.counting import digit_columns, scattered_digits
from sdlgm.data.dataset import CountDataset, Dataset, MultiLabelDataset, binary_labels
from sdlgm.data.loading import is_file, load_mulan
from sdlgm.data.mulan import read_mulan
from sdlgm.data.tables import arrays_of, from_columns, kind_of, read_columns
from sdlgm.errors import DataError

MADE: dict[str, Callable[[str], CountDataset]] = {"digit_columns": digit_columns, "scattered_digits": scattered_digits}
"""Data sets to count with that are made of other data."""


def read_labelled(
    source: str | os.PathLike[str],
    labels: Sequence[str] = (),
    *,
    optional: bool = False,
    values: bool = True,
    n_features: int | None = None,
) -> MultiLabelDataset:
    """Read a ``.csv`` or ``.parquet`` file of which the columns ``labels`` are labels, 0 or 1, or false or true.

    Without ``labels`` every column is a feature and Y has no columns, as for rows whose labels are to be predicted.
    With ``optional``, labels that a table does not have are left out; without ``values``, all are, whatever they hold.
    A table with ``n_features`` columns in all has no labels, even if features are called like them: 0, 1, 2, ...
    The labels of an ``.arff`` file and of a named data set are known without being named; see `load_mulan`.
    """
    source = os.fspath(source)
    _check_names(source, labels)
    if not is_file(source):
        if labels and not optional:
            raise DataError(f"{source}: a data set with a name has labels of its own; name none")
        return load_mulan(source)
    path, kind = _existing(source)
    if kind == "arff":
        return read_mulan(path, labels, optional=optional, values=values)
    if kind not in ("csv", "parquet"):
        raise DataError(f"{path}: labels can be read from .csv, .parquet and .arff files only")
    features, Y, found = _read_apart(path, kind, labels, optional, binary_labels if values else None, n_features)
    return MultiLabelDataset(path.name, np.asarray(features.X), Y, features.feature_names or (), found)


def read_counted(
    source: str | os.PathLike[str],
    classes: Sequence[str] = (),
    *,
    optional: bool = False,
    values: bool = True,
    n_features: int | None = None,
) -> CountDataset:
    """Read a ``.csv`` or ``.parquet`` file of which the columns ``classes`` are counts, or a file of arrays.

    Of a ``.npz`` file, ``X`` are the rows or the pictures and ``counts`` their counts. Without ``classes``, without
    ``counts``, or of a ``.npy`` file, there are no counts, as for rows whose counts are to be predicted. With
    ``optional``, classes that a table does not have are left out; without ``values``, counts are, whatever they are. A
    table with ``n_features`` columns in all has no counts. ``digit_columns:train``, ``digit_columns:test`` and the same
    of ``scattered_digits`` are made of MNIST.
    """
    source = os.fspath(source)
    _check_names(source, classes)
    if not is_file(source):
        name, _, split = source.partition(":")
        if name not in MADE:
            raise DataError(f"{source}: no such data to count with; known are {', '.join(MADE)}, and files")
        if classes and not optional:
            raise DataError(f"{source}: a data set with a name has classes of its own; name none")
        return MADE[name](split or "train")
    path, kind = _existing(source)
    if kind in ("npy", "npz"):
        return _read_arrays(path, classes, optional, values)
    if kind not in ("csv", "parquet"):
        raise DataError(f"{path}: counts can be read from .csv, .parquet and .npz files only")
    features, counts, found = _read_apart(path, kind, classes, optional, _count if values else None, n_features)
    return CountDataset(path.name, np.asarray(features.X), counts, features.feature_names, found)


def _check_names(source: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise DataError(f"{source}: a name is there twice among {', '.join(names)}")


def _existing(source: str) -> tuple[Path, str]:
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    return path, kind_of(path)


def _read_apart(
    path: Path,
    kind: str,
    names: Sequence[str],
    optional: bool,
    checked: Callable[[str, str, np.ndarray], np.ndarray] | None,
    n_features: int | None,
) -> tuple[Dataset, np.ndarray, tuple[str, ...]]:
    """Features and targets of a table, and the names of the targets."""
    table = read_columns(path, kind, *(() if optional else names))
    names = () if table.num_columns == n_features else tuple(name for name in names if name in table.column_names)
    features = from_columns(path, table.drop_columns(list(names)), None)
    if not names or checked is None:
        return features, np.empty((table.num_rows, 0), np.int64), ()
    targets = [checked(str(path), name, _numbers(path, name, table[name])) for name in names]
    return features, np.column_stack(targets), names


def _numbers(path: Path, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        raise DataError(f"{path}: column {name!r} has {column.null_count} missing values; drop those rows first")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"{path}: column {name!r} holds {kind}; labels and counts are numbers, or false or true")
    return column.to_numpy().astype(np.float64)


def _count(where: str, name: str, values: np.ndarray) -> np.ndarray:
    """One class of every row as counts, or an error that says what is there instead."""
    strange = values[~((values >= 0) & (values == np.floor(values)) & (values < 2**31))]
    if strange.size:
        raise DataError(f"{where}: {name!r} has the value {strange[0]:g}; counts are whole numbers, 0 or more")
    return values.astype(np.int64)


def _read_arrays(path: Path, classes: Sequence[str], optional: bool, values: bool) -> CountDataset:
    arrays = arrays_of(path)
    if "X" not in arrays:
        raise DataError(f"{path}: has the arrays {', '.join(arrays)}; name the observations X")
    X = arrays["X"]
    if X.dtype.kind not in "biuf" or X.ndim not in (2, 3, 4) or not len(X):
        raise DataError(
            f"{path}: X is {X.dtype} of shape {X.shape}; give rows, or pictures (n, height, width[, channels])"
        )
    none = np.empty((len(X), 0), np.int64)
    counts = arrays.get("counts", none) if values else none
    counts = counts[:, None] if counts.ndim == 1 else counts
    if counts.ndim != 2 or len(counts) != len(X) or counts.dtype.kind not in "biuf":
        raise DataError(f"{path}: counts are {counts.dtype} of shape {counts.shape}; give ({len(X)}, classes)")
    if classes and not optional and len(classes) != counts.shape[1]:
        raise DataError(f"{path}: {len(classes)} classes are named, and there are {counts.shape[1]} columns of counts")
    checked = [
        _count(str(path), f"counts, column {k}", counts[:, k].astype(np.float64)) for k in range(counts.shape[1])
    ]
    matrix = np.column_stack(checked) if checked else np.empty((len(X), 0), np.int64)
    named = tuple(classes) if len(classes) == matrix.shape[1] > 0 else None
    return CountDataset(path.name, X.astype(np.float32 if X.dtype.itemsize <= 2 else X.dtype), matrix, None, named)
