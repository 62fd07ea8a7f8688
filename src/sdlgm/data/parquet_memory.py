"""Open parquet files, and compute the memory that their row groups take from the headers of their pages.

Sizes in the footer are what the writer says. Arrow allocates by the headers of the pages, so these are read too.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA, arrow_errors, arrow_file, is_text
from sdlgm.data.thrift import read_struct
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_MAGIC = b"PAR1"
# Memory for a byte of the footer: a column without any statistics is a few bytes, and an object of several hundred.
_FOOTER_RATIO = 256
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
        check_memory(path, _FOOTER_RATIO * n_footer, n_bytes, "write fewer columns or row groups in a file")
        file.seek(n_bytes - 8 - n_footer)
        footer = file.read(n_footer)
    # Arrow's own copy of the schema is left out: its fields can share one long name, each of which is copied.
    footer = footer.replace(b"ARROW:schema", b"-----:schema")
    with parquet.ParquetFile(pa.BufferReader(_MAGIC + footer + tail)) as described:
        return described.metadata


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
            dictionary, largest = _page_sizes(path, file, chunk, field.name if is_text(field.type) else None)
            pages += _COLUMN_BYTES
            pages += (_TEXT_PAGE_RATIO if is_text(field.type) else _PAGE_RATIO) * (dictionary + largest)
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
                pages = max(pages, _PAGE_RATIO * sum(_page_sizes(path, file, chunk)))
                n_values[index] += chunk.num_values
                compressed += chunk.total_compressed_size
    # Of a list: its end, length and row end, with the copies that are compared. Of a number: itself, its copy if there
    # are several row groups, and two levels that tell where its list begins.
    whole = pages + compressed + 64 * metadata.num_rows + 16 * sum(n_values)
    return ListMemory(metadata.num_rows, max(n_values), whole)


def _value_bytes(kind: "pa.DataType") -> int:
    """Return the bytes of a value and its level. Text is an index, and small integers have four bytes in the file."""
    size = 4 if is_text(kind) else -(-kind.bit_width // 8)
    # A buffer that grows is copied, which leaves about half of it unused.
    return size + size // 2 + (4 if size < 4 else 0) + 3


def _page_sizes(
    path: Path, file: IO[bytes], chunk: "parquet.ColumnChunkMetaData", text_column: str | None = None
) -> tuple[int, int]:
    """Return the sizes of the dictionary and of the largest other page of a column in a row group.

    The name of the column is given if it holds text.
    """
    place = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < place:
        place = chunk.dictionary_page_offset
    end = place + chunk.total_compressed_size
    dictionary = largest = 0
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
        place += n_header + n_compressed
    return dictionary, largest


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
