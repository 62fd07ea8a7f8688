"""Which labels to predict: decisions under the joint distribution over sets of labels.

- ``"f1"``: the set with the largest expected F1 of the row. F1 is 1 if no label is predicted and none applies.
- ``"mode"``: the most probable set.
- ``"count"``: the likeliest labels, as many as are expected.
- ``"threshold"``: the labels at or above a threshold (`sdlgm.estimators._thresholds`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp

from sdlgm import _kernels
from sdlgm.estimators._forest import Forest
from sdlgm.model.codes.set_distribution import SetDistribution

Decision = Literal["f1", "mode", "count", "threshold"]
DECISIONS: tuple[Decision, ...] = ("f1", "mode", "count", "threshold")

# Numbers that are computed at a time: a label of a row has one for each possible number of labels.
_MOST_AT_ONCE = 2**22


@dataclass(frozen=True)
class Leaves:
    """The label sets of training rows that share the leaves of a batch: a distribution over sets for each row."""

    forest: Forest
    x: np.ndarray
    """Scaled rows."""

    @cached_property
    def shares(self) -> np.ndarray:
        """Probability of the set of each training row, (R, n_training_rows)."""
        return self.forest.row_shares(self.x)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of labels of each training row."""
        return self.forest.indicator.sum(axis=1).astype(np.int64)

    @cached_property
    def _known(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the different sets of the training rows, and the probability of each for each row."""
        sets, of_row = np.unique(self.forest.indicator.astype(np.int64), axis=0, return_inverse=True)
        of_set = sp.csr_matrix((np.ones(len(self.sizes)), (np.arange(len(self.sizes)), of_row.reshape(-1))))
        return sets, self.shares @ of_set

    def mode(self) -> np.ndarray:
        """Return the most probable set of each row, (R, K) of 0 and 1."""
        sets, probs = self._known
        return sets[probs.argmax(axis=1)]

    def prob(self, sets: np.ndarray) -> np.ndarray:
        """Return the probability of a set, (R, K) of 0 and 1, for each row."""
        known, probs = self._known
        places = {one.tobytes(): place for place, one in enumerate(known)}
        found = np.array([places.get(one.tobytes(), -1) for one in sets])
        return np.where(found >= 0, probs[np.arange(len(sets)), found], 0.0)

    def add_joint(self, share: float, rows: slice, labels: np.ndarray, bounds: np.ndarray, joint: np.ndarray) -> None:
        """Add ``share`` times P(label present and s labels in all) to ``joint``, as `SetDistribution` does."""
        of_size = np.eye(joint.shape[1] + 1)[self.sizes][:, 1:]
        for row, shares in enumerate(self.shares[rows]):
            own = slice(bounds[row], bounds[row + 1])
            voters = np.flatnonzero(shares)
            present = self.forest.indicator[np.ix_(voters, labels[own])]
            joint[own] += share * (present.T @ (shares[voters, None] * of_size[voters]))


@dataclass(frozen=True)
class Mixture:
    """A distribution over sets of labels: the mean of members; with trees, the mean of that and their leaves."""

    members: tuple[SetDistribution, ...]
    leaves: Leaves | None

    @property
    def budget(self) -> int:
        return self.members[0].budget

    @property
    def _share(self) -> float:
        """Weight of a member."""
        return (1.0 if self.leaves is None else 0.5) / len(self.members)

    def largest_f1(self) -> np.ndarray:
        """Return the set with the largest expected F1 of each row, exactly, as an indicator matrix."""
        presence = self._share * np.sum([member.presence for member in self.members], axis=0)
        empty = self._share * np.sum([member.numbers[:, 0] for member in self.members], axis=0)
        if self.leaves is not None:
            presence = presence + 0.5 * (self.leaves.shares @ self.leaves.forest.indicator)
            empty = empty + 0.5 * (self.leaves.shares @ (self.leaves.sizes == 0))
        considered = candidates(presence, self.budget)
        predicted = np.zeros(presence.shape, np.int64)
        for rows in _parts(considered.sum(axis=1) * self.budget):
            labels, bounds = _flat(considered[rows])
            joint = np.zeros((len(labels), self.budget))
            for member in self.members:
                member[rows].add_joint(self._share, labels, bounds, joint)
            if self.leaves is not None:
                self.leaves.add_joint(0.5, rows, labels, bounds, joint)
            chosen = _kernels.best_sets(joint, np.ascontiguousarray(empty[rows]), bounds)
            of_row = rows.start + np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
            predicted[of_row, labels] = chosen
        return predicted

    def most_probable(self) -> np.ndarray:
        """Return the most probable set of each row as an indicator matrix.

        Of one network it is exact. Of several, and with trees, the most probable set of the mean is not known to have a
        fast algorithm; the most probable one of the modes of the parts is returned.
        """
        modes = [member.mode() for member in self.members]
        if self.leaves is not None:
            modes.append(self.leaves.mode())
        if len(modes) == 1:
            return modes[0]
        scores = np.stack([self._prob(mode) for mode in modes])
        return np.stack(modes)[scores.argmax(axis=0), np.arange(len(modes[0]))]

    def _prob(self, sets: np.ndarray) -> np.ndarray:
        """Return the probability of a set for each row."""
        prob = self._share * np.sum([np.exp(member.log_prob(sets)) for member in self.members], axis=0)
        return prob if self.leaves is None else prob + 0.5 * self.leaves.prob(sets)


def candidates(presence: np.ndarray, budget: int) -> np.ndarray:
    """Return which labels of each row can be in the set with the largest expected F1.

    In a prediction of h labels, a label with the probability P adds at most 2 P / (1 + h) to the expected F1, and at
    least 2 P / (budget + h). So it is among the best h only if P >= (1 + h) / (budget + h) P', with P' the h-th largest
    probability. No label that could matter is left out.
    """
    n = min(budget, presence.shape[1])
    largest = -np.sort(np.partition(-presence, n - 1, axis=1)[:, :n], axis=1)
    sizes = np.arange(1, n + 1)
    least = (largest * (1 + sizes) / (n + sizes)).min(axis=1)
    return presence >= least[:, None] * (1 - 1e-9)  # probabilities are rounded


def likeliest(probs: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the labels with the largest probabilities of each row, as many as expected, rounded."""
    sizes = np.floor(expected + 0.5).astype(np.int64)
    order = np.argsort(-probs, axis=1, kind="stable")[:, : max(1, int(sizes.max(initial=0)))]
    predicted = np.zeros(probs.shape, np.int64)
    np.put_along_axis(predicted, order, np.arange(order.shape[1]) < sizes[:, None], axis=1)
    return predicted


def _flat(considered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of all rows one after the other, and where those of each row begin and end."""
    return np.nonzero(considered)[1], np.concatenate([[0], np.cumsum(considered.sum(axis=1))])


def _parts(sizes: np.ndarray) -> Iterator[slice]:
    """Divide rows into parts whose sizes add up to ``_MOST_AT_ONCE`` at most, or that are single rows."""
    start, total = 0, 0
    for row, size in enumerate(sizes.tolist()):
        if row > start and total + size > _MOST_AT_ONCE:
            yield slice(start, row)
            start, total = row, 0
        total += size
    yield slice(start, len(sizes))
