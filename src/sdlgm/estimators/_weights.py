"""Weights of rows: checks, and samples in proportion to them."""

from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from sdlgm.data import RowFiles
from sdlgm.errors import DataError
from sdlgm.estimators._compat import chosen_rows, number_of_rows
from sdlgm.train.batches import Rows


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return weights as an array of double precision, or raise for weights that are no weights of ``n_rows`` rows."""
    if isinstance(sample_weight, Real):
        raise ValueError("sample_weight is one number; give one for each row")
    weights = np.asarray(
        check_array(sample_weight, ensure_2d=False, dtype="float64", input_name="sample_weight", copy=True)
    )
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; sample_weight has the shape {weights.shape}")
    if len(weights) != n_rows:
        check_consistent_length(weights, np.empty(n_rows))
    if (weights < 0).any():
        raise ValueError(f"sample_weight has {weights.min():g}; weights may not be negative")
    if not weights.any():
        raise ValueError("all weights in sample_weight are zero, so that nothing is left; give some rows a weight")
    return weights


def weighted_rows(rows: Rows | RowFiles, sample_weight: Any) -> tuple[Rows | RowFiles, np.ndarray | None]:
    """Return the rows of positive weight, and their weights, 1 on average."""
    if sample_weight is None:
        return rows, None
    if isinstance(rows, RowFiles):
        raise DataError("sample_weight is for rows in memory; load the rows, or repeat them in the files")
    weights = checked_weights(sample_weight, rows.shape[0])
    kept = np.flatnonzero(weights)
    if len(kept) < 2:
        raise DataError("sample_weight is 0 for all rows but one, and 2 are needed; give more rows a weight")
    rows, weights = (rows, weights) if len(kept) == len(weights) else (cast(Rows, rows[kept]), weights[kept])
    return rows, weights / weights.mean()


def weighted_targets(rows: Rows, y: Any, sample_weight: Any) -> tuple[Rows, Any, np.ndarray | None]:
    """Return the rows of positive weight, their targets in the form that y has, and their weights."""
    if sample_weight is None or y is None:  # targets that are missing are refused where they are read
        return rows, y, None
    weights = checked_weights(sample_weight, rows.shape[0])
    if number_of_rows(y) != len(weights):
        raise ValueError(f"X has {len(weights)} rows, and y has {number_of_rows(y)}")
    kept = np.flatnonzero(weights)
    if len(kept) == len(weights):
        return rows, y, weights
    return cast(Rows, rows[kept]), chosen_rows(y, kept), weights[kept]
