"""Levels apart from shapes: the mean of each column of a window, rounded, as bytes beside the code of what is left.

A window may be far from all windows of the training part, as when a server gets more load, and look like them but for
that. Its levels are written as differences from those of the window before, by their frequencies in training.
"""

from dataclasses import dataclass
from typing import Any

import constriction
import numpy as np

from reproduction.telemetry_data import Telemetry

ESCAPE_BITS = 16
"""Bits of a difference that no training window has, after the symbol that says so."""
_stream: Any = constriction.stream  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True)
class Levels:
    """Levels of windows as multiples of a step.

    Parameters
    ----------
    n_columns, length : int
        Columns and steps of a window.
    step : float
        In deviations of a column.
    known : list of ndarray
        The differences that each column has in training.
    shares : list of ndarray
        The probability of each of them, and at the end that of all others.

    """

    n_columns: int
    length: int
    step: float
    known: list[np.ndarray]
    shares: list[np.ndarray]

    @classmethod
    def of(cls, data: Telemetry, step: float) -> "Levels":
        """Count the differences of the training windows that do not overlap."""
        numbers = np.rint(data.train.series[:: data.length // data.stride].mean(axis=2) / step).astype(np.int64)
        known, shares = [], []
        for column in np.diff(numbers, axis=0, prepend=0).T:
            values, counts = np.unique(column, return_counts=True)
            weights = np.append(counts, 0) + 0.5
            known.append(values)
            shares.append(weights / weights.sum())
        return cls(data.n_columns, data.length, step, known, shares)

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return the levels of windows, (windows, columns)."""
        series = rows.reshape(len(rows), self.n_columns, self.length)
        return np.rint(series.mean(axis=2) / self.step).astype(np.int64)

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return windows that are constant at their levels."""
        return np.repeat(numbers * self.step, self.length, axis=1).astype(np.float32)

    def to_bytes(self, numbers: np.ndarray) -> bytes:
        """Return levels as bytes."""
        encoder = _stream.queue.RangeEncoder()
        for known, shares, given in zip(self.known, self.shares, np.diff(numbers, axis=0, prepend=0).T, strict=True):
            places = np.searchsorted(known, given).clip(max=len(known) - 1)
            is_known = known[places] == given
            symbols = np.where(is_known, places, len(known)).astype(np.int32)
            encoder.encode(symbols, _stream.model.Categorical(shares, perfect=False))
            others = (given[~is_known] + (1 << ESCAPE_BITS - 1)).astype(np.int32)
            if len(others):
                encoder.encode(others, _stream.model.Uniform(1 << ESCAPE_BITS))
        return encoder.get_compressed().astype("<u4").tobytes()

    def from_bytes(self, content: bytes, n_windows: int) -> np.ndarray:
        """Return the levels of so many windows."""
        decoder = _stream.queue.RangeDecoder(np.frombuffer(content, "<u4").astype(np.uint32))
        columns = []
        for known, shares in zip(self.known, self.shares, strict=True):
            symbols = decoder.decode(_stream.model.Categorical(shares, perfect=False), n_windows)
            given, is_known = known[symbols.clip(max=len(known) - 1)], symbols < len(known)
            if not is_known.all():
                others = decoder.decode(_stream.model.Uniform(1 << ESCAPE_BITS), int((~is_known).sum()))
                given[~is_known] = others.astype(np.int64) - (1 << ESCAPE_BITS - 1)
            columns.append(given.cumsum())
        return np.stack(columns, axis=1)
