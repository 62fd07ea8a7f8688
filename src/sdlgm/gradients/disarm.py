"""DisARM, for binary variables."""

import torch

from sdlgm.gradients.base import GradientEstimator, register, with_gradient_of


@register
class DisARM(GradientEstimator):
    """Two antithetic draws b = 1[u < s(a)] and b' = 1[1 - u < s(a)] of each binary variable with logit a.

    Dong, Mnih and Tucker, NeurIPS 2020 (also Yin, Ho, Yan, Qian and Zhou, 2020):

        1/2 (f(b) - f(b')) (-1)^b' 1[b != b'] s(|a|),

    which is ARM (Yin and Zhou, ICLR 2019) with the noise that does not matter integrated out. Unbiased; both draws pass
    through the decoder.
    """

    name = "disarm"
    unbiased = True
    defined_for = frozenset({"binary"})
    shareable = False

    def forward(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        off, on = posterior.log_probs.unbind(-1)
        logits = on - off
        threshold = torch.sigmoid(logits.detach())
        noise = torch.rand((n_samples, *logits.shape), generator=generator, dtype=logits.dtype, device=logits.device)
        drawn = torch.stack([noise < threshold, 1 - noise < threshold]).to(logits.dtype)
        symbols = torch.stack([1 - drawn, drawn], dim=-1)
        value = log_likelihood(posterior.counts(symbols.flatten(0, 1))).unflatten(0, (2, n_samples))
        difference = 0.5 * (value[0] - value[1]).detach()
        direction = (drawn[0] - drawn[1]) * torch.sigmoid(logits.detach().abs())
        # (-1)^b' 1[b != b'] is b - b'.
        return with_gradient_of(value.mean(0), difference * (direction * logits).flatten(2).sum(-1)).mean(0)
