"""Hard draws with a gradient that is given by a rule."""

import torch
from torch import Tensor

from sdlgm.model.autograd import first_order
from sdlgm.model.codes.base import GradientRule


def symbols_with_gradient(log_probs: Tensor, probs: Tensor, drawn: Tensor, n_draws: int, rule: GradientRule) -> Tensor:
    """Return the drawn symbols, with the gradient that ``rule`` makes of theirs."""
    return _Symbols.apply(log_probs, probs, drawn, n_draws, rule)


class _Symbols(torch.autograd.Function):
    @staticmethod
    def forward(ctx, log_probs: Tensor, probs: Tensor, drawn: Tensor, n_draws: int, rule: GradientRule) -> Tensor:  # noqa: ARG004
        ctx.save_for_backward(probs, drawn)
        ctx.n_draws, ctx.rule = n_draws, rule
        return drawn.view_as(drawn)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        probs, drawn = ctx.saved_tensors
        return ctx.rule.to_log_probs(gradient, drawn, probs, ctx.n_draws).sum(0), None, None, None, None
