"""The part of a batch that one of several processes works on.

Noise is drawn as one process would draw it for the whole batch, and each process takes its part. Sums over the batch
are taken over all processes. So the same batch gives the same gradients however many processes there are, as long as
the rows of each fill whole blocks of the compiled draws (`sdlgm._kernels.n_blocks`) and ``n_samples`` is 1; otherwise
the draws are others from the same distribution.
"""

from dataclasses import dataclass

import torch.distributed
from torch import Tensor
from torch.autograd.function import FunctionCtx

from sdlgm.model.autograd import first_order


@dataclass(frozen=True)
class Shard:
    """Part number ``rank`` of ``size`` equal parts of a batch."""

    rank: int
    size: int

    def part(self, values: Tensor, dim: int = 0) -> Tensor:
        """Return the part of this shard from values for the whole batch."""
        if self.size == 1:
            return values
        n = values.shape[dim] // self.size
        return values.narrow(dim, self.rank * n, n)


WHOLE_BATCH = Shard(0, 1)


def sum_over_processes(values: Tensor) -> Tensor:
    """Return the sum over all processes, differentiable."""
    return _SumOverProcesses.apply(values)


class _SumOverProcesses(torch.autograd.Function):
    """The loss of every process depends on the sum, so the gradient is a sum over processes too."""

    @staticmethod
    def forward(ctx: FunctionCtx, values: Tensor) -> Tensor:  # noqa: ARG004
        summed = values.clone()
        torch.distributed.all_reduce(summed)
        return summed

    @staticmethod
    @first_order
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> Tensor:  # noqa: ARG004
        summed = gradients[0].clone()
        torch.distributed.all_reduce(summed)
        return summed
