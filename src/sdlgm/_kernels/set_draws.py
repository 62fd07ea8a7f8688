"""Draw sets of at most L0 of K elements, or take the most probable ones, and average values over them."""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.compiler import compiled
from sdlgm._kernels.set_sums import (
    CHUNK,
    CLOSED,
    add_heavy,
    add_heavy_slopes,
    fill_root,
    find_tilt,
    padded,
    power_sums,
    split_off_heavy,
    symmetric_polynomials,
    symmetric_slopes,
)
from sdlgm._kernels.threads import run_in_threads

BLOCK = 64
"""Light elements whose sum of weights is kept, to find one of them faster."""
RARE = 0.05
"""Probability that draws without regard to each other differ, below which elements are drawn one after the other."""
_u8 = np.uint64


@compiled
def _uniform(state):
    """Return a random number in [0, 1) by splitmix64 (Steele, Lea and Flood, 2014)."""
    x = _u8(state[0] + _u8(0x9E3779B97F4A7C15))
    state[0] = x
    z = _u8(_u8(x ^ (x >> _u8(30))) * _u8(0xBF58476D1CE4E5B9))
    z = _u8(_u8(z ^ (z >> _u8(27))) * _u8(0x94D049BB133111EB))
    z = _u8(z ^ (z >> _u8(31)))
    return np.float64(z >> _u8(11)) * 2.0**-53


@compiled
def _draw_one(weights, blocks, total, state):
    """Return an element drawn by its weight, never one of weight zero unless all are."""
    left, block = _uniform(state) * total, 0
    while block < len(blocks) - 1 and left >= blocks[block]:
        left -= blocks[block]
        block += 1
    last = 0
    for k in range(block * BLOCK, min((block + 1) * BLOCK, len(weights))):
        if weights[k] > 0:
            last = k
            left -= weights[k]
            if left < 0:
                break
    return last


@compiled
def _draw_in_turn(weights, number, state, elements, n_drawn):
    """Draw ``number`` different elements from the last one to the first, each given those after it."""
    n = len(weights)
    sums = np.zeros((n + 1, number + 1))  # of the sets of each size among the first elements
    sums[0, 0] = 1.0
    for k in range(n):
        sums[k + 1, 0] = 1.0
        for m in range(1, number + 1):
            sums[k + 1, m] = sums[k, m] + weights[k] * sums[k, m - 1]
    while number > 0 and not sums[n, number] > 0:
        number -= 1
    for k in range(n - 1, -1, -1):
        if number > 0 and _uniform(state) * sums[k + 1, number] < weights[k] * sums[k, number - 1]:
            elements[n_drawn] = k
            n_drawn += 1
            number -= 1
    return n_drawn


@compiled
def _draw_light(weights, number, light, blocks, state, elements, n_drawn):
    """Draw ``number`` different light elements. Return how many are in the set now."""
    total, n = 0.0, len(weights)
    for block in range(len(blocks)):
        chunk, part = weights[block * BLOCK : min((block + 1) * BLOCK, n)], weights.dtype.type(0)
        for i in range(len(chunk)):
            part += chunk[i]
        blocks[block] = part
        total += part
    # Draws one by one, without regard to each other, all differ with this probability. If so, they are a set of the
    # right distribution; if not, all are drawn again.
    all_differ = light[number]
    for m in range(1, number + 1):
        all_differ *= m / total if total > 0 else 0.0
    if not all_differ > RARE:
        return _draw_in_turn(weights, number, state, elements, n_drawn)
    for _ in range(10_000):
        i = 0
        while i < number:
            k = _draw_one(weights, blocks, total, state)
            is_new = True
            for other in range(i):
                is_new = is_new and elements[n_drawn + other] != k
            if not is_new:
                break
            elements[n_drawn + i] = k
            i += 1
        if i == number:
            return n_drawn + number
    return _draw_in_turn(weights, number, state, elements, n_drawn)


@compiled
def _draw_set(n_heavy, heavy, present, before, root, weights, blocks, state, elements):
    """Draw the number of elements, then which of the heavy ones, then the light ones. Return the number."""
    budget = len(root) - 1
    total = 0.0
    for m in range(budget + 1):
        total += root[m] * before[n_heavy, m]
    left, number = _uniform(state) * total, 0
    while number < budget:
        left -= root[number] * before[n_heavy, number]
        if left < 0:
            break
        number += 1
    while number > 0 and not before[n_heavy, number] > 0:  # only if rounding has led beyond the last possible one
        number -= 1
    n_drawn = 0
    for i in range(n_heavy - 1, -1, -1):
        if number > 0 and _uniform(state) * before[i + 1, number] < present[i] * before[i, number - 1]:
            elements[n_drawn] = heavy[i]
            n_drawn += 1
            number -= 1
    if number > 0:
        n_drawn = _draw_light(weights, number, before[0], blocks, state, elements, n_drawn)
    return n_drawn


@compiled
def _draw(evidence, bias, prior, keys, eps, smallest, budget, n_powers, divergent, tilts, kl, elements):
    real = evidence.dtype.type
    n_rows, n = evidence.shape
    weights, values, powers = np.empty(n, real), np.empty(n, real), np.empty(n, real)
    sums, weighted = np.empty(n_powers), np.empty(n_powers)
    heavy, present, absent, slopes = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    before, d_before = np.empty((16, budget + 1)), np.empty((16, budget + 1))
    root, blocks, state = np.empty(budget + 1), np.empty(-(-n // BLOCK)), np.empty(1, np.uint64)
    for row in range(n_rows):
        y, b, r = evidence[row], bias[row], prior[row]
        tilt = find_tilt(y, b, r, budget, smallest, weights)
        tilts[row] = tilt
        n_heavy, log_scale = split_off_heavy(y, b, r, tilt, budget, weights, heavy, present, absent)
        if n_heavy >= len(before):
            before, d_before = np.empty((2 * n_heavy, budget + 1)), np.empty((2 * n_heavy, budget + 1))
        for k in range(n):
            values[k] = max(y[k], real(CLOSED)) + b
        power_sums(weights, values, eps, powers, sums, weighted)
        symmetric_polynomials(sums, before[0])
        add_heavy(n_heavy, present, absent, before)
        fill_root(tilt, root)
        if divergent:
            symmetric_slopes(weighted, before[0], d_before[0])
            for i in range(n_heavy):
                slopes[i] = values[heavy[i]]
            add_heavy_slopes(n_heavy, present, absent, slopes, before, d_before)
            total, slope = 0.0, 0.0
            for m in range(budget + 1):
                total += root[m] * before[n_heavy, m]
                slope += root[m] * d_before[n_heavy, m]
            kl[row] = slope / total - (math.log(total) + log_scale + budget * tilt)
        if len(keys):
            state[0] = _u8(keys[row])
            n_drawn = _draw_set(n_heavy, heavy, present, before, root, weights, blocks, state, elements[row])
            elements[row, n_drawn:] = -1


@compiled
def _modes(evidence, bias, prior, elements):
    real = evidence.dtype.type
    n_rows, n = evidence.shape
    budget = elements.shape[1]
    best = np.empty(budget, real)
    for row in range(n_rows):
        y, b, r = evidence[row], bias[row], prior[row]
        number, least, cut = 0, 0, real(0)
        for first in range(0, n, CHUNK):
            chunk = y[first : first + CHUNK]
            largest = chunk[0]
            for i in range(len(chunk)):
                largest = max(largest, chunk[i])
            if not (largest + b) + r > cut:
                continue
            for k in range(first, min(first + CHUNK, n)):
                logit = (y[k] + b) + r
                if logit > cut:
                    place = least if number == budget else number
                    best[place], elements[row, place] = logit, k
                    number = min(number + 1, budget)
                    if number == budget:
                        least = np.argmin(best)
                        cut = best[least]
        elements[row, number:] = -1


@compiled
def _mixtures(scores, elements, soft, value, first, n_queries, weights, shares, output):
    real = scores.dtype.type
    n_rows, budget = elements.shape
    width = output.shape[1]
    for row in range(n_rows):
        weight, share, chosen, x = weights[row], shares[row], elements[row], scores[row]
        weight[:] = real(0)
        share[:] = real(0)
        number = 0
        while number < budget and chosen[number] >= 0:
            number += 1
        if soft and number > 0:
            largest = x[chosen[0]]
            for i in range(1, number):
                largest = max(largest, x[chosen[i]])
            total = real(0)
            for i in range(number):
                share[i] = real(math.exp(x[chosen[i]] - largest))
                total += share[i]
            for i in range(number):
                share[i] /= total
        else:
            for i in range(number):
                share[i] = real(1)
        for i in range(number):
            weight[chosen[i]] = share[i]
        if width:
            out, group = output[row], (first + row) // n_queries
            out[:] = real(0)
            for i in range(number):
                v, s = value[group, chosen[i]], share[i]
                for d in range(width):
                    out[d] += s * v[d]


@dataclass(frozen=True)
class ChosenSets:
    """Sets of R rows of K elements, at most L0 in each."""

    elements: np.ndarray
    """(R, L0): the elements of each set; -1 where it has fewer."""
    kl: np.ndarray
    """(R,): sum_k P(k in S) (evidence_k + bias) - log Z, if it was wanted."""
    tilts: np.ndarray
    """(R,): the scale of the weights that `set_gradients` uses again."""


def choose_sets(
    evidence: np.ndarray,
    bias: np.ndarray,
    prior: np.ndarray,
    budget: int,
    keys: np.ndarray | None,
    *,
    divergent: bool,
    n_threads: int,
) -> ChosenSets:
    """Draw a set for each row, or take the most probable one.

    Parameters
    ----------
    evidence : ndarray of shape (R, K)
    bias, prior : ndarray of shape (R,)
        Added to the evidence; the sum is the log-odds of an element before the budget. Only ``bias`` is part of the
        divergence.
    budget : int
        Largest number of elements, at most K and `MAX_BUDGET`.
    keys : ndarray of int64 of shape (R,), or None
        Seeds of the draws. Without them, the sets are the most probable ones.
    divergent : bool
        Compute the divergence.
    n_threads : int
        Number of threads.

    """
    n_rows = len(evidence)
    result = ChosenSets(
        np.empty((n_rows, budget), np.int32), np.zeros(n_rows, evidence.dtype), np.zeros(n_rows, np.float64)
    )
    seeds = np.empty(0, np.int64) if keys is None else keys

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        y, b, r = evidence[rows], bias[rows], prior[rows]
        elements, kl, tilts = result.elements[rows], result.kl[rows], result.tilts[rows]
        if keys is not None or divergent:
            limits = small_numbers(evidence.dtype)
            _draw(y, b, r, seeds[rows], *limits, budget, padded(budget), divergent, tilts, kl, elements)
        if keys is None:
            _modes(y, b, r, elements)

    run_in_threads(n_rows, n_threads, work)
    return result


def set_mixtures(
    scores: np.ndarray, elements: np.ndarray, value: np.ndarray, *, soft: bool, n_threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weights of all elements, those of the members, and the weighted means of the values.

    Parameters
    ----------
    scores : ndarray of shape (R, K)
    elements : ndarray of int32 of shape (R, L0)
    value : ndarray of shape (G, K, E)
        The same values for R / G rows that follow each other. E may be zero.
    soft : bool
        The weights are the softmax of the scores over the set. Otherwise they are one.
    n_threads : int
        Number of threads.

    """
    n_rows, (n_groups, _, width) = len(scores), value.shape
    n_queries = max(1, n_rows // max(1, n_groups))
    weights, shares = np.empty_like(scores), np.empty(elements.shape, scores.dtype)
    output = np.empty((n_rows, width), scores.dtype)

    def work(first: int, last: int) -> None:
        rows = slice(first, last)
        parts = weights[rows], shares[rows], output[rows]
        _mixtures(scores[rows], elements[rows], soft, value, first, n_queries, *parts)

    run_in_threads(n_rows, n_threads, work)
    return weights, shares, output


def small_numbers(dtype: np.dtype) -> tuple[np.floating, np.floating]:
    """Return the relative precision of a type, and the weight below which an element does not count."""
    info = np.finfo(dtype)
    return info.eps, dtype.type(1e-30 if info.bits == 32 else 1e-250)
