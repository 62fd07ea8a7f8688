"""Gumbel-Rao: straight-through Gumbel-Softmax with its noise averaged out."""

import torch
import torch.nn.functional as F

from sdlgm.gradients.base import SINGLE, Draw, GradientEstimator, independent, register, with_gradient_of


@register
class GumbelRao(GradientEstimator):
    """Straight-through Gumbel-Softmax, its gradient averaged over noise that leads to the same hard draw.

    Paulus, Maddison and Krause, ICLR 2021. Given the drawn symbol D, the perturbed log-probabilities are
    -log E_D for D and -log(E_k / p_k + E_D) for the others, with independent exponential E. The same bias as
    `StraightThroughGumbel` and less variance, for one pass through the decoder.
    """

    name = "gumbel_rao"
    defined_for = SINGLE
    shareable = False

    N_AVERAGED = 10

    def draw(self, posterior, *, n_samples, temperatures, noise):
        drawn = posterior.sample_symbols(n_samples, noise)
        relaxed = _relaxed_pairs if drawn.shape[-1] == 2 else _relaxed
        log_probs = independent(posterior).log_probs
        mean = relaxed(drawn, log_probs, temperatures.feature, noise.generator, self.N_AVERAGED)
        return Draw(posterior.counts(with_gradient_of(drawn, mean)))


_IMPOSSIBLE = -80.0
"""The logarithm of the smallest probability that is divided by."""

# In both functions the noise is a constant in the derivative, as in the straight-through estimator.


def _relaxed(drawn, log_probs, temperature, generator, n_averaged):
    """Return the mean of relaxed one-hot vectors whose largest entry is the drawn symbol."""
    log_probs = log_probs.clamp(min=_IMPOSSIBLE)
    total = torch.zeros_like(drawn)
    for _ in range(n_averaged):
        exponential = torch.empty_like(drawn).exponential_(generator=generator)
        largest = (drawn * exponential).sum(-1, keepdim=True)
        others = exponential * torch.exp(-log_probs.detach()) + largest
        perturbed = -torch.where(drawn > 0, largest, others).log()
        noise = perturbed - log_probs.detach()
        total = total + ((log_probs + noise) / temperature).softmax(-1)
    return total / n_averaged


def _relaxed_pairs(drawn, log_probs, temperature, generator, n_averaged):
    """Do the same for two symbols, where only the difference matters: log(1 + (E_k / E_D) / p_k)."""
    uniform = torch.rand((n_averaged, *drawn.shape[:-1]), generator=generator, dtype=drawn.dtype, device=drawn.device)
    log_other = ((1 - drawn) * log_probs.detach()).sum(-1)
    lead = F.softplus(
        torch.logit(uniform) - log_other
    )  # the odds of a uniform number are the ratio of two exponentials
    logit = log_probs[..., 1] - log_probs[..., 0]
    noise = torch.where(drawn[..., 1] > 0, lead, -lead) - logit.detach()
    on = torch.sigmoid((logit + noise) / temperature).mean(0)
    return torch.stack([1 - on, on], dim=-1)
