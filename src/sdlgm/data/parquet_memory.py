"""Open parquet files, and compute the memory that their row groups take from the headers of their pages.

Sizes in the footer are what the writer says. Arrow allocates by the headers of the pages, so these are read too.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sdlgm._limits import allowed_memory, check_memory, max_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA, arrow_errors, arrow_file, is_text
from sdlgm.data.thrift import list_lengths, read_struct
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_MAGIC = b"PAR1"
# Memory for a byte of the footer at most: a column is ten bytes or more there, and several thousand in memory.
_FOOTER_RATIO = 512
# Memory of a column, of a column of a row group, and for a byte of the footer, for footers that are counted.
_COLUMN_MEMORY, _CHUNK_MEMORY, _COUNTED_RATIO = 6144, 1536, 8
# Fields of the footer in the Thrift definition of the format: its row groups, and the columns of a row group.
_ROW_GROUPS, _CHUNKS = 4, 1
_ARROW_SCHEMA = b"ARROW:schema"
# Fields of Arrow's schema may share a name of its length: for n bytes, n² / 1,000 bytes of memory.
_SCHEMA_DIVISOR = 1000
# Memory for a byte of a page: the page and its decoded values. Texts of a dictionary are views with their hashes.
_PAGE_RATIO, _TEXT_PAGE_RATIO = 2, 24
# Memory of the reader of a column.
_COLUMN_BYTES = 1 << 14
# Fields of a page's header, a type of page and an encoding, in the Thrift definition of the format.
_TYPE, _UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 1, 2, 3
_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7
_HEADER_BYTES, _MAX_HEADER_BYTES = 1 << 9, 1 << 24

REMEDY = "write smaller row groups and read the file with --stream or open_rows"


@contextlib.contextmanager
def open_parquet(path: Path, **options: bool | int | list[str]) -> Iterator["parquet.ParquetFile"]:
    """Open a parquet file. Errors of Arrow name the file.

    Parameters
    ----------
    path : Path
        The file.
    **options
        Options of pyarrow's ``ParquetFile``.

    Yields
    ------
    pyarrow.parquet.ParquetFile

    """
    parquet = optional_import("pyarrow.parquet", EXTRA)
    with (
        arrow_errors(path, "parquet"),
        parquet.ParquetFile(arrow_file(path), metadata=_metadata(path), **options) as file,
    ):
        yield file


def _metadata(path: Path) -> "parquet.FileMetaData":
    pa, parquet = optional_import("pyarrow", EXTRA), optional_import("pyarrow.parquet", EXTRA)
    n_bytes = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, n_bytes - 8))
        tail = file.read(8)
        n_footer = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or n_footer > n_bytes - 8:
            raise DataError(f"{path}: cannot be read as parquet (it has no footer); copy or write it again")
        file.seek(n_bytes - 8 - n_footer)
        footer = file.read(n_footer)
    _check_footer(path, footer, n_bytes)
    footer = _without_large_schema(path, footer)
    with parquet.ParquetFile(pa.BufferReader(_MAGIC + footer + tail)) as described:
        return described.metadata


def _check_footer(path: Path, footer: bytes, file_bytes: int) -> None:
    """Raise if a footer takes too much memory."""
    needed, most = _FOOTER_RATIO * len(footer), allowed_memory(file_bytes)
    if needed > most:  # rare, so that the slow way is taken here only
        try:
            for n_columns, n_chunks in list_lengths(footer, _ROW_GROUPS, _CHUNKS):
                needed = _COLUMN_MEMORY * n_columns + _CHUNK_MEMORY * n_chunks + _COUNTED_RATIO * len(footer)
                if needed > most:
                    break
        except (IndexError, ValueError) as error:
            raise DataError(f"{path}: cannot be read as parquet (its footer is damaged); write it again") from error
    check_memory(path, needed, file_bytes, "write fewer columns or row groups in a file")


def _without_large_schema(path: Path, footer: bytes) -> bytes:
    """Return a footer without Arrow's own copy of the schema, if that could take too much memory.

    It has types that parquet lacks. Of these only time differences would be read as numbers.
    """
    place = footer.find(_ARROW_SCHEMA)
    if place < 0 or (len(footer) - place) ** 2 // _SCHEMA_DIVISOR <= max_memory():
        return footer
    if b"timedelta" in footer:
        raise DataError(f"{path}: has many columns, some of which are time differences; convert these to numbers")
    return footer.replace(_ARROW_SCHEMA, b"-----:schema")


@dataclass(frozen=True)
class GroupMemory:
    """Memory that Arrow takes for the chosen columns of a row group."""

    n_rows: int
    pages: int
    """Bytes of one page and the dictionary of every column, while they are decoded."""
    values: int
    """Bytes of all values, with the levels that tell where one is missing."""
    compressed: int
    """Bytes in the file."""

    @property
    def whole(self) -> int:
        """Bytes at the peak, if all rows are read at once."""
        return self.pages + self.values + self.compressed

    def batch(self, n_rows: int) -> int:
        """Return the bytes at the peak, if this number of rows is read at a time."""
        share = min(1.0, n_rows / max(1, self.n_rows))
        return self.pages + int(self.values * share)


def group_memory(
    path: Path, metadata: "parquet.FileMetaData", fields: Sequence["pa.Field"], columns: Sequence[int], number: int
) -> GroupMemory:
    """Compute the memory that a row group takes in Arrow.

    Parameters
    ----------
    path : Path
        The file.
    metadata : FileMetaData
        Its metadata.
    fields : sequence of Field
        Fields of the columns, none of which is nested.
    columns : sequence of int
        Indices of the columns that are to be read.
    number : int
        Index of the row group.

    Returns
    -------
    GroupMemory

    """
    group = metadata.row_group(number)
    pages = values = compressed = 0
    with path.open("rb") as file:
        for field, index in zip(fields, columns, strict=True):
            chunk = group.column(index)
            if chunk.num_values != group.num_rows:
                raise DataError(
                    f"{path}: column {field.name!r} has {chunk.num_values} values in row group {number}, which has "
                    f"{group.num_rows} rows; write the file again"
                )
            dictionary, largest, texts = _page_sizes(path, file, chunk, field.name if is_text(field.type) else None)
            pages += _COLUMN_BYTES
            pages += (_TEXT_PAGE_RATIO if is_text(field.type) else _PAGE_RATIO) * (dictionary + largest)
            values += texts
            values += group.num_rows * _value_bytes(field.type)
            compressed += chunk.total_compressed_size
    return GroupMemory(group.num_rows, pages, values, compressed)


@dataclass(frozen=True)
class ListMemory:
    """Memory that lists of numbers take to be read at once, and converted to arrays."""

    n_rows: int
    n_values: int
    """Numbers in the fuller of the columns. An empty list counts as one."""
    whole: int
    """Bytes at the peak."""


def list_memory(path: Path, metadata: "parquet.FileMetaData") -> ListMemory:
    """Compute the memory of a file whose columns are lists of four-byte numbers.

    Parameters
    ----------
    path : Path
        The file.
    metadata : FileMetaData
        Its metadata.

    Returns
    -------
    ListMemory

    """
    n_values = [0] * metadata.num_columns
    pages = compressed = 0
    with path.open("rb") as file:
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            for index in range(metadata.num_columns):
                chunk = group.column(index)
                dictionary, largest, _ = _page_sizes(path, file, chunk)
                pages = max(pages, _PAGE_RATIO * (dictionary + largest))
                n_values[index] += chunk.num_values
                compressed += chunk.total_compressed_size
    # Of a list: its end, length and row end, with the copies that are compared. Of a number: itself, its copy if there
    # are several row groups, and two levels that tell where its list begins.
    whole = pages + compressed + 64 * metadata.num_rows + 16 * sum(n_values)
    return ListMemory(metadata.num_rows, max(n_values), whole)


def _value_bytes(kind: "pa.DataType") -> int:
    """Return the bytes of a value and its level. Text is an index, and small integers have four bytes in the file."""
    has_width = not is_text(kind) and kind.num_buffers > 1  # a column without any value has no buffers
    size = -(-kind.bit_width // 8) if has_width else 4
    # A buffer that grows is copied, which leaves about half of it unused.
    return size + size // 2 + (4 if size < 4 else 0) + 3


def _page_sizes(
    path: Path, file: IO[bytes], chunk: "parquet.ColumnChunkMetaData", text_column: str | None = None
) -> tuple[int, int, int]:
    """Return the sizes of the dictionary, of the largest other page and of all texts of a column in a row group.

    The name of the column is given if it holds text. Arrow keeps the different texts of all pages.
    """
    place = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < place:
        place = chunk.dictionary_page_offset
    end = place + chunk.total_compressed_size
    dictionary = largest = texts = 0
    while place < end:
        header, n_header = _page_header(path, file, place)
        size, n_compressed = header.get(_UNCOMPRESSED_SIZE), header.get(_COMPRESSED_SIZE)
        if not (isinstance(size, int) and isinstance(n_compressed, int) and size >= 0 and n_compressed >= 0):
            raise _damaged(path)
        if text_column is not None and _DELTA_BYTE_ARRAY in _encodings(header):
            # A text may repeat all of the one before, so that no size bounds the texts of a page.
            raise DataError(
                f"{path}: column {text_column!r} has texts that are stored as differences; write it with a dictionary"
            )
        if header.get(_TYPE) == _DICTIONARY_PAGE:
            dictionary = max(dictionary, size)
        else:
            largest = max(largest, size)
            texts += 0 if text_column is None else size
        place += n_header + n_compressed
    return dictionary, largest, texts


def _encodings(header: dict[int, Any]) -> Iterator[object]:
    """Return how the values of a page are encoded, from the fields of both versions of data pages."""
    for page, encoding in ((5, 2), (8, 4)):
        if isinstance(header.get(page), dict):
            yield header[page].get(encoding)


def _page_header(path: Path, file: IO[bytes], place: int) -> tuple[dict[int, Any], int]:
    n_bytes = _HEADER_BYTES
    while True:
        file.seek(place)
        content = file.read(n_bytes)
        try:
            return read_struct(content)
        except IndexError:
            if len(content) < n_bytes or n_bytes >= _MAX_HEADER_BYTES:
                raise _damaged(path) from None
            n_bytes *= 8
        except ValueError as error:
            raise _damaged(path) from error


def _damaged(path: Path) -> DataError:
    return DataError(f"{path}: cannot be read as parquet (the header of a page is damaged); copy or write it again")
