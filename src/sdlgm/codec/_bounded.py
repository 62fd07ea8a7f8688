"""Rows within bounds of their errors: what codes decode to as a prediction, and whole numbers for what is left.

What is left of a value, divided by a step a little below twice its bound, becomes the nearest whole number q, so that
|x - (prediction + q step)| stays below the bound after rounding as well. A block has its codes and these numbers, or,
where that is shorter, those of a prediction of zero, as differences from one time to the next: delta coding. Where no
multiple is near enough, because a value is huge beside its bound, it is written as it is.

All that is written is coded in integers only. The prediction is computed in double precision, and what another machine
rounds in another way is less than what a step leaves to the bound.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO

import numpy as np
import scipy.sparse as sp
import torch

from sdlgm import _kernels
from sdlgm._kernels.residuals import LARGEST, MISSING, RAW, VALUE, Series
from sdlgm.codec import _files
from sdlgm.codec._codes import AT_ONCE, Codec
from sdlgm.codec._files import Source
from sdlgm.errors import DataError
from sdlgm.model.modules import SDLGMModule

LIKELIHOODS = ("gaussian", "student_t")
"""Those of columns that can have bounds of errors."""
SAFETY = 1 - 2.0**-20
"""A step, in units of twice the bound. What is left out covers rounding."""
MARGIN = 1e-11
"""Predictions of two machines differ by less than this, relative to the largest term of their sums."""
FAR = 1e6
"""Values farther from the mean than this many deviations are encoded as if they were there."""
SHORT = 4096
"""Series shorter than this share their frequencies."""
DELTA, MODEL = 0, 1
"""Kinds of blocks: differences in time, or differences from what codes decode to."""


def checked_bounds(max_error: float | Sequence[float], n_columns: int) -> np.ndarray:
    """Return bounds of errors as an array: one for all columns, or one for each.

    Parameters
    ----------
    max_error : float or sequence of float
    n_columns : int

    Returns
    -------
    bounds : ndarray of float64 of shape (1,) or (n_columns,)

    """
    try:
        bounds = np.asarray(max_error, np.float64)
    except (TypeError, ValueError):
        bounds = np.array(np.nan)
    if bounds.ndim > 1 or not (np.isfinite(bounds) & (bounds > 0)).all():
        raise ValueError(f"max_error={max_error!r}; it has to be a finite number above 0, or one for each column")
    if bounds.ndim == 1 and len(bounds) != n_columns:
        raise ValueError(f"max_error has {len(bounds)} numbers, and the data have {n_columns} columns")
    return np.atleast_1d(bounds)


@dataclass(frozen=True)
class Bounded:
    """Rows as bytes such that no value changes by more than a bound.

    Parameters
    ----------
    module : SDLGMModule
    codec : Codec
        The codec of its codes.
    location, scale : ndarray of float64 of shape (n_inputs,)
        What turns what the decoder says into units of the data.
    likelihoods : sequence of str
        Likelihood of each input.
    length : int
        Times of a window, of which each column has as many inputs beside each other; 1 if rows are no windows.

    """

    module: SDLGMModule
    codec: Codec
    location: np.ndarray
    scale: np.ndarray
    likelihoods: Sequence[str]
    length: int

    def __post_init__(self) -> None:
        others = sorted(set(self.likelihoods) - set(LIKELIHOODS))
        if others:
            raise DataError(
                f"max_error is for columns of measured numbers, of the likelihoods {' and '.join(LIKELIHOODS)}; this "
                f"model has columns with {', '.join(others)}; fit it with likelihood='gaussian', or leave out max_error"
            )

    @property
    def n_columns(self) -> int:
        """Columns of the series."""
        return len(self.location) // self.length

    @property
    def block_rows(self) -> int:
        """Rows that are written together."""
        return max(1, min(self.codec.block_rows, AT_ONCE // len(self.location)))

    @cached_property
    def _decoder(self) -> torch.nn.Module:
        """The decoder in double precision, on the CPU."""
        return copy.deepcopy(self.module.decoder).cpu().double()

    # Files

    def write(
        self,
        file: IO[bytes],
        batches: Iterable[np.ndarray],
        max_error: float | Sequence[float],
        encode: Callable[[np.ndarray], sp.csr_matrix],
    ) -> int:
        """Write rows as a ``.sdl`` file.

        Parameters
        ----------
        file : binary file
        batches : iterable of ndarray of shape (n_rows, n_inputs)
            Rows, with NaN for missing values.
        max_error : float or sequence of float
            Largest error of all columns, or of each.
        encode : callable
            From rows to codes.

        Returns
        -------
        n_rows : int

        """
        bounds = checked_bounds(max_error, self.n_columns)
        writer = _files.Writer(file, _files.BOUNDED, self.codec.fingerprint, bounds)
        waiting = np.empty((0, len(self.location)))
        for batch in batches:
            waiting = np.concatenate([waiting, batch])
            while len(waiting) >= self.block_rows:
                rows, waiting = np.split(waiting, [self.block_rows])
                writer.append(len(rows), self.to_block(rows, bounds, encode))
        if len(waiting):
            writer.append(len(waiting), self.to_block(waiting, bounds, encode))
        writer.close()
        return writer.n_rows

    def read(self, source: Source) -> Iterator[np.ndarray]:
        """Yield the rows of each block of a ``.sdl`` file. Of a damaged file, raise after the last whole block."""
        with _files.opened(source) as reader:
            reader.check_model(self.codec.fingerprint, _files.BOUNDED)
            bounds = reader.bounds
            assert bounds is not None
            if len(bounds) not in (1, self.n_columns):
                raise DataError(f"{reader.where}: has bounds of {len(bounds)} columns, not {self.n_columns}")
            for n_rows, block in reader.blocks():
                yield self.from_block(block, n_rows, bounds)

    # Blocks

    def to_block(self, rows: np.ndarray, bounds: np.ndarray, encode: Callable[[np.ndarray], sp.csr_matrix]) -> bytes:
        """Return rows as bytes: by way of their codes, or as differences in time, whichever is shorter."""
        common = self._common(len(rows))
        nothing = np.zeros(len(self.location))
        series = self._series(rows, nothing, nothing, bounds)
        plain = bytes([DELTA]) + _kernels.write_series(series, self._start(len(rows), bounds), common=common)
        with np.errstate(over="ignore"):
            near = np.clip(rows, self.location - FAR * self.scale, self.location + FAR * self.scale)
        codes = encode(near)
        ((_, of_codes),) = self.codec.to_blocks(codes)
        header = bytes([MODEL]) + _files.number_bytes(len(of_codes)) + of_codes
        if len(header) >= len(plain):
            return plain
        decoded = self._decoded(codes)
        slack = MARGIN * (np.abs(decoded - self.location) + np.abs(self.location) + self.scale)
        series = self._series(rows, decoded, slack, bounds)
        block = header + _kernels.write_series(series, np.zeros_like(series.numbers), common=common)
        return min(plain, block, key=len)

    def from_block(self, block: bytes, n_rows: int, bounds: np.ndarray) -> np.ndarray:
        """Return the rows of a block, whose checksum is right."""
        if n_rows > self.block_rows:
            raise DataError(f"a block of this model has at most {self.block_rows} rows, and there is one of {n_rows}")
        decoded, base = np.zeros(len(self.location)), self._start(n_rows, bounds)
        if block[:1] == bytes([DELTA]):
            content = block[1:]
        elif block[:1] == bytes([MODEL]):
            of_codes, content = _files.split(block[1:])
            decoded, base = self._decoded(self.codec.from_block(of_codes, n_rows)), np.zeros_like(base)
        else:
            raise DataError("a block is not of rows within error bounds")
        series = _kernels.read_series(content, base, common=self._common(n_rows))
        numbers, kinds = (self._by_row(part, n_rows) for part in (series.numbers, series.kinds))
        with np.errstate(over="ignore", invalid="ignore"):
            rows = decoded + numbers * self._steps(bounds)
        rows[kinds == RAW] = numbers[kinds == RAW].view(np.float64)
        rows[kinds == MISSING] = np.nan
        return rows

    def _common(self, n_rows: int) -> bool:
        return n_rows * self.length < SHORT

    def _of_inputs(self, values: np.ndarray) -> np.ndarray:
        """Return the value of the column of each input."""
        return np.repeat(np.broadcast_to(values, self.n_columns), self.length)

    def _steps(self, bounds: np.ndarray) -> np.ndarray:
        """Return the step of each input."""
        with np.errstate(over="ignore"):
            return self._of_inputs(2 * SAFETY * bounds)

    def _series(self, rows: np.ndarray, prediction: np.ndarray, slack: np.ndarray, bounds: np.ndarray) -> Series:
        """Return the whole number that stands for what is left of each value, and what has none.

        The bound holds for any prediction that differs by no more than the slack.
        """
        steps, most = self._steps(bounds), self._of_inputs(bounds) - slack
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            numbers = np.rint((rows - prediction) / steps)
            # A difference that is below the bound after rounding does not exceed it before.
            fits = (np.abs(numbers) <= LARGEST) & (np.abs(rows - (prediction + numbers * steps)) < most)
        is_missing = np.isnan(rows)
        kinds = np.where(is_missing, MISSING, np.where(fits, VALUE, RAW)).astype(np.uint8)
        numbers = np.where(fits, numbers, 0).astype(np.int64)
        raw = kinds == RAW
        numbers[raw] = np.ascontiguousarray(rows[raw]).view(np.int64)
        return Series(self._by_column(numbers), self._by_column(kinds))

    def _start(self, n_rows: int, bounds: np.ndarray) -> np.ndarray:
        """Return the whole numbers of the means of the columns, from which delta coding starts."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            numbers = np.rint(self.location / self._steps(bounds))
            numbers = np.where(np.abs(numbers) <= LARGEST, numbers, 0).astype(np.int64)
        return self._by_column(np.broadcast_to(numbers, (n_rows, len(numbers))))

    def _decoded(self, codes: sp.csr_matrix) -> np.ndarray:
        """Return what codes decode to, as the decoder says it."""
        with torch.inference_mode():
            counts = self.module.decoder_input(torch.from_numpy(codes.toarray()).double())
            scaled = self.module.likelihood.mean(self._decoder(counts)).numpy()
        with np.errstate(over="ignore"):
            return scaled * self.scale + self.location

    def _by_column(self, rows: np.ndarray) -> np.ndarray:
        """Return a series for each column, of all windows after each other."""
        cut = rows.reshape(len(rows), self.n_columns, self.length)
        return np.ascontiguousarray(cut.transpose(1, 0, 2)).reshape(self.n_columns, -1)

    def _by_row(self, series: np.ndarray, n_rows: int) -> np.ndarray:
        cut = series.reshape(self.n_columns, n_rows, self.length)
        return np.ascontiguousarray(cut.transpose(1, 0, 2)).reshape(n_rows, -1)
