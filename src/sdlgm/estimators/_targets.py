"""Convert labels and counts in the forms that users have to matrices."""

from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from sdlgm.errors import BudgetError

# Sums over any number of columns fit into 64 bits.
LARGEST_COUNT = 2**31 - 1

_LABEL_SETS = (
    "an indicator matrix of 0 and 1 with one column for each label, a list with one set of labels per row, "
    "or one class per row"
)


_Matrix = TypeVar("_Matrix", np.ndarray, sp.csr_array)


@dataclass(frozen=True)
class Labels:
    """An indicator matrix and the names of its columns."""

    indicator: np.ndarray | sp.csr_array
    """Sparse if y was, or sets of labels."""
    names: np.ndarray
    single: bool = False
    """Whether every row has one class instead of a set of labels."""
    in_columns: bool = False
    """Whether there was a matrix with a column for each label, so that labels without a row are known too."""


def labels_of(Y: Any, names: np.ndarray | None = None, *, unseen: bool = False) -> Labels:
    """Return labels from an indicator matrix (dense, sparse, a data frame), a list of label sets, or classes.

    ``names``, if given, are those of the training data. Labels in sets, and classes, that are not among them raise or,
    with ``unseen``, get columns after those of the training data.
    """
    if Y is None:
        raise ValueError(f"requires y to be passed, but the target y is None; give {_LABEL_SETS}")
    if _is_label_sets(Y, None if names is None else len(names)):
        return _from_sets(Y, names, unseen)
    if sp.issparse(Y) and cast(Any, Y).ndim == 2 and cast(Any, Y).shape[1] > 1:
        matrix, names = _in_order(Y, sp.csr_array(cast(Any, Y)), names, "labels")
        return Labels(_sparse_indicator(matrix), names, in_columns=True)
    values = _dense(Y)
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1 and not _is_binary(values)):
        return _from_classes(column_or_1d(values, warn=True), names, unseen)
    if values.ndim != 2:
        raise ValueError(f"Y has {values.ndim} dimensions, shape {values.shape}; give {_LABEL_SETS}")
    if values.shape[1] == 0:
        raise ValueError("Y has no columns, so there is no label to learn")
    values, names = _in_order(Y, values, names, "labels")
    return Labels(_indicator(values), names, in_columns=True)


def names_of_classes(classes: Any) -> np.ndarray:
    """Return all labels as users name them before there are rows, or raise."""
    values = np.asarray(classes)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"classes has the shape {values.shape}; give a list of all labels")
    names = values.tolist()
    if not all(isinstance(name, str | int | float) for name in names):
        raise ValueError("classes holds values that are neither text nor numbers")
    if len(set(names)) < len(names):
        raise ValueError(f"classes has {next(name for name in names if names.count(name) > 1)!r} more than once")
    return values


@dataclass(frozen=True)
class Counts:
    """A matrix of counts and the names of its columns."""

    matrix: np.ndarray
    names: np.ndarray
    single: bool
    """Whether the counts had no dimension for classes."""


def counts_of(y: Any, names: np.ndarray | None = None) -> Counts:
    """Return counts from a matrix (dense, sparse, a data frame) or, for one class, from one number for each row.

    ``names``, if given, are those of the training data; columns are brought into their order.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None; give a matrix of counts")
    values = _dense(y)
    if values.ndim not in (1, 2) or 0 in values.shape[1:]:
        raise ValueError(f"y has the shape {values.shape}; give (n_samples, n_classes)")
    matrix, names = _in_order(y, values.reshape(len(values), -1), names, "classes")
    return Counts(_whole(matrix), names, single=values.ndim == 1)


def _whole(values: np.ndarray) -> np.ndarray:
    """Return counts as whole numbers, or raise."""
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported; y holds counts")
    if values.dtype.kind not in "biufO":
        raise ValueError(f"y holds {values.dtype}, not counts")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("y holds values that are not numbers; give whole numbers, 0 or more") from None
    assert_all_finite(numbers, input_name="y")
    wrong = (numbers < 0) | (numbers != np.floor(numbers)) | (numbers > LARGEST_COUNT)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(
            f"y has {values[row, column]!s} in row {row}, column {column}; counts are whole numbers, from 0 to "
            f"{LARGEST_COUNT}"
        )
    return numbers.astype(np.int64)


def _dense(Y: Any) -> np.ndarray:
    return Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)


def _in_order(Y: Any, values: _Matrix, names: np.ndarray | None, unit: str) -> tuple[_Matrix, np.ndarray]:
    """Return the columns of Y in the order of ``names``, or as they are without it; and their names.

    Columns with names are matched by name, unless the model has numbers only and the names differ from them.
    """
    columns = getattr(Y, "column_names", getattr(Y, "columns", None))  # of pyarrow; of pandas and polars
    found = None if columns is None else _column_names(columns)
    if names is None:
        return values, np.arange(values.shape[1]) if found is None else found
    if found is not None:
        own = [str(name) for name in names.tolist()]
        numbered = names.tolist() == list(range(len(names)))
        if not numbered or set(found) == set(own):
            return values[:, _places(found.tolist(), own)], names
    if values.shape[1] != len(names):
        raise ValueError(f"y has {values.shape[1]} columns, the model has {len(names)} {unit}")
    return values, names


def _column_names(columns: Any) -> np.ndarray:
    names = [str(name) for name in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"more than one column of y is called {repeated[0]!r}; rename them")
    return np.asarray(names, dtype=object)


def _places(found: list[Any], names: list[Any]) -> list[int]:
    """Return the places of the model's labels among the columns."""
    differing = sorted(set(found) ^ set(names), key=str)
    if differing:
        raise ValueError(f"Y has other columns than the model has labels; the first that differs is {differing[0]!r}")
    return [found.index(name) for name in names]


def check_budget(targets: np.ndarray | sp.csr_array, max_active: int, unit: str = "labels") -> None:
    """Raise for rows with more labels, or a larger sum of counts, than slots."""
    numbers = targets.sum(axis=1)
    if numbers.size and numbers.max() > max_active:
        row = int(np.argmax(numbers > max_active))
        raise BudgetError(
            f"row {row} has {int(numbers[row])} {unit}, more than max_active={max_active}; "
            f"these data need max_active={int(numbers.max())} or more"
        )


def _is_label_sets(Y: Any, n_labels: int | None) -> bool:
    """Return whether rows are collections of labels rather than rows of an indicator matrix.

    Lists of numbers of one length are rows of a matrix, unless the number of labels is known to differ from that length
    and no row has a value twice, as rows of zeros and ones do.
    """
    listed = isinstance(Y, list | tuple) or (getattr(Y, "ndim", 0) == 1 and str(getattr(Y, "dtype", "")) == "object")
    if not listed:
        return False
    rows = list(Y)
    if not rows or isinstance(rows[0], str) or not hasattr(rows[0], "__iter__"):
        return False
    if any(isinstance(row, set | frozenset) for row in rows):
        return True
    lengths = {len(row) for row in rows}
    if len(lengths) > 1 or any(isinstance(label, str) for row in rows for label in row):
        return True
    return n_labels is not None and lengths != {n_labels} and all(len(set(row)) == len(row) for row in rows)


def _from_sets(Y: Any, names: np.ndarray | None, unseen: bool) -> Labels:
    rows = [_label_set(number, row) for number, row in enumerate(Y)]
    kinds = {isinstance(label, str) for row in rows for label in row}
    if len(kinds) > 1:
        raise ValueError("some labels are text and some are numbers; make all of them text")
    if names is None:
        binarizer = MultiLabelBinarizer(sparse_output=True)
        indicator = sp.csr_array(binarizer.fit_transform(rows))
        if indicator.shape[1] == 0:
            raise ValueError("no row has a label, so there is nothing to learn")
        return Labels(_sparse_indicator(indicator), np.asarray(binarizer.classes_))
    known = {name: column for column, name in enumerate(names.tolist())}
    for number, row in enumerate(rows):
        for label in row:
            if label not in known and not unseen:
                raise ValueError(f"row {number} has the label {label!r}, which the model was not fitted with")
            known.setdefault(label, len(known))
    columns = [sorted({known[label] for label in row}) for row in rows]
    ends = np.cumsum([0, *map(len, columns)])
    places = np.array([column for row in columns for column in row], dtype=np.int64)
    ones = np.ones(len(places), np.int8)
    return Labels(sp.csr_array((ones, places, ends), shape=(len(rows), len(known))), names)


def _label_set(number: int, row: Any) -> list[Any]:
    if isinstance(row, str) or not hasattr(row, "__iter__"):
        raise ValueError(f"row {number} is {row!r}, not a set of labels; give {_LABEL_SETS}")
    labels = [label.item() if isinstance(label, np.generic) else label for label in row]
    for label in labels:
        if not isinstance(label, str | int | float):
            raise ValueError(f"row {number} has the label {label!r}; labels are text or numbers")
    return labels


def _from_classes(y: np.ndarray, names: np.ndarray | None, unseen: bool) -> Labels:
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    if y.dtype.kind not in "biufU" and not all(isinstance(value, str | int | float) for value in y):
        raise ValueError(f"y holds classes of {y.dtype}; classes are text or numbers")
    found = np.unique(y) if names is None else names
    unknown = ~np.isin(y, found)
    if unseen:
        found = np.concatenate([found, np.unique(y[unknown])])
    elif unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(f"row {row} has the class {y.tolist()[row]!r}, which the model was not fitted with")
    return Labels((y[:, None] == found).astype(np.int64), found, single=True)


def _is_binary(values: np.ndarray) -> bool:
    return values.dtype.kind in "biufO" and bool(np.isin(values, (0, 1)).all())


def _sparse_indicator(matrix: sp.csr_array) -> sp.csr_array:
    """Return a sparse matrix of zeros and ones with ones only, each once, or raise."""
    matrix.sum_duplicates()
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"Y holds {matrix.dtype}, not 0 and 1; give {_LABEL_SETS}")
    wrong = np.flatnonzero((matrix.data != 0) & (matrix.data != 1))
    if wrong.size:
        place = wrong[0]
        row = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
        raise ValueError(
            f"Y has {matrix.data[place]!r} in row {row}, column {matrix.indices[place]}; give {_LABEL_SETS}"
        )
    if not matrix.data.all():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    return matrix.astype(np.int8)


def _indicator(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind not in "biufO":
        raise ValueError(f"Y holds {values.dtype}, not 0 and 1; give {_LABEL_SETS}")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"Y holds values that are not numbers; give {_LABEL_SETS}") from None
    wrong = ~((numbers == 0) | (numbers == 1))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise ValueError(f"Y has {values[row, column]!r} in row {row}, column {column}; give {_LABEL_SETS}")
    return numbers.astype(np.int64)
