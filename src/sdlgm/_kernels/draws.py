"""Hard draws: zeros and ones, counts, and single symbols."""

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
                # Bisection without a branch that the processor would have to guess.
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
        # The first symbol whose cumulative probability is above the threshold: never one of probability zero.
        threshold, cumulative, drawn = noise[row] * total, 0.0, n_symbols - 1
        for symbol in range(n_symbols):
            cumulative += given[symbol]
            if cumulative > threshold:
                drawn = symbol
                break
        while given[drawn] == 0 and drawn > 0:  # rounding kept the sum below the threshold
            drawn -= 1
        out[row, drawn] = 1


def draw_binary(keys: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Zeros and ones with the given probabilities of a one, in their precision."""
    out = np.empty_like(probs)
    _draw_binary(keys, 0, n_blocks(len(probs)), probs, out)
    return out


def draw_counts(keys: np.ndarray, probs: np.ndarray, *, n_slots: int, n_samples: int) -> np.ndarray:
    """``n_samples`` multinomial counts from each row of probabilities, which need not add up to one exactly."""
    counts = np.empty((n_samples, *probs.shape), probs.dtype)
    flat = counts.reshape(-1, probs.shape[1])
    _draw_counts(keys, 0, n_blocks(len(flat)), probs, n_slots, flat)
    return counts


def draw_one_hot(probs: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """One-hot symbols, (S, *batch, W), from probabilities, (*batch, W), and uniform noise, (S, *batch, 1)."""
    out = np.empty((*noise.shape[:-1], probs.shape[-1]), probs.dtype)
    _draw_one_hot(probs.reshape(-1, probs.shape[-1]), noise.reshape(-1), out.reshape(-1, probs.shape[-1]))
    return out
