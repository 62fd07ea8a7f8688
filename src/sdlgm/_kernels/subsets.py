"""Subsets of K features that are asked one after the other, until as many are present as the budget allows.

The number of features present before feature k is a Markov chain; sums over all subsets are sums over its states, from
the first feature to the last ("before") or from the last to the first ("rest").
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import softplus
from sdlgm._kernels.compiler import compiled


@compiled
def _before(probs, budget, before):
    """``before[k, m]``: the probability that m features are present before feature k; the last row, after all."""
    real = probs.dtype.type
    for m in range(budget + 1):
        before[0, m] = real(0)
    before[0, 0] = real(1)
    for k in range(len(probs)):
        present, absent = probs[k], real(1) - probs[k]
        old, new = before[k], before[k + 1]
        shifted = new[1:]
        new[0] = real(0)
        for m in range(budget):
            shifted[m] = old[m] * present
        for m in range(budget):
            new[m] += old[m] * absent
        new[budget] += old[budget]


@compiled
def _divergence(logits, cost, closing, kl, to_logits, presence):
    real = kl.dtype.type
    one = real(1)
    n_rows, n_features = logits.shape
    budget = len(closing) - 1
    before = np.empty((n_features + 1, budget + 1), logits.dtype)
    rest = np.empty(budget + 1, logits.dtype)
    probs = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        for k in range(n_features):
            probs[k] = one / (one + real(math.exp(-logits[row, k])))
        _before(probs, budget, before)
        for m in range(budget + 1):
            rest[m] = closing[m]
        for step in range(n_features):
            k = n_features - 1 - step
            logit, prob, here = logits[row, k], probs[k], before[k]
            # What asking costs by itself, p log p + (1 - p) log(1 - p), and what a present feature costs.
            asking = prob * logit - real(softplus(logit))
            difference, asked, after = real(0), real(0), rest[1:]
            for m in range(budget):
                asked += here[m]
                difference += here[m] * (after[m] - rest[m])
            to_logits[row, k] = prob * (one - prob) * (difference + asked * (logit + cost[k]))
            presence[row, k] = asked * prob
            charge = asking + prob * cost[k]
            for m in range(budget):
                rest[m] = charge + prob * after[m] + (one - prob) * rest[m]
        kl[row] = rest[0]


@compiled
def _marginals(logits, n_present, presence, entropy):
    real = logits.dtype.type
    one = real(1)
    n_rows, n_features = logits.shape
    budget = n_present.shape[1] - 1
    before = np.empty((n_features + 1, budget + 1), logits.dtype)
    probs = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        for k in range(n_features):
            probs[k] = one / (one + real(math.exp(-logits[row, k])))
        _before(probs, budget, before)
        total = real(0)
        for k in range(n_features):
            asked = real(0)
            for m in range(budget):
                asked += before[k, m]
            presence[row, k] = asked * probs[k]
            total += asked * (real(softplus(logits[row, k])) - probs[k] * logits[row, k])
        entropy[row] = total
        for m in range(budget + 1):
            n_present[row, m] = before[n_features, m]


@compiled
def _modes(logits, budget, counts):
    n_rows, n_features = logits.shape
    take = np.empty((n_features, budget + 1), np.bool_)
    rest = np.empty(budget + 1)
    for row in range(n_rows):
        rest[:] = 0.0
        for step in range(n_features):
            k = n_features - 1 - step
            log_present, log_absent = -softplus(-float(logits[row, k])), -softplus(float(logits[row, k]))
            for m in range(budget):
                with_it, without = log_present + rest[m + 1], log_absent + rest[m]
                take[k, m] = with_it > without
                rest[m] = max(with_it, without)
        m = 0
        for k in range(n_features):
            counts[row, k] = 0
            if m < budget and take[k, m]:
                counts[row, k] = 1
                m += 1


@dataclass(frozen=True)
class SubsetDivergence:
    """KL of each of the R rows, its derivatives, and the probability of each feature."""

    kl: np.ndarray
    """(R,)."""
    logits: np.ndarray
    """(R, K): d kl / d logits."""
    presence: np.ndarray
    """(R, K): the probability that a feature is present, which is d kl / d cost."""


def subset_divergence(logits: np.ndarray, cost: np.ndarray, closing: np.ndarray) -> SubsetDivergence:
    """E[log q(subset) + the sum of ``cost`` over the features present + ``closing`` of their number].

    ``closing`` has an entry for each number that the budget allows, from zero on.
    """
    result = SubsetDivergence(np.empty(len(logits), logits.dtype), np.empty_like(logits), np.empty_like(logits))
    _divergence(logits, cost, closing, result.kl, result.logits, result.presence)
    return result


def subset_marginals(logits: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distribution of the number of features present, presence of each feature, and entropy of the subset."""
    n_rows = len(logits)
    n_present, presence = np.empty((n_rows, budget + 1), logits.dtype), np.empty_like(logits)
    entropy = np.empty(n_rows, logits.dtype)
    _marginals(logits, n_present, presence, entropy)
    return n_present, presence, entropy


def subset_modes(logits: np.ndarray, budget: int) -> np.ndarray:
    """The most probable subset of each row, as counts of 0 and 1."""
    counts = np.empty(logits.shape, np.int64)
    _modes(logits, budget, counts)
    return counts
