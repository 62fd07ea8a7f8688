"""Codes as CSR matrices of counts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from torch import Tensor

from sdlgm import _kernels
from sdlgm.errors import BudgetError
from sdlgm.model.arrays import as_array

SparseRows = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Values, column indices, and the number of non-zeros of each row."""


def sparse_rows(counts: Tensor) -> SparseRows:
    """Return the non-zeros of a batch of counts."""
    return _kernels.compress(as_array(counts.cpu()))


def stack_rows(parts: Sequence[SparseRows], n_components: int) -> sp.csr_matrix:
    """Return one matrix of all batches, without ever holding all rows in full."""
    assert parts, "estimators raise for data without rows"
    values, indices, n_nonzero = (np.concatenate(part) for part in zip(*parts, strict=True))
    row_ends = np.concatenate([[0], np.cumsum(n_nonzero)])
    if row_ends[-1] <= np.iinfo(np.int32).max:  # as scipy does
        row_ends = row_ends.astype(np.int32)
    return sp.csr_matrix((values, indices, row_ends), shape=(len(n_nonzero), n_components))


def check_codes(codes: Any, n_components: int, max_active: int) -> sp.csr_matrix:
    """Return codes as a CSR matrix of counts, or raise an error that names the first bad row."""
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
