"""Rows to batches: shuffling that depends on seed and epoch alone, densifying, binarising."""

import zlib
from collections.abc import Callable
from typing import Any

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
