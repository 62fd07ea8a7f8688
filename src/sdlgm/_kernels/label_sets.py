"""Kernels of sets of labels: their marginals together with their number, and the set with the largest expected F1.

Labels are visited in their order, each present by itself. The set of s labels then has a further weight. With
``absorbs``, labels after the budget is used up stay off; otherwise larger sets have no weight. The number of labels
present so far is a Markov chain, so all sums over sets are sums over its states (see `sdlgm._kernels.subsets`).

Matrices that have entries for few labels of each row are flat: those of row r are at ``bounds[r]:bounds[r + 1]``.
"""

import numpy as np

from sdlgm._kernels.compiler import compiled


@compiled
def _advance(prob, absorbs, numbers):
    """Update the distribution of the number of labels, 0 to the budget, by a label."""
    budget = len(numbers) - 1
    at_budget = numbers[budget]
    for m in range(budget, 0, -1):
        numbers[m] = numbers[m] * (1.0 - prob) + numbers[m - 1] * prob
    numbers[0] *= 1.0 - prob
    if absorbs:
        numbers[budget] += at_budget * prob


@compiled
def _numbers(probs, absorbs, numbers):
    for row in range(len(probs)):
        numbers[row, :] = 0.0
        numbers[row, 0] = 1.0
        for k in range(probs.shape[1]):
            _advance(probs[row, k], absorbs, numbers[row])


@compiled
def _presence(probs, weights, absorbs, presence):
    n_rows, n_labels = probs.shape
    budget = weights.shape[1] - 1
    before = np.empty((n_labels, budget + 1))
    numbers, rest = np.empty(budget + 1), np.empty(budget + 1)
    for row in range(n_rows):
        numbers[:] = 0.0
        numbers[0] = 1.0
        for k in range(n_labels):
            before[k] = numbers
            _advance(probs[row, k], absorbs, numbers)
        rest[:] = weights[row]  # expected weight, by the number of labels present so far
        for step in range(n_labels):
            k = n_labels - 1 - step
            prob, total = probs[row, k], 0.0
            for m in range(budget):
                total += before[k, m] * rest[m + 1]
            presence[row, k] = prob * total
            for m in range(budget):
                rest[m] = prob * rest[m + 1] + (1.0 - prob) * rest[m]
            if not absorbs:
                rest[budget] *= 1.0 - prob


@compiled
def _add_joint(probs, weights, absorbs, share, labels, bounds, joint):
    n_rows, n_labels = probs.shape
    budget = weights.shape[1] - 1
    most = 0
    for row in range(n_rows):
        most = max(most, bounds[row + 1] - bounds[row])
    before = np.empty((most, budget + 1))
    numbers, rest, tail = np.empty(budget + 1), np.empty(budget + 1), np.empty(budget + 1)
    for row in range(n_rows):
        first, last = bounds[row], bounds[row + 1]
        numbers[:] = 0.0
        numbers[0] = 1.0
        place = first
        for k in range(n_labels):
            if place < last and labels[place] == k:
                before[place - first] = numbers
                place += 1
            _advance(probs[row, k], absorbs, numbers)
        rest[:] = 0.0  # distribution of the number of later labels
        rest[0] = 1.0
        for step in range(n_labels):
            k = n_labels - 1 - step
            if place > first and labels[place - 1] == k:
                place -= 1
                here, scale = before[place - first], share * probs[row, k]
                for number in range(1, budget + 1):
                    total = 0.0
                    if number == budget and absorbs:
                        tail[0] = 1.0  # P(at least so many later labels)
                        for m in range(budget - 1):
                            tail[m + 1] = max(tail[m] - rest[m], 0.0)
                        for m in range(budget):
                            total += here[m] * tail[budget - 1 - m]
                    else:
                        for m in range(number):
                            total += here[m] * rest[number - 1 - m]
                    joint[place, number - 1] += scale * total * weights[row, number]
            _advance(probs[row, k], False, rest)


@compiled
def _best(joint, empty, bounds, chosen):
    budget = joint.shape[1]
    for row in range(len(empty)):
        first, last = bounds[row], bounds[row + 1]
        best = empty[row]  # F1 is 1 if no label is predicted and none applies
        gains = np.empty(last - first)
        for size in range(1, min(budget, last - first) + 1):
            for place in range(first, last):
                gain = 0.0
                for number in range(1, budget + 1):
                    gain += joint[place, number - 1] / (size + number)
                gains[place - first] = -2.0 * gain
            order = np.argsort(gains, kind="mergesort")[:size]
            expected = 0.0
            for place in order:
                expected -= gains[place]
            if expected > best:
                best = expected
                chosen[first:last] = False
                for place in order:
                    chosen[first + place] = True


def set_numbers(probs: np.ndarray, budget: int, absorbs: bool) -> np.ndarray:
    """Return the probability of each number of labels from 0 to ``budget``, before any weight, for each row.

    Parameters
    ----------
    probs : ndarray of shape (R, K)
        Probability of each label.
    budget : int
        Largest number of labels.
    absorbs : bool
        Whether labels after the budget is used up stay off. Otherwise the probability of larger numbers is missing.

    Returns
    -------
    ndarray of shape (R, budget + 1)

    """
    numbers = np.empty((len(probs), budget + 1))
    _numbers(probs, absorbs, numbers)
    return numbers


def set_presence(probs: np.ndarray, weights: np.ndarray, absorbs: bool) -> np.ndarray:
    """Return the probability that each label is in the set, of shape (R, K).

    Parameters
    ----------
    probs : ndarray of shape (R, K)
        Probability of each label.
    weights : ndarray of shape (R, budget + 1)
        Weight of a set by its number of labels.
    absorbs : bool
        Whether labels after the budget is used up stay off.

    """
    presence = np.empty_like(probs)
    _presence(probs, weights, absorbs, presence)
    return presence


def add_set_joint(
    probs: np.ndarray,
    weights: np.ndarray,
    absorbs: bool,
    share: float,
    labels: np.ndarray,
    bounds: np.ndarray,
    joint: np.ndarray,
) -> None:
    """Add ``share`` times P(label present and s labels in all) to ``joint``, for few labels of each row.

    Parameters
    ----------
    probs, weights, absorbs
        As for `set_presence`.
    share : float
        Factor.
    labels : ndarray of shape (n,)
        Numbers of the labels of each row, in ascending order.
    bounds : ndarray of shape (R + 1,)
        Where the labels of each row begin and end.
    joint : ndarray of shape (n, budget)
        Changed in place; column s - 1 is for s labels.

    """
    _add_joint(probs, weights, absorbs, share, labels, bounds, joint)


def best_sets(joint: np.ndarray, empty: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return which labels are in the set with the largest expected F1.

    For each size h of the prediction, a label adds sum over s of 2 P(label present, s labels) / (h + s) to the expected
    F1, whatever the others are; so the h labels that add most are the best ones (Ye et al., ICML 2012).

    Parameters
    ----------
    joint : ndarray of shape (n, budget)
        P(label present and s labels in all), s = 1 .. budget.
    empty : ndarray of shape (R,)
        Probability that no label applies.
    bounds : ndarray of shape (R + 1,)
        Where the labels of each row begin and end.

    Returns
    -------
    ndarray of bool, shape (n,)

    """
    chosen = np.zeros(len(joint), np.bool_)
    _best(joint, empty, bounds, chosen)
    return chosen
