"""DisARM, for binary variables."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm.gradients.base import Draw, GradientEstimator, independent, register, with_gradient_of


@dataclass(frozen=True)
class AntitheticDraw(Draw):
    """Pairs of antithetic draws, one half after the other."""

    logits: Float[Tensor, "batch V"] | None = None
    """Log-odds of the variables."""
    drawn: Float[Tensor, "2 half batch V"] | None = None


@register
class DisARM(GradientEstimator):
    """Two antithetic draws b = 1[u < s(a)] and b' = 1[1 - u < s(a)] of each binary variable with logit a.

    Dong, Mnih and Tucker, NeurIPS 2020 (also Yin, Ho, Yan, Qian and Zhou, 2020):

        1/2 (f(b) - f(b')) (-1)^b' 1[b != b'] s(|a|),

    which is ARM (Yin and Zhou, ICLR 2019) with the irrelevant noise integrated out. Unbiased; both draws pass through
    the decoder.
    """

    name = "disarm"
    unbiased = True
    pathwise = False
    defined_for = frozenset({"binary"})
    shareable = False

    def draw(self, posterior, *, n_samples, temperatures, noise):
        off, on = independent(posterior).log_probs.unbind(-1)
        logits = on - off
        threshold = torch.sigmoid(logits.detach())
        shape = (n_samples, *logits.shape)
        uniform = torch.rand(shape, generator=noise.generator, dtype=logits.dtype, device=logits.device)
        drawn = torch.stack([uniform < threshold, 1 - uniform < threshold]).to(logits.dtype)
        symbols = torch.stack([1 - drawn, drawn], dim=-1)
        return AntitheticDraw(posterior.counts(symbols.flatten(0, 1)), logits=logits, drawn=drawn)

    def surrogate(self, posterior, draw, value, control=None):
        assert isinstance(draw, AntitheticDraw)
        assert draw.logits is not None
        assert draw.drawn is not None
        value = value.unflatten(0, (2, -1))
        difference = 0.5 * (value[0] - value[1]).detach()
        direction = (draw.drawn[0] - draw.drawn[1]) * torch.sigmoid(draw.logits.detach().abs())
        # (-1)^b' 1[b != b'] is b - b'.
        return with_gradient_of(value.mean(0), difference * (direction * draw.logits).flatten(2).sum(-1)).mean(0)
