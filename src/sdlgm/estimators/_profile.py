"""Facts about the values of columns: extremes, whole or not, missing or not, and some rows to look at."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdlgm.train.batches import Rows, dense

# Rows that quantiles, shares of levels and the choice of likelihoods are taken from, and how many values they may have.
SAMPLE_ROWS, SAMPLE_VALUES, SPARSE_ROWS = 10_000, 2**23, 500
# Values that are looked at in one go.
_CHUNK = 2**20


@dataclass(frozen=True)
class Profile:
    """Facts about the values of each column, over all rows, and a sample of the training rows."""

    smallest: np.ndarray
    """NaN for a column without any value."""
    largest: np.ndarray
    whole: np.ndarray
    """Whether all values are whole numbers."""
    n_missing: np.ndarray
    n_rows: int
    sample: np.ndarray

    @classmethod
    def of(cls, rows: Rows, *others: Rows, weights: np.ndarray | None = None) -> "Profile":
        """Return the profile of rows in memory; of ``others`` the facts count, but no row is in the sample.

        With weights, rows are in the sample in proportion to them, those with large weights more than once.
        """
        facts = Facts(rows.shape[1])
        for part in (rows, *others):
            facts.add(part)
        n_rows, n_columns = rows.shape
        # Sparse rows are never all made dense.
        most = max(SPARSE_ROWS, n_rows // 8) if sp.issparse(rows) else n_rows
        places = sample_places(n_rows, n_columns, most)
        if weights is not None:
            places = in_proportion(weights, len(places), np.random.default_rng(0))
        return facts.profile(dense(rows[places]))

    @cached_property
    def in_unit_interval(self) -> bool:
        """Whether all values are in [0, 1]."""
        known = ~np.isnan(self.smallest)
        return bool((self.smallest[known] >= 0).all() and (self.largest[known] <= 1).all())

    @cached_property
    def with_missing(self) -> tuple[int, ...]:
        """Columns with missing values."""
        return tuple(np.flatnonzero(self.n_missing).tolist())


class Facts:
    """Collect facts about columns over several parts of the rows."""

    def __init__(self, n_columns: int):
        self.smallest = np.full(n_columns, np.nan)
        self.largest = np.full(n_columns, np.nan)
        self.whole = np.ones(n_columns, bool)
        self.n_missing = np.zeros(n_columns, np.int64)
        self.n_rows = 0

    def add(self, rows: Rows) -> None:
        """Take note of a part of the rows."""
        self.n_rows += rows.shape[0]
        if sp.issparse(rows):  # without missing values, and what is not stored is the whole number 0
            self._extend(*(flat(getattr(rows, name)(axis=0)) for name in ("min", "max")))
            fractional = np.floor(rows.data) != rows.data
            self.whole[np.asarray(rows.indices)[fractional]] = False
            return
        for values in _chunks(np.asarray(rows)):
            self._extend(np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0))
            missing = np.isnan(values)
            if missing.any():
                self.n_missing += missing.sum(axis=0)
                self.whole &= ((np.floor(values) == values) | missing).all(axis=0)
            else:
                self.whole &= (np.floor(values) == values).all(axis=0)

    def _extend(self, smallest: np.ndarray, largest: np.ndarray) -> None:
        self.smallest = np.fmin(self.smallest, smallest)
        self.largest = np.fmax(self.largest, largest)

    def profile(self, sample: np.ndarray) -> Profile:
        """Return the facts with a sample of the rows."""
        return Profile(self.smallest, self.largest, self.whole, self.n_missing, self.n_rows, sample)


def sample_places(n_rows: int, n_columns: int, most: int = SAMPLE_ROWS) -> np.ndarray:
    """Return which rows are in the sample, ``most`` at most, in order: the same for the same shape."""
    size = min(n_rows, most, SAMPLE_ROWS, max(200, SAMPLE_VALUES // n_columns))
    if size == n_rows:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, size, replace=False))


def in_proportion(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Choose n places in proportion to weights, each as often as its expectation rounded up or down."""
    cumulative = np.cumsum(weights)
    points = (rng.random() + np.arange(n)) * (cumulative[-1] / n)
    return np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1)


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    step = max(1, _CHUNK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        yield values[start : start + step]


def flat(values: Any) -> np.ndarray:
    """Return a row, dense or sparse, as a vector."""
    return np.ravel(values.toarray() if hasattr(values, "toarray") else values)
