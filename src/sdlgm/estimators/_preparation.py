"""Prepare rows for training: statistics of columns, scaling, held-out rows, batches. Pure functions of the data."""

import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.utils.sparsefuncs import mean_variance_axis

from sdlgm import _kernels
from sdlgm.data import RowFiles
from sdlgm.errors import DataError
from sdlgm.estimators._columns import Choice, describe
from sdlgm.estimators._profile import Facts, Profile, flat, in_proportion, sample_places
from sdlgm.model.likelihoods import LIKELIHOODS, ColumnStatistics
from sdlgm.train.batches import Batches, Prepare, Rows, ShuffledBatches, StreamedBatches, dense

# Rows on which a run without a validation split is watched.
WATCHED_ROWS = 500
# Rows of files that are held out at most.
MOST_HELD_OUT = 10_000

# Largest scaled value: single precision reaches 3e38, and the likelihood sums squares.
LARGEST = 1e15


@dataclass(frozen=True)
class Columns:
    """Mean and standard deviation of each column, in double precision, and whether it varies at all.

    Missing values are left out.
    """

    mean: np.ndarray
    deviation: np.ndarray
    varies: np.ndarray
    share_missing: np.ndarray

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
        share_missing = np.zeros_like(mean)
        largest, smallest = (flat(rows.max(axis=0)), flat(rows.min(axis=0)))
        incomplete = np.flatnonzero(np.isnan(largest))
        if incomplete.size:
            few = cast(np.ndarray, rows)[:, incomplete]
            n_known, mean[incomplete], squares = _moments_of_known(few, weights)
            variance[incomplete] = squares / np.where(n_known > 0, n_known, 1)
            share_missing[incomplete] = 1 - n_known / (len(few) if weights is None else weights.sum())
            largest[incomplete], smallest[incomplete] = np.fmax.reduce(few, axis=0), np.fmin.reduce(few, axis=0)
        return cls.checked(mean, variance, largest > smallest, share_missing)

    @classmethod
    def checked(
        cls, mean: np.ndarray, variance: np.ndarray, differs: np.ndarray, share_missing: np.ndarray
    ) -> "Columns":
        """Raise if a moment is not finite."""
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            column = int(np.argmax(~(np.isfinite(mean) & np.isfinite(variance))))
            raise ValueError(f"the values of column {column} are too large to have a variance; rescale them")
        return cls(mean, np.sqrt(variance), differs & (variance > 0), share_missing)


def _moments_of_known(
    values: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the number, the mean and the sum of squares about it of the values that are not missing.

    With weights, these are sums of weights, weighted means and weighted sums.
    """
    known = ~np.isnan(values)
    if weights is not None:
        shares = np.where(known, weights[:, None], 0.0)
        total = shares.sum(axis=0)
        filled = np.where(known, values, 0.0)
        mean = (shares * filled).sum(axis=0) / np.where(total > 0, total, 1)
        return total, mean, (shares * np.square(filled - mean)).sum(axis=0)
    n_known = known.sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # `Columns.checked` raises
        mean = np.sum(values, axis=0, where=known, dtype=np.float64) / np.maximum(n_known, 1)
        squares = np.sum(np.square(values - mean), axis=0, where=known)
    return n_known, mean, squares


@dataclass(frozen=True)
class Survey:
    """The result of one pass over rows in files."""

    columns: Columns
    profile: Profile
    fingerprint: str

    @classmethod
    def of(cls, rows: RowFiles, chosen: Collection[int]) -> "Survey":
        """Read all parts; the moments of the columns and the sample of rows are those of the chosen ones."""
        n_columns = rows.shape[1]
        n_known, mean, squares = np.zeros(n_columns, np.int64), np.zeros(n_columns), np.zeros(n_columns)
        largest, smallest = np.full(n_columns, -np.inf), np.full(n_columns, np.inf)
        n_chosen = sum(part.n_rows for number, part in enumerate(rows.parts) if number in chosen)
        places, sampled, n_read = sample_places(n_chosen, n_columns), [], 0
        facts, checksum = Facts(n_columns), 0
        for number, part in enumerate(rows.parts):
            values = rows.read(part)
            facts.add(values)
            checksum = zlib.crc32(np.ascontiguousarray(values).data, checksum)
            if number not in chosen:
                continue
            first, end = np.searchsorted(places, [n_read, n_read + len(values)])
            sampled.append(values[places[first:end] - n_read])  # a copy
            n_read += len(values)
            n_part, part_mean, part_squares = _moments_of_part(values)
            # The sums of both parts, about their common mean (Chan, Golub and LeVeque).
            total, step = np.maximum(n_known + n_part, 1), part_mean - mean
            squares += part_squares + step**2 * (n_known * n_part / total)
            mean += step * (n_part / total)
            n_known += n_part
            np.fmax(largest, np.fmax.reduce(values, axis=0), out=largest)
            np.fmin(smallest, np.fmin.reduce(values, axis=0), out=smallest)
        share_missing = 1 - n_known / n_chosen
        columns = Columns.checked(mean, squares / np.maximum(n_known, 1), largest > smallest, share_missing)
        profile = facts.profile(np.concatenate(sampled))
        return cls(columns, profile, f"{'x'.join(map(str, rows.shape))}-parts-{checksum:08x}")


def _moments_of_part(values: np.ndarray) -> tuple[np.ndarray | int, np.ndarray, np.ndarray]:
    """Return the number, the mean and the sum of squares about it of the values of each column."""
    with np.errstate(over="ignore"):  # `Columns.checked` raises
        mean = values.mean(axis=0, dtype=np.float64)
        if np.isnan(mean).any():
            return _moments_of_known(values)
        return len(values), mean, np.square(values - mean).sum(axis=0)


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

    @classmethod
    def of(cls, choice: Choice, columns: Columns, profile: Profile) -> "Scaling":
        """Return the scaling that the likelihoods of the columns need."""
        kinds = [LIKELIHOODS[name] for name in choice.likelihoods]
        is_standardized = np.array([kind.standardized for kind in kinds])
        location = np.where(is_standardized, columns.mean, 0.0)
        scale = np.where(is_standardized, np.where(columns.varies, columns.deviation, 0.0), 1.0)
        common = [column for column in choice.common if scale[column] > 0]
        if common:
            scale[common] = np.sqrt(np.mean(columns.deviation[common] ** 2))
        robust = np.array([kind.robust and varies for kind, varies in zip(kinds, columns.varies, strict=True)])
        if robust.any():
            location[robust], scale[robust] = _quartile_scale(profile.sample[:, robust], columns, robust)
        return cls(location, scale)

    @cached_property
    def is_identity(self) -> bool:
        return not self.location.any() and bool((self.scale == 1.0).all())

    @property
    def log_jacobian(self) -> float:
        """The term that turns the log-density of a scaled row, if it is complete, into that of the row itself."""
        return -float(np.log(self.scale[self.scale > 0]).sum())

    @property
    def column_log_jacobians(self) -> np.ndarray:
        """The part of each column in that term; 0 for a constant column, which has no density."""
        return -np.log(np.where(self.scale > 0, self.scale, 1.0))

    def log_jacobians(self, share_missing: np.ndarray) -> np.ndarray:
        """Return the term of each row, to which missing values add nothing.

        Parameters
        ----------
        share_missing : ndarray of shape (..., D)
            1 where a value is missing, otherwise 0; or for several rows together, the share of missing values in each
            column, which gives the mean term.

        Returns
        -------
        terms : ndarray of shape (...)

        """
        return self.log_jacobian - share_missing @ self.column_log_jacobians

    def apply(self, rows: Rows) -> np.ndarray:
        """Return scaled rows, dense and in single precision."""
        with np.errstate(over="ignore"):
            return self._scaled(rows).astype(np.float32, copy=False)

    def apply_checked(self, rows: Rows, *, first_row: int = 0, names: Sequence[str] | None = None) -> np.ndarray:
        """Do the same as `apply`, but raise for values that are too large for single precision.

        Such values are very far from the training data. The message names their place, where ``first_row`` is the
        number of the first of these rows.
        """
        with np.errstate(over="ignore"):
            scaled = self._scaled(rows)
        if not self.is_identity and scaled.size and _largest(scaled) > LARGEST:
            row, column = np.argwhere(np.abs(scaled) > LARGEST)[0]
            raise DataError(
                f"the value in row {first_row + row}, {describe(int(column), names)} is too large compared with the "
                "training data; correct or remove it"
            )
        return scaled.astype(np.float32, copy=False)

    def _scaled(self, rows: Rows) -> np.ndarray:
        values = dense(rows)
        if self.is_identity:
            return values
        centred = values - self.location
        scaled = np.divide(centred, self.scale, out=np.zeros_like(centred), where=self.scale > 0)
        if not self.scale.all():  # what is missing stays missing
            scaled[np.isnan(centred)] = np.nan
        return scaled

    def undo(self, rows: np.ndarray) -> np.ndarray:
        """Return rows in the units of the data."""
        with np.errstate(over="ignore"):  # answers are checked
            return rows if self.is_identity else rows * self.scale + self.location


def _largest(values: np.ndarray) -> float:
    """Return the largest absolute value that is not missing."""
    return max(-np.fmin.reduce(values, axis=None), np.fmax.reduce(values, axis=None))


def _quartile_scale(sample: np.ndarray, columns: Columns, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return medians, and distances of quantiles in units of a standard normal distribution.

    They do not depend on how far the tails reach. Where more than half of the values are equal, outer quantiles are
    taken, and then the standard deviation.
    """
    known = ~np.isnan(sample).all(axis=0)
    quantiles = np.zeros((5, sample.shape[1]))
    quantiles[:, known] = np.nanquantile(sample[:, known], (0.05, 0.25, 0.5, 0.75, 0.95), axis=0)
    inner, outer = (quantiles[3] - quantiles[1]) / 1.349, (quantiles[4] - quantiles[0]) / 3.290
    scale = np.where(inner > 0, inner, np.where(outer > 0, outer, columns.deviation[chosen]))
    return np.where(known, quantiles[2], columns.mean[chosen]), scale


def missing_shares(rows: Rows) -> np.ndarray:
    """Return the share of missing values in each column."""
    return np.zeros(rows.shape[1]) if sp.issparse(rows) else np.isnan(cast(np.ndarray, rows)).mean(axis=0)


def in_unit_interval(rows: Rows) -> bool:
    """Return whether all entries are in [0, 1] and none is missing."""
    return _kernels.in_unit_interval(rows.data if sp.issparse(rows) else np.asarray(rows))


def check_unit_interval(all_are_in: bool) -> None:
    """Raise if the Bernoulli likelihood cannot have the values."""
    if not all_are_in:
        raise ValueError(
            "the Bernoulli likelihood needs values in [0, 1]; scale the data, for instance with "
            "MinMaxScaler(clip=True), or fit with likelihood='gaussian'"
        )


def statistics_of(
    choice: Choice, columns: Columns, profile: Profile, scaling: Scaling, deviation: float | None = None
) -> ColumnStatistics:
    """Return what the module starts from, of prepared rows. The centre of what is standardised is 0.

    ``deviation`` is that of Gaussian columns given the code, in units of the data, if it is fixed.
    """
    kinds = [LIKELIHOODS[name] for name in choice.likelihoods]
    mean = np.where([kind.standardized for kind in kinds], 0.0, columns.mean)
    log_mean, log_deviation = np.zeros_like(mean), np.ones_like(mean)
    for column in np.flatnonzero([kind.view == "log" for kind in kinds]):
        values = profile.sample[:, column]
        logs = np.log1p(values[~np.isnan(values)], dtype=np.float64)
        if len(logs):
            log_mean[column], log_deviation[column] = logs.mean(), logs.std()
    scale = np.where(scaling.scale > 0, scaling.scale, 1.0)
    variance_of_prepared = (columns.deviation / scale) ** 2
    categories = [column for column, name in enumerate(choice.likelihoods) if name == "categorical"]
    shares = [
        _shares(profile.sample[:, column], n_levels)
        for column, n_levels in zip(categories, choice.n_levels, strict=True)
    ]
    mean, variance, log_mean, log_deviation, share_missing = (
        torch.tensor(values, dtype=torch.float32)
        for values in (mean, variance_of_prepared, log_mean, log_deviation, columns.share_missing)
    )
    return ColumnStatistics(
        mean=mean,
        varies=torch.tensor(columns.varies),
        variance=variance,
        log_mean=log_mean,
        log_deviation=log_deviation,
        share_missing=share_missing,
        frequencies=tuple(torch.tensor(share, dtype=torch.float32) for share in shares),
        deviation=None if deviation is None else torch.tensor(deviation / scale, dtype=torch.float32),
    )


def _shares(levels: np.ndarray, n_levels: int) -> np.ndarray:
    """Return the share of each level, as with half a row more of each."""
    counts = np.bincount(levels[~np.isnan(levels)].astype(np.int64), minlength=n_levels) + 0.5
    return counts / counts.sum()


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
    profile: Profile
    trained: Rows
    """Rows to train on that the watched ones are compared with: the same if none are held out."""
    chosen: Sequence[int] = ()
    """The parts of files to train on."""
    fingerprint: str = ""
    """Checksum of rows in files."""
    weights: np.ndarray | None = None
    """Weights of the rows in memory to train on, 1 on average; None for equal ones."""

    @property
    def held_out(self) -> bool:
        """Whether the watched rows are held out."""
        return self.trained is not self.watched

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
    if validation_fraction is None:
        order = np.random.default_rng(seed).permutation(rows.shape[0])
        watched = rows[order[:WATCHED_ROWS]]
        return TrainingData(rows, watched, Columns.of(rows), Profile.of(rows), watched)
    from sklearn.model_selection import train_test_split  # slow to import

    split = cast(list[Rows], train_test_split(rows, test_size=validation_fraction, random_state=seed))
    rows, watched = split
    if rows.shape[0] < 2:
        raise ValueError("early_stopping=True leaves fewer than 2 rows to train on; give more rows")
    trained = cast(Rows, rows[:WATCHED_ROWS])  # the split has shuffled them
    return TrainingData(rows, watched, Columns.of(rows), Profile.of(rows, watched), trained)


def _prepare_weighted(rows: Rows, weights: np.ndarray, validation_fraction: float | None, seed: int) -> TrainingData:
    rng, places = np.random.default_rng(seed), np.arange(rows.shape[0])
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
    trained = watched_rows = cast(Rows, rows[chosen])
    if validation_fraction is not None:
        order = rng.permutation(len(places))
        trained = cast(Rows, rows[places[order[in_proportion(own[order], min(WATCHED_ROWS, len(order)), rng)]]])
        rows = cast(Rows, rows[places])
    profile = Profile.of(rows, watched_rows, weights=own)
    return TrainingData(rows, watched_rows, Columns.of(rows, own), profile, trained, weights=own)


def _prepare_files(rows: RowFiles, validation_fraction: float | None, seed: int) -> TrainingData:
    """Prepare rows that need not fit into memory, in one pass over them."""
    rng = np.random.default_rng(seed)
    watched, chosen = None, list(range(len(rows.parts)))
    if validation_fraction is not None:
        watched, chosen = _hold_out(rows, validation_fraction, rng)
    survey = Survey.of(rows, chosen)
    sample = survey.profile.sample
    if watched is not None:
        trained = sample[np.linspace(0, len(sample) - 1, min(WATCHED_ROWS, len(sample)), dtype=np.intp)]
    else:
        places = np.sort(rng.choice(len(rows), min(WATCHED_ROWS, len(rows)), replace=False))
        # Copies: a row that is a view would keep all rows of its part.
        trained = watched = np.concatenate([rows[place : place + 1].copy() for place in places.tolist()])
    return TrainingData(rows, watched, survey.columns, survey.profile, trained, chosen, survey.fingerprint)


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
