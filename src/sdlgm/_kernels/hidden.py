"""Kernels of chains whose features act on later features through a hidden layer of H rectified units.

    effect_k = reads_k . max(start + sum_{j < k} n_j writes_j, 0)

A row takes O(K H) operations, and nothing has the size K x K. Features are visited in blocks, all rows after each
other, so that the weights of a block stay in the processor's cache.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.compiler import compiled, inlined
from sdlgm._kernels.threads import run_in_threads, summed

BLOCK = 64


@inlined
def _dot(left, right):
    total = left.dtype.type(0)
    for h in range(len(left)):
        total += left[h] * right[h]
    return total


@inlined
def _write(state, unit, write, count):
    for h in range(len(state)):
        state[h] += count * write[h]
        unit[h] = max(state[h], state.dtype.type(0))


@inlined
def _begin(start, n_rows):
    """Return the states of rows before their first feature, and their units."""
    states = np.empty((n_rows, len(start)), start.dtype)
    states[:] = start
    return states, np.maximum(states, start.dtype.type(0))


@compiled
def _effect(counts, reads, writes, start, effect):
    n_rows, n_features = counts.shape
    states, units = _begin(start, n_rows)
    for first in range(0, n_features, BLOCK):
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            unit = units[row]
            for k in range(first, last):
                effect[row, k] = _dot(reads[k], unit)
                if counts[row, k] != 0:
                    _write(states[row], unit, writes[k], counts[row, k])


@compiled
def _draw(base, reads, writes, start, noise, budget, counts):
    real = base.dtype.type
    n_rows, n_features = noise.shape
    states, units = _begin(start, n_rows)
    n_left = np.full(n_rows, budget)
    for first in range(0, n_features, BLOCK):
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            unit = units[row]
            for k in range(first, last):
                if n_left[row] > 0:
                    logit = base[row, k] + _dot(reads[k], unit)
                    # noise < sigmoid(logit), written without a division by an exponential that may be infinite.
                    if noise[row, k] * (real(1) + real(math.exp(-logit))) < real(1):
                        counts[row, k] = real(1)
                        n_left[row] -= 1
                        _write(states[row], unit, writes[k], real(1))


@compiled
def _backward(counts, reads, writes, start, gradient, to_counts, to_reads, to_writes, to_start):
    real = reads.dtype.type
    n_rows, n_features = counts.shape
    n_units = len(start)
    states, units = _begin(start, n_rows)  # after the last feature
    for row in range(n_rows):
        for k in range(n_features):
            if counts[row, k] != 0:
                _write(states[row], units[row], writes[k], counts[row, k])
    to_states = np.zeros_like(states)  # gradient of the state after the current feature
    n_blocks = (n_features + BLOCK - 1) // BLOCK
    for block in range(n_blocks):
        first = (n_blocks - 1 - block) * BLOCK
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            to_state, unit = to_states[row], units[row]
            for step in range(last - first):
                k = last - 1 - step
                count, here = counts[row, k], gradient[row, k]
                to_counts[row, k] = _dot(writes[k], to_state)
                if count != 0:
                    for h in range(n_units):
                        to_writes[k, h] += count * to_state[h]
                    _write(states[row], unit, writes[k], -count)
                read, to_read = reads[k], to_reads[k]
                for h in range(n_units):
                    to_read[h] += here * unit[h]
                    to_state[h] += here * read[h] if unit[h] > real(0) else real(0)
    for row in range(n_rows):
        to_start += to_states[row]


@dataclass(frozen=True)
class HiddenWeights:
    """The weights of a hidden layer: K x H reads and writes, and the H states before the first feature."""

    reads: np.ndarray
    writes: np.ndarray
    start: np.ndarray


@dataclass(frozen=True)
class HiddenGradients:
    """Gradients of counts, reads, writes and start."""

    counts: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    start: np.ndarray


def hidden_effect(counts: np.ndarray, weights: HiddenWeights, n_threads: int = 1) -> np.ndarray:
    """Return the effect of a code on the logit of each of its features.

    Parameters
    ----------
    counts : ndarray of shape (R, K)
        Codes, hard or relaxed.
    weights : HiddenWeights
    n_threads : int, default=1
        Largest number of threads.

    Returns
    -------
    ndarray of shape (R, K)

    """
    effect = np.empty_like(counts)

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        _effect(counts[rows], weights.reads, weights.writes, weights.start, effect[rows])

    run_in_threads(len(counts), n_threads, work)
    return effect


def hidden_gradients(
    counts: np.ndarray, weights: HiddenWeights, gradient: np.ndarray, n_threads: int = 1
) -> HiddenGradients:
    """Return the gradients of counts and weights from the gradient of `hidden_effect`."""
    reads, writes, start = weights.reads, weights.writes, weights.start
    to_counts = np.empty_like(gradient)

    def work(first: int, last: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows, of_weights = slice(first, last), (np.zeros_like(reads), np.zeros_like(writes), np.zeros_like(start))
        _backward(counts[rows], reads, writes, start, gradient[rows], to_counts[rows], *of_weights)
        return of_weights

    return HiddenGradients(to_counts, *summed(run_in_threads(len(counts), n_threads, work)))


def draw_hidden_chain(base: np.ndarray, weights: HiddenWeights, noise: np.ndarray, budget: int) -> np.ndarray:
    """Draw codes feature by feature, with at most ``budget`` features each.

    ``base`` has the logits of empty codes and ``noise`` uniform noise, both of shape (R, K).
    """
    counts = np.zeros_like(noise)
    _draw(base, weights.reads, weights.writes, weights.start, noise, budget, counts)
    return counts
