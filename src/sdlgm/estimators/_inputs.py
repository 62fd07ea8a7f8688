"""From what users pass to what the module needs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from sdlgm.errors import BudgetError
from sdlgm.train.batches import Rows


@dataclass(frozen=True)
class Columns:
    """Mean and standard deviation of each column, in double precision, and whether it varies at all."""

    mean: np.ndarray
    deviation: np.ndarray
    varies: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> "Columns":
        if sp.issparse(rows):
            moments: Any = mean_variance_axis(rows, axis=0)
        else:
            moments = np.mean(rows, axis=0, dtype=np.float64), np.var(rows, axis=0, dtype=np.float64)
        mean, variance = (np.asarray(moment, np.float64) for moment in moments)
        deviation = np.sqrt(variance)
        rounding = 10 * np.finfo(rows.dtype).eps * np.abs(mean)
        return cls(mean, deviation, deviation > rounding)


@dataclass(frozen=True)
class Scaling:
    """Location and scale of each column, in double precision: large offsets survive, unlike in float32."""

    location: np.ndarray
    scale: np.ndarray

    @classmethod
    def identity(cls, n_features: int) -> "Scaling":
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def standardizing(cls, columns: Columns) -> "Scaling":
        """To mean 0 and standard deviation 1; a constant column keeps its unit."""
        return cls(columns.mean, np.where(columns.varies, columns.deviation, 1.0))

    @property
    def is_identity(self) -> bool:
        return not self.location.any() and bool((self.scale == 1.0).all())

    @property
    def log_jacobian(self) -> float:
        """What turns the log-density of a scaled row into that of the row itself."""
        return -float(np.log(self.scale).sum())

    def apply(self, rows: Rows) -> Rows:
        if self.is_identity:
            return rows
        return ((dense(rows) - self.location) / self.scale).astype(np.float32)

    def undo(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.is_identity else rows * self.scale + self.location


def dense(rows: Rows) -> np.ndarray:
    return rows.toarray() if sp.issparse(rows) else np.asarray(rows)


def in_unit_interval(rows: Rows) -> bool:
    """Whether all entries are in [0, 1]."""
    stored = rows.data if sp.issparse(rows) else np.asarray(rows)
    return stored.size == 0 or bool(stored.min() >= 0 and stored.max() <= 1)


def in_batches(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, rows.shape[0], size):
        yield rows[start : start + size]


def check_codes(codes: Any, n_components: int, max_active: int) -> sp.csr_matrix:
    """Codes as a CSR matrix of counts, or an error that names the first row that is none."""
    matrix = sp.csr_matrix(codes)
    if matrix.shape[1] != n_components:
        raise ValueError(f"codes have {matrix.shape[1]} columns, the model has n_components={n_components}")
    if matrix.nnz and not (np.isfinite(matrix.data).all() and (matrix.data >= 0).all()):
        raise ValueError("codes are counts: every entry must be finite and not negative")
    if matrix.nnz and not (matrix.data == np.floor(matrix.data)).all():
        raise ValueError("codes are counts: every entry must be a whole number")
    n_active = np.asarray(matrix.sum(axis=1)).ravel()
    over = np.flatnonzero(n_active > max_active)
    if over.size:
        raise BudgetError(
            f"row {over[0]} of the codes has {n_active[over[0]]:.0f} active slots, beyond the budget {max_active=}"
        )
    return matrix
