"""Find the most probable counts."""

import math

import numpy as np

from sdlgm._kernels.arithmetic import softmax_weights
from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.threads import run_in_threads

# Steps of the search for the threshold. The slots that it leaves are then filled one at a time.
_MAX_STEPS = 12


@compiled
def _n_filled(weight, scale):
    """Return the number of slots that the quotients weight / 1, weight / 2, .. of at least 1 / scale fill."""
    n = np.int32(0)
    for symbol in range(len(weight)):
        n += np.int32(weight[symbol] * scale)
    return n


@compiled
def _mode(weight, n, ratio, count):
    """Fill ``count`` with the mode of one row. Return False if a weight is not finite or none is positive."""
    n_symbols = len(weight)
    total = 0.0
    for symbol in range(n_symbols):
        total += weight[symbol]
    if not 0 < total < np.inf:
        return False
    low, high = weight.dtype.type(n / total), weight.dtype.type((n + n_symbols) / total)
    at_low, at_high = _n_filled(weight, low), _n_filled(weight, high)
    while at_low > n:  # by rounding
        low *= weight.dtype.type(1 - 1e-6)
        at_low = _n_filled(weight, low)
    for step in range(_MAX_STEPS):
        if at_low == n or at_high <= at_low:
            break
        # Alternate between regula falsi and bisection, since regula falsi alone may converge slowly.
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
    """Return the most probable counts of n draws for each row of weights.

    The log-probability is a sum of concave functions of the counts. The mode is therefore found by filling the slots
    one at a time, each with the symbol whose ratio weight / (count + 1) is largest (Finucan, "The mode of a multinomial
    distribution", Biometrika 1964). This takes the n largest of the quotients weight / 1, weight / 2, .. of all
    symbols. Regula falsi finds a threshold that at most n quotients pass, and the slots left are filled one at a time.
    Ties go to the first symbol.

    Parameters
    ----------
    weights : ndarray of shape (R, W)
        Probabilities up to a factor for each row.
    n : int
        Number of draws.
    n_threads : int
        Number of threads.

    Returns
    -------
    ndarray of shape (R, W)

    Raises
    ------
    ValueError
        If a weight is not finite or all weights of a row are zero.

    """
    counts = np.empty(weights.shape, np.int32)

    def work(first: int, last: int) -> bool:
        return _multinomial_modes(first, last, weights, n, counts)

    _check_finite(run_in_threads(len(weights), n_threads, work))
    return counts


def slot_modes(gate_logit: np.ndarray, feature_logits: np.ndarray, n_slots: int, *, n_threads: int) -> np.ndarray:
    """Return the counts of the features in the most probable code of slots, of shape (R, K).

    They are the `multinomial_modes` of the K + 1 symbols of a slot, without the symbol "off".
    """
    counts = np.empty(feature_logits.shape, np.int32)

    def work(first: int, last: int) -> bool:
        return _slot_modes(first, last, gate_logit, feature_logits, n_slots, counts)

    _check_finite(run_in_threads(len(counts), n_threads, work))
    return counts


def _check_finite(finite: list[bool]) -> None:
    if not all(finite):
        raise ValueError("the probabilities of the slots are not finite")
