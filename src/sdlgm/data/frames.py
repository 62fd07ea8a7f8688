"""Tables of pandas and pyarrow. Neither package is imported for a table of another."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdlgm.data import arrow_columns, pandas_columns
from sdlgm.data.raw_columns import KEPT_AS_TEXT, RawColumn
from sdlgm.errors import DataError

Container = Literal["pandas", "arrow", "array"]


@dataclass(frozen=True, eq=False)
class ArrayTable:
    """An array of numbers as a table with the columns ``x0``, ``x1``, ..."""

    X: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.X.shape[0], self.X.shape[1]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(f"x{i}" for i in range(self.X.shape[1]))

    def read_column(self, name: str) -> RawColumn:
        """Return a column."""
        return RawColumn(name, "number", "float", numbers=np.asarray(self.X[:, int(name[1:])], np.float64))


def container_of(X: Any) -> Container | None:
    """Return which package a table is of; None for anything that is not a table with named columns.

    Parameters
    ----------
    X : object

    Returns
    -------
    {"pandas", "arrow"} or None

    """
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        if all(isinstance(name, str) for name in X.columns):
            return "pandas" if len(X.columns) else None
        if any(getattr(dtype, "kind", "O") not in "biuf" for dtype in X.dtypes):
            raise DataError(
                "a data frame whose columns are not named by text can only have numbers; name them with "
                "X.columns = [str(name) for name in X.columns]"
            )
        return None
    return "arrow" if arrow is not None and isinstance(X, arrow.Table) and X.num_columns else None


def column_names(table: Any) -> tuple[str, ...]:
    """Return the names of the columns, or raise if one is repeated."""
    names = tuple(table.columns) if container_of(table) == "pandas" else tuple(table.column_names)
    if len(set(names)) < len(names):
        repeated = min(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"more than one column is called {repeated!r}; rename them")
    return names


def n_rows_of(table: Any) -> int:
    """Return the number of rows."""
    return int(table.shape[0])


def select(table: Any, names: Sequence[str]) -> Any:
    """Return some of the columns."""
    return table[list(names)] if container_of(table) == "pandas" else table.select(list(names))


def with_first(table: Any, name: str, values: np.ndarray) -> Any:
    """Return a table with one more column, before the others; an array stays as it is, for it has no names."""
    container = container_of(table)
    if container == "pandas":
        table = table.copy(deep=False)
        table.insert(0, name, values)
        return table
    return table if container is None else table.add_column(0, name, sys.modules["pyarrow"].array(_short(values)))


def _short(values: np.ndarray) -> np.ndarray:
    """Return dates in the coarsest unit that has them exactly, so that they are written without zeros."""
    if values.dtype.kind != "M":
        return values
    units = (values.astype(f"datetime64[{unit}]") for unit in ("s", "ms", "us"))
    return next((coarse for coarse in units if (coarse == values).all()), values)


def is_plain(table: Any) -> bool:
    """Return whether all columns hold finite numbers, so that they are a matrix as they are."""
    if container_of(table) == "pandas":
        kinds = [getattr(dtype, "kind", "O") for dtype in table.dtypes]
        if not all(isinstance(dtype, np.dtype) for dtype in table.dtypes) or not set(kinds) <= set("iuf"):
            return False
        return all(kind != "f" or np.isfinite(table.iloc[:, i].to_numpy()).all() for i, kind in enumerate(kinds))
    types = sys.modules["pyarrow"].types
    if not all(types.is_integer(field.type) or types.is_floating(field.type) for field in table.schema):
        return False
    return not any(
        column.null_count or (types.is_floating(column.type) and not np.isfinite(column.to_numpy()).all())
        for column in table.columns
    )


def read_column(table: Any, name: str) -> RawColumn:
    """Read a column.

    Parameters
    ----------
    table : DataFrame or pyarrow.Table
    name : str

    Returns
    -------
    RawColumn

    """
    if isinstance(table, ArrayTable):
        return table.read_column(name)
    if container_of(table) == "pandas":
        return pandas_columns.read_column(name, table[name])
    metadata = table.schema.field(name).metadata or {}
    return arrow_columns.read_column(name, table.column(name), is_text=metadata.items() >= KEPT_AS_TEXT.items())
