"""Sums over all sets of at most L0 of K elements, one row at a time, in O(K L0) without a table of that size.

With weights w_k, Z = e_0 + ... + e_L0 is the sum of their elementary symmetric polynomials. Elements are of two kinds.

*Light* ones have w_k <= `LIGHT` / (L0 + 1) and w_k <= 1/2. Their polynomials follow from the power sums by Newton's
identities, and the sum over the sets with one of them is a polynomial of its weight that all of them share,

    sum over the sets with k = w_k (D_0 - w_k D_1 + w_k^2 D_2 - ...),

so that every pass over the elements is a loop that the compiler vectorises. The terms fall quickly, since the weights
are small beside the sums: a digit or less is lost, and what is left has the precision of the weights.

*Heavy* ones, few as the sums of the weights are limited, are added one after the other, forward from the sums of the
light ones (``before``) and backward from the end (``after``). Nothing is subtracted there.

For range, the weights are scaled by e^-tilt, so that sum_k min(w_k, 1) is near L0 if it was above. Any tilt is exact.
"""

import math

import numpy as np

from sdlgm._kernels.arithmetic import exp2
from sdlgm._kernels.compiler import compiled

LIGHT = 2.0
CLOSED = -1e9
"""Evidence below this is no possibility at all."""
CHUNK = 32
"""Elements that are looked at together for heavy ones."""
MAX_BUDGET = 64
"""Above it, sums may leave the range, and tables of heavy elements grow large."""


@compiled
def fill_weights(evidence, bias, prior, tilt, smallest, weights):
    """Fill ``weights`` with min(exp(evidence + bias + prior - tilt), 1), zero if it is below ``smallest``.

    Return their sum, and how many of them are one.
    """
    real = weights.dtype.type
    inverse_ln2, closed, one, zero = real(1 / math.log(2)), real(CLOSED), real(1), real(0)
    shift, total, at_one = real(prior - tilt), zero, zero
    for k in range(len(weights)):
        logit = (max(evidence[k], closed) + bias) + shift
        weight = exp2(min(logit, zero) * inverse_ln2)
        weight = weight if weight > smallest else zero
        weights[k] = weight
        total += weight
        at_one += one if logit >= zero else zero
    return total, at_one


@compiled
def find_tilt(evidence, bias, prior, budget, smallest, weights):
    """Return the tilt of a row, and fill its weights: zero if the budget does not bind, or hardly.

    No more weights than the budget are one or above, and with the others they nearly add up to it. So there is a set of
    as many elements that has a weight far from zero.
    """
    real = weights.dtype.type
    total, at_one = fill_weights(evidence, bias, prior, 0.0, smallest, weights)
    if not (total > 1.6 * budget or at_one > budget):
        return 0.0
    largest = 0.0
    for k in range(len(evidence)):
        largest = max(largest, evidence[k] + bias + prior)
    lower, upper, tilt = 0.0, largest + math.log(len(weights)), 0.0
    for attempt in range(60):
        if total > 1.6 * budget or at_one > budget:
            lower = tilt
        elif total < budget - 0.5:
            upper = tilt
        else:
            break
        # Those at one stay there, the others fall by the same factor: exact until some of those at one begin to fall.
        rest, wanted, middle = total - at_one, budget - 0.2 - at_one, (lower + upper) / 2
        is_near = attempt < 8 and rest > 0 and wanted > 0
        tilt = tilt + math.log(rest / wanted) if is_near else middle
        if not lower < tilt < upper:
            tilt = middle
        # What is taken from the logits is a number of their precision.
        tilt = np.float64(prior) - np.float64(real(prior - tilt))
        total, at_one = fill_weights(evidence, bias, prior, tilt, smallest, weights)
    return tilt


@compiled
def split_off_heavy(evidence, bias, prior, tilt, budget, weights, heavy, present, absent):
    """Set the weights of heavy elements to zero, and list them.

    Their factors are absent + present x, the larger of the two being one. Return how many there are, and the logarithm
    of what the factors were divided by.
    """
    n, limit = len(weights), weights.dtype.type(min(0.5, LIGHT / (budget + 1)))
    n_heavy, log_scale = 0, 0.0
    for first in range(0, n, CHUNK):
        chunk = weights[first : first + CHUNK]
        largest = chunk[0]
        for i in range(len(chunk)):
            largest = max(largest, chunk[i])
        if largest > limit:
            for k in range(first, min(first + CHUNK, n)):
                if weights[k] > limit:
                    logit = np.float64(evidence[k]) + bias + prior - tilt
                    heavy[n_heavy] = k
                    present[n_heavy] = math.exp(min(logit, 0.0))
                    absent[n_heavy] = math.exp(min(-logit, 0.0))
                    log_scale += max(logit, 0.0)
                    weights[k] = 0
                    n_heavy += 1
    return n_heavy, log_scale


@compiled
def power_sums(weights, values, eps, powers, sums, weighted):
    """Fill ``sums[j]`` with sum_k w_k^(j+1), and ``weighted[j]`` with the same times the values.

    Powers too small to change a sum are taken as zero, before they leave the range of normal numbers.
    """
    real = weights.dtype.type
    cut, cut_power, zero = eps * real(0.01), eps * eps * real(0.0001), real(0)
    n = len(weights)
    for k in range(n):
        powers[k] = weights[k]
    for first in range(0, len(sums), 4):
        s0, s1, s2, s3, t0, t1, t2, t3 = zero, zero, zero, zero, zero, zero, zero, zero
        for k in range(n):
            w, v, a = weights[k], values[k], powers[k]
            w = w if w > cut else zero
            b = a * w
            c = b * w
            d = c * w
            s0 += a
            s1 += b
            s2 += c
            s3 += d
            t0 += a * v
            t1 += b * v
            t2 += c * v
            t3 += d * v
            e = d * w
            powers[k] = e if e > cut_power else zero
        sums[first], sums[first + 1], sums[first + 2], sums[first + 3] = s0, s1, s2, s3
        weighted[first], weighted[first + 1], weighted[first + 2], weighted[first + 3] = t0, t1, t2, t3


@compiled
def _newton(sums, light, m):
    """Return sum_j (-1)^j sums_j e_{m-1-j}, the right-hand side of Newton's identity for m."""
    total, sign = 0.0, 1.0
    for j in range(m):
        total += sign * sums[j] * light[m - 1 - j]
        sign = -sign
    return total


@compiled
def symmetric_polynomials(sums, light):
    """Fill ``light`` with e_0 .. e_L0 of the light elements, by Newton's identities."""
    light[0] = 1.0
    for m in range(1, len(light)):
        light[m] = max(_newton(sums, light, m) / m, 0.0)


@compiled
def symmetric_slopes(weighted, light, slopes):
    """Fill ``slopes`` with the derivative of the polynomials, from sums with slopes of the logits as values."""
    slopes[0] = 0.0
    for m in range(1, len(light)):
        slopes[m] = _newton(weighted, light, m)


@compiled
def add_heavy(n_heavy, present, absent, before):
    """Fill ``before[i + 1]`` with the sums once heavy element i is among the elements; row 0 is given."""
    for i in range(n_heavy):
        old, new, a, b = before[i], before[i + 1], absent[i], present[i]
        new[0] = a * old[0]
        for m in range(1, len(old)):
            new[m] = a * old[m] + b * old[m - 1]


@compiled
def add_heavy_slopes(n_heavy, present, absent, values, before, d_before):
    """Fill ``d_before`` with the derivative of ``before``, for slopes ``values`` of the heavy logits."""
    for i in range(n_heavy):
        old, d_old, d_new, a, b, v = before[i], d_before[i], d_before[i + 1], absent[i], present[i], values[i]
        d_new[0] = a * d_old[0]
        for m in range(1, len(old)):
            d_new[m] = a * d_old[m] + b * (d_old[m - 1] + v * old[m - 1])


@compiled
def fill_root(tilt, root):
    """Fill ``root`` with what the tilt took from each number of elements."""
    budget = len(root) - 1
    for m in range(budget + 1):
        root[m] = math.exp(tilt * (m - budget))


@compiled
def polynomial(coefficients, at, result):
    """Fill ``result`` with a polynomial at each place, lowest power first; `padded` says how many there are."""
    real = result.dtype.type
    for k in range(len(at)):
        result[k] = real(0)
    for first in range(len(coefficients) - 4, -1, -4):
        a, b, c, d = coefficients[first], coefficients[first + 1], coefficients[first + 2], coefficients[first + 3]
        for k in range(len(at)):
            w = at[k]
            result[k] = a + w * (b + w * (c + w * (d + w * result[k])))


def padded(budget: int) -> int:
    """Return the number of powers of a polynomial: a multiple of four."""
    return -(-budget // 4) * 4
