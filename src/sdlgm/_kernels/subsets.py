"""Kernels of the subset posterior: K independent features, truncated after as many present ones as the budget allows.

The number of features present before feature k is a Markov chain. Sums over all subsets are computed by dynamic
programming over its states, forward from the first feature (``before``) or backward from the last (``rest``).
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import softplus
from sdlgm._kernels.compiler import compiled


@compiled
def _before(probs, budget, before):
    """Fill ``before[k, m]`` with the probability that m features are present before feature k.

    The last row, k = K, is the distribution of the number of features of the subset.
    """
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
            # The expected cost of feature k is p log p + (1 - p) log(1 - p) + p cost_k.
            neg_entropy = prob * logit - real(softplus(logit))
            difference, reached, after = real(0), real(0), rest[1:]
            for m in range(budget):
                reached += here[m]
                difference += here[m] * (after[m] - rest[m])
            to_logits[row, k] = prob * (one - prob) * (difference + reached * (logit + cost[k]))
            presence[row, k] = reached * prob
            expected = neg_entropy + prob * cost[k]
            for m in range(budget):
                rest[m] = expected + prob * after[m] + (one - prob) * rest[m]
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
            reached = real(0)
            for m in range(budget):
                reached += before[k, m]
            presence[row, k] = reached * probs[k]
            total += reached * (real(softplus(logits[row, k])) - probs[k] * logits[row, k])
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
    """KL of each of R rows and its derivatives."""

    kl: np.ndarray
    """(R,)."""
    logits: np.ndarray
    """(R, K): d kl / d logits."""
    presence: np.ndarray
    """(R, K): probability that a feature is present, equal to d kl / d cost."""


def subset_divergence(logits: np.ndarray, cost: np.ndarray, closing: np.ndarray) -> SubsetDivergence:
    """Return E_q[log q(n) + sum_k n_k cost_k + closing_N], N = sum_k n_k, and its derivatives.

    Parameters
    ----------
    logits : ndarray of shape (R, K)
        Logit of each feature, if fewer features than the budget are present before it.
    cost : ndarray of shape (K,)
        Cost of each present feature.
    closing : ndarray of shape (budget + 1,)
        Cost of each number of features.

    """
    result = SubsetDivergence(np.empty(len(logits), logits.dtype), np.empty_like(logits), np.empty_like(logits))
    _divergence(logits, cost, closing, result.kl, result.logits, result.presence)
    return result


def subset_marginals(logits: np.ndarray, budget: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the marginals of subsets.

    Parameters
    ----------
    logits : ndarray of shape (R, K)
        Logit of each feature, if fewer features than the budget are present before it.
    budget : int
        Largest number of features of a subset.

    Returns
    -------
    n_present : ndarray of shape (R, budget + 1)
        Distribution of the number of features.
    presence : ndarray of shape (R, K)
        Probability that each feature is present.
    entropy : ndarray of shape (R,)
        Entropy of the subset, in nats.

    """
    n_rows = len(logits)
    n_present, presence = np.empty((n_rows, budget + 1), logits.dtype), np.empty_like(logits)
    entropy = np.empty(n_rows, logits.dtype)
    _marginals(logits, n_present, presence, entropy)
    return n_present, presence, entropy


def subset_modes(logits: np.ndarray, budget: int) -> np.ndarray:
    """Return the most probable subset of each row as zeros and ones, of shape (R, K)."""
    counts = np.empty(logits.shape, np.int64)
    _modes(logits, budget, counts)
    return counts
