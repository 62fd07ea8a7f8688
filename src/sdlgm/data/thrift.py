"""Structures in the compact protocol of Thrift, in which parquet files write the headers of their pages."""

from collections.abc import Iterator
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
# Deeper structures are damaged; those of parquet have four levels.
_MAX_DEPTH = 16


def read_struct(content: bytes, start: int = 0) -> tuple[dict[int, Any], int]:
    """Read a structure.

    Parameters
    ----------
    content : bytes
        Bytes with the structure.
    start : int, default=0
        Where it begins.

    Returns
    -------
    fields : dict
        Numbers and structures by their ids. Of text, lists and maps only the place is read: they are None.
    end : int
        Where it ends.

    Raises
    ------
    IndexError
        If the content ends before the structure does.
    ValueError
        If it is no structure.

    """
    reader = _Reader(content, start)
    fields = reader.read_struct(0)
    return fields, reader.place


def list_lengths(content: bytes, outer: int, inner: int) -> Iterator[tuple[int, int]]:
    """Count the items of the lists of a structure, of which one has structures with a list of their own.

    Parameters
    ----------
    content : bytes
        Bytes of the structure.
    outer, inner : int
        Ids of the list of structures, and of the list in each.

    Yields
    ------
    n_others, n_inner : int
        Items so far: of all other lists of the structure, and of the inner lists.

    """
    reader = _Reader(content, 0)
    n_others = n_inner = 0
    yield n_others, n_inner
    for field, kind in reader.fields():
        if kind != _LIST:
            reader.read_value(kind, 0)
            continue
        n_items, item = reader.read_list_header()
        if field != outer or item != _STRUCT:
            n_others += n_items
            yield n_others, n_inner
            reader.skip_values(n_items, (item,), 0)
            continue
        for _ in range(n_items):
            for part, part_kind in reader.fields():
                if part == inner and part_kind == _LIST:
                    n_parts, part_item = reader.read_list_header()
                    n_inner += n_parts
                    yield n_others, n_inner
                    reader.skip_values(n_parts, (part_item,), 1)
                else:
                    reader.read_value(part_kind, 1)


class _Reader:
    def __init__(self, content: bytes, place: int):
        self.content = content
        self.place = place

    def read_byte(self) -> int:
        self.place += 1
        return self.content[self.place - 1]

    def read_unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.read_byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number is too long")

    def read_signed(self) -> int:
        value = self.read_unsigned()
        return (value >> 1) ^ -(value & 1)

    def skip(self, n_bytes: int) -> None:
        self.place += n_bytes
        if self.place > len(self.content):
            raise IndexError("the content ends in a value")

    def read_struct(self, depth: int) -> dict[int, Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("structures are nested too deeply")
        return {
            field: kind == _TRUE if kind in (_TRUE, _FALSE) else self.read_value(kind, depth)
            for field, kind in self.fields()
        }

    def fields(self) -> Iterator[tuple[int, int]]:
        """Iterate over the ids and types of the fields of a structure, whose values the caller reads."""
        seen: set[int] = set()
        last = 0
        while head := self.read_byte():
            last = last + (head >> 4) if head >> 4 else self.read_signed()
            if last in seen:  # readers differ in which of the two they take
                raise ValueError(f"field {last} is given twice")
            seen.add(last)
            yield last, head & 0x0F

    def read_list_header(self) -> tuple[int, int]:
        """Read the number of items of a list, and their type."""
        head = self.read_byte()
        return (self.read_unsigned() if head >> 4 == 15 else head >> 4), head & 0x0F

    def read_value(self, kind: int, depth: int) -> Any:
        if kind in (_I16, _I32, _I64):
            return self.read_signed()
        if kind == _STRUCT:
            return self.read_struct(depth + 1)
        if kind in (_TRUE, _FALSE, _BYTE, _DOUBLE):
            return self.skip(8 if kind == _DOUBLE else 1)
        if kind == _BINARY:
            return self.skip(self.read_unsigned())
        if kind in (_LIST, _SET):
            n_items, item = self.read_list_header()
            return self.skip_values(n_items, (item,), depth)
        if kind == _MAP:
            n_values = self.read_unsigned()
            head = self.read_byte() if n_values else 0
            return self.skip_values(n_values, (head >> 4, head & 0x0F), depth)
        raise ValueError(f"there is no type {kind}")

    def skip_values(self, n_values: int, kinds: tuple[int, ...], depth: int) -> None:
        for _ in range(n_values):  # each takes at least a byte
            for kind in kinds:
                self.read_value(kind, depth + 1)
