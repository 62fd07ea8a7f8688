"""Which part of a batch this process works on, if several processes share the batch.

Noise is drawn as one process would draw it for the whole batch, and each takes its part; sums over the batch are taken
over all processes. So the same batch gives the same gradients however many processes there are.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch.distributed
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Shard:
    """Number ``rank`` of ``size`` equal parts."""

    rank: int
    size: int


WHOLE = Shard(0, 1)
_current: ContextVar[Shard] = ContextVar("shard", default=WHOLE)


def current() -> Shard:
    return _current.get()


@contextlib.contextmanager
def working_on(shard: Shard) -> Iterator[None]:
    token = _current.set(shard)
    try:
        yield
    finally:
        _current.reset(token)


def own_part(values: Tensor, dim: int) -> Tensor:
    """The part of this process of values for the whole batch."""
    shard = current()
    n = values.shape[dim] // shard.size
    return values.narrow(dim, shard.rank * n, n)


def total(values: Tensor) -> Tensor:
    """The sum over all processes, with its gradient."""
    return _Total.apply(values)  # pyright: ignore[reportReturnType]


class _Total(torch.autograd.Function):
    """Every process's loss depends on the sum, so each part of it has the gradients of all."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:  # noqa: ARG004 # pyright: ignore[reportIncompatibleMethodOverride]
        summed = values.clone()
        torch.distributed.all_reduce(summed)
        return summed

    @staticmethod
    @once_differentiable
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        summed = gradient.clone()
        torch.distributed.all_reduce(summed)
        return summed
