"""Checks of the shape and the values of rows, the same for every file format."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sdlgm.errors import DataError

# More dimensions than any array of rows has; numpy itself takes 64.
MAX_SIDES = 32
# Values that are checked at a time, so that the check needs little memory of its own.
_CHUNK_VALUES = 2**20


def check_array(where: str | Path, shape: tuple[int, ...], dtype: np.dtype, *, channels: bool = False) -> None:
    """Raise if an array is not a table of real numbers or a stack of images.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    shape : tuple of int
        Shape of the whole array.
    dtype : dtype
        Type of its values.
    channels : bool, default=False
        Whether images may have channels.

    """
    if dtype.kind not in "biuf":
        raise DataError(f"{where}: holds {dtype}, not real numbers; expected numbers of shape {_shapes(channels)}")
    if len(shape) not in (2, 3, 4)[: 3 if channels else 2] or math.prod(shape[1:]) == 0:
        raise DataError(
            f"{where}: holds {dtype} of shape {shape}, which has {len(shape)} dimensions; expected numbers of shape "
            f"{_shapes(channels)}"
        )


def check_shape(shape: tuple[int, ...]) -> None:
    """Raise ValueError for a shape that no array can have."""
    # A side of zero would hide the others in a product.
    if len(shape) > MAX_SIDES or min(shape, default=0) < 0 or math.prod(max(1, side) for side in shape) >= 2**56:
        raise ValueError(f"it is of shape {str(shape)[:80]}")


def _shapes(channels: bool) -> str:
    return f"(rows, features) or (rows, height, width{'[, channels]' if channels else ''})"


def check_has_rows(where: str | Path, n_rows: int) -> None:
    """Raise if there are no rows."""
    if n_rows == 0:
        raise DataError(f"{where}: has no rows")


def check_finite(
    where: str | Path, X: np.ndarray | sp.csr_matrix, place: Callable[[int], str], *, missing: bool = False
) -> None:
    """Raise if a value is NaN or infinite.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    X : ndarray of shape (n, D) or CSR matrix
        The values.
    place : callable
        Return the description of a row, given its index in ``X``.
    missing : bool, default=False
        Accept NaN, which stands for a missing value.

    """

    def is_valid(values: np.ndarray) -> np.ndarray:
        return np.isfinite(values) | np.isnan(values) if missing else np.isfinite(values)

    if isinstance(X, np.ndarray):
        step = max(1, _CHUNK_VALUES // max(1, X.shape[1]))
        for start in range(0, X.shape[0], step):
            valid = is_valid(X[start : start + step])
            if not valid.all():
                row, column = np.argwhere(~valid)[0]
                raise _not_finite(where, place(int(start + row)), int(column))
    elif not is_valid(X.data).all():
        index = int(np.argmin(is_valid(X.data)))
        row = int(np.searchsorted(X.indptr, index, side="right")) - 1
        raise _not_finite(where, place(row), int(X.indices[index]))


def _not_finite(where: str | Path, place: str, column: int) -> DataError:
    return DataError(
        f"{where}: Input X contains NaN or infinity, in {place}, column {column}; fill or drop such rows first"
    )


def check_column_names(where: str | Path, names: Sequence[str]) -> None:
    """Raise if the columns of a table are not named, or if a name is repeated."""
    if len(names) == 1 and any(separator in names[0] for separator in ";\t"):
        raise DataError(f"{where}: looks separated by semicolons or tabs; separate the columns by commas")
    if "" in names:
        raise DataError(f"{where}: a column has no name, like a row index; leave it out (pandas: index=False)")
    if len(set(names)) < len(names):
        first = min(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"{where}: more than one column is called {first!r}; rename them")


def float_dtype(dtype: np.dtype) -> np.dtype:
    """Return single precision if it represents every value of a type exactly, and double precision otherwise."""
    return np.dtype(np.float32 if dtype.itemsize <= (4 if dtype.kind == "f" else 2) else np.float64)


def binary_labels(where: str | Path, name: str, values: np.ndarray) -> np.ndarray:
    """Return the values of a label as integers, or raise if they are not 0 and 1.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    name : str
        Name of the label.
    values : ndarray of shape (n,)
        The values; NaN where one is missing.

    Returns
    -------
    ndarray of shape (n,)

    """
    n_missing = sum(int(np.isnan(chunk).sum()) for chunk in _chunks(values))
    if n_missing:
        raise DataError(f"{where}: label {name!r} has {n_missing} missing values; drop those rows first")
    for chunk in _chunks(values):
        wrong = chunk[(chunk != 0) & (chunk != 1)]
        if wrong.size:
            raise DataError(f"{where}: label {name!r} has the value {wrong[0]:g}; labels are 0 or 1")
    return values.astype(np.int64)


def whole_counts(where: str | Path, name: str, values: np.ndarray) -> np.ndarray:
    """Return the values of a count as integers, or raise if they are not whole numbers from 0 on.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    name : str
        Name of the column.
    values : ndarray of shape (n,)
        The values.

    Returns
    -------
    ndarray of shape (n,)

    """
    for chunk in _chunks(values):
        wrong = chunk[~((chunk >= 0) & (chunk == np.floor(chunk)) & (chunk < 2**31))]
        if wrong.size:
            raise DataError(f"{where}: {name!r} has the value {wrong[0]:g}; counts are whole numbers, 0 or more")
    return values.astype(np.int64)


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(values), _CHUNK_VALUES):
        yield values[start : start + _CHUNK_VALUES]
