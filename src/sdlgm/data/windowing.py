"""Tables as numbers, row by row or cut into windows of time series, and the way back."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sdlgm.data import frames
from sdlgm.data.decoding import table_of
from sdlgm.data.schema import MISSING_SYMBOLS, Schema, as_frame
from sdlgm.data.series import (
    MAX_GAP,
    Placement,
    Timeline,
    WindowPlan,
    cut_windows,
    is_covered,
    join_windows,
    place_windows,
)
from sdlgm.data.times import Times, read_times
from sdlgm.errors import DataError


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Rows of a table as numbers. Estimators accept it as X.

    Parameters
    ----------
    schema : Schema
        What the columns mean.
    matrix : ndarray of shape (n_rows, n_features)
        The numbers; NaN where a value is missing.
    timeline : Timeline or None, default=None
        The order of the rows in time, if it is known.

    """

    schema: Schema
    matrix: np.ndarray
    timeline: Timeline | None = None

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> "EncodedRows":
        """Return some of the rows, such as a part of a cross-validation."""
        return EncodedRows(self.schema, self.matrix[rows], None if self.timeline is None else self.timeline[rows])

    def batches(self, size: int) -> "Iterator[EncodedRows]":
        """Iterate over the rows.

        Parameters
        ----------
        size : int
            Rows at a time.

        Returns
        -------
        iterator of EncodedRows

        """
        for start in range(0, len(self), size):
            yield EncodedRows(self.schema, self.matrix[start : start + size])


@dataclass(frozen=True, eq=False)
class Origins:
    """Where windows come from: what is needed, beside decoded windows, to make series of them.

    Parameters
    ----------
    starts : ndarray of int of shape (n_windows,)
        The first row of each window.
    n_rows : int
        Rows of all series.
    times : Times or None
        Times of the rows; None without a time column.
    series : ndarray of int of shape (n_rows,) or None
        The number of the series of each row; None if there is only one.
    series_names : tuple, default=()
        Names of the series.

    """

    starts: np.ndarray
    n_rows: int
    times: Times | None = None
    series: np.ndarray | None = None
    series_names: tuple[str | int | float | bool, ...] = ()

    def join(self, schema: Schema, windows: np.ndarray) -> Any:
        """Return a table with the rows of all series.

        Parameters
        ----------
        schema : Schema
            What the columns of the windows mean.
        windows : ndarray of shape (n_windows, n_features)
            Windows as numbers.

        Returns
        -------
        DataFrame, pyarrow.Table or ndarray
            The group and the time of each row that is in a window, then the features: means over all windows that have
            the row, and the most frequent of their categories.

        """
        if len(windows) != len(self.starts):
            raise DataError(f"there are {len(windows)} windows, and the series have {len(self.starts)}")
        length = schema.n_features // len(schema.columns)
        n_levels = np.array([len(column.levels) for column in schema.columns])
        is_in = is_covered(self.n_rows, self.starts, length)
        rows = join_windows(windows, self.starts, self.n_rows, n_levels)[is_in]
        table = table_of(rows, schema.columns, schema.container)
        if schema.time_column is not None and self.times is not None:
            table = frames.with_first(table, schema.time_column, self.times.stored[is_in])
        if schema.group is not None and self.series is not None:
            names = np.array(self.series_names)[self.series[is_in]]
            table = frames.with_first(table, schema.group, names)
        return table


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows of time series as numbers. Estimators accept it as X.

    Make one with `windows`. A row has, for each column, its values from the first time of the window to the last.

    Parameters
    ----------
    schema : Schema
        What the columns mean, and how the series are cut.
    rows : ndarray of shape (n_rows, n_columns)
        The rows of all series in order, as numbers.
    origins : Origins
        Where the windows come from.
    placement : Placement
        The rows of the table in order, and what was found in them.

    """

    schema: Schema
    rows: np.ndarray
    origins: Origins
    placement: Placement

    ndim = 2

    @property
    def shape(self) -> tuple[int, int]:
        """Number of windows and of features."""
        return len(self.origins.starts), self.schema.n_features

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> EncodedRows:
        """Return some of the windows. They are no series any more, so that they have no way back to one."""
        return EncodedRows(self.schema, self.matrix[rows], self.timeline[rows])

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, such as ``load[t-3]``."""
        return self.schema.feature_names

    @property
    def matrix(self) -> np.ndarray:
        """The windows, (n_windows, n_features), float64; NaN where a value is missing."""
        return self._cut(self.origins.starts)

    @property
    def timeline(self) -> Timeline:
        """The order of the windows in time, and the rows that each of them has."""
        starts, length = self.origins.starts, self.schema.n_features // len(self.schema.columns)
        series = self.origins.series
        return Timeline(starts, starts + length - 1, np.zeros_like(starts) if series is None else series[starts])

    def _cut(self, starts: np.ndarray) -> np.ndarray:
        return cut_windows(self.rows, starts, self.schema.n_features // len(self.schema.columns))

    @property
    def last_rows(self) -> np.ndarray:
        """The last row of each window, as its number in the table."""
        length = self.schema.n_features // len(self.schema.columns)
        return self.placement.order[self.origins.starts + length - 1]

    def batches(self, size: int) -> Iterator[EncodedRows]:
        """Iterate over the windows.

        Parameters
        ----------
        size : int
            Windows at a time.

        Returns
        -------
        iterator of EncodedRows

        """
        for start in range(0, len(self), size):
            yield EncodedRows(self.schema, self._cut(self.origins.starts[start : start + size]))

    def to_table(self) -> Any:
        """Return the windows as a table with a column for each feature.

        Returns
        -------
        DataFrame, pyarrow.Table or ndarray

        """
        return self.schema.decode(self.matrix)

    def inverse(self, X: Any) -> Any:
        """Return series from windows, such as decoded ones.

        Parameters
        ----------
        X : ndarray of shape (n_windows, n_features), DataFrame or pyarrow.Table
            These windows, in this order, with values of any origin.

        Returns
        -------
        DataFrame, pyarrow.Table or ndarray
            The group and the time of each row that is in a window, if the table had them, and its columns. Where
            windows overlap, numbers are the mean of all windows that have the row, and categories the most frequent
            one. Rows in no window are left out.

        """
        is_frame = frames.container_of(X) is not None
        matrix = self.schema.expanded.encode(X) if is_frame else np.asarray(X, np.float64)
        if matrix.shape != self.shape:
            raise ValueError(f"windows of shape {matrix.shape}; these have the shape {self.shape}")
        return self.origins.join(self.schema, matrix)


def windows(
    table: Any,
    *,
    length: int,
    stride: int = 1,
    time_column: str | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    na_values: Sequence[str] = (),
    max_gap: float | None = MAX_GAP,
) -> Windows:
    """Cut time series into windows.

    Rows of a series are sorted by time; rows of the same time keep their order. A window has ``length`` rows that
    follow each other in one series. Where a step is longer than ``max_gap`` times the median step, no window spans it,
    and a warning says so.

    Parameters
    ----------
    table : DataFrame, pyarrow.Table or ndarray of shape (n_rows, n_columns)
        A row for each time.
    length : int
        Rows of a window.
    stride : int, default=1
        Rows from the beginning of a window to that of the next.
    time_column : str or None, default=None
        Column with the times: dates, text with the year first such as ``2019-11-23 12:27:34``, or numbers. None if the
        rows are in the order of time, without gaps.
    group : str or None, default=None
        Column that says which series a row is of. Windows have rows of one series only.
    columns, drop, categorical, na_values
        As for `Schema.of`.
    max_gap : float or None, default=5.0
        Longest step between two rows of a window, in median steps; None for any.

    Returns
    -------
    Windows

    """
    plan = WindowPlan(length, stride, None if max_gap is None else float(max_gap))
    schema = Schema.of(
        table,
        columns=columns,
        drop=drop,
        categorical=categorical,
        na_values=na_values,
        time_column=time_column,
        group=group,
    )
    return encode_windows(replace(schema, window=plan), table)


def encode_table(schema: Schema, table: Any) -> EncodedRows | Windows:
    """Return the rows of a table, or its windows, as numbers.

    Parameters
    ----------
    schema : Schema
        What the columns mean, and whether and how they are cut into windows.
    table : DataFrame, pyarrow.Table or ndarray

    Returns
    -------
    EncodedRows or Windows

    """
    if schema.window is not None:
        return encode_windows(schema, table)
    return EncodedRows(schema, schema.encode(table), _timeline_of(schema, table))


def _timeline_of(schema: Schema, table: Any) -> Timeline | None:
    """Return the order in time of the rows of a table; None if the table does not say it."""
    _, table = as_frame(table)
    known = frames.column_names(table)
    if schema.time_column is None or schema.time_column not in known:
        return None
    missing = (*MISSING_SYMBOLS, *schema.na_values)
    times = read_times(frames.read_column(table, schema.time_column), missing).values
    if schema.group is None or schema.group not in known:
        return Timeline(times, times, np.zeros(len(times), np.int64))
    return Timeline(times, times, _series_of(table, schema.group, missing)[0])


def encode_windows(schema: Schema, table: Any) -> Windows:
    """Cut a table into the windows of a schema.

    Parameters
    ----------
    schema : Schema
        With ``window``. If its step is not known yet, that of the result is the one of this table.
    table : DataFrame, pyarrow.Table or ndarray

    Returns
    -------
    Windows

    """
    plan = schema.window
    if plan is None:
        raise ValueError("the schema has no windows")
    _, table = as_frame(table)
    n_rows, known = frames.n_rows_of(table), frames.column_names(table)
    for name in (schema.time_column, schema.group):
        if name is not None and name not in known:
            raise DataError(f"there is no column {name!r}, by which the series are ordered")
    missing = (*MISSING_SYMBOLS, *schema.na_values)
    times = None if schema.time_column is None else read_times(frames.read_column(table, schema.time_column), missing)
    series, names = (None, ()) if schema.group is None else _series_of(table, schema.group, missing)
    placement = place_windows(n_rows, times, series, plan)
    if not len(placement.starts):
        raise DataError(
            f"no series has {plan.length} rows without a gap, so that there is no window; set a smaller length "
            "(--window), or allow longer gaps (--max-gap, max_gap)"
        )
    _warn_about(placement, times, plan, schema.time_column)
    order = placement.order
    ordered_times = None if times is None else Times(times.values[order], times.is_date)
    origins = Origins(placement.starts, n_rows, ordered_times, None if series is None else series[order], names)
    learned = replace(schema, window=replace(plan, step=placement.step))
    return Windows(learned, schema.encode(table)[order], origins, placement)


def _series_of(table: Any, name: str, missing: Sequence[str]) -> tuple[np.ndarray, tuple]:
    """Return the number of the series of each row, by first appearance, and the names of the series."""
    raw = frames.read_column(table, name)
    if raw.form in ("text",) and raw.read_texts is not None:
        texts = raw.read_texts()
        codes = texts.codes.copy()
        is_missing = np.append([text.strip() in missing for text in texts.distinct], True).astype(bool)
        codes[is_missing[codes]] = -1
        labels: list = list(texts.distinct)
    elif raw.form == "category" and raw.codes is not None:
        codes, labels = raw.codes, list(raw.levels)
    elif raw.form in ("number", "boolean") and raw.numbers is not None:
        values, inverse = np.unique(raw.numbers, return_inverse=True)
        codes = np.where(np.isnan(raw.numbers), -1, inverse)
        labels = [int(value) if value == np.floor(value) else value for value in values[~np.isnan(values)].tolist()]
    else:
        raise DataError(
            f"the column {name!r} (group) holds {raw.described or 'dates'}; give numbers, text or categories"
        )
    if (codes < 0).any():
        raise DataError(f"the column {name!r} (group) has no value in row {int(np.argmax(codes < 0))}; drop such rows")
    present, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    by_appearance = np.argsort(firsts)
    number = np.empty(len(present), np.int64)
    number[by_appearance] = np.arange(len(present))
    return number[inverse], tuple(labels[present[i]] for i in by_appearance)


def _warn_about(placement: Placement, times: Times | None, plan: WindowPlan, time_column: str | None) -> None:
    if placement.n_disordered:
        rows = "1 row is" if placement.n_disordered == 1 else f"{placement.n_disordered} rows are"
        warnings.warn(
            f"{rows} not in the order of {time_column!r}; rows are sorted by time within each series", stacklevel=4
        )
    if placement.n_gaps and times is not None and placement.step is not None and plan.max_gap is not None:
        gaps = "1 gap" if placement.n_gaps == 1 else f"{placement.n_gaps} gaps"
        warnings.warn(
            f"{gaps} in {time_column!r} longer than {plan.max_gap:g} median steps of "
            f"{times.describe_span(placement.step)}, at most {times.describe_span(placement.longest_gap)}; no window "
            "spans them (--max-gap, max_gap)",
            stacklevel=4,
        )
