"""Values of one column: what they mean, and what numbers they are."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from sdlgm.data.raw_columns import Level, RawColumn, Texts, number_of
from sdlgm.data.times import looks_like_times
from sdlgm.errors import DataError

MAX_LEVELS = 1000
"""Levels that a category may have."""
MAX_LEVEL_LENGTH = 1000
"""Characters of a level."""
# Text with more distinct values than this, and than half as many as rows, describes single rows.
_FEW_LEVELS = 20
_LONGEST_SHOWN = 40
# Values that were not there at fit, of which messages name some.
_MOST_UNSEEN = 100
_BOOLEANS = {"true": 1.0, "false": 0.0}

Kind = Literal["number", "boolean", "category"]
Learned = tuple[str, Kind, str, tuple[Level, ...]]
"""Name, kind, storage and levels of a column."""


def learn(raw: RawColumn, missing: Sequence[str], *, is_category: bool) -> Learned | None:
    """Return what a column means; None if it has no values.

    Parameters
    ----------
    raw : RawColumn
    missing : sequence of str
        Texts that stand for a missing value.
    is_category : bool
        Whether the user says that it is a category.

    Returns
    -------
    tuple or None
        Name, kind, storage and levels.

    """
    name = raw.name
    if raw.form == "time":
        raise DataError(
            f"column {name!r} holds dates; name it as the time column (--time-column, time_column), or leave it out "
            "(--drop, drop)"
        )
    if raw.form == "other":
        raise DataError(f"column {name!r} holds {raw.described}, not numbers or text; leave it out (--drop, drop)")
    if raw.form == "category":
        levels = raw.levels if (raw.codes is not None and (raw.codes >= 0).any()) else ()
        return (name, "category", raw.storage, _checked_levels(name, levels)) if levels else None
    if raw.form == "text":
        return _learn_text(raw, missing, is_category=is_category)
    numbers = _numbers(raw)
    known = ~np.isnan(numbers)
    if not known.any():
        return None
    if np.isinf(numbers).any():
        raise _infinite(name, numbers)
    if not is_category:
        return name, "number" if raw.form == "number" else "boolean", raw.storage, ()
    if raw.form == "boolean":
        return name, "category", "categorical", (False, True)
    return name, "category", "categorical", _checked_levels(name, _number_levels(np.unique(numbers[known])))


def _learn_text(raw: RawColumn, missing: Sequence[str], *, is_category: bool) -> Learned | None:
    name, (texts, numbers) = raw.name, _text_and_numbers(raw, missing, always=is_category)
    if numbers is not None and np.isnan(numbers).all():
        return None
    if numbers is not None and np.isinf(numbers).any():
        raise _infinite(name, numbers)
    if numbers is not None and not is_category:
        known = numbers[~np.isnan(numbers)]
        whole = bool((known == np.floor(known)).all()) and bool((np.abs(known) < 2**53).all())
        return name, "number", "integer" if whole else "float", ()
    if len(texts.distinct) > 2 * MAX_LEVELS:
        raise _too_many_values(name, texts, len(texts.codes))
    present = sorted({text for text in texts.distinct if text.strip() not in missing})
    if not present:
        return None
    if numbers is not None and all(_is_decimal(text) for text in present):
        levels = _number_levels(np.unique(numbers[~np.isnan(numbers)]))
        return name, "category", "categorical", _checked_levels(name, levels)
    if not is_category and looks_like_times(present):
        raise _looks_like_times(name)
    if not is_category and {text.strip().lower() for text in present} <= set(_BOOLEANS):
        return name, "boolean", "bool", ()
    if len(present) > MAX_LEVELS or not is_category:
        _check_cardinality(name, texts, present)
    return name, "category", "text", _checked_levels(name, tuple(present))


def _text_and_numbers(raw: RawColumn, missing: Sequence[str], *, always: bool) -> tuple[Texts, np.ndarray | None]:
    """Return texts, which are read only if they are no numbers unless ``always``, and numbers if they are."""
    if raw.read_texts is None or raw.read_numbers is None:
        raise TypeError(f"column {raw.name!r} is not of text")
    numbers = raw.read_numbers(missing)
    return (raw.read_texts() if numbers is None or always else Texts(np.empty(0, np.int64), ())), numbers


def _check_cardinality(name: str, texts: Texts, present: list[str]) -> None:
    is_present = np.append(np.isin(np.array(list(texts.distinct), object), present), False)
    n_present = int(is_present[texts.codes].sum())
    if len(present) > MAX_LEVELS or (len(present) > _FEW_LEVELS and len(present) > n_present / 2):
        raise _too_many_values(name, texts, n_present)


def _too_many_values(name: str, texts: Texts, n_rows: int) -> DataError:
    """Return the error for text that describes single rows, with the remedy for what it looks like."""
    found = f"column {name!r} holds text with {len(texts.distinct)} different values in {n_rows} rows"
    if looks_like_times(texts.distinct[:MAX_LEVELS]):
        return _looks_like_times(name)
    first = texts.distinct[:MAX_LEVELS]
    others = [text for text in first if number_of(text) is None]
    if others and len(others) < len(first) / 2:
        return DataError(
            f"column {name!r} holds numbers and {others[0][:_LONGEST_SHOWN]!r}; if that stands for a missing value, "
            "add it to --na-values (na_values); otherwise correct it, or leave the column out (--drop, drop)"
        )
    return DataError(
        f"{found}, such as {first[0][:_LONGEST_SHOWN]!r}: names or free text, not categories; leave it out (--drop, "
        "drop)"
    )


def _looks_like_times(name: str) -> DataError:
    return DataError(
        f"column {name!r} holds text that looks like dates; name it as the time column (--time-column, time_column), "
        "or leave it out (--drop, drop)"
    )


def _checked_levels(name: str, levels: tuple[Level, ...]) -> tuple[Level, ...]:
    if len(levels) > MAX_LEVELS:
        raise DataError(
            f"column {name!r} has {len(levels)} categories, and {MAX_LEVELS} are the most; leave it out (--drop, drop)"
        )
    if any(isinstance(level, str) and len(level) > MAX_LEVEL_LENGTH for level in levels):
        raise DataError(
            f"column {name!r} holds texts of more than {MAX_LEVEL_LENGTH} characters; leave it out (--drop, drop)"
        )
    return levels


def _number_levels(values: np.ndarray) -> tuple[Level, ...]:
    return tuple(int(value) if value == np.floor(value) and abs(value) < 2**53 else value for value in values.tolist())


def _is_decimal(text: str) -> bool:
    """Return whether a text is a number as one writes it: without an exponent, and without zeros before it."""
    digits = text.strip().removeprefix("-")
    whole, _, fraction = digits.partition(".")
    return whole.isdecimal() and (whole == "0" or not whole.startswith("0")) and (not fraction or fraction.isdecimal())


def _numbers(raw: RawColumn) -> np.ndarray:
    if raw.numbers is None:
        raise TypeError(f"column {raw.name!r} has no numbers")
    return raw.numbers


def _infinite(name: str, numbers: np.ndarray) -> DataError:
    row = int(np.argmax(np.isinf(numbers)))
    return DataError(f"Input X contains infinity: column {name!r}, row {row}; correct it, or drop such rows first")


def encode(
    raw: RawColumn, kind: str, levels: tuple[Level, ...], missing: Sequence[str]
) -> tuple[np.ndarray, list[Level]]:
    """Return the values of a column as numbers, and categories that are not among the levels.

    Parameters
    ----------
    raw : RawColumn
    kind : {"number", "boolean", "category"}
    levels : tuple
        Levels of a category.
    missing : sequence of str
        Texts that stand for a missing value.

    Returns
    -------
    values : ndarray of shape (n,)
    unseen : list

    """
    if raw.form in ("time", "other"):
        raise DataError(f"column {raw.name!r} holds {raw.described or 'dates'}, and was {_KINDS[kind]} at fit")
    if kind == "category":
        return _encode_category(raw, levels, missing)
    numbers = _encode_numbers(raw, kind, missing)
    if np.isinf(numbers).any():
        raise _infinite(raw.name, numbers)
    return numbers, []


_KINDS = {"number": "numbers", "boolean": "truth values", "category": "categories"}


def _encode_numbers(raw: RawColumn, kind: str, missing: Sequence[str]) -> np.ndarray:
    if raw.form == "text":
        texts, numbers = _text_and_numbers(raw, missing, always=False)
        if numbers is None:
            values = np.array([_number_or_boolean(raw.name, text, kind, missing) for text in texts.distinct])
            numbers = np.append(values, np.nan)[texts.codes]
    elif raw.form == "category":
        numbers = np.full(0 if raw.codes is None else len(raw.codes), np.nan)
        if raw.codes is not None and (raw.codes >= 0).any():
            values = np.array([_number_or_boolean(raw.name, str(level), kind, missing) for level in raw.levels])
            numbers = np.append(values, np.nan)[raw.codes]
    else:
        numbers = _numbers(raw)
    if kind == "boolean":
        wrong = ~(np.isnan(numbers) | (numbers == 0) | (numbers == 1))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise DataError(
                f"column {raw.name!r} has the value {numbers[row]:g} in row {row}, and had truth values at fit; use 0, "
                "1, false or true"
            )
    return numbers


def _number_or_boolean(name: str, text: str, kind: str, missing: Sequence[str]) -> float:
    if text.strip() in missing:
        return np.nan
    value = _BOOLEANS.get(text.strip().lower()) if kind == "boolean" else None
    value = number_of(text) if value is None else value
    if value is None:
        raise DataError(
            f"column {name!r} has the value {text[:_LONGEST_SHOWN]!r}, and had {_KINDS[kind]} at fit; correct it, or "
            "leave it empty if it is missing"
        )
    return value


def _encode_category(
    raw: RawColumn, levels: tuple[Level, ...], missing: Sequence[str]
) -> tuple[np.ndarray, list[Level]]:
    places: dict[Any, int] = {_key(level): place for place, level in enumerate(levels)}
    if raw.form in ("number", "boolean"):
        numbers = _numbers(raw)
        values, inverse = np.unique(numbers, return_inverse=True)  # NaN is one value
        distinct: Sequence[Level] = [bool(v) if raw.form == "boolean" else v for v in values.tolist()]
        codes = np.where(np.isnan(numbers), -1, inverse)
        distinct = [value for value in distinct if value == value]  # noqa: PLR0124 - NaN is the last one
    elif raw.form == "category":
        codes, distinct = np.asarray(raw.codes), raw.levels
    else:
        texts, _ = _text_and_numbers(raw, missing, always=True)
        codes, distinct = texts.codes, texts.distinct
    found, unseen = np.full(len(distinct) + 1, np.nan), []
    used = np.zeros(len(distinct) + 1, bool)
    used[codes] = True
    for i, value in enumerate(distinct):
        place = _place(value, places)
        if place is not None:
            found[i] = place
        elif used[i] and not (isinstance(value, str) and value.strip() in missing):
            unseen += [value] if len(unseen) < _MOST_UNSEEN else []
    return found[codes], unseen


def _key(level: Level) -> tuple[bool, Level]:
    """Return a key by which truth values and numbers differ."""
    return isinstance(level, bool), level


def _place(value: Level, places: dict[Any, int]) -> int | None:
    """Return the place of a value among the levels, which may be texts or numbers, whatever the value is."""
    candidates: list[Level] = [value]
    if isinstance(value, str):
        text = value.strip()
        number = number_of(text) if _is_decimal(text) else None
        candidates += [text, *([] if number is None else [number])]
        candidates += [bool(_BOOLEANS[text.lower()])] if text.lower() in _BOOLEANS else []
    elif not isinstance(value, bool):
        candidates.append(f"{value:.0f}" if value == np.floor(value) else str(value))
    return next((places[_key(candidate)] for candidate in candidates if _key(candidate) in places), None)
