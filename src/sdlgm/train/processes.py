"""Several processes that train one model together: each has a part of every batch, and all have the same parameters."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from sdlgm.model.shards import WHOLE, Shard


class Processes:
    """All processes of a run: this one alone."""

    shard: Shard = WHOLE

    @property
    def is_first(self) -> bool:
        """Whether it is for this process to write files and to show progress."""
        return self.shard.rank == 0

    def own(self, rows: Tensor) -> Tensor:
        """The rows of a batch that are this process's."""
        return rows

    def sum(self, values: list[float]) -> list[float]:
        """Over all processes."""
        return values

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every process the mean of all gradients."""

    def wait(self) -> None:
        """Until all processes have come as far."""


ALONE = Processes()


class FabricProcesses(Processes):
    """Processes that Lightning Fabric has started or found."""

    def __init__(self, fabric: Any):
        self._fabric = fabric
        self.shard = Shard(fabric.global_rank, fabric.world_size)

    def own(self, rows: Tensor) -> Tensor:
        return rows.chunk(self.shard.size)[self.shard.rank]

    def sum(self, values: list[float]) -> list[float]:
        summed = self._fabric.all_reduce(torch.tensor(values, dtype=torch.float64), reduce_op="sum")
        return summed.tolist()

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        averaged = self._fabric.all_reduce(flat, reduce_op="mean")
        for gradient, part in zip(gradients, averaged.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        self._fabric.barrier()
