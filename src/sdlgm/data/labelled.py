"""People's own multi-label data."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdlgm.data.dataset import MultiLabelDataset, binary_labels
from sdlgm.data.loading import is_file, load_mulan
from sdlgm.data.mulan import read_mulan
from sdlgm.data.tables import from_columns, kind_of, read_columns
from sdlgm.errors import DataError


def read_labelled(
    source: str | os.PathLike[str], labels: Sequence[str] = (), *, optional: bool = False
) -> MultiLabelDataset:
    """Read a ``.csv`` or ``.parquet`` file of which the columns ``labels`` are labels, 0 or 1, or false or true.

    Without ``labels`` every column is a feature and Y has no columns, as for rows whose labels are to be predicted.
    With ``optional``, labels that a table does not have are left out.
    The labels of an ``.arff`` file and of a named data set are known without being named; see `load_mulan`.
    """
    source = os.fspath(source)
    if len(set(labels)) < len(labels):
        raise DataError(f"{source}: a label is named twice among {', '.join(labels)}")
    if not is_file(source):
        if labels and not optional:
            raise DataError(f"{source}: a data set with a name has labels of its own; name none")
        return load_mulan(source)
    path = Path(source)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    kind = kind_of(path)
    if kind == "arff":
        return read_mulan(path, labels, optional=optional)
    if kind not in ("csv", "parquet"):
        raise DataError(f"{path}: labels can be read from .csv, .parquet and .arff files only")
    table = read_columns(path, kind, *(() if optional else labels))
    labels = [name for name in labels if name in table.column_names]
    Y = [_label(path, name, table[name]) for name in labels]
    features = from_columns(path, table.drop_columns(list(labels)), None)
    return MultiLabelDataset(
        path.name,
        np.asarray(features.X),
        np.column_stack(Y) if Y else np.empty((table.num_rows, 0), np.int64),
        features.feature_names or (),
        tuple(labels),
    )


def _label(path: Path, name: str, column: Any) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if column.null_count:
        raise DataError(f"{path}: label {name!r} has {column.null_count} missing values; drop those rows first")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(f"{path}: label {name!r} holds {kind}; labels are 0 or 1, or false or true")
    return binary_labels(str(path), name, column.to_numpy().astype(np.float64))
