"""Tables of decoded rows, with the types that their columns had."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from sdlgm._files import printable
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA
from sdlgm.data.frames import Container
from sdlgm.data.raw_columns import Level
from sdlgm.errors import DataError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from sdlgm.data.schema import Column


def table_of(matrix: np.ndarray, columns: "Sequence[Column]", container: Container) -> Any:
    """Return a table of the rows of a matrix.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_columns)
        Numbers; NaN where a value is missing.
    columns : sequence of Column
    container : {"pandas", "arrow", "array"}

    Returns
    -------
    DataFrame, pyarrow.Table or ndarray

    """
    if container == "array":
        return matrix
    if container == "pandas":
        pandas = _pandas()
        series = {column.name: _pandas_column(column, matrix[:, i]) for i, column in enumerate(columns)}
        return pandas.DataFrame(series, index=pandas.RangeIndex(len(matrix)))
    arrow = optional_import("pyarrow", EXTRA)
    return arrow.table(
        {printable(column.name): _arrow_column(column, matrix[:, i]) for i, column in enumerate(columns)}
    )


def _pandas() -> ModuleType:
    try:
        return import_module("pandas")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "the model was fitted to a table of pandas, which is not installed; install it with: pip install pandas"
        ) from error


def _codes(column: "Column", values: np.ndarray) -> np.ndarray:
    """Return the places of levels, -1 where a value is missing."""
    known = ~np.isnan(values)
    codes = np.full(len(values), -1, np.int64)
    codes[known] = np.rint(values[known]).astype(np.int64)
    wrong = known & ((codes < 0) | (codes >= len(column.levels)))
    if wrong.any():
        raise DataError(
            f"column {column.name!r} has the value {values[wrong][0]:g}, and its {len(column.levels)} categories have "
            "the numbers from 0 on"
        )
    return codes


def _is_whole(values: np.ndarray) -> bool:
    known = values[~np.isnan(values)]
    return bool((known == np.floor(known)).all() and (np.abs(known) < 2**63).all())


def _pandas_column(column: "Column", values: np.ndarray) -> "pd.Series":
    pandas = _pandas()
    missing = np.isnan(values)
    if column.kind == "category":
        codes = _codes(column, values)
        if column.storage == "text":
            return pandas.Series(np.array([*column.levels, None], object)[codes]).infer_objects()
        levels = pandas.Index(column.levels)
        return pandas.Series(pandas.Categorical.from_codes(codes, levels, ordered=column.storage == "ordered"))
    filled, dtype = values, column.storage.removeprefix("nullable ")
    if column.kind == "boolean":
        filled = np.where(missing, 0, values) >= 0.5
    elif dtype == "integer" and _is_whole(values):
        filled = np.where(missing, 0, values).astype(np.int64)
    if not (column.storage.startswith("nullable") or (missing.any() and column.kind == "boolean")):
        return pandas.Series(values if missing.any() else filled)
    nullable = pandas.array(filled, dtype={"b": "boolean", "i": "Int64", "f": "Float64"}[filled.dtype.kind])
    if missing.any():
        nullable[missing] = pandas.NA
    return pandas.Series(nullable)


def _arrow_column(column: "Column", values: np.ndarray) -> "pa.Array":
    arrow = optional_import("pyarrow", EXTRA)
    missing = np.isnan(values)
    if column.kind == "category":
        codes = arrow.array(_codes(column, values), mask=missing, type=arrow.int32())
        levels = arrow.array(_of_one_type(column.levels))
        encoded = arrow.DictionaryArray.from_arrays(codes, levels, ordered=column.storage == "ordered")
        plain = column.storage == "text" or not arrow.types.is_string(levels.type)
        return encoded.cast(levels.type) if plain else encoded
    if column.kind == "boolean":
        return arrow.array(np.where(missing, 0, values) >= 0.5, mask=missing)
    if column.storage.endswith("integer") and _is_whole(values):
        return arrow.array(np.where(missing, 0, values).astype(np.int64), mask=missing)
    return arrow.array(values, mask=missing)


def _of_one_type(levels: tuple[Level, ...]) -> list[Level]:
    """Return levels without integers among fractions, which pyarrow refuses."""
    if any(isinstance(level, float) for level in levels):
        return [float(level) for level in levels]
    return list(levels)
