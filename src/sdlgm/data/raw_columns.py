"""Columns of tables, of whatever package, before it is known what their values mean."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

Level: TypeAlias = str | int | float | bool
Form = Literal["number", "boolean", "text", "category", "time", "other"]


@dataclass(frozen=True)
class Texts:
    """A column of text, as numbers of distinct texts."""

    codes: np.ndarray
    """(n,), the place of each text in ``distinct``; -1 where it is missing."""
    distinct: Sequence[str]


@dataclass(frozen=True)
class RawColumn:
    """A column of a table before it is known what its values mean."""

    name: str
    form: Form
    storage: str
    """How the table stores the column; see `sdlgm.data.schema.STORAGES`."""
    numbers: np.ndarray | None = None
    """Numbers and booleans: (n,), float64, NaN where a value is missing. Times: nanoseconds, int64."""
    codes: np.ndarray | None = None
    """Categories: (n,), the place of each value in ``levels``; -1 where it is missing."""
    levels: tuple[Level, ...] = ()
    read_texts: Callable[[], Texts] | None = None
    read_numbers: Callable[[Collection[str]], np.ndarray | None] | None = None
    """Texts as numbers, given those that stand for a missing value; None if others are no numbers."""
    described: str = ""
    """The type, for messages."""


KEPT_AS_TEXT = {b"sdlgm": b"text"}
"""Metadata of a field of Arrow that is dictionary-encoded to save memory, and is text, not a category."""
NOT_A_TIME = np.iinfo(np.int64).min
"""The time that stands for a missing one, as in numpy."""


def taken(codes: np.ndarray, values: np.ndarray, missing: float = np.nan) -> np.ndarray:
    """Return the value of each code; code -1 is a missing value."""
    return np.append(values, np.array([missing], values.dtype))[codes]


def number_of(text: str) -> float | None:
    """Return the number that a text is, or None."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def numbers_of(texts: Texts, missing: Collection[str]) -> np.ndarray | None:
    """Return texts as numbers, NaN for those that stand for a missing value; None if others are no numbers."""
    values = np.empty(len(texts.distinct))
    for i, text in enumerate(texts.distinct):
        number = np.nan if text.strip() in missing else number_of(text)
        if number is None:
            return None
        values[i] = number
    return taken(texts.codes, values)
