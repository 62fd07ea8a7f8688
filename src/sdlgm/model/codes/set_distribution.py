"""Sets of labels as one family: labels visited in their order, each by itself, and a weight by their number.

    P(y) = weight_{|y|} prod_k p_k^y_k (1 - p_k)^(1 - y_k),    |y| <= L0,

or, if the budget *absorbs*, with the product up to the label that uses it up, since labels after that one are off. All
forms of `sdlgm.model.codes.label_sets` can be written like this. Numbers are in double precision, on the CPU.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sdlgm import _kernels

# Log-odds of labels that are present, or absent, for sure.
_SURE = 40.0


@dataclass(frozen=True)
class SetDistribution:
    """A distribution over sets of labels for each of R rows."""

    logits: np.ndarray
    """(R, K), log-odds of the labels."""
    weights: np.ndarray
    """(R, L0 + 1), weight of a set by its number of labels."""
    absorbs: bool
    """Whether labels after the budget is used up stay off."""

    @classmethod
    def absorbing(cls, logits: np.ndarray, budget: int) -> "SetDistribution":
        """Return the distribution in which labels after the budget is used up stay off."""
        return cls(logits, np.ones((len(logits), budget + 1)), True)

    @classmethod
    def given_numbers(cls, logits: np.ndarray, budget: int, numbers: np.ndarray | None = None) -> "SetDistribution":
        """Return independent labels, given that there are no more than the budget.

        Parameters
        ----------
        logits : ndarray of shape (R, K)
            Log-odds of the labels.
        budget : int
            L0.
        numbers : ndarray of shape (R, L0 + 1) or None, default=None
            Distribution of the number of labels; None for that of independent labels within the budget.

        """
        independent = _kernels.set_numbers(sigmoid(logits), budget, absorbs=False)
        possible = independent > 0
        wanted = independent if numbers is None else np.where(possible, numbers, 0.0)
        total = wanted.sum(axis=1)
        lost = total == 0  # so many labels are sure that none of these numbers has a probability above zero
        if lost.any():
            logits = logits.copy()
            logits[lost] = _likeliest_for_sure(logits[lost], budget)
            independent[lost] = _kernels.set_numbers(sigmoid(logits[lost]), budget, absorbs=False)
            possible[lost], wanted[lost] = independent[lost] > 0, independent[lost]
            total = wanted.sum(axis=1)
        weights = np.divide(wanted, independent, out=np.zeros_like(wanted), where=possible) / total[:, None]
        return cls(logits, weights, False)

    def __getitem__(self, rows: slice) -> "SetDistribution":
        return SetDistribution(self.logits[rows], self.weights[rows], self.absorbs)

    @property
    def budget(self) -> int:
        return self.weights.shape[1] - 1

    @cached_property
    def probs(self) -> np.ndarray:
        """Probability of each label by itself, (R, K)."""
        return sigmoid(self.logits)

    @cached_property
    def numbers(self) -> np.ndarray:
        """Distribution of the number of labels, (R, L0 + 1)."""
        return self.weights * _kernels.set_numbers(self.probs, self.budget, self.absorbs)

    @cached_property
    def presence(self) -> np.ndarray:
        """Probability that each label is in the set, (R, K)."""
        return _kernels.set_presence(self.probs, self.weights, self.absorbs)

    def add_joint(self, share: float, labels: np.ndarray, bounds: np.ndarray, joint: np.ndarray) -> None:
        """Add ``share`` times P(label present and s labels in all) to ``joint``; see `_kernels.add_set_joint`."""
        _kernels.add_set_joint(self.probs, self.weights, self.absorbs, share, labels, bounds, joint)

    def log_prob(self, sets: np.ndarray) -> np.ndarray:
        """Return the log-probability of a set, (R, K) of 0 and 1, for each row; minus infinity beyond the budget."""
        sizes = sets.sum(axis=1)
        each = sets * self.logits - np.logaddexp(0.0, self.logits)
        if self.absorbs:
            each = np.where(np.cumsum(sets, axis=1) - sets < self.budget, each, 0.0)
        within = sizes <= self.budget
        weights = self.weights[np.arange(len(sets)), np.where(within, sizes, 0)]
        with np.errstate(divide="ignore"):
            return np.where(within, np.log(weights) + each.sum(axis=1), -np.inf)

    def mode(self) -> np.ndarray:
        """Return the most probable set of each row, (R, K) of 0 and 1."""
        if self.absorbs:
            return _kernels.subset_modes(np.ascontiguousarray(self.logits), self.budget)
        # Of all sets of a size, that of the likeliest labels is the most probable.
        order = np.argsort(-self.logits, axis=1, kind="stable")[:, : self.budget]
        gains = np.cumsum(np.take_along_axis(self.logits, order, axis=1), axis=1)
        with np.errstate(divide="ignore"):
            scores = np.log(self.weights[:, : gains.shape[1] + 1])
        scores[:, 1:] += gains
        sizes = scores.argmax(axis=1)
        sets = np.zeros(self.logits.shape, np.int64)
        np.put_along_axis(sets, order, np.arange(order.shape[1]) < sizes[:, None], axis=1)
        return sets


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return probabilities from log-odds, also small ones to full precision."""
    return np.exp(-np.logaddexp(0.0, -logits))


def _likeliest_for_sure(logits: np.ndarray, budget: int) -> np.ndarray:
    """Return log-odds at which the likeliest labels are present, as many as the budget allows, and no other one is."""
    order = np.argsort(-logits, axis=1, kind="stable")[:, :budget]
    sure = np.full(logits.shape, -_SURE)
    np.put_along_axis(sure, order, _SURE, axis=1)
    return sure
