"""Prepare rows for training: statistics of columns, scaling, held-out rows, batches. Pure functions of the data."""

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import mean_variance_axis

from sdlgm import _kernels
from sdlgm.data import RowFiles
from sdlgm.errors import DataError
from sdlgm.train.batches import Batches, Prepare, Rows, ShuffledBatches, StreamedBatches, dense

# Rows on which a run without a validation split is watched.
WATCHED_ROWS = 500
# Rows of files that are held out at most.
MOST_HELD_OUT = 10_000

# Largest scaled value: single precision reaches 3e38, and the likelihood sums squares.
LARGEST = 1e15


@dataclass(frozen=True)
class Columns:
    """Mean and standard deviation of each column, in double precision, and whether it varies at all."""

    mean: np.ndarray
    deviation: np.ndarray
    varies: np.ndarray

    @classmethod
    def of(cls, rows: Rows, weights: np.ndarray | None = None) -> "Columns":
        """Return the statistics of rows in memory, with positive weights if they are not equal."""
        if sp.issparse(rows):
            moments = cast(tuple[np.ndarray, np.ndarray], mean_variance_axis(rows, axis=0, weights=weights))
        elif weights is not None:
            with np.errstate(over="ignore"):
                mean = np.average(cast(np.ndarray, rows), axis=0, weights=weights)
                moments = mean, np.average(np.square(cast(np.ndarray, rows) - mean), axis=0, weights=weights)
        else:
            with np.errstate(over="ignore"):  # `checked` raises
                moments = np.mean(rows, axis=0, dtype=np.float64), np.var(rows, axis=0, dtype=np.float64)
        mean, variance = (np.asarray(moment, np.float64) for moment in moments)
        largest, smallest = (_flat(rows.max(axis=0)), _flat(rows.min(axis=0)))
        return cls.checked(mean, variance, largest > smallest)

    @classmethod
    def checked(cls, mean: np.ndarray, variance: np.ndarray, differs: np.ndarray) -> "Columns":
        """Raise if a moment is not finite."""
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            column = int(np.argmax(~(np.isfinite(mean) & np.isfinite(variance))))
            raise ValueError(f"the values of column {column} are too large to have a variance; rescale them")
        return cls(mean, np.sqrt(variance), differs & (variance > 0))


@dataclass(frozen=True)
class Survey:
    """The result of one pass over rows in files."""

    columns: Columns
    in_unit_interval: bool
    fingerprint: str

    @classmethod
    def of(cls, rows: RowFiles, chosen: Collection[int]) -> "Survey":
        """Read all parts; the statistics of the columns are those of the chosen ones."""
        n_rows, mean, squares = 0, np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
        largest, smallest = np.full(rows.shape[1], -np.inf), np.full(rows.shape[1], np.inf)
        in_unit, checksum = True, 0
        for number, part in enumerate(rows.parts):
            values = rows.read(part)
            in_unit = in_unit and in_unit_interval(values)
            checksum = zlib.crc32(np.ascontiguousarray(values).data, checksum)
            if number not in chosen:
                continue
            with np.errstate(over="ignore"):  # `Columns.checked` raises
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
        """Return the scaling to mean 0 and standard deviation 1."""
        return cls(columns.mean, np.where(columns.varies, columns.deviation, 0.0))

    @cached_property
    def is_identity(self) -> bool:
        return not self.location.any() and bool((self.scale == 1.0).all())

    @property
    def log_jacobian(self) -> float:
        """The term that turns the log-density of a scaled row into that of the row itself."""
        return float(self.log_jacobians.sum())

    @property
    def log_jacobians(self) -> np.ndarray:
        """The part of each column in that term; 0 for a constant column, which has no density."""
        varies = self.scale > 0
        return -np.log(self.scale, out=np.zeros_like(self.scale), where=varies)

    def apply(self, rows: Rows) -> np.ndarray:
        """Return scaled rows, dense and in single precision."""
        with np.errstate(over="ignore"):
            return self._scaled(rows).astype(np.float32, copy=False)

    def apply_checked(self, rows: Rows, *, first_row: int = 0) -> np.ndarray:
        """Do the same as `apply`, but raise for values that are too large for single precision.

        Such values are very far from the training data. The message names their place, where ``first_row`` is the
        number of the first of these rows.
        """
        with np.errstate(over="ignore"):
            scaled = self._scaled(rows)
        if not self.is_identity and scaled.size and max(-scaled.min(), scaled.max()) > LARGEST:
            row, column = np.argwhere(np.abs(scaled) > LARGEST)[0]
            raise DataError(
                f"the value in row {first_row + row}, column {column} is too large compared with the training data; "
                "correct or remove it"
            )
        return scaled.astype(np.float32, copy=False)

    def _scaled(self, rows: Rows) -> np.ndarray:
        values = dense(rows)
        if self.is_identity:
            return values
        centred = values - self.location
        return np.divide(centred, self.scale, out=np.zeros_like(centred), where=self.scale > 0)

    def undo(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the units of the data."""
        with np.errstate(over="ignore"):  # answers are checked
            return rows if self.is_identity else rows * self.scale + self.location


def _flat(values: Any) -> np.ndarray:
    """Return a row, dense or sparse, as a vector."""
    return np.ravel(values.toarray() if hasattr(values, "toarray") else values)


def in_unit_interval(rows: Rows) -> bool:
    """Return whether all entries are in [0, 1]."""
    return _kernels.in_unit_interval(rows.data if sp.issparse(rows) else np.asarray(rows))


def check_unit_interval(all_are_in: bool) -> None:
    """Raise if the Bernoulli likelihood cannot have the values."""
    if not all_are_in:
        raise ValueError(
            "the Bernoulli likelihood needs values in [0, 1]; scale the data, for instance with "
            "MinMaxScaler(clip=True), or fit with likelihood='gaussian'"
        )


def in_batches(rows: Rows | RowFiles, size: int) -> Iterator[Rows]:
    """Iterate over the rows, ``size`` at a time."""
    for start in range(0, rows.shape[0], size):
        yield rows[start : start + size]


def in_parts(rows: Rows | RowFiles, n_parts: int) -> Iterator[Rows]:
    """Iterate over all rows in their order, in parts whose sizes differ by at most one."""
    size, n_larger = divmod(rows.shape[0], n_parts)
    start = 0
    for number in range(n_parts):
        end = start + size + (number < n_larger)
        yield rows[start:end]
        start = end


@dataclass(frozen=True)
class TrainingData:
    """Rows to train on, rows to watch, and the statistics of the columns."""

    rows: Rows | RowFiles
    watched: Rows
    columns: Columns
    in_unit_interval: bool
    """Whether all values are in [0, 1]."""
    chosen: Sequence[int] = ()
    """The parts of files to train on."""
    fingerprint: str = ""
    """Checksum of rows in files."""
    weights: np.ndarray | None = None
    """Weights of the rows in memory to train on, 1 on average; None for equal ones."""

    @property
    def n_rows(self) -> int:
        """Number of rows to train on."""
        if isinstance(self.rows, RowFiles):
            return sum(self.rows.parts[number].n_rows for number in self.chosen)
        return self.rows.shape[0]

    def batches(self, batch_size: int, seed: int, prepare: Prepare) -> Batches:
        """Return the batches of a run."""
        if isinstance(self.rows, RowFiles):
            return StreamedBatches(self.rows, self.chosen, batch_size, seed, self.fingerprint, prepare)
        return ShuffledBatches(self.rows, batch_size, seed, prepare, weights=self.weights)


def prepare_training(
    rows: Rows | RowFiles, validation_fraction: float | None, seed: int, weights: np.ndarray | None = None
) -> TrainingData:
    """Hold rows out, or choose training rows to watch, and compute the statistics of the rest.

    Parameters
    ----------
    rows : array, CSR matrix or RowFiles
    validation_fraction : float or None
        Share of the rows to hold out; None holds none out.
    seed : int
    weights : ndarray or None, default=None
        Positive weights of rows in memory. Watched rows are chosen in proportion to them, so that the curves are
        weighted means.

    """
    if weights is not None and not isinstance(rows, RowFiles):
        return _prepare_weighted(rows, weights, validation_fraction, seed)
    if isinstance(rows, RowFiles):
        return _prepare_files(rows, validation_fraction, seed)
    is_unit = in_unit_interval(rows)
    if validation_fraction is None:
        order = np.random.default_rng(seed).permutation(rows.shape[0])
        return TrainingData(rows, rows[order[:WATCHED_ROWS]], Columns.of(rows), is_unit)
    from sklearn.model_selection import train_test_split  # slow to import

    split = cast(list[Rows], train_test_split(rows, test_size=validation_fraction, random_state=seed))
    rows, watched = split
    if rows.shape[0] < 2:
        raise ValueError("early_stopping=True leaves fewer than 2 rows to train on; give more rows")
    return TrainingData(rows, watched, Columns.of(rows), is_unit)


def _prepare_weighted(rows: Rows, weights: np.ndarray, validation_fraction: float | None, seed: int) -> TrainingData:
    rng, is_unit, places = np.random.default_rng(seed), in_unit_interval(rows), np.arange(rows.shape[0])
    watched = places
    if validation_fraction is not None:
        from sklearn.model_selection import train_test_split  # slow to import

        places, watched = train_test_split(places, test_size=validation_fraction, random_state=seed)
        if len(places) < 2:
            raise ValueError("early_stopping=True leaves fewer than 2 rows to train on; give more rows")
    n_watched = len(watched) if validation_fraction is not None else min(WATCHED_ROWS, len(watched))
    watched = rng.permutation(watched)
    chosen = watched[in_proportion(weights[watched], n_watched, rng)]
    own = weights[places] / weights[places].mean()
    if validation_fraction is not None:
        rows, all_rows = cast(Rows, rows[places]), rows
    else:
        all_rows = rows
    return TrainingData(rows, cast(Rows, all_rows[chosen]), Columns.of(rows, own), is_unit, weights=own)


def in_proportion(weights: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Choose n places in proportion to weights, each as often as its expectation rounded up or down."""
    cumulative = np.cumsum(weights)
    points = (rng.random() + np.arange(n)) * (cumulative[-1] / n)
    return np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1)


def _prepare_files(rows: RowFiles, validation_fraction: float | None, seed: int) -> TrainingData:
    """Prepare rows that need not fit into memory, in one pass over them."""
    rng = np.random.default_rng(seed)
    watched, chosen = None, list(range(len(rows.parts)))
    if validation_fraction is not None:
        watched, chosen = _hold_out(rows, validation_fraction, rng)
    survey = Survey.of(rows, chosen)
    if watched is None:
        places = np.sort(rng.choice(len(rows), min(WATCHED_ROWS, len(rows)), replace=False))
        # Copies: a row that is a view would keep all rows of its part.
        watched = np.concatenate([rows[place : place + 1].copy() for place in places.tolist()])
    return TrainingData(rows, watched, survey.columns, survey.in_unit_interval, chosen, survey.fingerprint)


def _hold_out(rows: RowFiles, fraction: float, rng: np.random.Generator) -> tuple[np.ndarray, list[int]]:
    """Return rows of whole parts to watch, no more than fit into memory, and the parts to train on.

    As many parts are held out as come near to the fraction, and at least the smallest.
    """
    sizes = [part.n_rows for part in rows.parts]
    wanted, most = fraction * len(rows), len(rows) - 2
    held_out: list[int] = []
    n_rows = 0
    for number in rng.permutation(len(sizes)).tolist():
        n_more = n_rows + sizes[number]
        if abs(n_more - wanted) < abs(n_rows - wanted) and n_more <= most:
            held_out.append(number)
            n_rows = n_more
    if not held_out and len(sizes) > 1 and min(sizes) <= most:
        held_out = [int(np.argmin(sizes))]
    if not held_out:
        raise ValueError(
            "early_stopping=True holds out whole row groups, and there are too few; write the rows in several"
        )
    kept = sorted(set(range(len(sizes))) - set(held_out))
    size = -(-MOST_HELD_OUT // len(held_out))
    watched = np.concatenate([rows.read(rows.parts[number])[:size].copy() for number in held_out])
    return watched, kept
