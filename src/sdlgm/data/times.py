"""Columns of time: dates as text or of a date type, and numbers."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from sdlgm.data.raw_columns import NOT_A_TIME, RawColumn, Texts
from sdlgm.errors import DataError

# Year, month and day, then hours, minutes and seconds; any sign that is no digit may stand between them.
_DATE = re.compile(
    r"\s*(\d{4})\D(\d{1,2})\D(\d{1,2})"
    r"(?:\D{1,3}(\d{1,2})\D(\d{1,2})(?:\D(\d{1,2})(?:[.,](\d{1,9})\d*)?)?)?"
    r"\s*(Z|UTC|[+-]\d{2}(?::?\d{2})?)?\s*",
    re.ASCII,
)
_LONGEST = 64
_SECOND = 10**9
_LARGEST_OFFSET = 15
"""Of a zone from UTC, in hours."""


@dataclass(frozen=True)
class Times:
    """When the rows of a table were made."""

    values: np.ndarray
    """(n,). Dates are nanoseconds since 1970 in UTC, int64; other times are numbers, int64 if all are whole."""
    is_date: bool

    @property
    def stored(self) -> np.ndarray:
        """The times as tables have them: datetime64 or numbers."""
        return self.values.view("datetime64[ns]") if self.is_date else self.values

    def describe_span(self, span: float) -> str:
        """Return a length of time as text."""
        if not self.is_date:
            return f"{span:g}"
        seconds = span / _SECOND
        for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
            if seconds >= 2 * size:
                return f"{seconds / size:.3g} {unit}"
        return f"{seconds:.3g} s"


def read_times(column: RawColumn, missing: Collection[str]) -> Times:
    """Return the times of a column.

    Parameters
    ----------
    column : RawColumn
        Dates, numbers, or text that is either. Text has the year first, as ``2019-11-23 12:27:34``; other separators
        may stand in place of these. Times with a zone or an offset are instants, whatever zone each of them has, and
        become UTC. Times without one cannot stand beside them.
    missing : collection of str
        Texts that stand for a missing value, which a time must not be.

    Returns
    -------
    Times

    """
    if column.form == "time" and column.numbers is not None:
        _check_all(column.name, column.numbers == NOT_A_TIME)
        return Times(column.numbers, is_date=True)
    if column.form == "number" and column.numbers is not None:
        return _numeric(column.name, column.numbers)
    if column.form == "text" and column.read_texts is not None and column.read_numbers is not None:
        numbers = column.read_numbers(missing)
        return _parsed(column.name, column.read_texts(), missing) if numbers is None else _numeric(column.name, numbers)
    raise DataError(f"the time column {column.name!r} holds {column.described or column.form}; {_REMEDY}")


_REMEDY = "write times as 2019-11-23 12:27:34, as dates of pandas or parquet, or as numbers"


def looks_like_times(texts: Sequence[str]) -> bool:
    """Return whether the first of some texts are dates."""
    first = texts[:20]
    return len(first) > 0 and all(len(text) <= _LONGEST and _DATE.fullmatch(text) for text in first)


def _numeric(name: str, numbers: np.ndarray) -> Times:
    _check_all(name, ~np.isfinite(numbers))
    whole = bool((numbers == np.floor(numbers)).all()) and bool((np.abs(numbers) < 2**53).all())
    return Times(numbers.astype(np.int64) if whole else numbers, is_date=False)


def _parsed(name: str, texts: Texts, missing: Collection[str]) -> Times:
    codes_missing = np.append([text.strip() in missing for text in texts.distinct], True).astype(bool)
    _check_all(name, codes_missing[texts.codes])
    read = [_instant(name, text) for text in texts.distinct]
    check_zones(name, [has_zone for _, has_zone in read], texts.distinct)
    return Times(np.array([instant for instant, _ in read], np.int64)[texts.codes], is_date=True)


def check_zones(name: str, has_zone: Sequence[bool], values: Sequence[object]) -> None:
    """Raise if some times have a zone and others do not: what those mean is not known.

    Parameters
    ----------
    name : str
        Name of the column.
    has_zone : sequence of bool
    values : sequence
        The times, for the message.

    """
    if len(set(has_zone)) > 1:
        with_one, without = (str(values[has_zone.index(kind)]) for kind in (True, False))
        raise DataError(
            f"the time column {name!r} has times with a zone, such as {with_one!r}, and times without, such as "
            f"{without!r}; give all of them a zone, or none"
        )


def _instant(name: str, text: str) -> tuple[int, bool]:
    """Return nanoseconds since 1970, and whether the text says in which zone."""
    match = _DATE.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        raise DataError(f"the time column {name!r} has the value {text[:_LONGEST]!r}; {_REMEDY}")
    year, month, day, hour, minute, second, fraction, zone = match.groups(default="")
    iso = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}:{minute:0>2}:{second:0>2}"
    try:
        seconds = int(np.datetime64(iso, "s").astype(np.int64))
    except ValueError:
        raise DataError(f"the time column {name!r} has the value {text!r}, which is no date; {_REMEDY}") from None
    if zone.startswith(("+", "-")):
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > _LARGEST_OFFSET or minutes > 59 or not hour:
            raise DataError(f"the time column {name!r} has the value {text!r}, whose offset is none; {_REMEDY}")
        offset = 3600 * hours + 60 * minutes
        seconds -= offset if zone[0] == "+" else -offset
    instant = seconds * _SECOND + int(f"{fraction:0<9}" if fraction else 0)
    if abs(instant) >= 2**63:
        raise DataError(f"the time column {name!r} has the value {text!r}; dates are from 1678 to 2261")
    return instant, bool(zone)


def _check_all(name: str, is_missing: np.ndarray) -> None:
    if is_missing.any():
        raise DataError(
            f"the time column {name!r} has {int(is_missing.sum())} missing values, the first in row "
            f"{int(np.argmax(is_missing))}; drop those rows first"
        )
