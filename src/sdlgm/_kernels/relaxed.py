"""Gumbel-Softmax relaxation of slots: relaxed counts and their gradients.

A kernel draws the noise where it uses it, and keeps of each slot what the backward pass needs.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2, log2
from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.random import BLOCK, n_blocks, next_bits, seed, uniform
from sdlgm._kernels.threads import run_in_threads

# Up to this inverse temperature the exponentials stay within single precision without subtraction of the largest logit:
# log2 of a probability is at most 0, and log2 of the noise is between -4.6 and 23.5.
_SAFE_INVERSE = 4.0


@compiled
def _log2_softmax(logits, factor, out):
    """Fill ``out`` with factor * log2(softmax(logits))."""
    real = logits.dtype.type
    inverse_ln2 = real(1 / math.log(2))
    for row in range(len(logits)):
        given, result = logits[row], out[row]
        largest = given[0]
        for k in range(1, len(given)):
            largest = max(largest, given[k])
        total = real(0)
        for k in range(len(given)):
            result[k] = (given[k] - largest) * inverse_ln2
            total += exp2(result[k])
        shift = log2(total)
        for k in range(len(given)):
            result[k] = factor * (result[k] - shift)


@compiled
def _relax_gates(state, gate_logit, inverse_temperature, logits, gates):
    real = gates.dtype.type
    ln2, one = real(math.log(2)), real(1)
    for slot in range(len(gates)):  # the difference of two Gumbel variables is logistic
        u = real(uniform(next_bits(state, slot)))
        logits[slot] = (gate_logit + ln2 * (log2(u) - log2(one - u))) * inverse_temperature
    for slot in range(len(gates)):
        small = exp2(-abs(logits[slot]) / ln2)
        gates[slot] = (one if logits[slot] > real(0) else small) / (one + small)


@compiled
def _relax(
    keys,
    first,
    last,
    gate_logit,
    scaled_logits,
    inverse_gate,
    inverse_feature,
    counts,
    gates,
    gate_logits,
    slots,
    sums,
    means,
):
    """Draw the rows of the blocks ``first`` to ``last``. `RelaxedCounts` describes the results."""
    real = gates.dtype.type
    zero, one = real(0), real(1)
    n_rows, n_slots = gates.shape
    n_given, n_features = scaled_logits.shape
    keep = len(slots) > 0
    state, gate_state = np.empty((4, n_features), np.uint32), np.empty((4, n_slots), np.uint32)
    noise, scratch = np.empty(n_features, gates.dtype), np.empty(n_features, gates.dtype)
    for block in range(first, last):
        seed(keys[block, 0], state)
        seed(keys[block, 1], gate_state)
        for row in range(block * BLOCK, min(n_rows, (block + 1) * BLOCK)):
            given, count, sum_ = row % n_given, counts[row], sums[row]
            scaled, gate_row = scaled_logits[given], gates[row]
            _relax_gates(gate_state, gate_logit[given], inverse_gate, gate_logits[row], gate_row)
            for k in range(n_features):
                count[k] = zero
                sum_[k] = zero
            for slot in range(n_slots):
                # One short loop for each step. In a longer loop the processor waits for its own results.
                for k in range(n_features):
                    noise[k] = real(uniform(next_bits(state, k)))
                for k in range(n_features):
                    noise[k] = -log2(noise[k])
                for k in range(n_features):
                    noise[k] = scaled[k] - inverse_feature * log2(noise[k])
                if inverse_feature > _SAFE_INVERSE:
                    largest = noise[0]
                    for k in range(1, n_features):
                        largest = max(largest, noise[k])
                    for k in range(n_features):
                        noise[k] -= largest
                feature = slots[row, slot] if keep else scratch
                total, mean, gate = zero, zero, gate_row[slot]
                for k in range(n_features):
                    weight = exp2(noise[k])
                    feature[k] = weight
                    total += weight
                scale = one / total
                for k in range(n_features):
                    probability = feature[k] * scale
                    feature[k] = probability
                    count[k] += gate * probability
                    weighted = probability * noise[k]
                    sum_[k] += gate * weighted
                    mean += weighted
                means[row, slot] = mean


@compiled
def _relax_backward(
    first,
    last,
    gradient,
    inverse_gate,
    inverse_feature,
    counts,
    gates,
    gate_logits,
    slots,
    sums,
    means,
    to_gate,
    to_features,
    to_gate_temperature,
    to_feature_temperature,
):
    """Compute the gradients of the observations ``first`` to ``last``. `RelaxedGradients` describes the results."""
    real = slots.dtype.type
    n_given, n_features = to_features.shape
    n_rows, n_slots = gates.shape
    for given in range(first, last):
        to_feature = to_features[given]
        for k in range(n_features):
            to_feature[k] = real(0)
        opening, gate_slope, slope = real(0), real(0), real(0)
        for row in range(given, n_rows, n_given):
            g, count, sum_ = gradient[row], counts[row], sums[row]
            for k in range(n_features):
                to_feature[k] += inverse_feature * g[k] * count[k]
                slope += g[k] * sum_[k]
            for slot in range(n_slots):
                feature, gate = slots[row, slot], gates[row, slot]
                along = real(0)
                for k in range(n_features):
                    along += g[k] * feature[k]
                weight = along * gate
                scale = weight * inverse_feature
                for k in range(n_features):
                    to_feature[k] -= scale * feature[k]
                slope -= weight * means[row, slot]
                opening += weight * (real(1) - gate)
                gate_slope += weight * (real(1) - gate) * gate_logits[row, slot]
        to_gate[given] = inverse_gate * opening
        to_gate_temperature[given] = -inverse_gate * gate_slope
        to_feature_temperature[given] = -real(math.log(2)) * inverse_feature * slope


@dataclass(frozen=True)
class RelaxedCounts:
    """Relaxed counts of R rows, and the intermediate results that their gradient needs."""

    counts: np.ndarray
    """(R, K): sum over the slots of gate * feature."""
    gates: np.ndarray
    """(R, L0): relaxed gates."""
    gate_logits: np.ndarray
    """(R, L0): logits of the relaxed gates."""
    slots: np.ndarray
    """(R, L0, K): relaxed features of each slot, or (0, L0, K) without ``keep``. By far the largest array."""
    sums: np.ndarray
    """(R, K): sum over the slots of gate * feature * perturbed logit, in base 2."""
    means: np.ndarray
    """(R, L0): mean of the perturbed logits under the relaxed features of the slot, in base 2."""


def _inverse(temperature: float, real: type[np.floating]) -> np.floating:
    """Return 1 / temperature, and a finite number if the temperature is zero.

    The counts then become NaN, which training detects.
    """
    return real(1 / max(temperature, float(np.finfo(np.float32).tiny)))


def relaxed_counts(
    keys: np.ndarray,
    gate_logit: np.ndarray,
    feature_logits: np.ndarray,
    *,
    n_slots: int,
    n_samples: int,
    gate_temperature: float,
    feature_temperature: float,
    keep: bool,
    n_threads: int,
) -> RelaxedCounts:
    """Draw relaxed counts from each of B rows of parameters.

    Parameters
    ----------
    keys : ndarray of shape (n_blocks, 2)
        Seeds, see `sdlgm._kernels.random`.
    gate_logit : ndarray of shape (B,)
        Logit of the gates.
    feature_logits : ndarray of shape (B, K)
        Logits of the features.
    n_slots : int
        Number of slots L0.
    n_samples : int
        Number of draws S from each row. Row r of the result is draw r // B from row r % B.
    gate_temperature, feature_temperature : float
        Temperatures of the relaxation.
    keep : bool
        Whether to keep the slots, which `relaxed_gradients` needs.
    n_threads : int
        Number of threads. The result does not depend on it.

    Returns
    -------
    RelaxedCounts
        Arrays of R = S * B rows.

    """
    real = feature_logits.dtype.type
    n_given, n_features = feature_logits.shape
    n_rows = n_samples * n_given
    draw = RelaxedCounts(
        counts=np.empty((n_rows, n_features), real),
        gates=np.empty((n_rows, n_slots), real),
        gate_logits=np.empty((n_rows, n_slots), real),
        slots=np.empty((n_rows if keep else 0, n_slots, n_features), real),
        sums=np.empty((n_rows, n_features), real),
        means=np.empty((n_rows, n_slots), real),
    )
    scaled_logits = np.empty_like(feature_logits)
    inverses = _inverse(gate_temperature, real), _inverse(feature_temperature, real)
    _log2_softmax(feature_logits, inverses[1], scaled_logits)

    def work(first: int, last: int) -> None:
        _relax(keys, first, last, gate_logit, scaled_logits, *inverses, *vars(draw).values())

    run_in_threads(n_blocks(n_rows), n_threads, work)
    return draw


@dataclass(frozen=True)
class RelaxedGradients:
    """Gradients for each of B rows of parameters, summed over the draws from the row."""

    gate_logit: np.ndarray
    """(B,)."""
    feature_logits: np.ndarray
    """(B, K)."""
    gate_temperature: np.ndarray
    """(B,)."""
    feature_temperature: np.ndarray
    """(B,)."""


def relaxed_gradients(
    gradient: np.ndarray,
    draw: RelaxedCounts,
    *,
    n_samples: int,
    gate_temperature: float,
    feature_temperature: float,
    n_threads: int,
) -> RelaxedGradients:
    """Return the gradients of logits and temperatures from the ``gradient`` of the counts, of shape (R, K)."""
    real, n_given = gradient.dtype.type, len(gradient) // n_samples
    result = RelaxedGradients(
        np.empty(n_given, real),
        np.empty((n_given, gradient.shape[1]), real),
        np.empty(n_given, real),
        np.empty(n_given, real),
    )
    inverses = _inverse(gate_temperature, real), _inverse(feature_temperature, real)

    def work(first: int, last: int) -> None:
        _relax_backward(first, last, gradient, *inverses, *vars(draw).values(), *vars(result).values())

    run_in_threads(n_given, n_threads, work)
    return result
