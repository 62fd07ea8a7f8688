"""Tables at the border of an estimator: rows become numbers, and decoded numbers become tables."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import validate_data

from sdlgm.data import EncodedRows, Schema, Windows, encode_table, frames
from sdlgm.errors import DataError
from sdlgm.estimators._checks import without_names_warning

if TYPE_CHECKING:
    from sdlgm.estimators._base import TorchEstimator


def validate_rows(estimator: "TorchEstimator", X: Any, *, reset: bool, **checks: Any) -> Any:
    """Return rows as `sklearn.utils.validation.validate_data` does, of tables of any columns.

    Parameters
    ----------
    estimator : TorchEstimator
        Its ``schema_`` is learned if ``reset``, and applied otherwise. It is None for arrays, and for tables of numbers
        without missing values, which need none.
    X : array-like, CSR matrix, DataFrame, pyarrow.Table, EncodedRows or Windows
    reset : bool
        Whether the estimator learns what the columns are.
    **checks
        Arguments of `validate_data`.

    Returns
    -------
    ndarray or CSR matrix

    """
    rows = _learned(X) if reset else _applied(estimator, X)
    if not isinstance(rows, EncodedRows):
        validated = validate_data(estimator, rows, reset=reset, **checks)
        if reset:
            estimator.schema_ = None
        return validated
    with without_names_warning():  # they have been compared
        matrix: Any = rows.matrix
        validated = validate_data(estimator, matrix, reset=reset, **checks)
    if reset:
        estimator.schema_ = rows.schema
        estimator.feature_names_in_ = np.array(rows.schema.feature_names, dtype=object)
    return validated


def decoded_table(schema: Schema | None, matrix: np.ndarray) -> Any:
    """Return decoded rows as they were given: a table if it has columns that are no numbers, otherwise the matrix."""
    return matrix if schema is None or schema.is_numeric else schema.decode(matrix)


def _learned(X: Any) -> Any:
    if isinstance(X, Windows | EncodedRows):
        return EncodedRows(X.schema, X.matrix)
    if frames.container_of(X) is None or frames.is_plain(X):
        return X
    return encode_table(Schema.of(X), X)


def _applied(estimator: "TorchEstimator", X: Any) -> Any:
    schema = estimator.schema_
    if isinstance(X, Windows | EncodedRows):
        names = X.schema.feature_names
        if names != tuple(getattr(estimator, "feature_names_in_", names)):
            raise DataError(
                f"the rows have the features {_some(names)}, and those at fit were "
                f"{_some(tuple(estimator.feature_names_in_))}; encode tables with the schema_ of the model"
            )
        if schema is not None and schema.columns != X.schema.columns:
            raise DataError("the rows were encoded with another schema; encode tables with the schema_ of the model")
        return EncodedRows(X.schema, X.matrix)
    if schema is None or frames.container_of(X) is None:
        return X
    apart = {*schema.ignored, schema.time_column, schema.group}
    used = frames.select(X, [name for name in frames.column_names(X) if name not in apart])
    if schema.window is not None:
        windows = encode_table(schema, X)
        return EncodedRows(windows.schema, windows.matrix)
    validate_data(estimator, used, reset=False, skip_check_array=True)  # the names of the columns
    return used if schema.is_numeric and frames.is_plain(used) else EncodedRows(schema, schema.encode(used))


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f", ... ({len(names)} in all)" if len(names) > 3 else "")
