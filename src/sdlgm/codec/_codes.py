"""Codes to bytes and back under the prior of a model."""

import binascii
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import IO, TypeVar

import numpy as np
import scipy.sparse as sp

from sdlgm import _kernels
from sdlgm._kernels.entropy import IntegerPrior
from sdlgm.codec import _files
from sdlgm.codec._files import MOST_ROWS, Source
from sdlgm.codec._ranks import CodeNumbers
from sdlgm.errors import BudgetError, DataError

CHECKSUM_BYTES = 2
"""Bytes of the checksum of a message."""
AT_ONCE = 1 << 18
"""Numbers of the codes that are held in full at a time."""


_DAMAGED = "is damaged, or of another model; send it again, or read it with its own model"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Codec:
    """Codes of a model as bytes.

    A message is one code. It is as short as an entropy code under the prior of the model, and never longer than
    `max_bytes`: a code that the prior finds unlikely is written as its number among all codes. The first bit says
    which. The length of a message is not part of it; a channel such as MQTT or Kafka knows it.

    Parameters
    ----------
    prior : IntegerPrior
        The prior in whole numbers.
    n_features : int
        Features of a code, K.
    budget : int
        Largest sum of a code, L0.
    sets : bool
        Whether codes are sets of features, rather than counts.
    fingerprint : bytes
        Eight bytes that differ from model to model.

    """

    prior: IntegerPrior
    n_features: int
    budget: int
    sets: bool
    fingerprint: bytes

    @cached_property
    def numbers(self) -> CodeNumbers:
        """The numbers of all codes within the budget."""
        return CodeNumbers(self.n_features, self.budget, self.sets)

    @cached_property
    def max_bytes(self) -> int:
        """Bytes of the longest message, without a checksum: those of one bit and the number of a code."""
        return (1 + self.numbers.n_bits + 7) // 8

    @property
    def block_rows(self) -> int:
        """Rows that are written together."""
        return max(1, min(MOST_ROWS, AT_ONCE // self.n_features))

    # Messages

    def to_messages(self, codes: sp.csr_matrix, *, checksum: bool = False) -> list[bytes]:
        """Return one message for each row.

        Parameters
        ----------
        codes : CSR matrix of shape (n_rows, n_features)
            Codes within the budget.
        checksum : bool, default=False
            Append two bytes by which damage, and messages of other models, are found.

        Returns
        -------
        messages : list of bytes

        """
        messages = [self._message(row[None]) for rows in self._dense(codes) for row in rows]
        return [message + self._checksum(message) for message in messages] if checksum else messages

    def from_messages(self, messages: Iterable[bytes], *, checksum: bool = False) -> sp.csr_matrix:
        """Return the codes of messages.

        Parameters
        ----------
        messages : iterable of bytes
        checksum : bool, default=False
            Whether the messages have a checksum.

        Returns
        -------
        codes : CSR matrix of int32 of shape (n_messages, n_features)

        Raises
        ------
        DataError
            If a message is not one that this model writes; the error says which. Without a checksum, most damaged
            messages are read as other codes.

        """
        parts = [self.no_codes]
        for first, some in enumerate(batched(messages, self.block_rows)):
            rows = []
            for place, message in enumerate(some):
                try:
                    rows.append(self._row(self._checked(message) if checksum else bytes(message)))
                except DataError as error:
                    raise DataError(f"message {first * self.block_rows + place}: {error}") from error
            parts.append(sp.csr_matrix(np.concatenate(rows)))
        return joined(parts)

    def _message(self, row: np.ndarray) -> bytes:
        message = _kernels.write_codes(self.prior, row, self.budget)
        if len(message) > self.max_bytes:
            message = self._number_message(row)
        return message or b"\0"

    def _number_message(self, row: np.ndarray) -> bytes:
        """Return a message of the bit 1 and the number of a code, without the zeros at its end."""
        features = np.repeat(np.arange(self.n_features), row[0]).tolist()
        n_bits = self.numbers.n_bits
        number = (1 << n_bits | self.numbers.rank(features)) << (8 * self.max_bytes - 1 - n_bits)
        return number.to_bytes(self.max_bytes, "big").rstrip(b"\0")

    def _row(self, message: bytes) -> np.ndarray:
        if not 1 <= len(message) <= self.max_bytes:
            raise DataError(f"has {len(message)} bytes, and those of this model have 1 to {self.max_bytes}")
        if message[0] < 128:
            row = _kernels.read_codes(self.prior, message, 1, self.n_features, self.budget)
        else:
            row = self._numbered_row(message)
        if self._message(row) != message:
            raise DataError(_DAMAGED)
        return row

    def _numbered_row(self, message: bytes) -> np.ndarray:
        n_bits = self.numbers.n_bits
        number = int.from_bytes(message.ljust(self.max_bytes, b"\0"), "big")
        rank = (number >> (8 * self.max_bytes - 1 - n_bits)) - (1 << n_bits)
        if rank >= self.numbers.n_codes:
            raise DataError(_DAMAGED)
        return np.bincount(self.numbers.features(rank), minlength=self.n_features).astype(np.int32)[None]

    def _checksum(self, message: bytes) -> bytes:
        return binascii.crc_hqx(self.fingerprint + message, 0).to_bytes(CHECKSUM_BYTES, "big")

    def _checked(self, message: bytes) -> bytes:
        content, checksum = bytes(message[:-CHECKSUM_BYTES]), bytes(message[-CHECKSUM_BYTES:])
        if self._checksum(content) != checksum:
            raise DataError(_DAMAGED)
        return content

    # Blocks

    def to_blocks(self, codes: sp.csr_matrix) -> Iterator[tuple[int, bytes]]:
        """Yield the number of rows and the bytes of each block.

        The rows of a block share one interval of the coder, feature by feature. A block that would be longer than the
        numbers of its codes, of `max_bytes` each, holds these.
        """
        for rows in self._dense(codes):
            block = _kernels.write_codes(self.prior, rows, self.budget)
            if len(block) > self.max_bytes * len(rows):
                block = b"".join(self._number_message(row[None]).ljust(self.max_bytes, b"\0") for row in rows)
            yield len(rows), block

    def from_block(self, block: bytes, n_rows: int) -> sp.csr_matrix:
        """Return the codes of a block, whose checksum is right."""
        if n_rows > self.block_rows:
            raise DataError(f"a block of this model has at most {self.block_rows} rows, and there is one of {n_rows}")
        if not block or block[0] < 128:
            return sp.csr_matrix(_kernels.read_codes(self.prior, block, n_rows, self.n_features, self.budget))
        if len(block) != n_rows * self.max_bytes:
            raise DataError(f"a block of {len(block)} bytes cannot have {n_rows} rows")
        rows = [self._numbered_row(block[i : i + self.max_bytes]) for i in range(0, len(block), self.max_bytes)]
        return sp.csr_matrix(np.concatenate(rows))

    # Files

    def to_bytes(self, codes: sp.csr_matrix) -> bytes:
        """Return codes as the content of a ``.sdl`` file.

        Parameters
        ----------
        codes : CSR matrix of shape (n_rows, n_features)
            Codes within the budget.

        Returns
        -------
        content : bytes

        """
        file = io.BytesIO()
        self.write(file, [codes])
        return file.getvalue()

    def write(self, file: IO[bytes], parts: Iterable[sp.csr_matrix]) -> int:
        """Write codes, one matrix after the other, as a ``.sdl`` file.

        Parameters
        ----------
        file : binary file
        parts : iterable of CSR matrices of shape (n_rows, n_features)

        Returns
        -------
        n_rows : int
            Number of rows written.

        """
        writer, waiting = _files.Writer(file, _files.CODES, self.fingerprint), self.no_codes
        for part in parts:
            waiting = joined([waiting, part])
            n_whole = waiting.get_shape()[0] // self.block_rows * self.block_rows
            for n_rows, block in self.to_blocks(waiting[:n_whole]):
                writer.append(n_rows, block)
            waiting = waiting[n_whole:]
        for n_rows, block in self.to_blocks(waiting):
            writer.append(n_rows, block)
        writer.close()
        return writer.n_rows

    def from_bytes(self, source: Source) -> sp.csr_matrix:
        """Return all codes of a ``.sdl`` file.

        Parameters
        ----------
        source : bytes, path or binary file

        Returns
        -------
        codes : CSR matrix of int32 of shape (n_rows, n_features)

        """
        return joined([self.no_codes, *self.read(source)])

    def read(self, source: Source) -> Iterator[sp.csr_matrix]:
        """Yield the codes of each block of a ``.sdl`` file. Of a damaged file, raise after the last whole block.

        Parameters
        ----------
        source : bytes, path or binary file

        Returns
        -------
        codes : iterator of CSR matrices

        """
        with _files.opened(source) as reader:
            reader.check_model(self.fingerprint, _files.CODES)
            for n_rows, block in reader.blocks():
                yield self.from_block(block, n_rows)

    def kind_of(self, source: Source) -> int:
        """Return what a ``.sdl`` file of the model has: `CODES`, `ROWS` without loss, or `BOUNDED` rows.

        Parameters
        ----------
        source : bytes, path or binary file

        Returns
        -------
        kind : int

        """
        with _files.opened(source) as reader:
            reader.check_model(self.fingerprint, reader.kind)
            return reader.kind

    def rows(self, source: Source, first: int, last: int) -> sp.csr_matrix:
        """Return the codes of the rows from ``first`` up to ``last`` of a ``.sdl`` file, reading only their blocks.

        Parameters
        ----------
        source : bytes, path or binary file
        first, last : int
            Rows, counted from 0; ``last`` is not included.

        Returns
        -------
        codes : CSR matrix of int32 of shape (last - first, n_features)

        """
        with _files.opened(source) as reader:
            reader.check_model(self.fingerprint, _files.CODES)
            blocks = [b for b in reader.index() if b.first_row < last and first < b.first_row + b.n_rows]
            parts = [self.from_block(reader.block(block), block.n_rows) for block in blocks]
        before = blocks[0].first_row if blocks else first
        return joined([self.no_codes, *parts])[first - before : last - before]

    # Codes

    @property
    def no_codes(self) -> sp.csr_matrix:
        """A matrix without rows."""
        return sp.csr_matrix(np.zeros((0, self.n_features), np.int32))

    def _dense(self, codes: sp.csr_matrix) -> Iterator[np.ndarray]:
        """Yield the rows of a few codes at a time, checked."""
        n_rows, n_features = codes.get_shape()
        if n_features != self.n_features:
            raise ValueError(f"codes have {n_features} columns, and those of the model {self.n_features}")
        for first in range(0, n_rows, self.block_rows):
            given = codes[first : first + self.block_rows].toarray()
            rows = given.astype(np.int32)
            if (rows != given).any() or (rows < 0).any():
                raise ValueError(f"codes from row {first} on have entries that are not counts")
            if self.sets and (rows > 1).any():
                raise ValueError(f"codes from row {first} on have a feature twice, and those of the model are sets")
            over = np.flatnonzero(rows.sum(1) > self.budget)
            if over.size:
                row = int(over[0])
                raise BudgetError(f"row {first + row} has {rows[row].sum()} active slots; the budget is {self.budget}")
            yield rows


def batched(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of ``size`` items, the last one with what is left."""
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some


def joined(parts: Sequence[sp.csr_matrix]) -> sp.csr_matrix:
    """Return one matrix of the rows of all parts, of which there is at least one."""
    return sp.csr_matrix(sp.vstack(parts, format="csr"))
