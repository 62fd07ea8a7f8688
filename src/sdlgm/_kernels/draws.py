"""Draw Bernoulli variables, multinomial counts and one-hot symbols."""

import numpy as np

from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.random import BLOCK, n_blocks, next_bits, seed, uniform


@compiled
def _draw_binary(keys, first, last, probs, out):
    n_rows, n_columns = probs.shape
    state = np.empty((4, n_columns), np.uint32)
    for block in range(first, last):
        seed(keys[block, 0], state)
        for row in range(block * BLOCK, min(n_rows, (block + 1) * BLOCK)):
            for column in range(n_columns):
                out[row, column] = uniform(next_bits(state, column)) < probs[row, column]


@compiled
def _draw_counts(keys, first, last, probs, n_slots, counts):
    n_rows = len(counts)
    n_given, n_symbols = probs.shape
    state, edges = np.empty((4, n_slots), np.uint32), np.empty(n_symbols, np.float64)
    for block in range(first, last):
        seed(keys[block, 0], state)
        for row in range(block * BLOCK, min(n_rows, (block + 1) * BLOCK)):
            total = 0.0
            for symbol in range(n_symbols):
                counts[row, symbol] = 0
                total += probs[row % n_given, symbol]
                edges[symbol] = total
            for slot in range(n_slots):
                threshold = (next_bits(state, slot) + 0.5) * 2.0**-32 * total
                # Bisection without branches, which the processor would mispredict.
                symbol, size = 0, n_symbols
                while size > 1:
                    half = size >> 1
                    symbol += half * (edges[symbol + half - 1] <= threshold)
                    size -= half
                counts[row, symbol] += 1


@compiled
def _draw_one_hot(probs, noise, out):
    n_given, n_symbols = probs.shape
    for row in range(len(out)):
        given = probs[row % n_given]
        total = 0.0
        for symbol in range(n_symbols):
            out[row, symbol] = 0
            total += given[symbol]
        # Take the first symbol whose cumulative probability is above the threshold. Its probability is not zero.
        threshold, cumulative, drawn = noise[row] * total, 0.0, n_symbols - 1
        for symbol in range(n_symbols):
            cumulative += given[symbol]
            if cumulative > threshold:
                drawn = symbol
                break
        while given[drawn] == 0 and drawn > 0:  # the sum stayed below the threshold by rounding
            drawn -= 1
        out[row, drawn] = 1


def draw_binary(keys: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Draw zeros and ones with the probabilities ``probs`` of a one, in the same precision and shape, (R, columns)."""
    out = np.empty_like(probs)
    _draw_binary(keys, 0, n_blocks(len(probs)), probs, out)
    return out


def draw_counts(keys: np.ndarray, probs: np.ndarray, *, n_slots: int, n_samples: int) -> np.ndarray:
    """Draw multinomial counts.

    Parameters
    ----------
    keys : ndarray of shape (n_blocks, 2)
        Seeds, see `sdlgm._kernels.random`.
    probs : ndarray of shape (R, W)
        Probabilities of the symbols. They are normalised here.
    n_slots : int
        Number of draws behind each count vector.
    n_samples : int
        Number of count vectors for each row of ``probs``.

    Returns
    -------
    ndarray of shape (n_samples, R, W)

    """
    counts = np.empty((n_samples, *probs.shape), probs.dtype)
    flat = counts.reshape(-1, probs.shape[1])
    _draw_counts(keys, 0, n_blocks(len(flat)), probs, n_slots, flat)
    return counts


def draw_one_hot(probs: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Draw one-hot symbols (S, *batch, W) with probabilities (*batch, W) from uniform noise (S, *batch, 1)."""
    out = np.empty((*noise.shape[:-1], probs.shape[-1]), probs.dtype)
    _draw_one_hot(probs.reshape(-1, probs.shape[-1]), noise.reshape(-1), out.reshape(-1, probs.shape[-1]))
    return out
