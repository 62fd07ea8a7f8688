"""Piecewise linear functions, one for each column."""

import numpy as np

from sdlgm._kernels.compiler import compiled


@compiled
def _interpolate(values, knots, heights, result):
    n_knots = knots.shape[1]
    for row in range(len(values)):
        for column in range(values.shape[1]):
            value = values[row, column]
            low, high = 0, n_knots  # the first knot above the value is between them
            while low < high:
                middle = (low + high) // 2
                if knots[column, middle] > value:
                    high = middle
                else:
                    low = middle + 1
            if low == 0:
                result[row, column] = heights[column, 0]
            elif low == n_knots:
                result[row, column] = heights[column, n_knots - 1]
            else:
                before, after = knots[column, low - 1], knots[column, low]
                share = (value - before) / (after - before)
                result[row, column] = (1 - share) * heights[column, low - 1] + share * heights[column, low]


def interpolate(values: np.ndarray, knots: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """Return the value of the piecewise linear function of each column, which is constant beyond its knots.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
    knots : ndarray of shape (n_columns, n_knots)
        Increasing in each row; the last one may be repeated.
    heights : ndarray of shape (n_columns, n_knots)
        Values of the functions there.

    Returns
    -------
    result : ndarray of shape (n_rows, n_columns)
        In double precision.

    """
    result = np.empty(values.shape, np.float64)
    _interpolate(np.ascontiguousarray(values, dtype=np.float64), knots, heights, result)
    return result
