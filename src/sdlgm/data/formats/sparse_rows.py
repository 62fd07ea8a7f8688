"""Sparse rows from what readers have collected."""

import numpy as np
import scipy.sparse as sp


def sparse_rows(values: np.ndarray, columns: np.ndarray, ends: np.ndarray, n_columns: int) -> sp.csr_array:
    """Return rows as a CSR array, with indices of 32 bits if they fit: many estimators of scikit-learn take no others.

    Parameters
    ----------
    values, columns : ndarray of shape (n_stored,)
        Values, and their columns, row by row.
    ends : ndarray of int of shape (n_rows + 1,)
        Where rows end among the values, after a 0.
    n_columns : int

    """
    kind = np.int32 if len(values) <= np.iinfo(np.int32).max else np.int64
    parts = values, columns.astype(kind, copy=False), ends.astype(kind, copy=False)
    return sp.csr_array(parts, shape=(len(ends) - 1, n_columns))
