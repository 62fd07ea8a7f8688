"""Columns of pandas."""

import sys
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any

import numpy as np

from sdlgm.data.raw_columns import NOT_A_TIME, RawColumn, Texts, numbers_of, taken
from sdlgm.data.times import check_zones

_STORAGES = {"b": "bool", "f": "float", "i": "integer", "u": "integer"}


def read_column(name: str, series: Any) -> RawColumn:
    """Read a column.

    Parameters
    ----------
    name : str
    series : Series

    Returns
    -------
    RawColumn

    """
    pandas, dtype = sys.modules["pandas"], series.dtype
    kind, described = getattr(dtype, "kind", "O"), str(dtype)
    if isinstance(dtype, pandas.CategoricalDtype):
        return _category(name, series)
    if kind in _STORAGES:
        is_numpy = isinstance(dtype, np.dtype)
        values = np.asarray(series, np.float64) if is_numpy else series.to_numpy(dtype=np.float64, na_value=np.nan)
        storage = _STORAGES[kind] if is_numpy else f"nullable {_STORAGES[kind]}"
        return RawColumn(name, "boolean" if kind == "b" else "number", storage, numbers=values, described=described)
    if kind == "M":
        if isinstance(dtype, pandas.ArrowDtype):
            arrow_type = dtype.pyarrow_dtype
            series = series.astype(pandas.DatetimeTZDtype("ns", "UTC") if arrow_type.tz else "datetime64[ns]")
        has_zone = getattr(series.dtype, "tz", None) is not None
        naive = series.dt.tz_convert("UTC").dt.tz_localize(None) if has_zone else series
        times = np.asarray(naive.to_numpy(), "datetime64[ns]").view(np.int64)
        return RawColumn(name, "time", "time", numbers=times, described=described)
    if kind not in "mc" and not described.startswith(("period", "interval")):
        try:
            codes, distinct = pandas.factorize(series)
            return _objects(name, np.asarray(codes, np.int64), [_plain(value) for value in distinct], described)
        except TypeError:  # lists and the like
            pass
    return RawColumn(name, "other", "text", described=described)


def _category(name: str, series: Any) -> RawColumn:
    dtype = series.dtype
    levels = tuple(_plain(level) for level in dtype.categories)
    if not all(isinstance(level, str | int | float) for level in levels):
        return RawColumn(name, "other", "text", described=str(dtype))
    storage = "ordered" if dtype.ordered else "categorical"
    return RawColumn(name, "category", storage, codes=np.asarray(series.cat.codes, np.int64), levels=levels)


def _objects(name: str, codes: np.ndarray, distinct: list[Any], described: str) -> RawColumn:
    """Return a column of Python objects by the types of the distinct ones."""
    if distinct and all(isinstance(value, bool) for value in distinct):
        return RawColumn(name, "boolean", "nullable bool", numbers=taken(codes, np.array(distinct, np.float64)))
    if all(isinstance(value, Real) and not isinstance(value, bool) for value in distinct):
        whole = bool(distinct) and all(isinstance(value, int) for value in distinct)
        numbers = np.array([float(value) for value in distinct])
        return RawColumn(name, "number", "nullable integer" if whole else "float", numbers=taken(codes, numbers))
    if all(isinstance(value, date) for value in distinct):
        check_zones(name, [getattr(value, "tzinfo", None) is not None for value in distinct], distinct)
        times = np.array([_instant(value) for value in distinct], "datetime64[ns]").view(np.int64)
        return RawColumn(name, "time", "time", numbers=taken(codes, times, NOT_A_TIME), described=described)
    if not all(isinstance(value, str | Real) for value in distinct):
        found = next(type(value).__name__ for value in distinct if not isinstance(value, str | Real))
        return RawColumn(name, "other", "text", described=found)
    texts = Texts(codes, [str(value) for value in distinct])
    return RawColumn(
        name,
        "text",
        "text",
        read_texts=lambda: texts,
        read_numbers=lambda missing: numbers_of(texts, missing),
        described=described,
    )


def _instant(value: date) -> np.datetime64:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "ns")


def _plain(value: Any) -> Any:
    """Return a scalar of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value
