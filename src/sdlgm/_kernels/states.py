"""Kernels of chains whose features act on later features through a state of H units.

    logit_k = base_k + reads_k . a(start + sum_{j < k} n_j writes_j),   a(s) = max(s, 0) if ``rectified``, otherwise s

A row takes O(K H) operations, and nothing has the size K x K. Features are visited in blocks, all rows after each
other, so that the weights of a block stay in the processor's cache.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2, log2
from sdlgm._kernels.compiler import compiled, inlined

BLOCK = 64


@inlined
def _activate(state, unit, rectified):
    for h in range(len(state)):
        unit[h] = max(state[h], state.dtype.type(0)) if rectified else state[h]


@inlined
def _write(state, unit, write, count, rectified):
    for h in range(len(state)):
        state[h] += count * write[h]
    _activate(state, unit, rectified)


@inlined
def _dot(left, right):
    total = left.dtype.type(0)
    for h in range(len(left)):
        total += left[h] * right[h]
    return total


@inlined
def _begin(start, n_rows, rectified):
    states = np.empty((n_rows, len(start)), start.dtype)
    units = np.empty_like(states)
    for row in range(n_rows):
        states[row] = start
        _activate(states[row], units[row], rectified)
    return states, units


@compiled
def _logits(base, counts, reads, writes, start, rectified, logits):
    n_rows, n_features = counts.shape
    states, units = _begin(start, n_rows, rectified)
    for first in range(0, n_features, BLOCK):
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            unit = units[row]
            for k in range(first, last):
                logits[row, k] = base[row % len(base), k] + _dot(reads[k], unit)
                if counts[row, k] != 0:
                    _write(states[row], unit, writes[k], counts[row, k], rectified)


@compiled
def _draw(base, reads, writes, start, rectified, noise, budget, counts):
    real = base.dtype.type
    n_rows, n_features = noise.shape
    states, units = _begin(start, n_rows, rectified)
    n_present = np.zeros(n_rows, np.int64)
    for first in range(0, n_features, BLOCK):
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            unit = units[row]
            for k in range(first, last):
                counts[row, k] = real(0)
                if n_present[row] < budget:
                    logit = base[row % len(base), k] + _dot(reads[k], unit)
                    # noise < sigmoid(logit), written without a division by an exponential that may be infinite.
                    if noise[row, k] * (real(1) + real(math.exp(-logit))) < real(1):
                        counts[row, k] = real(1)
                        n_present[row] += 1
                        _write(states[row], unit, writes[k], real(1), rectified)


@compiled
def _draw_relaxed(base, reads, writes, start, rectified, noise, temperature, budget, counts):
    real = base.dtype.type
    n_rows, n_features = noise.shape
    states, units = _begin(start, n_rows, rectified)
    for row in range(n_rows):
        total = real(0)
        for k in range(n_features):
            logit = base[row % len(base), k] + _dot(reads[k], units[row])
            value = real(1) / (real(1) + real(math.exp(-(logit + noise[row, k]) / temperature)))
            value = min(value, budget - total)
            counts[row, k] = value
            total += value
            _write(states[row], units[row], writes[k], value, rectified)


@inlined
def _derivative(state, active):
    for h in range(len(state)):
        active[h] = state.dtype.type(1) if state[h] > 0 else state.dtype.type(0)


@inlined
def _end(counts, writes, start, rectified):
    """Return the states after the last feature, and the derivatives of the units there."""
    n_rows, n_features = counts.shape
    states = np.empty((n_rows, len(start)), start.dtype)
    active = np.ones_like(states)
    if rectified:  # a linear state is not needed
        for row in range(n_rows):
            states[row] = start
            for k in range(n_features):
                if counts[row, k] != 0:
                    states[row] += counts[row, k] * writes[k]
            _derivative(states[row], active[row])
    return states, active


@inlined
def _take_back(state, active, write, count):
    for h in range(len(state)):
        state[h] -= count * write[h]
    _derivative(state, active)


@compiled
def _backward(counts, reads, writes, start, rectified, gradient, slopes, drawn, result, to_writes, to_start):
    n_rows, n_features = counts.shape
    n_units = len(start)
    states, active = _end(counts, writes, start, rectified)
    to_states = np.zeros_like(states)  # gradient of the state after the current feature
    n_blocks = (n_features + BLOCK - 1) // BLOCK
    for block in range(n_blocks):
        first = (n_blocks - 1 - block) * BLOCK
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            to_state, on = to_states[row], active[row]
            for step in range(last - first):
                k = last - 1 - step
                count = counts[row, k]
                through = _dot(writes[k], to_state)
                if drawn:
                    here = slopes[row, k] * (gradient[row, k] + through)
                    result[row, k] = here
                else:
                    here = gradient[row, k]
                    result[row, k] = through
                if count != 0:
                    for h in range(n_units):
                        to_writes[k, h] += count * to_state[h]
                    if rectified:
                        _take_back(states[row], on, writes[k], count)
                for h in range(n_units):
                    to_state[h] += here * reads[k, h] * on[h]
    for row in range(n_rows):
        to_start += to_states[row]


@compiled
def _read_gradients(counts, writes, start, rectified, to_logits, to_reads):
    n_rows, n_features = counts.shape
    states, units = _begin(start, n_rows, rectified)
    for first in range(0, n_features, BLOCK):
        last = min(first + BLOCK, n_features)
        for row in range(n_rows):
            unit = units[row]
            for k in range(first, last):
                for h in range(len(start)):
                    to_reads[k, h] += to_logits[row, k] * unit[h]
                if counts[row, k] != 0:
                    _write(states[row], unit, writes[k], counts[row, k], rectified)


@compiled
def _divergence(logits, prior_logits, counts, budget, cost, to_logits, to_prior):
    real = logits.dtype.type
    one = real(1)
    n_rows, n_features = logits.shape
    ln2, inverse_ln2 = real(math.log(2)), real(1 / math.log(2))
    each = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        for k in range(n_features):  # a loop of its own, so that it is vectorised
            logit, prior_logit = logits[row, k], prior_logits[row, k]
            weight, prior_weight = exp2(-abs(logit) * inverse_ln2), exp2(-abs(prior_logit) * inverse_ln2)
            prob = (one if logit >= real(0) else weight) / (one + weight)
            prior_prob = (one if prior_logit >= real(0) else prior_weight) / (one + prior_weight)
            softplus = max(logit, real(0)) + ln2 * log2(one + weight)
            prior_softplus = max(prior_logit, real(0)) + ln2 * log2(one + prior_weight)
            difference = logit - prior_logit
            each[k] = prob * difference - softplus + prior_softplus
            to_logits[row, k] = prob * (one - prob) * difference
            to_prior[row, k] = prior_prob - prob
        total, before = real(0), real(0)
        for k in range(n_features):
            if before < budget:
                total += each[k]
            else:
                to_logits[row, k] = to_prior[row, k] = real(0)
            before += counts[row, k]
        cost[row] = total


@dataclass(frozen=True)
class StateWeights:
    """The weights of a state: K x H reads and writes, H starting values, and whether the units are rectified."""

    reads: np.ndarray
    writes: np.ndarray
    start: np.ndarray
    rectified: bool


@dataclass(frozen=True)
class StateGradients:
    """Gradients of the weights of a state, and of the counts or the logits."""

    rows: np.ndarray
    """(R, K): gradient of the counts, or for `drawn_state_gradients` of the logits."""
    reads: np.ndarray
    writes: np.ndarray
    start: np.ndarray


def state_logits(base: np.ndarray, counts: np.ndarray, weights: StateWeights) -> np.ndarray:
    """Return the logit of each feature given the features before it, of shape (R, K).

    Parameters
    ----------
    base : ndarray of shape (N, K)
        Logits without a state. N divides R; row r of the counts belongs to row r modulo N.
    counts : ndarray of shape (R, K)
        Codes, hard or relaxed.
    weights : StateWeights

    """
    logits = np.empty_like(counts)
    _logits(base, counts, weights.reads, weights.writes, weights.start, weights.rectified, logits)
    return logits


def state_gradients(counts: np.ndarray, weights: StateWeights, gradient: np.ndarray) -> StateGradients:
    """Return the gradients of counts and weights from the gradient of `state_logits`."""
    return _gradients(counts, weights, gradient, gradient, drawn=False)


def drawn_state_gradients(
    counts: np.ndarray, weights: StateWeights, gradient: np.ndarray, slopes: np.ndarray
) -> StateGradients:
    """Return the gradients of logits and weights from the gradient g of drawn counts.

        d_k = slope_k (g_k + writes_k . (gradient of the state after k)),   k = K .. 1

    ``slopes`` has the derivative of each feature with respect to its own logit.
    """
    return _gradients(counts, weights, gradient, slopes, drawn=True)


def _gradients(
    counts: np.ndarray, weights: StateWeights, gradient: np.ndarray, slopes: np.ndarray, *, drawn: bool
) -> StateGradients:
    reads, writes, start, rectified = weights.reads, weights.writes, weights.start, weights.rectified
    result = StateGradients(np.empty_like(gradient), np.zeros_like(reads), np.zeros_like(writes), np.zeros_like(start))
    _backward(
        counts, reads, writes, start, rectified, gradient, slopes, drawn, result.rows, result.writes, result.start
    )
    _read_gradients(counts, writes, start, rectified, result.rows if drawn else gradient, result.reads)
    return result


def draw_state_chain(base: np.ndarray, weights: StateWeights, noise: np.ndarray, budget: int) -> np.ndarray:
    """Draw codes feature by feature, with at most ``budget`` features each, from uniform ``noise`` of shape (R, K)."""
    counts = np.empty_like(noise)
    _draw(base, weights.reads, weights.writes, weights.start, weights.rectified, noise, budget, counts)
    return counts


def draw_relaxed_state_chain(
    base: np.ndarray, weights: StateWeights, noise: np.ndarray, temperature: float, budget: int
) -> np.ndarray:
    """Draw relaxed codes feature by feature from logistic ``noise``; see `draw_relaxed_chain`."""
    real = noise.dtype.type
    counts = np.empty_like(noise)
    _draw_relaxed(
        base,
        weights.reads,
        weights.writes,
        weights.start,
        weights.rectified,
        noise,
        real(temperature),
        real(budget),
        counts,
    )
    return counts


@dataclass(frozen=True)
class ConditionalDivergence:
    """Divergence of R codes' conditionals from those of a prior, and its derivatives."""

    cost: np.ndarray
    """(R,)."""
    logits: np.ndarray
    """(R, K): d cost / d logits."""
    prior_logits: np.ndarray
    """(R, K): d cost / d prior_logits."""


def conditional_divergence(
    logits: np.ndarray, prior_logits: np.ndarray, counts: np.ndarray, budget: int
) -> ConditionalDivergence:
    """Return sum_k KL(Bernoulli(logit_k), Bernoulli(prior_logit_k)) over the features that the budget reaches.

    Parameters
    ----------
    logits, prior_logits : ndarray of shape (R, K)
        Logits of each feature given the features before it, under posterior and prior.
    counts : ndarray of shape (R, K)
        Drawn codes.
    budget : int
        The sum is over the features before which fewer than ``budget`` features are present.

    """
    result = ConditionalDivergence(np.empty_like(logits[:, 0]), np.empty_like(logits), np.empty_like(logits))
    _divergence(logits, prior_logits, counts, budget, result.cost, result.logits, result.prior_logits)
    return result
