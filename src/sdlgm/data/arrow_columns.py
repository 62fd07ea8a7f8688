"""Columns of pyarrow."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from sdlgm._optional import optional_import
from sdlgm.data.raw_columns import NOT_A_TIME, Form, RawColumn, Texts, numbers_of

_EXTRA = "data"


def read_column(name: str, column: Any, *, is_text: bool = False) -> RawColumn:
    """Read a column.

    Parameters
    ----------
    name : str
    column : ChunkedArray
    is_text : bool, default=False
        Whether a column with a dictionary is text, and not a category.

    Returns
    -------
    RawColumn

    """
    arrow = _arrow()
    types, kind = arrow.types, column.type
    if types.is_null(kind):
        return RawColumn(name, "number", "float", numbers=np.full(len(column), np.nan), described=str(kind))
    if is_text or _is_text(kind):
        return _text(name, column)
    if types.is_dictionary(kind) and _is_level(kind.value_type):
        return _category(name, column)
    if types.is_timestamp(kind) or types.is_date(kind):
        times = np.asarray(column.cast(arrow.timestamp("ns"), safe=False).cast(arrow.int64()).fill_null(NOT_A_TIME))
        return RawColumn(name, "time", "time", numbers=times, described=str(kind))
    if not (_is_level(kind) or types.is_decimal(kind)):
        return RawColumn(name, "other", "text", described=str(kind))
    form: Form = "boolean" if types.is_boolean(kind) else "number"
    storage = "bool" if form == "boolean" else "integer" if types.is_integer(kind) else "float"
    values = column.cast(arrow.uint8()) if form == "boolean" else column
    numbers = np.asarray(values.cast(arrow.float64(), safe=False).to_numpy(), np.float64)
    return RawColumn(name, form, storage, numbers=numbers, described=str(kind))


def _arrow() -> Any:
    return optional_import("pyarrow", _EXTRA)


def _text(name: str, column: Any) -> RawColumn:
    return RawColumn(
        name,
        "text",
        "text",
        read_texts=lambda: _texts(column),
        read_numbers=lambda missing: _numbers(column, missing),
        described="text",
    )


def _category(name: str, column: Any) -> RawColumn:
    encoded = _one_chunk(column)
    levels = tuple(encoded.dictionary.to_pylist())
    if None in levels or len(set(levels)) < len(levels):
        return read_column(name, column.cast(column.type.value_type))
    codes = np.asarray(encoded.indices.cast(_arrow().int64()).fill_null(-1))
    return RawColumn(name, "category", "ordered" if column.type.ordered else "categorical", codes=codes, levels=levels)


def _is_level(kind: Any) -> bool:
    types = _arrow().types
    return _is_text(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _is_text(kind: Any) -> bool:
    types = _arrow().types
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _one_chunk(column: Any) -> Any:
    """Return a dictionary-encoded column with one dictionary."""
    encoded = column.unify_dictionaries().combine_chunks()
    return encoded.chunk(0) if isinstance(encoded, _arrow().ChunkedArray) else encoded


class _ArrowTexts(Sequence[str]):
    """Texts of an Arrow array, made Python objects one at a time: there may be as many as rows."""

    def __init__(self, texts: Any):
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: Any) -> Any:
        return self._texts[place].to_pylist() if isinstance(place, slice) else self._texts[place].as_py()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self._texts), 1000):
            yield from self._texts[start : start + 1000].to_pylist()


def _texts(column: Any) -> Texts:
    arrow = _arrow()
    if arrow.types.is_dictionary(column.type):
        encoded = _one_chunk(column)
    else:
        encoded = _one_chunk(column.cast(arrow.large_string()).dictionary_encode())
    return Texts(np.asarray(encoded.indices.cast(arrow.int64()).fill_null(-1)), _ArrowTexts(encoded.dictionary))


def _numbers(column: Any, missing: Collection[str]) -> np.ndarray | None:
    arrow, compute = _arrow(), optional_import("pyarrow.compute", _EXTRA)
    if arrow.types.is_dictionary(column.type):
        return numbers_of(_texts(column), missing)
    trimmed = compute.utf8_trim_whitespace(column)
    is_missing = compute.is_in(trimmed, value_set=arrow.array(sorted(missing), trimmed.type))
    try:
        numbers = compute.if_else(is_missing, arrow.scalar(None, trimmed.type), trimmed).cast(arrow.float64())
    except arrow.ArrowInvalid:
        return None
    return np.asarray(numbers.to_numpy(), np.float64)
