"""Binary rows without loss, by bits-back coding (Townsend, Bird and Barber, ICLR 2019).

All rows of a block share a stack. For each batch of rows x,

    take codes z off the stack with q(z given x); put x on it with p(x given z); put z on it with p(z),

so that a row takes -log p(x given z) - log p(z) + log q(z given x) bits, on average the negative bound. Reading does
the opposite from the last batch to the first, and gives back what was taken. The first batch takes bits that nobody has
put there; they are known, so only those that it took count.

Encoder and decoder compute in floating point, and another machine may round in another way. So batches have the same
shape in both directions, one thread computes, and a checksum says whether the rows are right.
"""

import contextlib
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, Protocol

import numpy as np
import torch

from sdlgm._kernels.entropy import LARGEST_LOGIT, PROBABILITY_BITS, IntegerChain
from sdlgm._optional import optional_import
from sdlgm.codec import _files
from sdlgm.codec._codes import Codec
from sdlgm.codec._files import Source
from sdlgm.errors import DataError
from sdlgm.model.codes.coupling import DenseCoupling, LowRankCoupling
from sdlgm.model.codes.under_chain import ChainUnderChain, SubsetUnderChain
from sdlgm.model.modules import SDLGMModule

BATCH = 16
"""Most rows whose codes are drawn together. The first batch is one row, since it takes bits that have to be sent."""
BLOCK_ROWS = 1024
WORD_BYTES = 4
_ONE = 1 << PROBABILITY_BITS


class _Steps(Protocol):
    """A distribution over sets, feature by feature, of a batch of rows."""

    def shares(self, k: int) -> np.ndarray:
        """Return the probability of feature k in each row, in parts of 2^PROBABILITY_BITS."""
        ...

    def add(self, k: int, rows: np.ndarray) -> None:
        """Note that feature k is present in some rows."""
        ...


class _PriorSteps:
    def __init__(self, prior: IntegerChain, n_rows: int):
        self._prior = prior
        self._reads, self._writes = prior.reads.astype(np.int64), prior.writes.astype(np.int64)
        self._states = np.repeat(prior.start.astype(np.int64)[None], n_rows, axis=0)

    def shares(self, k: int) -> np.ndarray:
        prior = self._prior
        units = np.maximum(self._states, 0) if prior.rectified else self._states
        half = (1 << prior.down) >> 1
        logits = prior.bias[k] + (((units @ self._reads[k] << prior.up) + half) >> prior.down)
        return prior.sigmoid[np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT) + LARGEST_LOGIT]

    def add(self, k: int, rows: np.ndarray) -> None:
        self._states[rows] += self._writes[k]


class _PosteriorSteps:
    def __init__(self, logits: np.ndarray, matrix: np.ndarray | None):
        self._logits, self._matrix = logits.copy(), matrix

    def shares(self, k: int) -> np.ndarray:
        return _parts(self._logits[:, k])

    def add(self, k: int, rows: np.ndarray) -> None:
        if self._matrix is not None:
            self._logits[rows, k + 1 :] += self._matrix[k, k + 1 :]


@dataclass(frozen=True)
class BitsBack:
    """Blocks of binary rows as bytes under a model with sets for codes and a chain prior.

    Parameters
    ----------
    module : SDLGMModule
    codec : Codec
        The codec of its codes.

    """

    module: SDLGMModule
    codec: Codec

    def __post_init__(self) -> None:
        if not isinstance(self.codec.prior, IntegerChain) or self.module.config.likelihood != "bernoulli":
            raise DataError(
                "lossless compression needs prior='chain' and likelihood='bernoulli'; fit such a model to the rows"
            )
        self._constriction  # noqa: B018 - raise now if it is not installed

    @cached_property
    def _constriction(self) -> Any:
        return optional_import("constriction", "codec")

    @cached_property
    def _coin(self) -> Any:
        return self._constriction.stream.model.Bernoulli(perfect=False)

    @cached_property
    def _first_words(self) -> np.ndarray:
        """The words at the bottom of a stack: more than any first batch takes, and the same for all blocks."""
        n_words = 2 + BATCH * self.codec.n_features * (PROBABILITY_BITS + 1) // 32
        words = hashlib.shake_128(b"sdlgm").digest(WORD_BYTES * n_words)
        return np.frombuffer(words, "<u4").astype(np.uint32) | np.uint32(1)

    def to_block(self, rows: np.ndarray) -> tuple[bytes, int]:
        """Return binary rows as bytes, and how many bits of them are first bits.

        Parameters
        ----------
        rows : ndarray of uint8 of shape (n_rows, n_inputs)
            Zeros and ones.

        """
        with _one_thread():
            stack = self._constriction.stream.stack.AnsCoder(self._first_words)
            for first, last in _batches(len(rows)):
                x = rows[first:last]
                codes = self._draw(stack, self._posterior(x), len(x))
                shares = self._pixels(codes)
                stack.encode_reverse(x.ravel().astype(np.int32), self._coin, shares.ravel() / _ONE)
                self._put(stack, _PriorSteps(self._chain, len(x)), codes)
            words = stack.get_compressed()
        n_same = min(len(words), len(self._first_words))
        n_same = int((np.cumprod(words[:n_same] == self._first_words[:n_same])).sum())
        content = words[n_same:].astype("<u4").tobytes()
        header = n_same.to_bytes(WORD_BYTES, "little") + _checksum(rows)
        return header + content, 32 * (len(self._first_words) - n_same)

    def from_block(self, block: bytes, n_rows: int) -> np.ndarray:
        """Return the rows of a block."""
        n_same, checksum = int.from_bytes(block[:WORD_BYTES], "little"), block[WORD_BYTES : 2 * WORD_BYTES]
        content = block[2 * WORD_BYTES :]
        if len(content) % WORD_BYTES or n_same > len(self._first_words):
            raise DataError("a block is not of rows without loss")
        words = np.concatenate([self._first_words[:n_same], np.frombuffer(content, "<u4").astype(np.uint32)])
        rows = np.zeros((n_rows, self.module.config.n_inputs), np.uint8)
        with _one_thread():
            stack = self._constriction.stream.stack.AnsCoder(words)
            for first, last in reversed(_batches(n_rows)):
                n = last - first
                codes = self._draw(stack, _PriorSteps(self._chain, n), n)
                shares = self._pixels(codes)
                x = stack.decode(self._coin, shares.ravel() / _ONE).reshape(shares.shape).astype(np.uint8)
                self._put(stack, self._posterior(x), codes)
                rows[first:last] = x
            left = stack.get_compressed()
        if _checksum(rows) != checksum or not np.array_equal(left, self._first_words):
            raise DataError(
                "rows without loss decode to other rows here: the networks of the model round in another way on this "
                "machine, or with this version of torch; decompress where they were compressed"
            )
        return rows

    # Files

    def write(self, file: IO[bytes], batches: Iterable[np.ndarray]) -> tuple[int, int]:
        """Write binary rows as a ``.sdl`` file. Return the number of rows, and of first bits."""
        writer = _files.Writer(file, _files.ROWS, self.codec.fingerprint)
        waiting, n_first_bits = np.empty((0, self.module.config.n_inputs), np.uint8), 0
        for last, batch in _with_last(batches):
            waiting = np.concatenate([waiting, self._binary(batch)])
            while len(waiting) >= BLOCK_ROWS or (last and len(waiting)):
                block, n_bits = self.to_block(waiting[:BLOCK_ROWS])
                writer.append(len(waiting[:BLOCK_ROWS]), block)
                waiting, n_first_bits = waiting[BLOCK_ROWS:], n_first_bits + n_bits
        writer.close()
        return writer.n_rows, n_first_bits

    def read(self, source: Source) -> Iterator[np.ndarray]:
        """Yield the rows of each block of a ``.sdl`` file."""
        with _files.opened(source) as reader:
            reader.check_model(self.codec.fingerprint, _files.ROWS)
            for n_rows, block in reader.blocks():
                yield self.from_block(block, n_rows)

    def _binary(self, rows: np.ndarray) -> np.ndarray:
        if not ((rows == 0) | (rows == 1)).all():
            raise DataError("only rows of zeros and ones are compressed without loss; give (X > 0.5), or leave it out")
        return rows.astype(np.uint8)

    @property
    def _chain(self) -> IntegerChain:
        assert isinstance(self.codec.prior, IntegerChain)
        return self.codec.prior

    def _draw(self, stack: Any, steps: _Steps, n_rows: int) -> np.ndarray:
        """Take codes off the stack."""
        codes = np.zeros((n_rows, self.codec.n_features), np.int32)
        n_left = np.full(n_rows, self.codec.budget)
        for k in range(self.codec.n_features):
            reached = np.flatnonzero(n_left > 0)
            if len(reached):
                present = reached[stack.decode(self._coin, steps.shares(k)[reached] / _ONE) == 1]
                codes[present, k] = 1
                n_left[present] -= 1
                steps.add(k, present)
        return codes

    def _put(self, stack: Any, steps: _Steps, codes: np.ndarray) -> None:
        """Put codes on the stack, the last feature first."""
        n_left = np.full(len(codes), self.codec.budget)
        decisions = []
        for k in range(self.codec.n_features):
            reached = np.flatnonzero(n_left > 0)
            decisions.append((codes[reached, k], steps.shares(k)[reached] / _ONE))
            present = np.flatnonzero(codes[:, k])
            n_left[present] -= 1
            steps.add(k, present)
        for outcomes, shares in reversed(decisions):
            if len(outcomes):
                stack.encode_reverse(outcomes, self._coin, shares)

    def _pixels(self, codes: np.ndarray) -> np.ndarray:
        """Return the probabilities of p(x given z) in parts of 2^PROBABILITY_BITS."""
        return _parts(self._network(self.module.generative, codes))

    def _posterior(self, x: np.ndarray) -> _PosteriorSteps:
        posterior = self.module.inference(self._padded(x))
        assert isinstance(posterior, ChainUnderChain | SubsetUnderChain)
        matrix = None
        if isinstance(posterior, ChainUnderChain):
            matrix = _matrix(posterior.coupling)
        return _PosteriorSteps(posterior.logits[: len(x)].double().cpu().numpy(), matrix)

    def _network(self, network: Any, values: np.ndarray) -> np.ndarray:
        return network(self._padded(values))[: len(values)].double().cpu().numpy()

    def _padded(self, values: np.ndarray) -> torch.Tensor:
        """Return a batch of the size that all have, whatever is missing at its end."""
        parameter = next(self.module.parameters())
        batch = torch.zeros(BATCH, values.shape[1], dtype=parameter.dtype)
        batch[: len(values)] = torch.from_numpy(values)
        return batch.to(parameter.device)


def _batches(n_rows: int) -> list[tuple[int, int]]:
    """Return the first row of each batch and that of the next. A batch takes bits that those before have put there."""
    batches, first = [], 0
    while first < n_rows:
        last = min(first + min(max(first, 1), BATCH), n_rows)
        batches.append((first, last))
        first = last
    return batches


def _with_last(items: Iterable[np.ndarray]) -> Iterator[tuple[bool, np.ndarray]]:
    """Yield items, and whether each is the last one."""
    iterator = iter(items)
    item = next(iterator, None)
    while item is not None:
        following = next(iterator, None)
        yield following is None, item
        item = following


def _matrix(coupling: object) -> np.ndarray:
    """Return the effect of each feature on each other one."""
    if isinstance(coupling, DenseCoupling):
        return coupling.matrix.double().cpu().numpy()
    assert isinstance(coupling, LowRankCoupling)
    return (coupling.writes.double() @ coupling.reads.double().T).cpu().numpy()


def _parts(logits: np.ndarray) -> np.ndarray:
    """Return probabilities of log-odds, as whole numbers of parts, neither none nor all of them."""
    shares = _ONE / (1 + np.exp(-np.clip(logits, -30, 30)))
    return np.clip(np.rint(shares), 1, _ONE - 1).astype(np.int64)


def _checksum(rows: np.ndarray) -> bytes:
    return zlib.crc32(np.packbits(rows, axis=None).tobytes()).to_bytes(WORD_BYTES, "little")


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(n_threads)
