"""Subsets in which each feature looks at those before it: sequential draws, and the way back through them.

``coupling[k, j]`` is what the presence of feature k adds to the logit of a later feature j > k; the rest of the matrix
is not read.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2, log2
from sdlgm._kernels.compiler import compiled


@compiled
def _draw(logits, coupling, noise, budget, counts):
    real = logits.dtype.type
    n_rows, n_features = logits.shape
    current = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        current[:] = logits[row]
        n_present = 0
        for k in range(n_features):
            counts[row, k] = real(0)
            # noise < sigmoid(logit), without a division by an infinite exponential
            if n_present < budget and noise[row, k] * (real(1) + real(math.exp(-current[k]))) < real(1):
                counts[row, k] = real(1)
                n_present += 1
                effect, later = coupling[k, k + 1 :], current[k + 1 :]
                for j in range(len(later)):
                    later[j] += effect[j]


@compiled
def _draw_relaxed(logits, coupling, noise, temperature, budget, counts):
    real = logits.dtype.type
    n_rows, n_features = logits.shape
    current = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        current[:] = logits[row]
        total = real(0)
        for k in range(n_features):
            value = real(1) / (real(1) + real(math.exp(-(current[k] + noise[row, k]) / temperature)))
            value = min(value, budget - total)
            counts[row, k] = value
            total += value
            effect, later = coupling[k, k + 1 :], current[k + 1 :]
            for j in range(len(later)):
                later[j] += value * effect[j]


@compiled
def _backward(coupling, slopes, gradient, to_logits):
    n_rows, n_features = gradient.shape
    for row in range(n_rows):
        for step in range(n_features):
            k = n_features - 1 - step
            total = gradient[row, k]
            effect, later = coupling[k, k + 1 :], to_logits[row, k + 1 :]
            for j in range(len(later)):
                total += effect[j] * later[j]
            to_logits[row, k] = total * slopes[row, k]


@compiled
def _cost(logits, counts, charges, log_places, cost, to_logits, to_counts, presence):
    real = logits.dtype.type
    one = real(1)
    n_rows, n_features = logits.shape
    budget = len(log_places)
    ln2, inverse_ln2 = real(math.log(2)), real(1 / math.log(2))
    probs, softplus = np.empty(n_features, logits.dtype), np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        for k in range(n_features):  # apart from the rest, so that several go at a time
            logit = logits[row, k]
            weight = exp2(-abs(logit) * inverse_ln2)  # of the less probable choice
            probs[k] = (one if logit >= real(0) else weight) / (one + weight)
            softplus[k] = max(logit, real(0)) + ln2 * log2(one + weight)
        before, total = 0, real(0)
        for k in range(n_features):
            if before < budget:
                prob = probs[k]
                charge = logits[row, k] - charges[k] - log_places[before]
                total += prob * charge - softplus[k]
                to_logits[row, k] = prob * (one - prob) * charge
                to_counts[row, k] = prob / real(budget - before)
                presence[row, k] = prob
            else:
                to_logits[row, k] = to_counts[row, k] = presence[row, k] = real(0)
            before += int(counts[row, k])
        cost[row] = total
        # A feature that is present takes one place from all later ones.
        later = real(0)
        for step in range(n_features):
            k = n_features - 1 - step
            here = to_counts[row, k]
            to_counts[row, k] = later
            later += here


@dataclass(frozen=True)
class ChainCost:
    """What codes cost, and its derivatives given the conditional logits."""

    cost: np.ndarray
    logits: np.ndarray
    counts: np.ndarray
    """Only by the places that a feature takes from later ones."""
    presence: np.ndarray
    """Minus the derivatives by the charges."""


def chain_cost(logits: np.ndarray, counts: np.ndarray, charges: np.ndarray, budget: int) -> ChainCost:
    """Sum over the features asked of p (logit - charge - log(places left)) - softplus(logit), p = sigmoid(logit).

    ``logits`` are those of each feature given the ``counts`` before it.
    """
    log_places = np.log(np.arange(budget, 0, -1)).astype(logits.dtype)
    result = ChainCost(np.empty_like(logits[:, 0]), *(np.empty_like(logits) for _ in range(3)))
    _cost(logits, counts, charges, log_places, *vars(result).values())
    return result


def draw_chain(logits: np.ndarray, coupling: np.ndarray, noise: np.ndarray, budget: int) -> np.ndarray:
    """Zeros and ones, feature after feature, from uniform noise; no more ones than the budget."""
    counts = np.empty_like(logits)
    _draw(logits, coupling, noise, budget, counts)
    return counts


def draw_relaxed_chain(
    logits: np.ndarray, coupling: np.ndarray, noise: np.ndarray, temperature: float, budget: int
) -> np.ndarray:
    """The same with sigmoid((logit + logistic noise) / temperature) in the place of a draw."""
    counts = np.empty_like(logits)
    _draw_relaxed(logits, coupling, noise, logits.dtype.type(temperature), logits.dtype.type(budget), counts)
    return counts


def chain_gradients(coupling: np.ndarray, slopes: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """From the gradient of the counts to that of the logits, if d counts = ``slopes`` * d logits for each feature."""
    to_logits = np.empty_like(gradient)
    _backward(coupling, slopes, gradient, to_logits)
    return to_logits
