"""Choose the likelihood of each column: by name, by what the user says of some columns, or by what their values are."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdlgm.errors import DataError
from sdlgm.estimators import _marginals
from sdlgm.estimators._profile import Profile
from sdlgm.model.likelihoods import LIKELIHOODS, Layout

ColumnKind = Literal["number", "category", "boolean"]
"""Kind of a column, as the source of the rows knows it."""

# In nats a value, held out: a Student t has to be better by this than a normal distribution, and a normal distribution
# rounded to whole numbers by this than one of counts. Tails as heavy as those of a Laplace distribution count.
HEAVY_TAIL, NOT_A_COUNT = 0.05, 0.02
# In nats, over all values of the column, each held out once: less than this may be chance where rows are few.
DECISIVE = 10.0
# In nats, over all held-out values of all columns, for each root of the number of columns: by so much a negative
# binomial has to be better than a Poisson distribution.
OVERDISPERSED = 3.0
# A mixture of Poisson distributions has at least the variance of its mean. Less than this share of it is no count, nor
# what is by so many standard errors too little.
LEAST_DISPERSION, DISPERSION_ERRORS = 0.8, 3.0
# From this mean on, a Poisson distribution has no zeros, and counts hardly differ from measured values, unless there
# are so many zeros, and so many times the share that a uniform distribution has.
LARGE_MEAN, FREQUENT_ZEROS = 10.0, 3
# Values above 0 that are all multiples of a step, by so many no coincidence.
LEAST_MULTIPLES = 20
# Columns with fewer different values have no tails.
LEAST_FOR_TAILS = 5
# Values that both halves of the sample need: to judge shape and tails, and the dispersion of counts.
LEAST_VALUES, LEAST_VALUES_OF_COUNTS = 20, 10
# Columns on one common scale: so many at least, with so many different values at most, more than these few of them.
COMMON_COLUMNS, COMMON_VALUES, FEW_VALUES = 16, 257, 5
# Share of the columns that nearly reach the end of the scale, and values there, relative to those a tenth below.
COMMON_REACH, COMMON_SATURATION = 0.5, 0.3
# Columns that have the largest value of eight bits; that of counts is hardly ever this very number in two of them.
LEAST_SATURATED = 2
# Columns of zeros and ones are rare counts if these many columns of counts, and this share of all, are beside them.
COUNT_COLUMNS, COUNT_SHARE = 8, 0.25
# Largest number of levels of a category that is given as numbers.
MOST_LEVELS = 10_000


@dataclass(frozen=True)
class Choice:
    """The likelihood of each column."""

    likelihoods: tuple[str, ...]
    n_levels: tuple[int, ...] = ()
    """Number of levels of each categorical column, in their order."""
    common: tuple[int, ...] = ()
    """Columns that share one scale, like pixels, and are standardised by one deviation."""

    def layout(self, with_missing: tuple[int, ...]) -> Layout | None:
        """Return what the module needs to know; None if one likelihood without missing values or levels says it all."""
        layout = Layout(self.likelihoods, self.n_levels, with_missing)
        kinds = [LIKELIHOODS[name] for name in layout.groups]
        is_plain = len(kinds) == 1 and kinds[0].view == "plain" and not with_missing
        return None if is_plain else layout


def choose(
    likelihood: str | Mapping[Any, str],
    profile: Profile,
    *,
    kinds: Sequence[ColumnKind] | None = None,
    n_levels: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Choice:
    """Return the likelihood of each column.

    Parameters
    ----------
    likelihood : str or mapping
        "auto", the name of a likelihood for all columns, or a mapping from names or indices of columns to names of
        likelihoods; columns that are not in it are "auto".
    profile : Profile
        The values of the columns.
    kinds : sequence of {"number", "category", "boolean"} or None, default=None
        What is known of each column. Categories are categorical and booleans are Bernoulli under "auto".
    n_levels : sequence of int or None, default=None
        Number of levels of each column, 0 for those that are no categories. By default the levels are the values.
    names : sequence of str or None, default=None
        Names of the columns.

    Returns
    -------
    choice : Choice

    Raises
    ------
    DataError
        If the values of a column do not fit the likelihood that was named for it.

    """
    n_columns = len(profile.smallest)
    if np.isnan(profile.smallest).all():
        raise ValueError("every value of X is NaN, which is a missing value; there is nothing to learn from")
    wanted = given(likelihood, n_columns, names)
    if kinds is not None:
        of_kind = {"category": "categorical", "boolean": "bernoulli"}
        for column, kind in enumerate(kinds):
            # One name for all is meant for the numbers.
            if kind in of_kind and (isinstance(likelihood, str) or wanted[column] == "auto"):
                wanted[column] = of_kind[kind]
            elif kind == "category" and wanted[column] != "categorical":
                name = column if names is None else names[column]
                raise ValueError(
                    f"column {name!r} holds categories, and likelihood names {wanted[column]!r} for it; leave the "
                    "column out of the mapping, or encode it as numbers"
                )
    free = np.array([name == "auto" for name in wanted])
    found, common = _by_values(profile, free) if free.any() else ({}, ())
    found |= _over_time(found, profile, names)
    chosen = [found.get(column, name) for column, name in enumerate(wanted)]
    levels = {
        column: _n_levels(profile, column, 0 if n_levels is None else int(n_levels[column]), names)
        for column, name in enumerate(chosen)
        if name == "categorical"
    }
    choice = Choice(tuple(chosen), tuple(levels.values()), common)
    check_supports(choice.likelihoods, profile, names)
    return choice


def describe(column: int, names: Sequence[str] | None) -> str:
    """Return a column as messages name it."""
    return f"column {column}" if names is None else f"column {str(names[column])!r}"


def check_supports(likelihoods: Sequence[str], profile: Profile, names: Sequence[str] | None) -> None:
    """Raise if a column has values that its likelihood cannot have."""
    mixed = len(set(likelihoods)) > 1
    for column, name in enumerate(likelihoods):
        support = LIKELIHOODS[name].support
        least, largest = profile.smallest[column], profile.largest[column]
        if support == "real" or np.isnan(least):
            continue
        where = f"likelihood={name!r} of {describe(column, names)}"
        if support == "unit":
            if least < 0 or largest > 1:
                if not mixed:
                    return  # `check_unit_interval` has the message
                raise DataError(f"{where} needs zeros and ones, and there is {_example(least, largest)}")
            if mixed and not profile.whole[column]:
                raise DataError(
                    f"{where} needs zeros and ones beside columns of other kinds, and there are values between; "
                    "use 'gaussian', or likelihood='bernoulli' for all columns"
                )
        elif not profile.whole[column]:
            raise DataError(f"{where} needs whole numbers, and there are others; use 'gaussian' or 'student_t'")
        elif least < 0:
            raise DataError(f"{where} needs whole numbers from 0 on, and there is {least:g}")


def _example(least: float, largest: float) -> str:
    return f"{least:g}" if least < 0 else f"{largest:g}"


def given(likelihood: str | Mapping[Any, str], n_columns: int, names: Sequence[str] | None) -> list[str]:
    """Return the name that was set for each column, "auto" where there is none."""
    if isinstance(likelihood, str):
        return [likelihood] * n_columns
    found = ["auto"] * n_columns
    places = {} if names is None else {str(name): column for column, name in enumerate(names)}
    for key, name in likelihood.items():
        lags = [column for known, column in places.items() if known.startswith((f"{key}[t-", f"{key}[t]"))]
        if lags and str(key) not in places:  # a column of a series stands for its values at all times of a window
            for column in lags:
                found[column] = str(name)
            continue
        column = places.get(str(key), key)
        if isinstance(column, str) and column.isdecimal():  # from the command line or a file
            column = int(column)
        if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < n_columns:
            known = f"columns 0 to {n_columns - 1}" if names is None else ", ".join(map(repr, list(places)[:10]))
            raise ValueError(f"likelihood names the column {key!r}, which X does not have; it has {known}")
        found[int(column)] = str(name)
    return found


def _n_levels(profile: Profile, column: int, known: int, names: Sequence[str] | None) -> int:
    """Return the number of levels of a categorical column."""
    largest = profile.largest[column]
    least = 1 if np.isnan(largest) else int(largest) + 1
    if known and least > known:
        raise DataError(f"{describe(column, names)} has the level {least - 1}, and its levels are 0 to {known - 1}")
    if not known and least > MOST_LEVELS:
        raise DataError(
            f"likelihood='categorical' of {describe(column, names)} needs levels from 0 on, and there is {largest:g}; "
            "number the levels, for instance with OrdinalEncoder, or use another likelihood"
        )
    return known or least


@dataclass(frozen=True)
class Supports:
    """Columns of a fitted model that cannot have all values."""

    binary: np.ndarray
    counts: np.ndarray
    categories: np.ndarray
    n_levels: np.ndarray

    @classmethod
    def of(cls, layout: Layout | None) -> "Supports":
        """Return the columns of a layout. Values of a Bernoulli likelihood of all columns are checked elsewhere."""
        found: dict[str, list[int]] = {"unit": [], "counts": [], "levels": []}
        if layout is not None:
            for name, columns in layout.groups.items():
                if LIKELIHOODS[name].support in found and layout.likelihoods != ("bernoulli",) * len(columns):
                    found[LIKELIHOODS[name].support] += columns
        levels = () if layout is None else layout.n_levels
        binary, counts, categories = (np.array(sorted(columns), np.int64) for columns in found.values())
        return cls(binary, counts, categories, np.array(levels, np.int64))

    def check(self, rows: np.ndarray, first_row: int = 0, names: Sequence[str] | None = None) -> None:
        """Raise if a value is none that its column can have. The message names its place."""

        def refuse(wrong: np.ndarray, values: np.ndarray, columns: np.ndarray, needed: str) -> None:
            if wrong.any():
                row, place = np.argwhere(wrong)[0]
                raise DataError(
                    f"the value {values[row, place]:g} in row {first_row + row}, "
                    f"{describe(int(columns[place]), names)}; it has to be {needed}"
                )

        if self.binary.size:
            values = rows[:, self.binary]
            refuse(~((values == 0) | (values == 1) | np.isnan(values)), values, self.binary, "0 or 1")
        if self.counts.size:
            values = rows[:, self.counts]
            with np.errstate(invalid="ignore"):
                wrong = (values < 0) | ((np.floor(values) != values) & ~np.isnan(values))
            refuse(wrong, values, self.counts, "a whole number from 0 on")
        if self.categories.size:
            values = rows[:, self.categories]
            with np.errstate(invalid="ignore"):
                wrong = (values < 0) | (values >= self.n_levels) | ((np.floor(values) != values) & ~np.isnan(values))
            refuse(wrong, values, self.categories, "a level that was there in the training, or NaN")


# By the values


def _by_values(profile: Profile, free: np.ndarray) -> tuple[dict[int, str], tuple[int, ...]]:
    """Return the likelihood of each free column, and the columns on one common scale."""
    with np.errstate(invalid="ignore"):  # columns without any value
        varied = free & (profile.largest > profile.smallest)
        from_zero = varied & profile.whole & (profile.smallest == 0)
    if on_common_scale(profile, varied):
        return dict.fromkeys(np.flatnonzero(free).tolist(), "gaussian"), tuple(np.flatnonzero(varied).tolist())
    halves = _marginals.halves(profile.sample)
    binary = from_zero & (profile.largest == 1)
    counts = from_zero & ~binary
    counts &= ~_unlike_counts(counts, halves, profile)
    counts |= _rare_counts(profile, binary, counts, varied)
    binary &= ~counts
    numbers = varied & ~binary & ~counts
    heavy = _heavy_tailed(numbers, halves)
    names: dict[int, str] = {}
    family = _count_family(counts, halves)
    for mask, name in ((binary, "bernoulli"), (counts, family), (numbers & ~heavy, "gaussian"), (heavy, "student_t")):
        names |= dict.fromkeys(np.flatnonzero(mask).tolist(), name)
    frequent = [name for name, _ in Counter(names.values()).most_common()]
    constant = {int(column): _for_constant(profile, int(column), frequent) for column in np.flatnonzero(free & ~varied)}
    return names | constant, ()


def _over_time(found: Mapping[int, str], profile: Profile, names: Sequence[str] | None) -> dict[int, str]:
    """Return one likelihood for all columns of a window that are one column of the series, at several times.

    It is the most frequent one that can have all values of these columns.
    """
    groups: dict[str, list[int]] = {}
    if names is None:
        return {}
    for column in found:
        lag = re.fullmatch(r"(.+)\[t(?:-\d+)?\]", str(names[column]))  # as `sdlgm.data.windows` names them
        if lag is not None:
            groups.setdefault(lag[1], []).append(column)
    alike: dict[int, str] = {}
    for columns in groups.values():
        for name, _ in Counter(found[column] for column in columns).most_common():
            support = LIKELIHOODS[name].support
            largest = 1.0 if support == "unit" else np.inf
            fits = np.isnan(profile.smallest[columns]) | (
                profile.whole[columns] & (profile.smallest[columns] >= 0) & (profile.largest[columns] <= largest)
            )
            if support == "real" or fits.all():
                alike |= dict.fromkeys(columns, name)
                break
    return alike


def on_common_scale(profile: Profile, columns: np.ndarray) -> bool:
    """Return whether many columns have one bounded scale with few steps, like the pixels of grey pictures.

    Their values are not counts, although they may be whole: most columns reach the end of the scale, and values there
    are not rare compared with those a tenth below, as they are in the tail of a count; or they are those of eight bits.
    """
    if columns.sum() < COMMON_COLUMNS:
        return False
    ends = profile.largest[columns]
    least, largest = float(profile.smallest[columns].min()), float(ends.max())
    end = largest - 0.1 * (largest - least)
    if least < 0 or (ends >= 0.5 * largest).mean() < COMMON_REACH:
        return False
    values, counts = np.unique(profile.sample[:, columns], return_counts=True, equal_nan=True)
    if not FEW_VALUES < len(values) <= COMMON_VALUES:
        return False
    if (ends == largest).sum() >= LEAST_SATURATED and _in_eight_bits(values):
        return True
    below = end - 0.1 * (largest - least)
    is_saturated = counts[values >= end].sum() >= COMMON_SATURATION * counts[(values >= below) & (values < end)].sum()
    return bool(is_saturated and (ends >= end).mean() >= COMMON_REACH)


def _in_eight_bits(values: np.ndarray) -> bool:
    """Return whether values are whole numbers up to exactly 255, or these divided by 255."""
    largest = np.nanmax(values)
    if largest not in (1.0, 255.0):
        return False
    steps = values[~np.isnan(values)] * (255.0 / largest)
    return bool((np.abs(steps - np.round(steps)) < 1e-3).all())


def _unlike_counts(columns: np.ndarray, halves: _marginals.Halves, profile: Profile) -> np.ndarray:
    """Return which columns of whole numbers from 0 on are no counts: in steps, too regular, or described as measured.

    Where neither description is clearly better, small values and those with many zeros are counts, and others measured.
    """
    found = np.zeros_like(columns)
    if not columns.any():
        return found
    largest, both = profile.largest, np.concatenate(halves)[:, columns]
    n_values, n_zeros = (~np.isnan(both)).sum(axis=0), (both == 0).sum(axis=0)
    mean = np.nansum(both, axis=0) / np.maximum(n_values, 1)
    dispersion = np.nansum((both - mean) ** 2, axis=0) / np.maximum(n_values * mean, 1e-12)
    too_regular = dispersion < np.minimum(
        LEAST_DISPERSION, 1 - DISPERSION_ERRORS * np.sqrt(2 / np.maximum(n_values, 1))
    )
    is_small = mean < LARGE_MEAN
    with_zeros = n_zeros >= FREQUENT_ZEROS * np.maximum(1, n_values / (largest[columns] + 1))
    found[columns] = too_regular | ~(is_small | with_zeros)

    def as_counts(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
        return np.maximum(_marginals.score_poisson(fit, score), _marginals.score_negative_binomial(fit, score))

    def as_measured(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
        return np.maximum(_marginals.score_whole_normal(fit, score), -np.log1p(largest[judged]))

    judged = _judged(columns, halves)
    if judged.any():
        chosen = _marginals.Halves(*(part[:, judged] for part in halves))
        measured = _is_clear(chosen, as_measured, as_counts, NOT_A_COUNT)
        counted = _is_clear(chosen, as_counts, as_measured, NOT_A_COUNT) & ~too_regular[judged[columns]]
        found[judged] = (found[judged] | measured) & ~counted
    return found | (columns & _in_steps(profile, columns))


def _in_steps(profile: Profile, columns: np.ndarray) -> np.ndarray:
    """Return which columns of whole numbers have multiples of a step only, such as 0, 5, 10, ..."""
    found = np.zeros_like(columns)
    for column in np.flatnonzero(columns & (profile.largest < 2**53)):
        values = profile.sample[:, column]
        values = values[values > 0]
        if len(values) >= LEAST_MULTIPLES:
            found[column] = np.gcd.reduce(values.astype(np.int64)) > 1
    return found


def _rare_counts(profile: Profile, binary: np.ndarray, counts: np.ndarray, varied: np.ndarray) -> np.ndarray:
    """Return which columns of zeros and ones are counts that happen never to exceed 1.

    Among many counts, such as those of words, these are columns so rare that a Poisson distribution of their mean would
    hardly give a 2.
    """
    if counts.sum() < max(COUNT_COLUMNS, COUNT_SHARE * varied.sum()):
        return np.zeros_like(binary)
    mean = np.zeros(len(binary))
    mean[binary] = np.nanmean(profile.sample[:, binary], axis=0) if binary.any() else 0.0
    return binary & (0.5 * mean**2 * len(profile.sample) < 3)


def _count_family(columns: np.ndarray, halves: _marginals.Halves) -> str:
    """Return the better of both distributions of counts on held-out values, for all columns of counts together."""
    judged = _judged(columns, halves, LEAST_VALUES_OF_COUNTS)
    if not judged.any():
        return "poisson"
    fit, score = (part[:, judged] for part in halves)
    n_values = (~np.isnan(score)).sum(axis=0)
    gain = _marginals.score_negative_binomial(fit, score) - _marginals.score_poisson(fit, score)
    # Where counts are Poisson, the gain of a column is about 0, give or take a nat.
    chance = OVERDISPERSED * np.sqrt(judged.sum())
    return "negative_binomial" if float((gain * n_values).sum()) > chance else "poisson"


def _heavy_tailed(columns: np.ndarray, halves: _marginals.Halves) -> np.ndarray:
    """Return which columns a Student t distribution describes better than a normal one, by `HEAVY_TAIL`."""
    found = np.zeros_like(columns)
    judged = _judged(columns, halves)
    if judged.any():
        chosen = _marginals.Halves(*(part[:, judged] for part in halves))
        found[judged] = _is_clear(chosen, _marginals.score_student_t, _marginals.score_normal, HEAVY_TAIL)
    for column in np.flatnonzero(found):
        values = np.concatenate([part[:, column] for part in halves])
        found[column] = len(np.unique(values[~np.isnan(values)])) >= LEAST_FOR_TAILS
    return found


Score = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Mean log-probability of each column's values, from values to fit and values to score."""


def _is_clear(halves: _marginals.Halves, ours: Score, theirs: Score, margin: float) -> np.ndarray:
    """Return where one description is better than another, whichever half is fitted.

    The gain has to be above a margin for each value, and in all above what may be chance.
    """
    gains, n_values = [], []
    for fit, score in (halves, halves[::-1]):
        n_values.append((~np.isnan(score)).sum(axis=0))
        gains.append((ours(fit, score) - theirs(fit, score)) * n_values[-1])
    total = sum(gains)
    return (np.min(gains, axis=0) > 0) & (total > margin * sum(n_values)) & (total > DECISIVE)


def _judged(columns: np.ndarray, halves: _marginals.Halves, least: int = LEAST_VALUES) -> np.ndarray:
    """Return which columns vary in both halves, and have enough values there."""
    found = columns.copy()
    for part in halves:
        values = part[:, found]
        enough = (~np.isnan(values)).sum(axis=0) >= least
        found[found] = enough
        values = values[:, enough]
        found[found] = np.nanmax(values, axis=0, initial=-np.inf) > np.nanmin(values, axis=0, initial=np.inf)
    return found


def _for_constant(profile: Profile, column: int, others: Sequence[str]) -> str:
    """Return the first likelihood of other columns that can have the value of a column that is constant."""
    value, is_whole = profile.smallest[column], profile.whole[column]
    for name in others:
        support = LIKELIHOODS[name].support
        largest = 1.0 if support == "unit" else np.inf
        if np.isnan(value) or support == "real" or (is_whole and 0 <= value <= largest):
            return name
    return "bernoulli" if not others and value in (0.0, 1.0) else "gaussian"
