"""ReinMax for slots, in closed form."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from sdlgm.gradients.base import GradientEstimator, register


@register
class ReinMax(GradientEstimator):
    r"""Hard counts forward, a second-order accurate gradient backward.

    ReinMax (Liu et al., NeurIPS 2023) turns a drawn one-hot D of a categorical with probabilities p and logits a into
    the Jacobian 2 J((p + D) / 2) - J(p) / 2 with J(p) = diag(p) - p p'. Summed over L0 slots that share p and were
    drawn independently, everything but the drawn counts n drops out:

        d n / d a = 1/2 [L0 diag(p) + diag(n) - p n' - n p'],

    so it costs as much as one softmax, whatever L0 is, and no (batch, L0, K) tensor exists. Written with d log p:
    d n_k = 1/2 [n_k d log p_k + p_k (L0 d log p_k - sum_j n_j d log p_j)]. Exact (unbiased) if log p(x given z) is
    quadratic in z, where `StraightThrough` is exact only if it is linear.
    """

    name = "reinmax"
    discrete = True

    def __call__(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        drawn = posterior.sample_symbols(n_samples, generator)
        counts = _CountsWithReinMax.apply(posterior.log_probs, posterior.probs, drawn, posterior.n_slots)
        return log_likelihood(counts).mean(0)


class _CountsWithReinMax(torch.autograd.Function):
    """The drawn counts of the features, with the gradient of `ReinMax` with respect to the log-probabilities.

    Transposed, the formula in the docstring there reads: 1/2 [(n + L0 p) * g - n (p' g)] for the gradient g of the
    counts, where that of the first symbol, "off", is zero.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        log_probs: Tensor,  # noqa: ARG004 - it has the gradient
        probs: Tensor,
        counts: Tensor,
        n_slots: int,
    ) -> Tensor:
        ctx.save_for_backward(probs, counts)
        ctx.n_slots = n_slots
        return counts[..., 1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        probs, counts = ctx.saved_tensors
        to_log_probs = counts * -(probs[..., 1:] * gradient).sum(-1, keepdim=True)
        to_log_probs[..., 1:].addcmul_(torch.add(counts, probs, alpha=ctx.n_slots)[..., 1:], gradient)
        return 0.5 * to_log_probs.sum(0), None, None, None
