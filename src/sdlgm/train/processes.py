"""Several processes that train one model: each has a part of every batch, and all have the same parameters."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sdlgm.model.shards import WHOLE_BATCH, Shard

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Processes:
    """All processes of a run: this one alone."""

    shard: Shard = WHOLE_BATCH

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.shard.rank == 0

    def sum(self, values: list[float]) -> list[float]:
        """Return the sums over all processes."""
        return values

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Give every process the mean of all gradients."""

    def wait(self) -> None:
        """Wait until all processes have reached this point."""


ALONE = Processes()


class FabricProcesses(Processes):
    """Processes that Lightning Fabric has started or found."""

    def __init__(self, fabric: "Fabric"):
        self._fabric = fabric
        self.shard = Shard(fabric.global_rank, fabric.world_size)

    def sum(self, values: list[float]) -> list[float]:
        summed = self._fabric.all_reduce(torch.tensor(values, dtype=torch.float64), reduce_op="sum")
        assert isinstance(summed, Tensor)
        return summed.tolist()

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        averaged = self._fabric.all_reduce(flat, reduce_op="mean")
        assert isinstance(averaged, Tensor)
        for gradient, part in zip(gradients, averaged.split([gradient.numel() for gradient in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        self._fabric.barrier()
