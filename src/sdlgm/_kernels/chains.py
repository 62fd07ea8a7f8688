"""Kernels of chains, in which each feature depends on the features before it.

``coupling[k, j]`` is added to the logit of feature j > k if feature k is present. Only the upper triangle is read.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2, log2
from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.threads import run_in_threads


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
            # noise < sigmoid(logit), written without a division by an exponential that may be infinite.
            if n_present < budget and noise[row, k] * (real(1) + real(math.exp(-current[k]))) < real(1):
                counts[row, k] = real(1)
                n_present += 1
                effect, later = coupling[k, k + 1 :], current[k + 1 :]
                for j in range(len(later)):
                    later[j] += effect[j]


@compiled
def _modes(logits, coupling, budget, counts):
    n_rows, n_features = logits.shape
    current = np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        current[:] = logits[row]
        n_left = budget
        for k in range(n_features):
            if current[k] > 0 and n_left > 0:
                counts[row, k] = 1
                n_left -= 1
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
def _backward(coupling, slopes, to_counts, to_logits, result):
    n_rows, n_features = to_counts.shape
    for row in range(n_rows):
        for step in range(n_features):
            k = n_features - 1 - step
            total = to_counts[row, k]
            effect, later = coupling[k, k + 1 :], result[row, k + 1 :]
            for j in range(len(later)):
                total += effect[j] * later[j]
            result[row, k] = to_logits[row, k] + slopes[row, k] * total


@compiled
def _cost(logits, counts, prior_logits, log_places, cost, to_logits, to_counts, presence):
    real = logits.dtype.type
    one = real(1)
    n_rows, n_features = logits.shape
    budget = len(log_places)
    ln2, inverse_ln2 = real(math.log(2)), real(1 / math.log(2))
    probs, softplus = np.empty(n_features, logits.dtype), np.empty(n_features, logits.dtype)
    for row in range(n_rows):
        for k in range(n_features):  # a loop of its own, so that it is vectorised
            logit = logits[row, k]
            weight = exp2(-abs(logit) * inverse_ln2)  # odds of the less probable value
            probs[k] = (one if logit >= real(0) else weight) / (one + weight)
            softplus[k] = max(logit, real(0)) + ln2 * log2(one + weight)
        before, total = 0, real(0)
        for k in range(n_features):
            if before < budget:
                prob = probs[k]
                difference = logits[row, k] - prior_logits[k] - log_places[before]
                total += prob * difference - softplus[k]
                to_logits[row, k] = prob * (one - prob) * difference
                to_counts[row, k] = prob / real(budget - before)
                presence[row, k] = prob
            else:
                to_logits[row, k] = to_counts[row, k] = presence[row, k] = real(0)
            before += int(counts[row, k])
        cost[row] = total
        # A present feature takes one place from each later feature.
        later = real(0)
        for step in range(n_features):
            k = n_features - 1 - step
            here = to_counts[row, k]
            to_counts[row, k] = later
            later += here


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
class ChainCost:
    """Cost of R codes and its derivatives."""

    cost: np.ndarray
    """(R,)."""
    logits: np.ndarray
    """(R, K): d cost / d logits."""
    counts: np.ndarray
    """(R, K): d cost / d counts through the number of places left, with fixed logits."""
    presence: np.ndarray
    """(R, K): -d cost / d prior_logits."""


def chain_cost(logits: np.ndarray, counts: np.ndarray, prior_logits: np.ndarray, budget: int) -> ChainCost:
    """Return the divergence of the chain from the prior, given drawn codes, and its derivatives.

        cost = sum_k p_k (logit_k - prior_logit_k - log(places left)) - softplus(logit_k),   p_k = sigmoid(logit_k)

    The sum is over the features k before which fewer than ``budget`` features are present.

    Parameters
    ----------
    logits : ndarray of shape (R, K)
        Logit of each feature given the features before it.
    counts : ndarray of shape (R, K)
        Drawn codes, 0 or 1.
    prior_logits : ndarray of shape (K,)
        Log-odds of each feature in a slot under the prior, log(lambda_0 alpha_k / (1 - lambda_0)).
    budget : int
        Largest number of features of a code.

    """
    log_places = np.log(np.arange(budget, 0, -1)).astype(logits.dtype)
    result = ChainCost(np.empty_like(logits[:, 0]), *(np.empty_like(logits) for _ in range(3)))
    _cost(logits, counts, prior_logits, log_places, result.cost, result.logits, result.counts, result.presence)
    return result


def draw_chain(
    logits: np.ndarray, coupling: np.ndarray, noise: np.ndarray, budget: int, n_threads: int = 1
) -> np.ndarray:
    """Draw codes feature by feature, with at most ``budget`` features each.

    Parameters
    ----------
    logits : ndarray of shape (R, K)
        Logit of each feature if no feature before it is present.
    coupling : ndarray of shape (K, K)
        Effect of a present feature on the logits of later features.
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
    counts = np.empty_like(logits)

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        _draw(logits[rows], coupling, noise[rows], budget, counts[rows])

    run_in_threads(len(logits), n_threads, work)
    return counts


def chain_modes(logits: np.ndarray, coupling: np.ndarray, budget: int, n_threads: int = 1) -> np.ndarray:
    """Make the more probable choice feature by feature. The arguments are those of `draw_chain`; zeros and ones."""
    counts = np.zeros(logits.shape, np.int8)

    def work(first: int, last: int) -> None:
        _modes(logits[first:last], coupling, budget, counts[first:last])

    run_in_threads(len(logits), n_threads, work)
    return counts


def draw_relaxed_chain(
    logits: np.ndarray, coupling: np.ndarray, noise: np.ndarray, temperature: float, budget: int
) -> np.ndarray:
    """Draw relaxed codes feature by feature.

    A feature is sigmoid((logit + noise) / temperature), with logistic ``noise``, but at most the part of the budget
    that the features before it have left. The other arguments are those of `draw_chain`.
    """
    counts = np.empty_like(logits)
    _draw_relaxed(logits, coupling, noise, logits.dtype.type(temperature), logits.dtype.type(budget), counts)
    return counts


def chain_gradients(
    coupling: np.ndarray, slopes: np.ndarray, to_counts: np.ndarray, to_logits: np.ndarray, n_threads: int = 1
) -> np.ndarray:
    """Return the gradient of the conditional logits of drawn codes.

        d_k = l_k + slope_k (g_k + sum_{j > k} coupling_kj d_j),   k = K .. 1

    Parameters
    ----------
    coupling : ndarray of shape (K, K)
        Effect of a present feature on the logits of later features.
    slopes : ndarray of shape (R, K)
        Derivative of each feature with respect to its own logit.
    to_counts : ndarray of shape (R, K)
        g, the gradient of the drawn features where they are used.
    to_logits : ndarray of shape (R, K)
        l, the gradient of the conditional logits where they are used.
    n_threads : int, default=1
        Largest number of threads.

    Returns
    -------
    ndarray of shape (R, K)

    """
    result = np.empty_like(to_counts)

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        _backward(coupling, slopes[rows], to_counts[rows], to_logits[rows], result[rows])

    run_in_threads(len(result), n_threads, work)
    return result


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
    logits: np.ndarray, prior_logits: np.ndarray, counts: np.ndarray, budget: int, n_threads: int = 1
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
    n_threads : int, default=1
        Largest number of threads.

    """
    result = ConditionalDivergence(np.empty_like(logits[:, 0]), np.empty_like(logits), np.empty_like(logits))

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        derivatives = result.logits[rows], result.prior_logits[rows]
        _divergence(logits[rows], prior_logits[rows], counts[rows], budget, result.cost[rows], *derivatives)

    run_in_threads(len(logits), n_threads, work)
    return result
