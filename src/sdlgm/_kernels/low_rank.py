"""Kernels of chains whose coupling is a product of two thin matrices.

    logit_k = base_k + reads_k . state_k,   state_k = sum_{j < k} n_j writes_j

A row takes O(K H) operations with H numbers in a state, and nothing has the size K x K. Many rows are visited together,
so that their states, with a column for each row, are computed by vector operations.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2
from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.threads import run_in_threads, summed

LANES = 128
"""Rows that are visited together."""
UNROLLED = 4
"""Units of a state that are read together. The weights of further units are zero."""
LARGER = np.float32(1.0001)
"""Factor by which lengths are enlarged, so that rounding does not make a bound too small."""


@compiled
def _draw(base, first_base, reads, writes, noise, budget, counts):
    real = base.dtype.type
    n_rows, n_features = noise.shape
    n_units = reads.shape[1]
    inverse_ln2 = real(1 / math.log(2))
    state = np.empty((n_units, LANES), base.dtype)
    logit, scaled_noise = np.empty(LANES, base.dtype), np.empty(LANES, base.dtype)
    n_left = np.empty(LANES, np.int64)
    for first in range(0, n_rows, LANES):
        n_lanes = min(LANES, n_rows - first)
        state[:] = real(0)
        logit[:] = real(0)
        scaled_noise[:] = real(1)  # lanes without a row draw nothing
        n_left[:] = budget
        for k in range(n_features):
            for lane in range(n_lanes):
                logit[lane] = base[(first_base + first + lane) % len(base), k]
                scaled_noise[lane] = noise[first + lane, k]
            for h in range(0, n_units, UNROLLED):
                a, b, c, d = reads[k, h], reads[k, h + 1], reads[k, h + 2], reads[k, h + 3]
                for lane in range(LANES):
                    logit[lane] += (
                        a * state[h, lane] + b * state[h + 1, lane] + c * state[h + 2, lane] + d * state[h + 3, lane]
                    )
            n_present = 0
            for lane in range(LANES):
                # noise < sigmoid(logit); the exponent is bounded, so that its power of two is finite.
                power = min(max(-logit[lane] * inverse_ln2, real(-100)), real(100))
                scaled_noise[lane] *= real(1) + exp2(power)
                n_present += scaled_noise[lane] < real(1)
            if n_present:
                for lane in range(n_lanes):
                    if scaled_noise[lane] < real(1) and n_left[lane] > 0:
                        counts[first + lane, k] = real(1)
                        n_left[lane] -= 1
                        for h in range(n_units):
                            state[h, lane] += writes[k, h]


@compiled
def _modes(base, reads, writes, lengths, budget, counts):
    real = base.dtype.type
    n_rows, n_features = base.shape
    state = np.empty(reads.shape[1], base.dtype)
    for row in range(n_rows):
        state[:] = real(0)
        length, n_left = real(0), budget
        for k in range(n_features):
            # No effect is larger than the product of the lengths, so that most features need no scalar product.
            if n_left > 0 and not base[row, k] + lengths[k] * length <= real(0):  # NaN if a length is infinite
                logit = base[row, k]
                for h in range(len(state)):
                    logit += reads[k, h] * state[h]
                if logit > real(0):
                    counts[row, k] = 1
                    n_left -= 1
                    square = real(0)
                    for h in range(len(state)):
                        state[h] += writes[k, h]
                        square += state[h] * state[h]
                    length = math.sqrt(square)


@compiled
def _draw_relaxed(base, reads, writes, noise, temperature, budget, counts):
    real = base.dtype.type
    n_rows, n_features = noise.shape
    state = np.empty(reads.shape[1], base.dtype)
    for row in range(n_rows):
        state[:] = real(0)
        total = real(0)
        for k in range(n_features):
            logit = base[row % len(base), k]
            for h in range(len(state)):
                logit += reads[k, h] * state[h]
            value = real(1) / (real(1) + real(math.exp(-(logit + noise[row, k]) / temperature)))
            value = min(value, budget - total)
            counts[row, k] = value
            total += value
            for h in range(len(state)):
                state[h] += value * writes[k, h]


@compiled
def _effect(counts, reads, writes, effect):
    real = reads.dtype.type
    n_rows, n_features = counts.shape
    n_units = reads.shape[1]
    state, total = np.empty((n_units, LANES), reads.dtype), np.empty(LANES, reads.dtype)
    for first in range(0, n_rows, LANES):
        n_lanes = min(LANES, n_rows - first)
        state[:] = real(0)
        for k in range(n_features):
            total[:] = real(0)
            for h in range(0, n_units, UNROLLED):
                a, b, c, d = reads[k, h], reads[k, h + 1], reads[k, h + 2], reads[k, h + 3]
                for lane in range(LANES):
                    total[lane] += (
                        a * state[h, lane] + b * state[h + 1, lane] + c * state[h + 2, lane] + d * state[h + 3, lane]
                    )
            for lane in range(n_lanes):
                effect[first + lane, k] = total[lane]
                count = counts[first + lane, k]
                if count != 0:
                    for h in range(n_units):
                        state[h, lane] += count * writes[k, h]


@compiled
def _backward(  # noqa: PLR0912 - one sweep over the features
    counts, reads, writes, slopes, to_counts, to_logits, drawn, result, to_reads, to_writes
):
    real = reads.dtype.type
    n_rows, n_features = counts.shape
    n_units = reads.shape[1]
    state = np.empty((n_units, LANES), reads.dtype)  # before the current feature
    to_state = np.empty((n_units, LANES), reads.dtype)  # gradient of the state after the current feature
    total, here = np.empty(LANES, reads.dtype), np.empty(LANES, reads.dtype)
    for first in range(0, n_rows, LANES):
        n_lanes = min(LANES, n_rows - first)
        state[:] = to_state[:] = real(0)
        here[:] = total[:] = real(0)
        for lane in range(n_lanes):
            for k in range(n_features):
                count = counts[first + lane, k]
                if count != 0:
                    for h in range(n_units):
                        state[h, lane] += count * writes[k, h]
        for step in range(n_features):
            k = n_features - 1 - step
            for lane in range(n_lanes):
                total[lane] = to_counts[first + lane, k] if drawn else real(0)
            for h in range(0, n_units, UNROLLED):
                a, b, c, d = writes[k, h], writes[k, h + 1], writes[k, h + 2], writes[k, h + 3]
                for lane in range(LANES):
                    total[lane] += (
                        a * to_state[h, lane]
                        + b * to_state[h + 1, lane]
                        + c * to_state[h + 2, lane]
                        + d * to_state[h + 3, lane]
                    )
            for lane in range(n_lanes):
                here[lane] = to_logits[first + lane, k]
                if drawn:
                    here[lane] += slopes[first + lane, k] * total[lane]
                    result[first + lane, k] = here[lane]
                else:
                    result[first + lane, k] = total[lane]
                count = counts[first + lane, k]
                if count != 0:
                    for h in range(n_units):
                        to_writes[k, h] += count * to_state[h, lane]
                        state[h, lane] -= count * writes[k, h]
            for h in range(n_units):
                read, to_read = reads[k, h], real(0)
                for lane in range(LANES):
                    to_read += state[h, lane] * here[lane]
                    to_state[h, lane] += read * here[lane]
                to_reads[k, h] += to_read


def _padded(weights: np.ndarray) -> np.ndarray:
    """Return weights with a multiple of ``UNROLLED`` columns."""
    return np.ascontiguousarray(np.pad(weights, ((0, 0), (0, -weights.shape[1] % UNROLLED))))


def draw_low_rank_chain(
    base: np.ndarray, reads: np.ndarray, writes: np.ndarray, noise: np.ndarray, budget: int, n_threads: int = 1
) -> np.ndarray:
    """Draw codes feature by feature, with at most ``budget`` features each.

    Parameters
    ----------
    base : ndarray of shape (N, K)
        Logits of an empty code. N divides R; row r of the noise belongs to row r modulo N.
    reads, writes : ndarray of shape (K, H)
        Weights of the state.
    noise : ndarray of shape (R, K)
        Uniform noise.
    budget : int
        Largest number of features of a code.
    n_threads : int, default=1
        Largest number of threads.

    Returns
    -------
    ndarray of shape (R, K)
        Zeros and ones.

    """
    counts, reads, writes = np.zeros_like(noise), _padded(reads), _padded(writes)

    def work(first: int, last: int) -> None:
        _draw(base, first, reads, writes, noise[first:last], budget, counts[first:last])

    run_in_threads(len(noise), n_threads, work)
    return counts


def low_rank_chain_modes(
    base: np.ndarray, reads: np.ndarray, writes: np.ndarray, budget: int, n_threads: int = 1
) -> np.ndarray:
    """Make the more probable choice feature by feature. The arguments are those of `draw_low_rank_chain`."""
    counts = np.zeros(base.shape, np.int8)
    with np.errstate(over="ignore"):
        lengths = LARGER * np.sqrt(np.square(reads).sum(1))

    def work(first: int, last: int) -> None:
        _modes(base[first:last], reads, writes, lengths, budget, counts[first:last])

    run_in_threads(len(base), n_threads, work)
    return counts


def draw_relaxed_low_rank_chain(
    base: np.ndarray, reads: np.ndarray, writes: np.ndarray, noise: np.ndarray, temperature: float, budget: int
) -> np.ndarray:
    """Draw relaxed codes feature by feature from logistic ``noise``; see `draw_relaxed_chain`."""
    counts, real = np.empty_like(noise), noise.dtype.type
    _draw_relaxed(base, reads, writes, noise, real(temperature), real(budget), counts)
    return counts


def low_rank_effect(counts: np.ndarray, reads: np.ndarray, writes: np.ndarray, n_threads: int = 1) -> np.ndarray:
    """Return the effect of codes, hard or relaxed, on the logit of each of their features, of shape (R, K)."""
    effect, reads, writes = np.empty_like(counts), _padded(reads), _padded(writes)

    def work(first: int, last: int) -> None:
        _effect(counts[first:last], reads, writes, effect[first:last])

    run_in_threads(len(counts), n_threads, work)
    return effect


@dataclass(frozen=True)
class LowRankGradients:
    """Gradients of the rows of counts or logits, and of the weights."""

    rows: np.ndarray
    reads: np.ndarray
    writes: np.ndarray


def low_rank_gradients(
    counts: np.ndarray, reads: np.ndarray, writes: np.ndarray, gradient: np.ndarray, n_threads: int = 1
) -> LowRankGradients:
    """Return the gradients of counts and weights from the gradient of `low_rank_effect`."""
    return _gradients(counts, reads, writes, gradient, gradient, gradient, n_threads, drawn=False)


def drawn_low_rank_gradients(
    counts: np.ndarray,
    reads: np.ndarray,
    writes: np.ndarray,
    slopes: np.ndarray,
    to_counts: np.ndarray,
    to_logits: np.ndarray,
    n_threads: int = 1,
) -> LowRankGradients:
    """Return the gradients of the conditional logits of drawn codes, and of the weights; see `chain_gradients`."""
    return _gradients(counts, reads, writes, slopes, to_counts, to_logits, n_threads, drawn=True)


def _gradients(
    counts: np.ndarray,
    reads: np.ndarray,
    writes: np.ndarray,
    slopes: np.ndarray,
    to_counts: np.ndarray,
    to_logits: np.ndarray,
    n_threads: int,
    *,
    drawn: bool,
) -> LowRankGradients:
    result, n_units, reads, writes = np.empty_like(counts), reads.shape[1], _padded(reads), _padded(writes)

    def work(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        rows, to_weights = slice(first, last), (np.zeros_like(reads), np.zeros_like(writes))
        outer = slopes[rows], to_counts[rows], to_logits[rows]
        _backward(counts[rows], reads, writes, *outer, drawn, result[rows], *to_weights)
        return to_weights

    to_reads, to_writes = summed(run_in_threads(len(counts), n_threads, work))
    return LowRankGradients(result, to_reads[:, :n_units], to_writes[:, :n_units])
