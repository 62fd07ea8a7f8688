"""Read rows with targets: labels or counts."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, overload

import numpy as np

from sdlgm.data.checks import whole_counts
from sdlgm.data.dataset import CountDataset, MultiLabelDataset, SparseLabelledDataset
from sdlgm.data.digit_pictures import digit_columns, scattered_digits
from sdlgm.data.formats import COLUMN_FORMATS, existing_file, kind_of, open_columns
from sdlgm.data.formats.arff import ArffFile, label_files, labels_beside
from sdlgm.data.formats.extreme import read_extreme
from sdlgm.data.formats.npy import NpyFile
from sdlgm.data.formats.npz import NpzFile
from sdlgm.data.loading import is_path
from sdlgm.data.named import load_named
from sdlgm.data.source import TargetColumns
from sdlgm.data.tables import read_multi_label, stack_targets
from sdlgm.errors import DataError

GENERATED: dict[str, Callable[[str], CountDataset]] = {
    "digit_columns": digit_columns,
    "scattered_digits": scattered_digits,
}
"""Data sets with counts that are made of other data sets, by name."""


@overload
def load_mulan(name_or_path: str | os.PathLike[str], *, sparse: Literal[False] = False) -> MultiLabelDataset: ...
@overload
def load_mulan(name_or_path: str | os.PathLike[str], *, sparse: Literal[True]) -> SparseLabelledDataset: ...
def load_mulan(
    name_or_path: str | os.PathLike[str], *, sparse: bool = False
) -> MultiLabelDataset | SparseLabelledDataset:
    """Load multi-label data.

    Parameters
    ----------
    name_or_path : str or path-like
        An ARFF file with an XML file beside it that names the labels, or a named data set: ``birds``, ``emotions``
        (also with ``:train`` or ``:test``) or ``cal500``.
    sparse : bool, default=False
        Keep the rows and labels of a file with sparse rows sparse. What a row leaves out has to be 0.

    Returns
    -------
    MultiLabelDataset, or SparseLabelledDataset with ``sparse=True``

    """
    source = os.fspath(name_or_path)
    if sparse:
        if not is_path(source):
            raise DataError(f"{source}: is dense; give a file with sparse rows, or leave sparse=True out")
        path = existing_file(Path(source))
        return ArffFile.open(path, _labels_beside(path, TargetColumns())).read_sparse()
    if is_path(source):
        return _read_arff(existing_file(Path(source)), TargetColumns())
    dataset = load_named(source)
    if not isinstance(dataset, MultiLabelDataset):
        raise DataError(f"{source}: is not a multi-label data set: each row has one class")
    return dataset


def load_extreme(
    path: str | os.PathLike[str], *, n_features: int | None = None, n_labels: int | None = None
) -> SparseLabelledDataset:
    """Load rows with many labels in the format of the Extreme Classification Repository, or svmlight's.

    A row is ``3,17 0:1 254:0.5``: its labels, then the features that are not 0. Both are numbered from 0; with numbers
    from 1, as some files have them, column 0 is empty.

    Parameters
    ----------
    path : str or path-like
        A text file, gzipped or not. Files of the repository have a first line with the number of rows, of features and
        of labels.
    n_features, n_labels : int or None, default=None
        For a file without that line; None for the largest number in the file, plus 1.

    Returns
    -------
    SparseLabelledDataset

    """
    return read_extreme(existing_file(Path(path)), n_features, n_labels)


def read_labelled(
    source: str | os.PathLike[str],
    labels: Sequence[str] = (),
    *,
    optional: bool = False,
    values: bool = True,
    n_features: int | None = None,
) -> MultiLabelDataset:
    """Read rows with labels.

    Parameters
    ----------
    source : str or path-like
        A ``.csv``, ``.parquet`` or ``.arff`` file, or a named data set. The labels of the last two are known; see
        `load_mulan`.
    labels : sequence of str, default=()
        Columns of a ``.csv`` or ``.parquet`` file that are labels, 0 or 1, or false or true. If empty, every column is
        a feature.
    optional : bool, default=False
        Ignore labels that the file does not have.
    values : bool, default=True
        Read the labels. Otherwise their columns are skipped, whatever they contain.
    n_features : int or None, default=None
        A table with this number of columns has no labels, even if features are named like them: 0, 1, 2, ...

    Returns
    -------
    MultiLabelDataset
        Y has no columns if there are no labels, as for rows whose labels are to be predicted.

    """
    source = os.fspath(source)
    columns = TargetColumns(tuple(labels), optional, n_features, values)
    _check_unique(source, columns.names)
    if not is_path(source):
        if labels and not optional:
            raise DataError(f"{source}: a named data set has labels of its own; name none")
        return load_mulan(source)
    path = existing_file(Path(source))
    kind = kind_of(path)
    if kind == "arff":
        return _read_arff(path, columns)
    if kind not in COLUMN_FORMATS:
        raise DataError(f"{path}: labels can be read from .csv, .parquet and .arff files only")
    return read_multi_label(open_columns(path, columns))


def _read_arff(path: Path, labels: TargetColumns) -> MultiLabelDataset:
    return read_multi_label(ArffFile.open(path, _labels_beside(path, labels)))


def _labels_beside(path: Path, labels: TargetColumns) -> TargetColumns:
    """Return the labels of an ARFF file; if they are not named, those of the XML file beside it."""
    if labels.names:
        return labels
    labels = TargetColumns(labels_beside(path), labels.optional, values=labels.values)
    if not labels.names:
        expected = " or ".join(map(str, label_files(path)))
        raise DataError(f"{path}: the file that names its labels is missing; expected {expected}")
    return labels


def read_counted(
    source: str | os.PathLike[str],
    classes: Sequence[str] = (),
    *,
    optional: bool = False,
    values: bool = True,
    n_features: int | None = None,
) -> CountDataset:
    """Read rows or images with counts.

    Parameters
    ----------
    source : str or path-like
        A ``.csv`` or ``.parquet`` file; a ``.npz`` file with the arrays ``X``, rows or images, and ``counts``; a
        ``.npy`` file, without counts; or ``digit_columns:train``, ``digit_columns:test`` and the same of
        ``scattered_digits``, which are made of MNIST.
    classes : sequence of str, default=()
        Columns of a ``.csv`` or ``.parquet`` file that are counts, or names of the columns of ``counts``.
    optional : bool, default=False
        Ignore classes that the file does not have.
    values : bool, default=True
        Read the counts. Otherwise they are skipped, whatever they are.
    n_features : int or None, default=None
        A table with this number of columns has no counts, even if features are named like classes.

    Returns
    -------
    CountDataset
        ``counts`` has no columns if there are no counts, as for rows whose counts are to be predicted.

    """
    source = os.fspath(source)
    columns = TargetColumns(tuple(classes), optional, n_features, values)
    _check_unique(source, columns.names)
    if not is_path(source):
        name, _, split = source.partition(":")
        if name not in GENERATED:
            raise DataError(f"{source}: no data set with counts; known are {', '.join(GENERATED)}, and files")
        if classes and not optional:
            raise DataError(f"{source}: a named data set has classes of its own; name none")
        return GENERATED[name](split or "train")
    path = existing_file(Path(source))
    kind = kind_of(path)
    if kind in ("npy", "npz"):
        return _read_arrays(path, kind, columns)
    if kind not in COLUMN_FORMATS:
        raise DataError(f"{path}: counts can be read from .csv, .parquet, .npz and .npy files only")
    rows = open_columns(path, columns)
    block = rows.read()
    counts = stack_targets(block, lambda name, column: whole_counts(path, name, column))
    return CountDataset(rows.name, np.asarray(block.X), counts, rows.feature_names, tuple(block.targets))


def _check_unique(source: str, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        raise DataError(f"{source}: a name is given twice among {', '.join(names)}")


def _read_arrays(path: Path, kind: str, classes: TargetColumns) -> CountDataset:
    if kind == "npy":
        rows = NpyFile(path, channels=True)
    else:
        rows = NpzFile(path, target="counts" if classes.values else None, channels=True, only_x=True)
    block = rows.read()
    counts = block.targets.get("counts", np.empty((len(block), 0), np.int64))
    counts = counts[:, None] if counts.ndim == 1 else counts
    if counts.ndim != 2 or len(counts) != len(block) or counts.dtype.kind not in "biuf":
        raise DataError(f"{path}: counts are {counts.dtype} of shape {counts.shape}; give ({len(block)}, classes)")
    n_classes = counts.shape[1]
    if classes.names and not classes.optional and len(classes.names) != n_classes:
        raise DataError(f"{path}: {len(classes.names)} classes are named, and there are {n_classes} columns of counts")
    checked = np.empty(counts.shape, np.int64)
    for k in range(n_classes):
        checked[:, k] = whole_counts(path, f"counts, column {k}", counts[:, k])
    names = classes.names if len(classes.names) == n_classes > 0 else None
    return CountDataset(rows.name, np.asarray(block.X).reshape(len(block), *rows.row_shape), checked, None, names)
