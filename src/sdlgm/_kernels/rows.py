"""Check the range of input rows, and compress codes to sparse rows."""

import numpy as np

from sdlgm._kernels.compiler import compiled


@compiled
def _all_between(values, low, high):
    outside = 0
    for i in range(len(values)):
        outside += not low <= values[i] <= high
    return outside == 0


def in_unit_interval(values: np.ndarray) -> bool:
    """Return whether all values are in [0, 1]. A NaN is not."""
    return bool(_all_between(np.ravel(values, order="K"), values.dtype.type(0), values.dtype.type(1)))


@compiled
def _n_nonzero(dense, n_nonzero):
    for row in range(len(dense)):
        n = 0
        for column in range(dense.shape[1]):
            n += dense[row, column] != 0
        n_nonzero[row] = n


@compiled
def _compress(dense, indices, values):
    place = 0
    for row in range(len(dense)):
        for column in range(dense.shape[1]):
            if dense[row, column] != 0:
                indices[place] = column
                values[place] = dense[row, column]
                place += 1


def compress(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the non-zero values of a matrix, their column indices, and the number of non-zeros of each row."""
    n_nonzero = np.empty(len(dense), np.int64)
    _n_nonzero(dense, n_nonzero)
    n = int(n_nonzero.sum())
    indices, values = np.empty(n, np.int32), np.empty(n, np.int32)
    _compress(dense, indices, values)
    return values, indices, n_nonzero
