"""Columns of pandas and pyarrow tables as numbers, times or levels. Neither package is imported for another's table."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    Frame: TypeAlias = "pd.DataFrame | pa.Table"

Container = Literal["pandas", "arrow", "array"]
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


def container_of(X: Any) -> Container | None:
    """Return which package a table is of; None for anything that is not a table with named columns.

    Parameters
    ----------
    X : object

    Returns
    -------
    {"pandas", "arrow"} or None

    """
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(X, pandas.DataFrame):
        return "pandas" if all(isinstance(name, str) for name in X.columns) and len(X.columns) else None
    return "arrow" if arrow is not None and isinstance(X, arrow.Table) and X.num_columns else None


def column_names(table: "Frame") -> tuple[str, ...]:
    """Return the names of the columns, or raise if one is repeated."""
    names = tuple(table.columns) if container_of(table) == "pandas" else tuple(table.column_names)
    if len(set(names)) < len(names):
        repeated = min(name for name, count in Counter(names).items() if count > 1)
        raise DataError(f"more than one column is called {repeated!r}; rename them")
    return names


def n_rows_of(table: "Frame") -> int:
    """Return the number of rows."""
    return int(table.shape[0])


def select(table: "Frame", names: Sequence[str]) -> "Frame":
    """Return some of the columns."""
    return table[list(names)] if container_of(table) == "pandas" else table.select(list(names))


def with_first(table: Any, name: str, values: np.ndarray) -> Any:
    """Return a table with one more column, before the others; an array stays as it is, for it has no names."""
    container = container_of(table)
    if container == "pandas":
        table = table.copy(deep=False)
        table.insert(0, name, values)
        return table
    return table if container is None else table.add_column(0, name, sys.modules["pyarrow"].array(values))


def is_plain(table: "Frame") -> bool:
    """Return whether all columns hold numbers, none of which is missing, so that they are a matrix as they are."""
    if container_of(table) == "pandas":
        kinds = [getattr(dtype, "kind", "O") for dtype in table.dtypes]
        if not all(isinstance(dtype, np.dtype) for dtype in table.dtypes) or not set(kinds) <= set("iuf"):
            return False
        return not any(kind == "f" and table.iloc[:, i].hasnans for i, kind in enumerate(kinds))
    types = sys.modules["pyarrow"].types
    if not all(types.is_integer(field.type) or types.is_floating(field.type) for field in table.schema):
        return False
    return not any(
        column.null_count or (types.is_floating(column.type) and np.isnan(column.to_numpy()).any())
        for column in table.columns
    )


def read_column(table: "Frame", name: str) -> RawColumn:
    """Read a column.

    Parameters
    ----------
    table : DataFrame or pyarrow.Table
    name : str

    Returns
    -------
    RawColumn

    """
    if container_of(table) == "pandas":
        return _pandas_column(name, table[name])
    metadata = table.schema.field(name).metadata or {}
    return _arrow_column(name, table.column(name), is_text=metadata.items() >= KEPT_AS_TEXT.items())


# pandas


def _pandas_column(name: str, series: "pd.Series") -> RawColumn:
    pandas = sys.modules["pandas"]
    dtype = series.dtype
    described = str(dtype)
    if isinstance(dtype, pandas.CategoricalDtype):
        levels = tuple(_plain(level) for level in dtype.categories)
        if not all(isinstance(level, str | int | float) for level in levels):
            return RawColumn(name, "other", "text", described=described)
        storage = "ordered" if dtype.ordered else "categorical"
        return RawColumn(name, "category", storage, codes=np.asarray(series.cat.codes, np.int64), levels=levels)
    kind = getattr(dtype, "kind", "O")
    is_numpy = isinstance(dtype, np.dtype)
    if kind in "biuf" and not isinstance(dtype, pandas.StringDtype):
        values = (
            np.asarray(series, np.float64) if is_numpy else series.to_numpy(dtype=np.float64, na_value=np.nan)
        )
        storage = {"b": "bool", "f": "float"}.get(kind, "integer")
        storage = storage if is_numpy else f"nullable {storage}"
        return RawColumn(name, "boolean" if kind == "b" else "number", storage, numbers=values, described=described)
    if kind == "M":
        naive = series.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(dtype, "tz", None) else series
        times = np.asarray(naive.to_numpy(), "datetime64[ns]").view(np.int64)
        return RawColumn(name, "time", "time", numbers=times, described=described)
    if kind in "mc" or described.startswith(("period", "interval")):
        return RawColumn(name, "other", "text", described=described)
    try:
        codes, distinct = pandas.factorize(series)
    except TypeError:  # lists and the like
        return RawColumn(name, "other", "text", described=described)
    return _objects(name, np.asarray(codes, np.int64), [_plain(value) for value in distinct], described)


def _objects(name: str, codes: np.ndarray, distinct: list[Any], described: str) -> RawColumn:
    """Return a column of Python objects by the types of the distinct ones."""
    if distinct and all(isinstance(value, bool) for value in distinct):
        return RawColumn(name, "boolean", "nullable bool", numbers=_taken(codes, np.array(distinct, np.float64)))
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in distinct):
        whole = bool(distinct) and all(isinstance(value, int) for value in distinct)
        numbers = np.array([float(value) for value in distinct])
        return RawColumn(name, "number", "nullable integer" if whole else "float", numbers=_taken(codes, numbers))
    if all(isinstance(value, date) for value in distinct):
        times = np.array([_instant(value) for value in distinct], "datetime64[ns]").view(np.int64)
        return RawColumn(name, "time", "time", numbers=_taken(codes, times, NOT_A_TIME), described=described)
    if not all(isinstance(value, str | Real) for value in distinct):
        found = next(type(value).__name__ for value in distinct if not isinstance(value, str | Real))
        return RawColumn(name, "other", "text", described=found)
    texts = Texts(codes, [str(value) for value in distinct])
    return RawColumn(
        name,
        "text",
        "text",
        read_texts=lambda: texts,
        read_numbers=lambda missing: _numbers_of(texts, missing),
        described=described,
    )


def _instant(value: date) -> np.datetime64:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "ns")


def _plain(value: Any) -> Any:
    """Return a scalar of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _taken(codes: np.ndarray, values: np.ndarray, missing: float = np.nan) -> np.ndarray:
    """Return the value of each code; code -1 is a missing value."""
    return np.append(values, np.array([missing], values.dtype))[codes]


def _numbers_of(texts: Texts, missing: Collection[str]) -> np.ndarray | None:
    values = np.empty(len(texts.distinct))
    for i, text in enumerate(texts.distinct):
        number = np.nan if text.strip() in missing else number_of(text)
        if number is None:
            return None
        values[i] = number
    return _taken(texts.codes, values)


def number_of(text: str) -> float | None:
    """Return the number that a text is, or None.

    Parameters
    ----------
    text : str

    Returns
    -------
    float or None

    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


# pyarrow


def _arrow_column(name: str, column: "pa.ChunkedArray", *, is_text: bool = False) -> RawColumn:
    arrow = sys.modules["pyarrow"]
    types, kind = arrow.types, column.type
    described = str(kind)
    if types.is_null(kind):
        return RawColumn(name, "number", "float", numbers=np.full(len(column), np.nan), described=described)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        form: Form = "boolean" if types.is_boolean(kind) else "number"
        whole = "integer" if types.is_integer(kind) else "float"
        values = column.cast(arrow.uint8()) if types.is_boolean(kind) else column
        numbers = np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(), np.float64)
        return RawColumn(name, form, "bool" if form == "boolean" else whole, numbers=numbers, described=described)
    if types.is_timestamp(kind) or types.is_date(kind):
        times = np.asarray(column.cast(arrow.timestamp("ns"), safe=False).cast(arrow.int64()).fill_null(NOT_A_TIME))
        return RawColumn(name, "time", "time", numbers=times, described=described)
    if types.is_dictionary(kind) and _is_level(kind.value_type) and not is_text:
        encoded = _one_chunk(column)
        levels = tuple(encoded.dictionary.to_pylist())
        if None not in levels and len(set(levels)) == len(levels):
            codes = np.asarray(encoded.indices.cast(arrow.int64()).fill_null(-1))
            return RawColumn(name, "category", "ordered" if kind.ordered else "categorical", codes=codes, levels=levels)
        return _arrow_column(name, column.cast(kind.value_type))
    if not _is_text(kind) and not is_text:
        return RawColumn(name, "other", "text", described=described)
    return RawColumn(
        name,
        "text",
        "text",
        read_texts=lambda: _arrow_texts(column),
        read_numbers=lambda missing: _arrow_numbers(column, missing),
        described="text",
    )


def _is_level(kind: "pa.DataType") -> bool:
    types = sys.modules["pyarrow"].types
    return _is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _is_text(kind: "pa.DataType") -> bool:
    types = sys.modules["pyarrow"].types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _one_chunk(column: "pa.ChunkedArray") -> "pa.DictionaryArray":
    """Return a dictionary-encoded column with one dictionary."""
    encoded = column.unify_dictionaries().combine_chunks()
    return encoded.chunk(0) if isinstance(encoded, sys.modules["pyarrow"].ChunkedArray) else encoded


class _ArrowTexts(Sequence[str]):
    """Texts of an Arrow array, made Python objects one at a time: there may be as many as rows."""

    def __init__(self, texts: "pa.Array"):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: Any) -> Any:
        return self._texts[place].to_pylist() if isinstance(place, slice) else self._texts[place].as_py()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self._texts), 1000):
            yield from self._texts[start : start + 1000].to_pylist()


def _arrow_texts(column: "pa.ChunkedArray") -> Texts:
    arrow = sys.modules["pyarrow"]
    if arrow.types.is_dictionary(column.type):
        encoded = _one_chunk(column)
    else:
        encoded = _one_chunk(column.cast(arrow.large_string()).dictionary_encode())
    return Texts(np.asarray(encoded.indices.cast(arrow.int64()).fill_null(-1)), _ArrowTexts(encoded.dictionary))


def _arrow_numbers(column: "pa.ChunkedArray", missing: Collection[str]) -> np.ndarray | None:
    from pyarrow import compute

    arrow = sys.modules["pyarrow"]
    if arrow.types.is_dictionary(column.type):
        return _numbers_of(_arrow_texts(column), missing)
    trimmed = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(trimmed, value_set=arrow.array(sorted(missing), trimmed.type))
    try:
        numbers = compute.if_else(is_missing, arrow.scalar(None, trimmed.type), trimmed).cast(arrow.float64())
    except arrow.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)
