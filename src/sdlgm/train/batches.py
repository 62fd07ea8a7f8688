"""Rows to batches: shuffling that depends on seed and epoch alone, densifying, binarising."""

import bisect
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from sdlgm.model.noise import bernoulli

Rows = np.ndarray | sp.csr_array | sp.csr_matrix


def dense(rows: Any) -> np.ndarray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def dense_float32(rows: Rows) -> np.ndarray:
    return dense(rows).astype(np.float32, copy=False)


Prepare = Callable[[Rows], np.ndarray]
"""From rows as users gave them to what the module sees. It is applied to one batch at a time."""


def to_tensor(rows: Rows, device: torch.device) -> Tensor:
    """Rows as a dense float32 tensor, to be read only: it may share its memory with them."""
    values = np.ascontiguousarray(dense_float32(rows))
    # torch warns of memory that it could not write to, such as a memory map.
    return torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)


def threshold(x: Tensor) -> Tensor:
    """Whether each entry is at least one half."""
    return (x >= 0.5).to(x.dtype)


def binarize(x: Tensor, how: str | None, generator: torch.Generator) -> Tensor:
    """Entries in [0, 1] as the likelihood sees them.

    ``"dynamic"``: a fresh draw with the entry as probability; ``"threshold"``: see `threshold`;
    ``"probability"`` or None: the entry itself.
    """
    if how == "dynamic":
        return bernoulli(x, generator)
    if how == "threshold":
        return threshold(x)
    return x


class ShuffledBatches:
    """Dense batches of equal size; which rows form the batch of an iteration follows from the seed and the iteration.

    Nothing has to be remembered to continue a run: the order of an epoch is made anew from its number. The rows that
    do not fill a last batch are left for other epochs, which are shuffled differently.
    """

    def __init__(self, rows: Rows, batch_size: int, seed: int, prepare: Prepare = dense_float32):
        self.rows = rows
        self.prepare = prepare
        self.n_rows: int = rows.shape[0]
        self.batch_size = min(batch_size, self.n_rows)
        self.per_epoch = self.n_rows // self.batch_size
        self.seed = seed
        self._order: tuple[int, np.ndarray] | None = None

    def __getitem__(self, iteration: int) -> np.ndarray:
        epoch, position = divmod(iteration, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, np.random.default_rng([self.seed, epoch]).permutation(self.n_rows))
        start = position * self.batch_size
        return self.prepare(self.rows[self._order[1][start : start + self.batch_size]])

    def fingerprint(self) -> str:
        """A checksum that tells other data from these."""
        parts: tuple[Any, ...] = (self.rows,)
        if sp.issparse(self.rows):
            parts = (self.rows.data, self.rows.indices, self.rows.indptr)
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
        return f"{'x'.join(map(str, self.rows.shape))}-{self.rows.dtype}-{checksum:08x}"


class Parts(Protocol):
    """Rows that are read a part at a time."""

    shape: tuple[int, int]

    @property
    def parts(self) -> Sequence[Any]: ...

    def read(self, part: Any) -> np.ndarray: ...


# Rows that wait, shuffled, to form batches: at least so many bytes of single precision, and so many batches.
BUFFER_BYTES = 1 << 25
BUFFER_BATCHES = 20


@dataclass(frozen=True)
class _Block:
    """Parts whose rows are shuffled together."""

    first_iteration: int
    n_batches: int
    parts: tuple[int, ...]
    epoch: int
    number: int


class StreamedBatches:
    """As `ShuffledBatches`, of rows that need not fit into memory.

    In every epoch the parts come in another order, and so many of them as fill a buffer are shuffled together. Which
    rows form the batch of an iteration follows from the seed and the iteration, so that nothing has to be remembered
    here either. While the rows of one buffer are used, those of the next are read. Rows of a buffer that do not fill a
    last batch are left for other epochs.
    """

    def __init__(
        self,
        source: Parts,
        chosen: Sequence[int],
        batch_size: int,
        seed: int,
        fingerprint: str,
        prepare: Prepare = dense_float32,
    ):
        self.source = source
        self.chosen = np.asarray(chosen)
        self.sizes = np.array([source.parts[number].n_rows for number in chosen])
        self.n_rows = int(self.sizes.sum())
        self.batch_size = min(batch_size, self.n_rows)
        self.seed = seed
        self.prepare = prepare
        self._fingerprint = fingerprint
        in_bytes = BUFFER_BYTES // (4 * source.shape[1])
        self.buffer_rows = max(BUFFER_BATCHES * self.batch_size, in_bytes)
        self._plan: list[_Block] = []
        self._firsts: list[int] = []
        self._rows: dict[_Block, Future[np.ndarray]] = {}
        self._order: tuple[_Block, np.ndarray] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="sdlgm-rows")

    def __getitem__(self, iteration: int) -> np.ndarray:
        number = self._block_of(iteration)
        block = self._plan[number]
        following = self._plan[self._block_of(block.first_iteration + block.n_batches)]
        rows = self._reading(block).result()
        self._reading(following)
        for other in [other for other in self._rows if other not in (block, following)]:
            del self._rows[other]
        if self._order is None or self._order[0] != block:
            generator = np.random.default_rng([self.seed, block.epoch, 1 + block.number])
            self._order = (block, generator.permutation(len(rows)))
        start = (iteration - block.first_iteration) * self.batch_size
        return self.prepare(rows[self._order[1][start : start + self.batch_size]])

    def fingerprint(self) -> str:
        """A checksum that tells other data, the same in other parts, and other parts of them from these."""
        return f"{self._fingerprint}-{zlib.crc32(np.stack([self.chosen, self.sizes]).astype(np.int64).data):08x}"

    def close(self) -> None:
        """Let go of the rows and of the thread that reads them."""
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._rows.clear()

    def _reading(self, block: _Block) -> Future[np.ndarray]:
        if block not in self._rows:
            self._rows[block] = self._reader.submit(self._read, block)
        return self._rows[block]

    def _read(self, block: _Block) -> np.ndarray:
        read = [self.source.parts[self.chosen[number]] for number in block.parts]
        first = self.source.read(read[0])
        rows = np.empty((sum(part.n_rows for part in read), first.shape[1]), first.dtype)
        start = 0
        for part in read:
            rows[start : start + part.n_rows] = first if part is read[0] else self.source.read(part)
            start += part.n_rows
        return rows

    def _block_of(self, iteration: int) -> int:
        """The place in the plan, which is made as far as it is asked for."""
        while not self._plan or iteration >= self._plan[-1].first_iteration + self._plan[-1].n_batches:
            self._plan_epoch()
        return bisect.bisect_right(self._firsts, iteration) - 1

    def _plan_epoch(self) -> None:
        epoch = self._plan[-1].epoch + 1 if self._plan else 0
        order = np.random.default_rng([self.seed, epoch, 0]).permutation(len(self.sizes))
        groups: list[list[int]] = [[]]
        in_group = 0
        for number in order.tolist():
            if in_group >= self.buffer_rows:
                groups.append([])
                in_group = 0
            groups[-1].append(number)
            in_group += int(self.sizes[number])
        if len(groups) > 1 and in_group < self.batch_size:
            last = groups.pop()  # too few for a batch of their own
            groups[-1] += last
        first = self._plan[-1].first_iteration + self._plan[-1].n_batches if self._plan else 0
        for place, group in enumerate(groups):
            n_batches = int(self.sizes[group].sum()) // self.batch_size
            self._plan.append(_Block(first, n_batches, tuple(group), epoch, place))
            self._firsts.append(first)
            first += n_batches


AnyBatches = ShuffledBatches | StreamedBatches
