"""Random numbers for a batch: a generator, and the part of the batch that they are for."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.shards import WHOLE_BATCH, Shard


@dataclass(frozen=True)
class Noise:
    """A source of random numbers, passed to everything that draws.

    Numbers are drawn for the whole batch, and those of ``shard`` are returned, so that several processes that share a
    batch draw the same noise as one process would.
    """

    generator: torch.Generator
    shard: Shard = WHOLE_BATCH

    @classmethod
    def seeded(cls, seed: int, device: torch.device | str = "cpu") -> "Noise":
        """Return noise for whole batches from a fresh generator."""
        return cls(torch.Generator(device).manual_seed(seed))

    def block_keys(self, n_rows: int) -> np.ndarray:
        """Draw the seeds of the kernels for ``n_rows`` rows."""
        n_keys = self.shard.size * _kernels.n_blocks(n_rows)
        return self.shard.part(torch.randint(-(2**63), 2**63 - 1, (n_keys, 2), generator=self.generator)).numpy()

    def uniform(self, shape: tuple[int, ...], like: Tensor, *, rows: int = 1) -> Tensor:
        """Draw uniform noise between 0 and 1.

        ``rows`` is the dimension of the batch. If its length is 1, the noise is common to all observations.
        """
        size = 1 if shape[rows] == 1 else self.shard.size
        whole = (*shape[:rows], shape[rows] * size, *shape[rows + 1 :])
        uniform = torch.rand(whole, generator=self.generator, dtype=like.dtype, device=like.device)
        return uniform if size == 1 else self.shard.part(uniform, rows).contiguous()

    def common(self) -> "CommonNoise":
        """Return noise from the same generator that all rows of a batch share."""
        return CommonNoise(self.generator)

    def gumbel(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Draw standard Gumbel noise of shape (samples, rows, ...), finite by construction."""
        info = torch.finfo(like.dtype)
        return -torch.log(-torch.log(self.uniform(shape, like).clamp_(info.tiny, 1 - info.eps)))

    def bernoulli(self, probs: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
        """Draw zeros and ones with the given probabilities of a one."""
        if not arrays.has_kernels(probs):
            return (self.uniform(tuple(probs.shape), probs, rows=0) < probs).to(probs.dtype)
        return torch.from_numpy(_kernels.draw_binary(self.block_keys(len(probs)), arrays.as_array(probs)))


@dataclass(frozen=True)
class CommonNoise(Noise):
    """Noise that all rows of a batch share, so that what is drawn for a row does not depend on its place in the data.

    Errors of estimates then do not average out over the rows. Draw one sample at a time: those of one call may share
    their noise too.
    """

    def uniform(self, shape: tuple[int, ...], like: Tensor, *, rows: int = 1) -> Tensor:
        return self._of_one_row((*shape[:rows], 1, *shape[rows + 1 :]), like).expand(shape).contiguous()

    def _of_one_row(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        return torch.rand(shape, generator=self.generator, dtype=like.dtype, device=like.device)

    def block_keys(self, n_rows: int) -> np.ndarray:
        raise NotImplementedError("kernels draw other noise for each row; draw with `uniform`")

    def bernoulli(self, probs: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
        return (self.uniform(tuple(probs.shape), probs, rows=0) < probs).to(probs.dtype)


@dataclass(frozen=True)
class StratifiedNoise(CommonNoise):
    """Common noise of one of several draws, in each of which every number comes from another of as many intervals.

    The mean over the draws has a smaller error than that over independent ones (Latin hypercube sampling, McKay,
    Beckman and Conover 1979). All draws of a set have the same seed and draw the same variables in the same order.
    """

    draw: int = 0
    n_draws: int = 1

    @classmethod
    def set_of(cls, n_draws: int, seed: int, device: torch.device | str) -> "list[StratifiedNoise]":
        """Return the noise of all draws of a set."""
        generators = (torch.Generator(device).manual_seed(seed) for _ in range(n_draws))
        return [cls(generator, WHOLE_BATCH, draw, n_draws) for draw, generator in enumerate(generators)]

    def _of_one_row(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        interval = super()._of_one_row((self.n_draws, *shape), like).argsort(0)[self.draw]
        within = super()._of_one_row((self.n_draws, *shape), like)[self.draw]
        return ((interval + within) / self.n_draws).clamp_(max=1 - torch.finfo(like.dtype).eps)
