"""The most probable counts, and the non-zeros of counts."""

import numpy as np

from sdlgm._kernels.compiler import compiled, in_parts

# Steps of bisection after which the rest is filled one slot at a time.
_BISECTIONS = 12


@compiled
def _n_filled(weight, scale):
    n = np.int32(0)
    for symbol in range(len(weight)):
        n += np.int32(weight[symbol] * scale)
    return n


@compiled
def _mode(first, last, weights, n, counts):
    """See `multinomial_modes`."""
    n_symbols = weights.shape[1]
    ratio = np.empty(n_symbols, weights.dtype)
    for row in range(first, last):
        weight, count = weights[row], counts[row]
        total = 0.0
        for symbol in range(n_symbols):
            total += weight[symbol]
        low, high = weight.dtype.type(n / total), weight.dtype.type((n + n_symbols) / total)
        while _n_filled(weight, low) > n:  # rounding
            low *= weight.dtype.type(1 - 1e-6)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            n_filled = _n_filled(weight, middle)
            if n_filled > n:
                high = middle
                continue
            low = middle
            if n_filled == n:
                break
        left = n
        for symbol in range(n_symbols):
            count[symbol] = np.int32(weight[symbol] * low)
            left -= count[symbol]
        if left == 0:
            continue
        for symbol in range(n_symbols):
            ratio[symbol] = weight[symbol] / (count[symbol] + 1)
        for _ in range(left):
            best = ratio.argmax()
            count[best] += 1
            ratio[best] = weight[best] / (count[best] + 1)


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


def multinomial_modes(weights: np.ndarray, n: int, *, n_threads: int) -> np.ndarray:
    """The most probable counts of n draws for each row of finite weights, which need not add up to one.

    log-probability is a sum of concave functions of the single counts, so filling the slots one at a time, each with
    the symbol whose ratio weight / (count + 1) is largest, is exact (Finucan, Biometrika 1964). These are the n largest
    of the quotients weight / 1, weight / 2, ...: a threshold that lets no more than n through is found by bisection,
    and only what is left is filled one at a time. Among equals the first symbol wins.
    """
    counts = np.empty(weights.shape, np.int32)
    in_parts(len(weights), n_threads, lambda first, last: _mode(first, last, weights, n, counts))
    return counts


def compress(dense: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, column indices and the number of non-zeros of each row: a CSR matrix in the making."""
    n_nonzero = np.empty(len(dense), np.int64)
    _n_nonzero(dense, n_nonzero)
    n = int(n_nonzero.sum())
    indices, values = np.empty(n, np.int32), np.empty(n, np.int32)
    _compress(dense, indices, values)
    return values, indices, n_nonzero
