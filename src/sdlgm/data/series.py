"""Windows of time series, as places of rows: what follows what, and where a window begins."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdlgm.data.times import Times

LONGEST_WINDOW = 100_000
MAX_GAP = 5.0
"""Longest step between two rows of a window, in median steps."""


@dataclass(frozen=True)
class WindowPlan:
    """How series are cut into windows."""

    length: int
    """Rows of a window."""
    stride: int = 1
    """Rows from the beginning of a window to that of the next."""
    max_gap: float | None = MAX_GAP
    """Longest step between two rows of a window, in median steps; None for any."""
    step: float | None = None
    """The median step of the series at fit; None without a time column, or before it is known."""

    def __post_init__(self):
        for name in ("length", "stride"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LONGEST_WINDOW:
                raise ValueError(f"{name}={value!r}; it has to be a whole number from 1 to {LONGEST_WINDOW}")
        for name, least in (("max_gap", 1), ("step", 0)):
            value = getattr(self, name)
            if value is not None and (
                isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < float("inf")
            ):
                raise ValueError(f"{name}={value!r}; it has to be a finite number, at least {least}, or None")


@dataclass(frozen=True)
class Placement:
    """Where the windows of a table are."""

    order: np.ndarray
    """(n_rows,), the rows of the table by series and time."""
    starts: np.ndarray
    """(n_windows,), the place in ``order`` of the first row of each window."""
    step: float | None
    """The median step, by which gaps are found."""
    n_disordered: int
    """Rows whose time is before that of the row before."""
    n_gaps: int
    longest_gap: float
    n_unused: int
    """Rows in no window."""


@dataclass(frozen=True)
class Timeline:
    """When rows or windows begin and end, and which series they are of."""

    first: np.ndarray
    """(n,), a time, or the place of a row in its series."""
    last: np.ndarray
    series: np.ndarray
    """(n,), the number of the series."""

    def __getitem__(self, rows: Any) -> "Timeline":
        return Timeline(self.first[rows], self.last[rows], self.series[rows])

    def hold_out(self, fraction: float) -> tuple[np.ndarray, np.ndarray]:
        """Split off the end of each series.

        Parameters
        ----------
        fraction : float
            Share of each series that is held out, rounded up. A series of one row or window is kept.

        Returns
        -------
        kept, held_out : ndarray of int
            Places, in their order. What reaches into the held-out end of its series is in neither.

        """
        kept, held_out = [], []
        order = np.lexsort((self.first, self.series))  # stable
        for places in np.split(order, np.flatnonzero(np.diff(self.series[order])) + 1):
            n_held_out = math.ceil(fraction * len(places)) if len(places) > 1 else 0
            start = len(places) - min(n_held_out, len(places) - 1)
            before, after = places[:start], places[start:]
            held_out.append(after)
            kept.append(before[self.last[before] < self.first[after[0]]] if len(after) else before)
        return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held_out))


def place_windows(n_rows: int, times: Times | None, series: np.ndarray | None, plan: WindowPlan) -> Placement:
    """Place windows in the rows of a table.

    The rows of each series are sorted by time; rows of the same time keep their order. A series is cut where a step is
    longer than ``max_gap`` median steps. Steps of length zero do not count for the median. Windows begin at the first
    row of each piece, and every ``stride`` rows from there as long as ``length`` rows are left.

    Parameters
    ----------
    n_rows : int
        Rows of the table.
    times : Times or None
        When each row was made; None if the rows are in the order of time.
    series : ndarray of int of shape (n_rows,) or None
        The number of the series of each row, by first appearance; None if there is only one.
    plan : WindowPlan

    Returns
    -------
    Placement

    """
    number = np.zeros(n_rows, np.int64) if series is None else series
    keys = (number,) if times is None else (times.values, number)
    order = np.lexsort(keys)  # stable
    new_series = np.diff(number[order]) != 0
    cuts, step, n_disordered, gaps = new_series, None, 0, np.empty(0)
    if times is not None:
        n_disordered = _count_disordered(times.values, number)
        steps = np.diff(times.values[order])
        positive = steps[~new_series & (steps > 0)]
        step = plan.step if plan.step is not None else float(np.median(positive)) if positive.size else None
        if step and plan.max_gap is not None:
            is_gap = ~new_series & (steps > plan.max_gap * step)
            gaps, cuts = steps[is_gap], new_series | is_gap
    edges = np.concatenate([[0], np.flatnonzero(cuts) + 1, [n_rows]])
    counts = np.maximum(0, (np.diff(edges) - plan.length) // plan.stride + 1)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(edges[:-1], counts) + plan.stride * within
    n_unused = n_rows - int(is_covered(n_rows, starts, plan.length).sum())
    return Placement(order, starts, step, n_disordered, len(gaps), float(gaps.max(initial=0)), n_unused)


def _count_disordered(times: np.ndarray, number: np.ndarray) -> int:
    by_series = np.argsort(number, kind="stable")
    return int(((np.diff(times[by_series]) < 0) & (np.diff(number[by_series]) == 0)).sum())


def is_covered(n_rows: int, starts: np.ndarray, length: int) -> np.ndarray:
    """Return which rows are in a window.

    Parameters
    ----------
    n_rows : int
    starts : ndarray of int of shape (n_windows,)
        The first row of each window.
    length : int
        Rows of a window.

    Returns
    -------
    ndarray of bool of shape (n_rows,)

    """
    begins = np.bincount(starts, minlength=n_rows + 1)
    ends = np.bincount(starts + length, minlength=n_rows + 1)
    return np.cumsum(begins - ends)[:n_rows] > 0


def cut_windows(rows: np.ndarray, starts: np.ndarray, length: int) -> np.ndarray:
    """Return windows as rows: for each column its values from the first row of the window to the last.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        Rows in order.
    starts : ndarray of int of shape (n_windows,)
        The first row of each window.
    length : int
        Rows of a window.

    Returns
    -------
    ndarray of shape (n_windows, n_columns * length)

    """
    n_columns = rows.shape[1]
    if not len(starts):
        return np.empty((0, n_columns * length))
    views = np.lib.stride_tricks.sliding_window_view(rows, length, axis=0)  # (n_rows - length + 1, n_columns, length)
    return views[starts].reshape(len(starts), n_columns * length)


def join_windows(windows: np.ndarray, starts: np.ndarray, n_rows: int, n_levels: np.ndarray) -> np.ndarray:
    """Return rows from windows: the mean over all windows that have a row, and for categories the most frequent one.

    Parameters
    ----------
    windows : ndarray of shape (n_windows, n_columns * length)
        Windows, as of `cut_windows`. NaN is a missing value, which does not count.
    starts : ndarray of int of shape (n_windows,)
        The first row of each window.
    n_rows : int
        Rows of the result.
    n_levels : ndarray of int of shape (n_columns,)
        Levels of each category; 0 for other columns. Of equally frequent levels the first one is taken.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        NaN where no window has a value.

    """
    n_columns = len(n_levels)
    length = windows.shape[1] // n_columns
    values = windows.reshape(len(starts), n_columns, length)
    joined = np.full((n_rows, n_columns), np.nan)
    for column, n in enumerate(n_levels.tolist()):
        part = values[:, column]
        joined[:, column] = _mean(part, starts, n_rows) if n == 0 else _most_frequent(part, starts, n_rows, n)
    return joined


def _mean(part: np.ndarray, starts: np.ndarray, n_rows: int) -> np.ndarray:
    total, count = np.zeros(n_rows), np.zeros(n_rows)
    for place in range(part.shape[1]):  # within one place no row is met twice
        known = ~np.isnan(part[:, place])
        rows = starts[known] + place
        # A running mean, so that values that are all equal have exactly their value as mean.
        count[rows] += 1
        total[rows] += (part[known, place] - total[rows]) / count[rows]
    return np.where(count > 0, total, np.nan)


def _most_frequent(part: np.ndarray, starts: np.ndarray, n_rows: int, n_levels: int) -> np.ndarray:
    rows = starts[:, None] + np.arange(part.shape[1])
    known = ~np.isnan(part)
    keys, counts = np.unique(rows[known] * n_levels + np.rint(part[known]).astype(np.int64), return_counts=True)
    found, levels = np.divmod(keys, n_levels)
    best = np.lexsort((levels, -counts, found))
    first = np.unique(found[best], return_index=True)
    joined = np.full(n_rows, np.nan)
    joined[first[0]] = levels[best][first[1]]
    return joined
