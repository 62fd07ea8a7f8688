"""MuProp."""

import torch

from sdlgm.gradients.base import INDEPENDENT, GradientEstimator, register, with_gradient_of
from sdlgm.gradients.signal import RunningSignal


@register
class MuProp(GradientEstimator):
    """Score function with the Taylor expansion of log p(x given z) at the mean of z as its baseline.

    Gu, Levine, Sutskever and Mnih, ICLR 2016. With m the mean of the symbols and h(z) = f(m) + f'(m) (z - m),

        (f(z) - h(z) - c) d log q(z) + f'(m) dm,

    the second term being the gradient of E h in closed form: unbiased, at the price of a second pass through the
    decoder. c is a running mean, and the encoder's gradient is divided by the signal's running deviation.
    """

    name = "muprop"
    defined_for = INDEPENDENT
    shareable = False
    unbiased = True

    def __init__(self, n_logits: int):
        super().__init__(n_logits)
        self.signal = RunningSignal()

    @property
    def encoder_divisor(self) -> float:
        return self.signal.scale

    def forward(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        drawn = posterior.sample_symbols(n_samples, generator)
        mean = posterior.n_draws * posterior.probs
        value = log_likelihood(posterior.counts(drawn))
        at_mean = mean.detach().unsqueeze(0).requires_grad_()
        value_at_mean = log_likelihood(posterior.counts(at_mean))
        (slope,) = torch.autograd.grad(value_at_mean.sum(), at_mean)
        taylor = value_at_mean.detach() + (slope * (drawn - at_mean.detach())).flatten(2).sum(-1)
        signal = self.signal.centred(value.detach() - taylor)
        surrogate = signal * posterior.log_prob_of(drawn) + (slope * mean).flatten(2).sum(-1)
        return with_gradient_of(value, surrogate).mean(0)
