"""DisARM, for binary variables."""

import torch

from sdlgm.gradients.base import (
    Draw,
    GradientEstimator,
    drawn_symbols,
    independent,
    register,
    with_gradient_of,
)


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
        logits = _logits(posterior)
        threshold = torch.sigmoid(logits.detach())
        uniform = torch.rand(
            (n_samples, *logits.shape), generator=noise.generator, dtype=logits.dtype, device=logits.device
        )
        drawn = torch.stack([uniform < threshold, 1 - uniform < threshold]).to(logits.dtype)
        symbols = torch.stack([1 - drawn, drawn], dim=-1).flatten(0, 1)
        return Draw(posterior.counts(symbols), symbols)

    def surrogate(self, posterior, draw, value, control=None):
        logits = _logits(posterior)
        drawn = drawn_symbols(draw)[..., 1].unflatten(0, (2, -1))
        value = value.unflatten(0, (2, -1))
        difference = 0.5 * (value[0] - value[1]).detach()
        direction = (drawn[0] - drawn[1]) * torch.sigmoid(logits.detach().abs())
        # (-1)^b' 1[b != b'] is b - b'.
        return with_gradient_of(value.mean(0), difference * (direction * logits).flatten(2).sum(-1)).mean(0)


def _logits(posterior):
    off, on = independent(posterior).log_probs.unbind(-1)
    return on - off
