"""Files of codes, ``.sdl``: a header, blocks of rows with a checksum each, and an index of the blocks.

    header  magic, version, kind, fingerprint of the model; of rows within bounds also the number of bounds, and these
    block   number of rows, number of bytes, the bytes, checksum; as often as needed
    index   0, number of blocks, rows and bytes of each block, checksum, length of the index

Checksums are CRC-32, four bytes with the lowest first. They cover the header and the number of rows before as well, so
that a block cannot change places. Other numbers have seven bits in a byte, the lowest first, and the highest bit of all
bytes but the last.

A file is read from its beginning as far as it is whole. Its index, at the end, leads to any block without the others.
"""

import contextlib
import io
import os
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, TypeVar

import numpy as np

from sdlgm._limits import check_memory
from sdlgm.errors import DataError

Source = bytes | bytearray | memoryview | str | os.PathLike[str] | IO[bytes]
"""The content of a file, its path, or the open file."""


class HasShape(Protocol):
    """An array or a sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]: ...


Part = TypeVar("Part", bound=HasShape)

MAGIC = b"\x89SDL"
VERSION = 1
CODES, ROWS, BOUNDED = 0, 1, 2
"""Kinds of content: codes, rows without loss, or rows within bounds of their errors."""
KINDS = {CODES: "codes", ROWS: "rows without loss", BOUNDED: "rows within error bounds"}
BOUND_BYTES = 8
"""Bytes of a bound: a floating-point number of double precision, the lowest first."""
FINGERPRINT_BYTES = 8
CHECKSUM_BYTES = 4
HEADER_BYTES = len(MAGIC) + 2 + FINGERPRINT_BYTES
MOST_ROWS = 1024
"""Most rows of a block."""
_LONGEST_NUMBER = 9


@dataclass(frozen=True)
class Block:
    """Where a block is and what it holds."""

    first_row: int
    n_rows: int
    offset: int
    n_bytes: int
    """With its sizes and its checksum."""


class Writer:
    """Write blocks to an open file.

    Parameters
    ----------
    file : binary file
    kind : int
        What blocks hold.
    fingerprint : bytes
        That of the model.
    bounds : ndarray of float64, default=None
        Bounds of errors; of the kind `BOUNDED` only.

    """

    def __init__(self, file: IO[bytes], kind: int, fingerprint: bytes, bounds: np.ndarray | None = None):
        self._file, self._header = file, MAGIC + bytes([VERSION, kind]) + fingerprint
        if bounds is not None:
            self._header += number_bytes(len(bounds)) + bounds.astype("<f8").tobytes()
        self._sizes: list[tuple[int, int]] = []
        self.n_rows, self.n_bytes = 0, 0
        self._put(self._header)

    def append(self, n_rows: int, content: bytes) -> None:
        """Write a block of at least one row."""
        block = number_bytes(n_rows) + number_bytes(len(content)) + content
        block += _checksum(_seed(self.n_rows, self._header) + block)
        self._put(block)
        self._sizes.append((n_rows, len(block)))
        self.n_rows += n_rows

    def close(self) -> None:
        """Write the index. The file itself stays open."""
        sizes = b"".join(number_bytes(n_rows) + number_bytes(n_bytes) for n_rows, n_bytes in self._sizes)
        index = number_bytes(0) + number_bytes(len(self._sizes)) + sizes
        index += _checksum(_seed(self.n_rows, self._header) + index)
        self._put(index + len(index).to_bytes(4, "little"))

    def _put(self, content: bytes) -> None:
        self._file.write(content)
        self.n_bytes += len(content)


class Reader:
    """Read blocks of an open file, in their order or any of them.

    Nothing is taken on trust: sizes are compared with what the file has before they are used, and every block with its
    checksum.

    Parameters
    ----------
    file : binary file
        It can be read from any place.
    where : str
        Name of the file, for messages.

    """

    def __init__(self, file: IO[bytes], where: str):
        self._file, self.where = file, where
        self.n_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        self._header = header = file.read(HEADER_BYTES)
        if header[: len(MAGIC)] != MAGIC:
            raise DataError(f"{where}: is not a file of compressed codes; those are made by 'sdlgm compress'")
        if len(header) < HEADER_BYTES:
            raise self._error("it is cut short")
        version, self.kind = header[len(MAGIC)], header[len(MAGIC) + 1]
        if version != VERSION or self.kind not in KINDS:
            raise DataError(f"{where}: file version {version}.{self.kind} is not known to this sdlgm; use a newer one")
        self.fingerprint = header[len(MAGIC) + 2 :]
        self.bounds: np.ndarray | None = None
        """Bounds of errors, of rows that have them."""
        if self.kind == BOUNDED:
            self.bounds = self._bounds()
            self._header += number_bytes(len(self.bounds)) + self.bounds.tobytes()

    def check_model(self, fingerprint: bytes, kind: int) -> None:
        """Raise if the file is of another model, or has other content."""
        if kind != self.kind:
            raise DataError(f"{self.where}: has {KINDS[self.kind]}, and not {KINDS[kind]}")
        if fingerprint != self.fingerprint:
            raise DataError(
                f"{self.where}: was made by the model {self.fingerprint.hex()}, and this is the model "
                f"{fingerprint.hex()}; read it with its own model"
            )

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the rows and the content of each block. Raise after the last whole one if the file is damaged."""
        self._file.seek(len(self._header))
        n_rows_before, sizes = 0, []
        while True:
            offset = self._file.tell()
            n_rows = self._number()
            if n_rows == 0:
                break
            content = self._content(n_rows, n_rows_before)
            yield n_rows, content
            n_rows_before += n_rows
            sizes.append((n_rows, self._file.tell() - offset))
        if sizes != [(block.n_rows, block.n_bytes) for block in self.index()]:
            raise self._error(f"its index does not fit its {n_rows_before} rows")

    def index(self) -> list[Block]:
        """Return where all blocks are, from the end of the file."""
        self._file.seek(max(len(self._header), self.n_bytes - 4))
        length = int.from_bytes(self._file.read(4), "little")
        start = self.n_bytes - 4 - length
        if start < len(self._header) or length < CHECKSUM_BYTES + 2:
            raise self._error("it has no index, so it is cut short")
        self._file.seek(start)
        content = self._file.read(length - CHECKSUM_BYTES)
        checksum, numbers = self._file.read(CHECKSUM_BYTES), _numbers(content)
        blocks, first_row, offset = [], 0, len(self._header)
        if numbers is not None and numbers[0] == 0 and len(numbers) == 2 + 2 * numbers[1]:
            for n_rows, n_bytes in zip(numbers[2::2], numbers[3::2], strict=True):
                blocks.append(Block(first_row, n_rows, offset, n_bytes))
                first_row, offset = first_row + n_rows, offset + n_bytes
        if _checksum(_seed(first_row, self._header) + content) != checksum or offset != start:
            raise self._error("its index is damaged, or it is cut short")
        return blocks

    def block(self, block: Block) -> bytes:
        """Return the content of one block of the index."""
        self._file.seek(block.offset)
        if self._number() != block.n_rows:
            raise self._error(f"the block of row {block.first_row} is damaged")
        return self._content(block.n_rows, block.first_row)

    def _content(self, n_rows: int, n_rows_before: int) -> bytes:
        n_bytes = self._number()
        if n_bytes > self.n_bytes - self._file.tell() - CHECKSUM_BYTES:
            raise self._error(f"it is cut short after {n_rows_before} rows, or damaged there")
        content, checksum = self._file.read(n_bytes), self._file.read(CHECKSUM_BYTES)
        block = number_bytes(n_rows) + number_bytes(n_bytes) + content
        if _checksum(_seed(n_rows_before, self._header) + block) != checksum or n_rows > MOST_ROWS:
            raise self._error(f"it is damaged after {n_rows_before} rows")
        return content

    def _bounds(self) -> np.ndarray:
        n_bytes = BOUND_BYTES * self._number()
        if n_bytes > self.n_bytes - self._file.tell():
            raise self._error("it is cut short")
        return np.frombuffer(self._file.read(n_bytes), "<f8")

    def _number(self) -> int:
        number = 0
        for place in range(_LONGEST_NUMBER):
            byte = self._file.read(1)
            if not byte:
                raise self._error("it is cut short")
            number |= (byte[0] & 127) << (7 * place)
            if byte[0] < 128:
                return number
        raise self._error("a size in it is damaged")

    def _error(self, reason: str) -> DataError:
        return DataError(f"{self.where}: {reason}; copy it again")


@contextlib.contextmanager
def opened(source: Source) -> Iterator[Reader]:
    """Open the bytes of a file, a path, or an open file, which stays open."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
        with path.open("rb") as file:
            yield Reader(file, str(path))
    elif isinstance(source, bytes | bytearray | memoryview):
        yield Reader(io.BytesIO(source), "the compressed rows")
    else:
        yield Reader(source, getattr(source, "name", "the file"))


def within_memory(blocks: Iterable[Part], source: Source | list[Path], row_bytes: int) -> Iterator[Part]:
    """Yield what the blocks of a file hold, or raise before all rows take more memory than a file of its size may.

    Parameters
    ----------
    blocks : iterable of arrays or sparse matrices
        Each with one row for each row of the block.
    source : bytes, path, binary file or list of path
        The file, or files of one folder that have the blocks together.
    row_bytes : int
        Bytes of a decoded row.

    Returns
    -------
    blocks : iterator

    """
    if isinstance(source, list):
        where, n_bytes = str(source[0].parent), sum(path.stat().st_size for path in source)
    else:
        with opened(source) as reader:
            where, n_bytes = reader.where, reader.n_bytes
    n_rows = 0
    for block in blocks:
        n_rows += block.shape[0]
        check_memory(where, n_rows * row_bytes, n_bytes, "use decompress_batches")
        yield block


def _checksum(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(CHECKSUM_BYTES, "little")


def _seed(n_rows_before: int, header: bytes) -> bytes:
    return n_rows_before.to_bytes(8, "little") + header


def number_bytes(number: int) -> bytes:
    """Return a whole number from 0 on in bytes of seven bits each."""
    content = bytearray()
    while number > 127:
        content.append(number & 127 | 128)
        number >>= 7
    content.append(number)
    return bytes(content)


def split(content: bytes) -> tuple[bytes, bytes]:
    """Return the part at the beginning of some bytes, which has its length before it, and the rest."""
    for end in range(1, min(_LONGEST_NUMBER, len(content)) + 1):
        if content[end - 1] < 128:
            length = sum((byte & 127) << (7 * place) for place, byte in enumerate(content[:end]))
            if length <= len(content) - end:
                return content[end : end + length], content[end + length :]
    raise DataError("a size in a block is damaged")


def _numbers(content: bytes) -> list[int] | None:
    """Return all numbers of an index, of which there are at least two, or None."""
    numbers, number, shift = [], 0, 0
    for byte in content:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(number)
            number, shift = 0, 0
        elif shift >= 7 * _LONGEST_NUMBER:
            return None
    return numbers if shift == 0 and len(numbers) > 1 else None
