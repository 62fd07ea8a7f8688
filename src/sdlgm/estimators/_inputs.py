"""From what users pass to what the module needs."""

import os
import shutil
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.sparsefuncs import mean_variance_axis

from sdlgm import _kernels
from sdlgm.errors import DataError
from sdlgm.train.batches import Rows, dense

# Largest scaled value: single precision reaches 3e38, and the likelihood needs room for sums of squares.
LARGEST = 1e15


@dataclass(frozen=True)
class Columns:
    """Mean and standard deviation of each column, in double precision, and whether it varies at all."""

    mean: np.ndarray
    deviation: np.ndarray
    varies: np.ndarray

    @classmethod
    def of(cls, rows: Rows) -> "Columns":
        if sp.issparse(rows):
            moments: Any = mean_variance_axis(rows, axis=0)
        else:
            with np.errstate(over="ignore"):  # said below, in words
                moments = np.mean(rows, axis=0, dtype=np.float64), np.var(rows, axis=0, dtype=np.float64)
        mean, variance = (np.asarray(moment, np.float64) for moment in moments)
        largest, smallest = dense(rows.max(axis=0)).ravel(), dense(rows.min(axis=0)).ravel()
        return cls.checked(mean, variance, largest > smallest)

    @classmethod
    def checked(cls, mean: np.ndarray, variance: np.ndarray, differs: np.ndarray) -> "Columns":
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            column = int(np.argmax(~(np.isfinite(mean) & np.isfinite(variance))))
            raise ValueError(f"the values of column {column} are too large to have a variance; rescale them")
        return cls(mean, np.sqrt(variance), differs & (variance > 0))


@dataclass(frozen=True)
class Survey:
    """What one pass over rows in files tells."""

    columns: Columns
    in_unit_interval: bool
    fingerprint: str

    @classmethod
    def of(cls, rows: Any, chosen: Collection[int]) -> "Survey":
        """Of rows in parts, all of which are looked at; the columns are those of the chosen ones."""
        n_rows, mean, squares = 0, np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        largest, smallest = np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)
        in_unit, checksum = True, 0
        for number, part in enumerate(rows.parts):
            values = rows.read(part)
            in_unit = in_unit and in_unit_interval(values)
            checksum = zlib.crc32(np.ascontiguousarray(values).data, checksum)
            if number not in chosen:
                continue
            with np.errstate(over="ignore"):  # said below, in words
                part_mean = values.mean(axis=0, dtype=np.float64)
                part_squares = np.square(values - part_mean).sum(axis=0)
                # The sums of both parts, about their common mean (Chan, Golub and LeVeque).
                total, step = n_rows + len(values), part_mean - mean
                squares += part_squares + step**2 * (n_rows * len(values) / total)
            mean += step * (len(values) / total)
            n_rows = total
            np.maximum(largest, values.max(axis=0), out=largest)
            np.minimum(smallest, values.min(axis=0), out=smallest)
        columns = Columns.checked(mean, squares / n_rows, largest > smallest)
        return cls(columns, in_unit, f"{'x'.join(map(str, rows.shape))}-parts-{checksum:08x}")


@dataclass(frozen=True)
class Scaling:
    """Location and scale of each column, in double precision: large offsets survive, unlike in float32.

    The scale of a constant column is 0: it is 0 when scaled, whatever its value, and its constant when scaled back.
    """

    location: np.ndarray
    scale: np.ndarray

    @classmethod
    def identity(cls, n_features: int) -> "Scaling":
        return cls(np.zeros(n_features), np.ones(n_features))

    @classmethod
    def standardizing(cls, columns: Columns) -> "Scaling":
        """To mean 0 and standard deviation 1."""
        return cls(columns.mean, np.where(columns.varies, columns.deviation, 0.0))

    @cached_property
    def is_identity(self) -> bool:
        return not self.location.any() and bool((self.scale == 1.0).all())

    @property
    def log_jacobian(self) -> float:
        """What turns the log-density of a scaled row into that of the row itself."""
        return -float(np.log(self.scale[self.scale > 0]).sum())

    def apply(self, rows: Rows) -> np.ndarray:
        """Scaled rows, dense and in single precision."""
        with np.errstate(over="ignore"):
            return self._scaled(rows).astype(np.float32, copy=False)

    def apply_checked(self, rows: Rows, *, first_row: int = 0) -> np.ndarray:
        """As `apply`, but refuse values that single precision cannot work with.

        Those are values very far from those that the model was fitted to; they are named by their place, for which
        ``first_row`` is the number of the first of these rows.
        """
        with np.errstate(over="ignore"):
            scaled = self._scaled(rows)
        if not self.is_identity and scaled.size and max(-scaled.min(), scaled.max()) > LARGEST:
            row, column = np.argwhere(np.abs(scaled) > LARGEST)[0]
            raise DataError(
                f"the value in row {first_row + row}, column {column} is too large beside those that the model was "
                "fitted to; correct or remove it"
            )
        return scaled.astype(np.float32, copy=False)

    def _scaled(self, rows: Rows) -> np.ndarray:
        values = dense(rows)
        if self.is_identity:
            return values
        centred = values - self.location
        return np.divide(centred, self.scale, out=np.zeros_like(centred), where=self.scale > 0)

    def undo(self, rows: np.ndarray) -> np.ndarray:
        return rows if self.is_identity else rows * self.scale + self.location


def usable_device(name: str) -> torch.device:
    """A torch device that exists here, or an error that says so."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"device={name!r} cannot be used here ({reason}); try device='cpu'") from None
    return device


def in_unit_interval(rows: Rows) -> bool:
    """Whether all entries are in [0, 1]."""
    return _kernels.in_unit_interval(rows.data if sp.issparse(rows) else np.asarray(rows))


def check_unit_interval(all_are_in: bool) -> None:
    if not all_are_in:
        raise ValueError(
            "the Bernoulli likelihood needs values in [0, 1]; scale the data, for instance with "
            "MinMaxScaler(clip=True), or fit with likelihood='gaussian'"
        )


def has_compiler(device: str) -> bool:
    """Whether torch.compile can work: for the CPU it writes C++."""
    candidates = [os.environ.get("CXX"), "g++", "clang++", "c++", "cl"]
    return not device.startswith("cpu") or any(name and shutil.which(name) for name in candidates)


def in_batches(rows: Any, size: int) -> Iterator[Rows]:
    for start in range(0, rows.shape[0], size):
        yield rows[start : start + size]


def in_parts(rows: Any, n_parts: int) -> Iterator[Rows]:
    """All rows in their order, in parts whose sizes differ by one at the most."""
    size, n_larger = divmod(rows.shape[0], n_parts)
    start = 0
    for number in range(n_parts):
        end = start + size + (number < n_larger)
        yield rows[start:end]
        start = end


def check_count(name: str, value: Any, least: int) -> None:
    if not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name}={value!r}; it is a whole number, at least {least}")
