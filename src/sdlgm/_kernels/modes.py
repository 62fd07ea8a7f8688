"""The most probable counts."""

import math

import numpy as np

from sdlgm._kernels.arithmetic import softmax_weights
from sdlgm._kernels.compiler import compiled, in_parts

# Steps of the search after which the rest is filled one slot at a time.
_STEPS = 12


@compiled
def _n_filled(weight, scale):
    n = np.int32(0)
    for symbol in range(len(weight)):
        n += np.int32(weight[symbol] * scale)
    return n


@compiled
def _mode(weight, n, ratio, count):
    """Fill ``count`` with the mode of one row. False if its weights are not finite or none is positive."""
    n_symbols = len(weight)
    total = 0.0
    for symbol in range(n_symbols):
        total += weight[symbol]
    if not 0 < total < np.inf:
        return False
    low, high = weight.dtype.type(n / total), weight.dtype.type((n + n_symbols) / total)
    at_low, at_high = _n_filled(weight, low), _n_filled(weight, high)
    while at_low > n:  # rounding
        low *= weight.dtype.type(1 - 1e-6)
        at_low = _n_filled(weight, low)
    for step in range(_STEPS):
        if at_low == n or at_high <= at_low:
            break
        # Where a straight line would meet n, and every other time the middle, in case that it creeps.
        part = (n + 0.5 - at_low) / (at_high - at_low) if step % 2 == 0 else 0.5
        between = weight.dtype.type(low + part * (high - low))
        n_filled = _n_filled(weight, between)
        if n_filled > n:
            high, at_high = between, n_filled
        else:
            low, at_low = between, n_filled
    left = n
    for symbol in range(n_symbols):
        count[symbol] = np.int32(weight[symbol] * low)
        left -= count[symbol]
    if left > 0:
        for symbol in range(n_symbols):
            ratio[symbol] = weight[symbol] / (count[symbol] + 1)
    for _ in range(left):
        best = ratio.argmax()
        count[best] += 1
        ratio[best] = weight[best] / (count[best] + 1)
    return True


@compiled
def _multinomial_modes(first, last, weights, n, counts):
    ratio = np.empty(weights.shape[1], weights.dtype)
    for row in range(first, last):  # noqa: SIM110 - compiled
        if not _mode(weights[row], n, ratio, counts[row]):
            return False
    return True


@compiled
def _slot_modes(first, last, gate_logit, feature_logits, n, counts):
    real = feature_logits.dtype.type
    one = real(1)
    n_features = feature_logits.shape[1]
    weight, ratio = np.empty(n_features + 1, feature_logits.dtype), np.empty(n_features + 1, feature_logits.dtype)
    count, features = np.empty(n_features + 1, np.int32), weight[1:]
    for row in range(first, last):
        _, total = softmax_weights(feature_logits[row], features)
        scale = one / ((one + real(math.exp(-gate_logit[row]))) * total)
        for k in range(n_features):
            features[k] *= scale
        weight[0] = one / (one + real(math.exp(gate_logit[row])))
        if not _mode(weight, n, ratio, count):
            return False
        counts[row] = count[1:]
    return True


def multinomial_modes(weights: np.ndarray, n: int, *, n_threads: int) -> np.ndarray:
    """The most probable counts of n draws for each row of weights, which need not add up to one.

    log-probability is a sum of concave functions of the single counts, so filling the slots one at a time, each with
    the symbol whose ratio weight / (count + 1) is largest, is exact (Finucan, Biometrika 1964). These are the n largest
    of the quotients weight / 1, weight / 2, ...: a threshold that lets no more than n through is found by regula falsi,
    and only what is left is filled one at a time. Among equals the first symbol wins.
    """
    counts = np.empty(weights.shape, np.int32)
    _check_all(in_parts(len(weights), n_threads, lambda *part: _multinomial_modes(*part, weights, n, counts)))
    return counts


def slot_modes(gate_logit: np.ndarray, feature_logits: np.ndarray, n_slots: int, *, n_threads: int) -> np.ndarray:
    """`multinomial_modes` of the symbols of slots, without "off", from their logits."""
    counts = np.empty(feature_logits.shape, np.int32)
    work = lambda *part: _slot_modes(*part, gate_logit, feature_logits, n_slots, counts)  # noqa: E731
    _check_all(in_parts(len(counts), n_threads, work))
    return counts


def _check_all(finite: list[bool]) -> None:
    if not all(finite):
        raise ValueError("the probabilities of the slots are not finite")
