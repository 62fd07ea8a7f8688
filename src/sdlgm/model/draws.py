"""Hard draws that have a gradient."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

ToLogProbs = Callable[[Tensor, Tensor, Tensor, int], Tensor]
"""From the gradient with respect to drawn symbols to that with respect to their log-probabilities; the arguments are
that gradient, the symbols, their probabilities and the number of draws."""


def symbols_with_gradient(
    log_probs: Tensor, probs: Tensor, drawn: Tensor, n_draws: int, to_log_probs: ToLogProbs
) -> Tensor:
    """The drawn symbols, with the gradient that ``to_log_probs`` makes of theirs."""
    return _Symbols.apply(log_probs, probs, drawn, n_draws, to_log_probs)  # pyright: ignore[reportReturnType]


class _Symbols(torch.autograd.Function):
    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        log_probs: Tensor,  # noqa: ARG004 - it has the gradient
        probs: Tensor,
        drawn: Tensor,
        n_draws: int,
        to_log_probs: ToLogProbs,
    ) -> Tensor:
        ctx.save_for_backward(probs, drawn)
        ctx.n_draws, ctx.to_log_probs = n_draws, to_log_probs
        return drawn.view_as(drawn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        probs, drawn = ctx.saved_tensors
        return ctx.to_log_probs(gradient, drawn, probs, ctx.n_draws).sum(0), None, None, None, None
