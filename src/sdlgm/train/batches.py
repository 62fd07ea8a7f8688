"""Rows to batches: shuffling that depends on seed and epoch alone, densifying, binarising."""

import bisect
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, Literal, Protocol, TypeVar, cast

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from sdlgm.model.modules.base import Batch
from sdlgm.model.noise import Noise

Rows = np.ndarray | sp.csr_array | sp.csr_matrix
TargetMatrix = np.ndarray | sp.csr_array
Binarize = Literal["dynamic", "threshold", "probability"]


def dense(rows: Rows) -> np.ndarray:
    """Return rows as an array."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def dense_float32(rows: Rows) -> np.ndarray:
    """Return rows as an array in single precision."""
    return dense(rows).astype(np.float32, copy=False)


Prepare = Callable[[Rows], np.ndarray]
"""From rows as users gave them to the input of the module. It is applied to one batch at a time."""


def to_tensor(rows: Rows, device: torch.device) -> Tensor:
    """Return rows as a dense float32 tensor, to be read only: it may share its memory with them."""
    values = np.ascontiguousarray(dense_float32(rows))
    # torch warns about memory that it cannot write to, such as a memory map.
    return torch.from_numpy(values if values.flags.writeable else values.copy()).to(device)


def threshold(x: Tensor) -> Tensor:
    """Return whether each entry is at least one half. Missing entries stay NaN."""
    return _keep_missing(x, (x >= 0.5).to(x.dtype))


def binarize(x: Tensor, how: Binarize | None, noise: Noise) -> Tensor:
    """Binarise entries in [0, 1].

    ``"dynamic"``: a fresh draw with the entry as probability; ``"threshold"``: see `threshold`;
    ``"probability"`` or None: the entry itself. Missing entries stay NaN.
    """
    if how == "dynamic":
        return _keep_missing(x, noise.bernoulli(x))
    if how == "threshold":
        return threshold(x)
    return x


def _keep_missing(x: Tensor, binary: Tensor) -> Tensor:
    missing = torch.isnan(x)
    return torch.where(missing, x, binary) if bool(missing.any()) else binary


class Batches(ABC):
    """Batches of equal size. The rows of the batch of an iteration follow from the seed and the iteration.

    So nothing has to be remembered to continue a run.
    """

    n_rows: int
    batch_size: int

    @abstractmethod
    def batch(self, iteration: int, device: torch.device) -> Batch:
        """Return the batch of an iteration."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a checksum that distinguishes other data from these."""

    def close(self) -> None:  # noqa: B027
        """Release resources."""


@dataclass(frozen=True)
class Targets:
    """Labels or counts of rows, and which of them are known."""

    y: TargetMatrix
    """Sparse ones are made dense batch by batch."""
    known: np.ndarray

    @classmethod
    def all_known(cls, y: TargetMatrix) -> "Targets":
        return cls(y, np.ones(y.shape[0], np.float32))

    def followed_by_unknown(self, n_rows: int) -> "Targets":
        """Return these targets and ``n_rows`` unknown ones after them."""
        known = np.append(self.known, np.zeros(n_rows, np.float32))
        if isinstance(self.y, np.ndarray):
            return Targets(np.concatenate([self.y, np.zeros((n_rows, self.y.shape[1]), self.y.dtype)]), known)
        unknown = sp.csr_array((n_rows, self.y.shape[1]), dtype=self.y.dtype)
        return Targets(sp.csr_array(sp.vstack([self.y, unknown])), known)

    def __getitem__(self, rows: np.ndarray) -> "Targets":
        return Targets(cast(TargetMatrix, self.y[rows]), self.known[rows])


class ShuffledBatches(Batches):
    """Batches of rows in memory, dense or sparse; sparse rows are made dense batch by batch.

    The order of an epoch follows from its number. Rows that do not fill a last batch are left for other epochs, which
    are shuffled differently.
    """

    def __init__(
        self,
        rows: Rows,
        batch_size: int,
        seed: int,
        prepare: Prepare = dense_float32,
        targets: Targets | None = None,
        weights: np.ndarray | None = None,
    ):
        self.rows = rows
        self.targets = targets
        self.weights = None if weights is None else weights.astype(np.float32)
        self.prepare = prepare
        self.n_rows = rows.shape[0]
        self.batch_size = min(batch_size, self.n_rows)
        self.per_epoch = self.n_rows // self.batch_size
        self.seed = seed
        self._order: tuple[int, np.ndarray] | None = None

    def __getitem__(self, iteration: int) -> np.ndarray:
        """Return the observations of an iteration."""
        return self.prepare(self.rows[self._chosen(iteration)])

    def batch(self, iteration: int, device: torch.device) -> Batch:
        batch = make_batch(self[iteration], self.targets and self.targets[self._chosen(iteration)], device)
        if self.weights is None:
            return batch
        return replace(batch, weight=torch.from_numpy(self.weights[self._chosen(iteration)]).to(device))

    def _chosen(self, iteration: int) -> np.ndarray:
        epoch, position = divmod(iteration, self.per_epoch)
        if self._order is None or self._order[0] != epoch:
            self._order = (epoch, np.random.default_rng([self.seed, epoch]).permutation(self.n_rows))
        start = position * self.batch_size
        return self._order[1][start : start + self.batch_size]

    def fingerprint(self) -> str:
        parts = _arrays_of(self.rows)
        if self.targets is not None:
            parts += [*_arrays_of(self.targets.y), self.targets.known]
        if self.weights is not None:
            parts.append(self.weights)
        checksum = 0
        for part in parts:
            checksum = zlib.crc32(np.ascontiguousarray(part).data, checksum)
        return f"{'x'.join(map(str, self.rows.shape))}-{self.rows.dtype}-{checksum:08x}"


def make_batch(x: np.ndarray, targets: Targets | None, device: torch.device) -> Batch:
    """Return prepared rows and their targets as tensors."""
    if targets is None:
        return Batch(to_tensor(x, device))
    known = torch.from_numpy(targets.known).to(device)
    return Batch(to_tensor(x, device), to_tensor(targets.y, device), known)


def _arrays_of(rows: Rows) -> list[np.ndarray]:
    return [rows] if isinstance(rows, np.ndarray) else [rows.data, rows.indices, rows.indptr]


class Part(Protocol):
    """Rows that are read at once."""

    @property
    def n_rows(self) -> int: ...


_Part = TypeVar("_Part", bound=Part)


class PartedRows(Protocol[_Part]):
    """Rows that are read a part at a time."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def parts(self) -> Sequence[_Part]: ...

    def read(self, part: _Part) -> np.ndarray: ...


# Smallest size of the shuffling buffer, in bytes of single precision and in batches.
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


class StreamedBatches(Batches, Generic[_Part]):
    """Batches of rows that need not fit into memory.

    In every epoch the parts come in another order, and as many of them as fill a buffer are shuffled together. While
    the rows of one buffer are used, those of the next are read. Rows of a buffer that do not fill a last batch are left
    for other epochs.
    """

    def __init__(
        self,
        source: PartedRows[_Part],
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

    def batch(self, iteration: int, device: torch.device) -> Batch:
        return make_batch(self[iteration], None, device)

    def __getitem__(self, iteration: int) -> np.ndarray:
        """Return the observations of an iteration."""
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
        """Return a checksum that distinguishes other data, and the same data in other parts, from these."""
        return f"{self._fingerprint}-{zlib.crc32(np.stack([self.chosen, self.sizes]).astype(np.int64).data):08x}"

    def close(self) -> None:
        """Release the rows and the thread that reads them."""
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
        """Return the place of an iteration in the plan, which grows as needed."""
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
