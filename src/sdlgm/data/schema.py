"""Meaning of the columns of a table: learned from one table, applied to others, and kept in model files."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self, cast, get_args

import numpy as np

from sdlgm.data import column_values, decoding, frames
from sdlgm.data.column_values import MAX_LEVELS, Kind
from sdlgm.data.frames import Container
from sdlgm.data.raw_columns import Level
from sdlgm.data.series import WindowPlan
from sdlgm.data.source import some_names
from sdlgm.errors import DataError

MISSING_SYMBOLS = (
    *("", "-", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for a missing value: those of pandas, and a dash."""
MAX_NAME = 10_000
"""Characters of a name or a level."""
# Columns with problems that one message names.
_MOST_PROBLEMS = 5
STORAGES: dict[str, tuple[str, ...]] = {
    "number": ("float", "integer", "nullable float", "nullable integer"),
    "boolean": ("bool", "nullable bool"),
    "category": ("text", "categorical", "ordered"),
}
"""How tables store columns of each kind."""


@dataclass(frozen=True)
class Column:
    """A feature.

    Parameters
    ----------
    name : str
    kind : {"number", "boolean", "category"}
    storage : str
        How the table stored the column; one of `STORAGES`.
    levels : tuple, default=()
        Values of a category. They are all text, or all numbers.

    """

    name: str
    kind: Kind
    storage: str
    levels: tuple[Level, ...] = ()

    def __post_init__(self):
        _check_text("a column", self.name)
        if self.kind not in get_args(Kind) or self.storage not in STORAGES[self.kind]:
            raise ValueError(f"column {self.name!r} is {self.kind!r}, stored as {self.storage!r}")
        if bool(self.levels) != (self.kind == "category") or len(self.levels) > MAX_LEVELS:
            raise ValueError(f"column {self.name!r} is {self.kind!r} and has {len(self.levels)} levels")
        types = {type(level) for level in self.levels}
        if not (types <= {str} or types <= {int, float} or types <= {bool}):
            raise ValueError(f"the levels of column {self.name!r} are not all text, or all numbers")
        if len(set(self.levels)) < len(self.levels):
            raise ValueError(f"column {self.name!r} has a level twice")
        for level in self.levels:
            if isinstance(level, str):
                _check_text(f"a level of column {self.name!r}", level)
            elif not np.isfinite(level):
                raise ValueError(f"column {self.name!r} has the level {level}")


@dataclass(frozen=True)
class Schema:
    """Meaning of the columns of a table.

    Make one with `Schema.of`. It turns tables into matrices of numbers, and such matrices into tables.

    Parameters
    ----------
    columns : tuple of Column
        The features, in the order of the matrix.
    container : {"pandas", "arrow", "array"}
        What `decode` returns.
    ignored : tuple of str, default=()
        Columns that are no features.
    time_column : str or None, default=None
        Column with the times of the rows. It is no feature.
    group : str or None, default=None
        Column that says which series a row is of. It is no feature.
    na_values : tuple of str, default=()
        Texts that stand for a missing value, beside the usual ones.
    window : WindowPlan or None, default=None
        How the rows are cut into windows, if a row of the matrix is a window.

    """

    columns: tuple[Column, ...]
    container: Container = "arrow"
    ignored: tuple[str, ...] = ()
    time_column: str | None = None
    group: str | None = None
    na_values: tuple[str, ...] = ()
    window: WindowPlan | None = None

    def __post_init__(self):
        apart = [name for name in (self.time_column, self.group) if name is not None]
        names = [*(column.name for column in self.columns), *self.ignored, *apart]
        if not self.columns:
            raise ValueError("there are no columns of features")
        if len(set(names)) < len(names):
            raise ValueError("a column is named twice")
        if self.container not in get_args(Container):
            raise ValueError(f"container={self.container!r}")
        for text in (*self.ignored, *apart, *self.na_values):
            _check_text("a name", text)

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        categorical: Sequence[str] = (),
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        time_column: str | None = None,
        group: str | None = None,
        na_values: Sequence[str] = (),
    ) -> Self:
        """Learn what the columns of a table mean.

        - Numbers are numbers, also if they are text: a column of text is one of numbers if every value is a number or
          stands for a missing value. So are durations, if they are numbers.
        - Truth values, and the texts ``true`` and ``false``, are booleans.
        - Other text, and columns of a categorical type, are categories. The levels of text are in alphabetical order.
        - Dates are refused, unless they are the time column. So is text with nearly as many values as rows.

        Parameters
        ----------
        table : DataFrame, pyarrow.Table or ndarray
        categorical : sequence of str, default=()
            Columns that are categories, whatever they hold, such as numbers of cells.
        columns : sequence of str or None, default=None
            The features; None for all columns but those that other parameters name.
        drop : sequence of str, default=()
            Columns to leave out.
        time_column : str or None, default=None
            Column with the times of the rows.
        group : str or None, default=None
            Column that says which series a row is of.
        na_values : sequence of str, default=()
            Texts that stand for a missing value, beside the usual ones: those of pandas, and a dash.

        Returns
        -------
        Schema

        """
        container, table = as_frame(table)
        known = frames.column_names(table)
        named = {"columns": columns or (), "drop": drop, "categorical": categorical}
        for what, names in {**named, "time_column": [time_column], "group": [group]}.items():
            for name in names:
                if name is not None and name not in known:
                    raise DataError(f"there is no column {name!r} ({what}); the columns are {some_names(known)}")
        if frames.n_rows_of(table) == 0:
            raise DataError("the table has no rows")
        apart = {time_column, group}
        chosen = [
            name for name in known if name not in apart and name not in drop and (columns is None or name in columns)
        ]
        found = _learn(table, chosen, categorical, (*MISSING_SYMBOLS, *na_values))
        features = {column.name for column in found}
        ignored = tuple(name for name in known if name not in features and name not in apart)
        try:
            return cls(tuple(found), container, ignored, time_column, group, tuple(map(str, na_values)))
        except ValueError as error:
            raise DataError(str(error)) from error

    # Features: those of rows, or of windows

    @property
    def _length(self) -> int:
        return 1 if self.window is None else self.window.length

    @property
    def n_features(self) -> int:
        """Columns of the matrix."""
        return len(self.columns) * self._length

    @cached_property
    def expanded(self) -> "Schema":
        """The schema of the matrix as a table of its own: with windows, a column for each place in the window."""
        if self.window is None:
            return replace(self, ignored=(), time_column=None, group=None)
        lags = [f"t-{lag}" if lag else "t" for lag in range(self._length - 1, -1, -1)]
        columns = [replace(column, name=f"{column.name}[{lag}]") for column in self.columns for lag in lags]
        return Schema(tuple(columns), self.container, na_values=self.na_values)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of the matrix; those of windows are such as ``load[t-3]``."""
        return tuple(column.name for column in self.expanded.columns)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the columns of the matrix."""
        return tuple(column.kind for column in self.columns for _ in range(self._length))

    @property
    def n_levels(self) -> tuple[int, ...]:
        """Levels of the columns of the matrix; 0 if they are no categories."""
        return tuple(len(column.levels) for column in self.columns for _ in range(self._length))

    @property
    def is_numeric(self) -> bool:
        """Whether all features are numbers."""
        return all(column.kind == "number" for column in self.columns)

    # Tables to matrices and back

    def encode(self, table: Any) -> np.ndarray:
        """Return the rows of a table as numbers.

        Parameters
        ----------
        table : DataFrame, pyarrow.Table or ndarray
            A table with the columns of this one, in any order. Columns that are no features are not read.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            float64. NaN where a value is missing; 0 and 1 for booleans; the place of the level for categories. A
            category that was not there when the schema was learned is a missing value, and is warned of.

        """
        _, table = as_frame(table)
        known = set(frames.column_names(table))
        for column in self.columns:
            if column.name not in known:
                raise DataError(f"there is no column {column.name!r}, which the model needs")
        missing = (*MISSING_SYMBOLS, *self.na_values)
        matrix = np.empty((frames.n_rows_of(table), len(self.columns)))
        unseen: dict[str, list[Level]] = {}
        for i, column in enumerate(self.columns):
            raw = frames.read_column(table, column.name)
            matrix[:, i], new = column_values.encode(raw, column.kind, column.levels, missing)
            if new:
                unseen[column.name] = new
        if unseen:
            parts = [f"column {name!r} has {some_names(list(map(str, new)), 3)}" for name, new in unseen.items()]
            warnings.warn(f"values that were not there at fit are taken as missing: {'; '.join(parts)}", stacklevel=2)
        return matrix

    def decode(self, matrix: np.ndarray) -> Any:
        """Return a table of the rows of a matrix.

        Parameters
        ----------
        matrix : ndarray of shape (n_rows, n_features)
            Numbers as of `encode`, or of windows. Booleans are true from one half on, and the level of a category is
            the nearest whole number. Whole numbers are integers again if all values of their column are whole.

        Returns
        -------
        DataFrame, pyarrow.Table or ndarray
            As the table that the schema was learned from.

        """
        matrix = np.asarray(matrix, np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != self.n_features:
            raise ValueError(f"a matrix of shape {matrix.shape}; it has to have {self.n_features} columns")
        return decoding.table_of(matrix, self.expanded.columns, self.container)

    # Files

    def to_document(self) -> dict[str, Any]:
        """Return the schema as JSON knows it.

        Returns
        -------
        dict

        """
        document = asdict(self)
        document["columns"] = [{**asdict(column), "levels": list(column.levels)} for column in self.columns]
        return {name: list(value) if isinstance(value, tuple) else value for name, value in document.items()}

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Return the schema of a document, or raise ValueError if it is not one of `to_document`.

        Parameters
        ----------
        document : object
            What a JSON parser returns.

        Returns
        -------
        Schema

        """
        entries = _entries(document, ("columns", "container", "ignored", "time_column", "group", "na_values", "window"))
        columns = [_entries(column, ("name", "kind", "storage", "levels")) for column in _list(entries["columns"])]
        window = entries["window"]
        if window is not None:
            window = WindowPlan(**_entries(window, ("length", "stride", "max_gap", "step")))
        return cls(
            columns=tuple(
                Column(_text(c["name"]), _text(c["kind"]), _text(c["storage"]), tuple(_list(c["levels"])))  # type: ignore[arg-type]
                for c in columns
            ),
            container=cast(Container, _text(entries["container"])),
            ignored=tuple(map(_text, _list(entries["ignored"]))),
            time_column=None if entries["time_column"] is None else _text(entries["time_column"]),
            group=None if entries["group"] is None else _text(entries["group"]),
            na_values=tuple(map(_text, _list(entries["na_values"]))),
            window=window,
        )


def _learn(table: Any, names: Sequence[str], categorical: Sequence[str], missing: Sequence[str]) -> list[Column]:
    """Return what columns of a table mean; those without values are left out."""
    found: list[Column] = []
    empty: list[str] = []
    problems: list[str] = []
    for name in names:
        try:
            column = column_values.learn(frames.read_column(table, name), missing, is_category=name in categorical)
            if column is None:
                empty.append(name)
            else:
                found.append(Column(*column))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        more = f". {len(problems) - _MOST_PROBLEMS} more columns" if len(problems) > _MOST_PROBLEMS else ""
        raise DataError(". ".join(problems[:_MOST_PROBLEMS]) + more)
    if empty:
        warnings.warn(f"these columns have no values and are left out: {some_names(empty)}", stacklevel=3)
    if not found:
        raise DataError("no column of features is left; name fewer columns to leave out")
    return found


def as_frame(table: Any) -> tuple[Container, Any]:
    """Return which package a table is of, and the table; an array gets columns ``x0``, ``x1``, ..."""
    container = "array" if isinstance(table, frames.ArrayTable) else frames.container_of(table)
    if container is not None:
        return container, table
    if isinstance(table, np.ndarray) and table.ndim == 2 and table.dtype.kind in "biuf":
        return "array", frames.ArrayTable(table)
    raise DataError(
        f"a {type(table).__name__} is no table with named columns; give a pandas DataFrame whose columns have texts as "
        "names, a pyarrow table, or an array of numbers"
    )


def _entries(document: object, names: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(document, dict) or set(document) != set(names):
        raise ValueError(f"the schema has a part without exactly the entries {', '.join(names)}")
    return document


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("the schema has something else where a list is expected")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("the schema has something else where a text is expected")
    return value


def _check_text(what: str, text: object) -> None:
    if not isinstance(text, str) or len(text) > MAX_NAME:
        raise ValueError(f"the name of {what} is no text of at most {MAX_NAME} characters")
