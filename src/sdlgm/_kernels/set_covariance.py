"""Gradients of drawn sets: what each element changes, carried to all scores by the covariance of the members.

The covariance matrix times a vector c is the derivative of P(k in S) if the logits move by c. So all sums of
`sdlgm._kernels.set_sums` are taken with their derivative in that direction.
"""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import exp2
from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.set_draws import small_numbers
from sdlgm._kernels.set_sums import (
    CLOSED,
    add_heavy,
    add_heavy_slopes,
    fill_root,
    fill_weights,
    padded,
    polynomial,
    power_sums,
    split_off_heavy,
    symmetric_polynomials,
    symmetric_slopes,
)
from sdlgm._kernels.threads import run_in_threads

FIXED, STRAIGHT, HALF = 0, 1, 2
"""Rules: members have no gradient; that of their probability; half of it over the probability of what was drawn."""


@compiled
def _differences(x, chosen, number, share, gradient, soft, slopes):
    """Fill ``slopes`` with what each element changes: the result with it less without it, times the gradient."""
    real = x.dtype.type
    one, inverse_ln2, highest = real(1), real(1 / math.log(2)), real(126)
    mean = real(0)
    for i in range(number):
        mean += share[i] * gradient[chosen[i]]
    if not soft or number == 0:
        for k in range(len(x)):
            slopes[k] = gradient[k]
        return mean
    largest, total = x[chosen[0]], 0.0
    for i in range(1, number):
        largest = max(largest, x[chosen[i]])
    for i in range(number):
        total += math.exp(x[chosen[i]] - largest)
    log_total = largest + real(math.log(total))
    for k in range(len(x)):
        if_added = one / (one + exp2(min((log_total - x[k]) * inverse_ln2, highest)))
        slopes[k] = if_added * (gradient[k] - mean)
    if number == 1:
        slopes[chosen[0]] = gradient[chosen[0]]
    else:
        for i in range(number):
            of_others = max(one - share[i], real(3e-4))
            slopes[chosen[i]] = share[i] / of_others * (gradient[chosen[i]] - mean)
    return mean


@compiled
def _shared_coefficients(light, d_light, after, d_after, mean, first, second, third):
    """Fill the polynomials of the light elements: presence, its derivative by the own logit, and by the others."""
    sign = 1.0
    for j in range(len(first)):
        presence, change = 0.0, 0.0
        for m in range(j + 1, len(light)):
            presence += after[m] * light[m - 1 - j]
            change += d_after[m] * light[m - 1 - j] + after[m] * d_light[m - 1 - j]
        first[j] = sign * presence
        second[j] = sign * (j + 1) * presence
        third[j] = sign * (change - mean * presence)
        sign = -sign


@compiled
def _fill_after(tilt, n_heavy, present, absent, before, after):
    """Fill ``after[i]`` with the weight of each number of elements before heavy element i, as a share of Z."""
    root = after[n_heavy]
    fill_root(tilt, root)
    total, budget = 0.0, len(root) - 1
    for m in range(budget + 1):
        total += root[m] * before[n_heavy, m]
    for m in range(budget + 1):
        root[m] /= total
    for i in range(n_heavy - 1, -1, -1):
        for m in range(budget):
            after[i, m] = absent[i] * after[i + 1, m] + present[i] * after[i + 1, m + 1]
        after[i, budget] = absent[i] * after[i + 1, budget]


@compiled
def _fill_after_slopes(n_heavy, present, absent, values, before, d_before, after, d_after):
    """Fill ``d_after`` with the derivative of ``after``, with Z as it is. Return the derivative of log Z."""
    budget = before.shape[1] - 1
    expected = 0.0
    for m in range(budget + 1):
        expected += after[n_heavy, m] * d_before[n_heavy, m]
        d_after[n_heavy, m] = 0.0
    for i in range(n_heavy - 1, -1, -1):
        for m in range(budget):
            moved = d_after[i + 1, m + 1] + values[i] * after[i + 1, m + 1]
            d_after[i, m] = absent[i] * d_after[i + 1, m] + present[i] * moved
        d_after[i, budget] = absent[i] * d_after[i + 1, budget]
    return expected


@compiled
def _fill_presence(n_heavy, heavy, present, before, after, coefficients, weights, presence):
    """Fill ``presence`` with the probability of each element."""
    polynomial(coefficients, weights, presence)
    for k in range(len(weights)):
        presence[k] *= weights[k]
    for i in range(n_heavy):
        without = 0.0
        for m in range(before.shape[1] - 1):
            without += before[i, m] * after[i + 1, m + 1]
        presence[heavy[i]] = min(present[i] * without, 1.0)


@compiled
def _apply_rule(half, chosen, number, presence, eps, slopes):
    """Turn what each element changes into the slope of the logit of its probability, over their covariance."""
    real = slopes.dtype.type
    if half:
        for i in range(number):
            # Members are divided by their own probability, all others by that of being no member, below.
            mu = presence[chosen[i]]
            slopes[chosen[i]] *= max(real(1) - mu, eps) / max(mu, eps)
        for k in range(len(slopes)):
            slopes[k] *= real(0.5) / max(real(1) - presence[k], eps)


@compiled
def _gradients(
    scores,
    evidence,
    bias,
    prior,
    tilts,
    elements,
    shares,
    gradient,
    to_kl,
    eps,
    smallest,
    n_powers,
    rule,
    soft,
    to_scores,
    to_evidence,
    to_bias,
    to_prior,
):
    real = evidence.dtype.type
    n, budget = evidence.shape[1], elements.shape[1]
    weights, slopes, presence = np.empty(n, real), np.empty(n, real), np.empty(n, real)
    powers, own, others = np.empty(n, real), np.empty(n, real), np.empty(n, real)
    sums, weighted = np.empty(n_powers), np.empty(n_powers)
    first, second, third = np.empty(n_powers, real), np.empty(n_powers, real), np.empty(n_powers, real)
    heavy, present, absent, values = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    tables, nothing, at_members = np.empty((4, 16, budget + 1)), np.zeros(budget + 1), np.empty(budget, real)
    for row in range(len(evidence)):
        y, b, r, kl = evidence[row], bias[row], prior[row], to_kl[row]
        chosen, share, out = elements[row], shares[row], to_evidence[row]
        number = 0
        while number < budget and chosen[number] >= 0:
            at_members[number] = gradient[row, chosen[number]]
            number += 1
        # The sums, and the probability of each element.
        fill_weights(y, b, r, tilts[row], smallest, weights)
        n_heavy, _ = split_off_heavy(y, b, r, tilts[row], budget, weights, heavy, present, absent)
        if n_heavy >= tables.shape[1]:
            tables = np.empty((4, 2 * n_heavy, budget + 1))
        before, d_before, after, d_after = tables[0], tables[1], tables[2], tables[3]
        power_sums(weights, weights, eps, powers, sums, weighted)
        symmetric_polynomials(sums, before[0])
        add_heavy(n_heavy, present, absent, before)
        _fill_after(tilts[row], n_heavy, present, absent, before, after)
        _shared_coefficients(before[0], nothing, after[0], nothing, 0.0, first, second, third)
        _fill_presence(n_heavy, heavy, present, before, after, first, weights, presence)
        # The direction: what each element changes, by the rule, and the slope of the divergence.
        mean = _differences(scores[row], chosen, number, share, gradient[row], soft, slopes)
        if rule == FIXED:
            slopes[:] = real(0)
        _apply_rule(rule == HALF, chosen, number, presence, eps, slopes)
        for k in range(n):
            slopes[k] += kl * (max(y[k], real(CLOSED)) + b)
        # The covariance times the direction.
        power_sums(weights, slopes, eps, powers, sums, weighted)
        symmetric_slopes(weighted, before[0], d_before[0])
        for i in range(n_heavy):
            values[i] = slopes[heavy[i]]
        add_heavy_slopes(n_heavy, present, absent, values, before, d_before)
        expected = _fill_after_slopes(n_heavy, present, absent, values, before, d_before, after, d_after)
        _shared_coefficients(before[0], d_before[0], after[0], d_after[0], expected, first, second, third)
        polynomial(second, weights, own)
        polynomial(third, weights, others)
        for k in range(n):
            out[k] = weights[k] * (slopes[k] * own[k] + others[k])
        for i in range(n_heavy):
            without, change = 0.0, 0.0
            for m in range(budget):
                without += before[i, m] * after[i + 1, m + 1]
                change += d_before[i, m] * after[i + 1, m + 1] + before[i, m] * d_after[i + 1, m + 1]
            out[heavy[i]] = present[i] * ((values[i] - expected) * without + change)
        all_out, all_present = real(0), real(0)
        for k in range(n):
            all_out += out[k]
            all_present += presence[k]
        to_bias[row], to_prior[row] = all_out, all_out - kl * all_present
        if soft:
            for i in range(number):
                to_scores[row, chosen[i]] += share[i] * (at_members[i] - mean)


@compiled
def _to_scores(elements, shares, gradient, to_scores):
    """Fill the gradient of a softmax over sets that are given."""
    real = shares.dtype.type
    for row in range(len(elements)):
        chosen, share, g, out = elements[row], shares[row], gradient[row], to_scores[row]
        mean = real(0)
        for i in range(len(chosen)):
            if chosen[i] >= 0:
                mean += share[i] * g[chosen[i]]
        for i in range(len(chosen)):  # before the row of gradients is overwritten, which may be that of the result
            if chosen[i] >= 0:
                share[i] *= g[chosen[i]] - mean
        out[:] = real(0)
        for i in range(len(chosen)):
            if chosen[i] >= 0:
                out[chosen[i]] = share[i]


@compiled
def _to_values(elements, shares, gradient, n_queries, to_value):
    real = shares.dtype.type
    to_value[:] = real(0)
    for row in range(len(elements)):
        group, g = row // n_queries, gradient[row]
        for i in range(elements.shape[1]):
            if elements[row, i] >= 0:
                out, share = to_value[group, elements[row, i]], shares[row, i]
                for d in range(len(g)):
                    out[d] += share * g[d]


@dataclass(frozen=True)
class SetGradients:
    """Gradients with respect to the arguments of `choose_sets` and `set_mixtures`."""

    scores: np.ndarray
    """(R, K). If scores and evidence are the same array, so are their gradients, and this is the sum."""
    evidence: np.ndarray
    """(R, K)."""
    bias: np.ndarray
    """(R,)."""
    prior: np.ndarray
    """(R,)."""


def set_gradients(
    scores: np.ndarray,
    evidence: np.ndarray,
    bias: np.ndarray,
    prior: np.ndarray,
    tilts: np.ndarray,
    elements: np.ndarray,
    shares: np.ndarray,
    gradient: np.ndarray,
    to_kl: np.ndarray,
    *,
    rule: int,
    soft: bool,
    n_threads: int,
) -> SetGradients:
    """Return the gradients of chosen sets.

    Parameters
    ----------
    scores, evidence : ndarray of shape (R, K)
        What weighs the members and what chooses them; may be the same array.
    bias, prior, tilts : ndarray of shape (R,)
    elements, shares : ndarray of shape (R, L0)
        The sets, and the weights of their members.
    gradient : ndarray of shape (R, K)
        With respect to the weights of all elements. It is overwritten.
    to_kl : ndarray of shape (R,)
        With respect to the divergence.
    rule : int
        `FIXED`, `STRAIGHT` or `HALF`.
    soft : bool
        The weights are a softmax over the set.
    n_threads : int
        Number of threads.

    """
    joint = scores is evidence
    to_evidence = gradient  # each row is read before it is written
    result = SetGradients(
        to_evidence if joint else np.zeros_like(scores), to_evidence, np.zeros_like(bias), np.zeros_like(bias)
    )

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        _gradients(
            scores[rows],
            evidence[rows],
            bias[rows],
            prior[rows],
            tilts[rows],
            elements[rows],
            shares[rows],
            gradient[rows],
            to_kl[rows],
            *small_numbers(evidence.dtype),
            padded(elements.shape[1]),
            rule,
            soft,
            result.scores[rows],
            result.evidence[rows],
            result.bias[rows],
            result.prior[rows],
        )

    run_in_threads(len(scores), n_threads, work)
    return result


def given_set_gradients(
    elements: np.ndarray, shares: np.ndarray, gradient: np.ndarray, *, n_threads: int
) -> np.ndarray:
    """Return the gradient of the scores of a softmax over given sets; ``gradient`` is overwritten."""

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        _to_scores(elements[rows], shares[rows].copy(), gradient[rows], gradient[rows])

    run_in_threads(len(elements), n_threads, work)
    return gradient


def set_value_gradients(
    elements: np.ndarray, shares: np.ndarray, gradient: np.ndarray, n_values: int, n_groups: int, *, n_threads: int
) -> np.ndarray:
    """Return the gradient of the values, of shape (G, K, E), from that of their means, of shape (R, E)."""
    to_value = np.empty((n_groups, n_values, gradient.shape[1]), gradient.dtype)
    n_queries = max(1, len(elements) // max(1, n_groups))

    def work(first: int, last: int) -> None:  # of the groups, whose values no other part may change
        rows = slice(first * n_queries, last * n_queries)
        _to_values(elements[rows], shares[rows], gradient[rows], n_queries, to_value[first:last])

    run_in_threads(n_groups, n_threads, work)
    return to_value
