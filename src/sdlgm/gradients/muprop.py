"""MuProp."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm.gradients.base import (
    INDEPENDENT,
    Draw,
    GradientEstimator,
    drawn_symbols,
    independent,
    register,
    with_gradient_of,
)
from sdlgm.gradients.signal import RunningSignal


@dataclass(frozen=True)
class MeanFieldDraw(Draw):
    """Hard draws, and the mean of the symbols as the control."""

    mean: Float[Tensor, "batch ..."] | None = None
    """The mean of the symbols, differentiable in the posterior."""
    at_mean: Float[Tensor, "1 batch ..."] | None = None
    """The same as a leaf, at which the slope of f is taken."""


@register
class MuProp(GradientEstimator):
    """Score function with the Taylor expansion of log p(x given z) at the mean of z as its baseline.

    Gu, Levine, Sutskever and Mnih, ICLR 2016. With m the mean of the symbols and h(z) = f(m) + f'(m) (z - m),

        (f(z) - h(z) - c) d log q(z) + f'(m) dm,

    the second term being the gradient of E h in closed form. Unbiased, at the price of a second pass through the
    decoder. c is a running mean, and the encoder's gradient is divided by the signal's running deviation.
    """

    name = "muprop"
    defined_for = INDEPENDENT
    shareable = False
    unbiased = True
    pathwise = False

    def __init__(self, n_logits: int):
        super().__init__(n_logits)
        self.signal = RunningSignal()

    @property
    def encoder_divisor(self) -> float:
        return self.signal.scale

    def draw(self, posterior, *, n_samples, temperatures, noise):
        symbols = posterior.sample_symbols(n_samples, noise)
        mean = posterior.n_draws * independent(posterior).probs
        at_mean = mean.detach().unsqueeze(0).requires_grad_()
        return MeanFieldDraw(posterior.counts(symbols), symbols, posterior.counts(at_mean), mean, at_mean)

    def surrogate(self, posterior, draw, value, control=None):
        assert isinstance(draw, MeanFieldDraw)
        assert draw.mean is not None
        assert draw.at_mean is not None
        assert control is not None
        symbols = drawn_symbols(draw)
        (slope,) = torch.autograd.grad(control.sum(), draw.at_mean)
        taylor = control.detach() + (slope * (symbols - draw.at_mean.detach())).flatten(2).sum(-1)
        signal = self.signal.centred(value.detach() - taylor)
        surrogate = signal * posterior.log_prob_of(symbols) + (slope * draw.mean).flatten(2).sum(-1)
        return with_gradient_of(value, surrogate).mean(0)
