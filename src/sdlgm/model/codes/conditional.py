r"""Sets of at most L0 of K elements, each with log-odds of its own, none of them before another.

The elements are independent given that no more than ``n_slots`` of them are present:

    q(S) = prod_{k in S} w_k / Z,   w_k = exp(logit_k),   Z = sum of prod_{k in S} w_k over all |S| <= L0.

`sdlgm.model.codes.subset` visits its features in a fixed order and so favours the first ones where the budget binds.
Here the order means nothing, as it must where elements are positions, experts or memory slots. Z is the sum of the
elementary symmetric polynomials e_0 .. e_L0 of the weights. Three things follow from the exponential family:

- d log Z / d logit_k = P(k in S), and the derivative of these is the covariance of the members;
- with a prior of the same family, KL(q, p) = sum_k P(k in S) (logit_k - prior logit_k) - log Z + log Z_p;
- the most probable set has the elements with the largest logits, as far as they are positive and the budget lasts.

`sdlgm.model.codes._set_moments` computes log Z and P(k in S), exactly and in O(K L0).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sdlgm.model.autograd import first_order
from sdlgm.model.codes._set_moments import draw_sets, noise_shape, set_moments
from sdlgm.model.codes.base import KL, GradientRule, PresenceCodes, PriorTerms, Temperatures
from sdlgm.model.codes.independent import CLOSED
from sdlgm.model.noise import Noise


@dataclass(frozen=True)
class SetPrior:
    """Sets of at most ``n_slots`` of some elements that all have the same log-odds."""

    logit: Float[Tensor, "*batch"]
    """Log-odds of each element."""
    n_elements: Int[Tensor, "*batch"]
    """How many elements there are in a row."""
    n_slots: int

    @classmethod
    def expecting(cls, number: Float[Tensor, "*#batch"], n_elements: Int[Tensor, "*batch"], n_slots: int) -> "SetPrior":
        """Return the prior in which each element has the same share of an expected number, but at most one half.

        The number is that without a budget.
        """
        share = (number / n_elements.clamp(min=1)).clamp(max=0.5)
        return cls(torch.log(share) - torch.log1p(-share), n_elements, n_slots)

    @property
    def log_normaliser(self) -> Float[Tensor, "*batch"]:
        """Logarithm of the sum over m = 0 .. L0 of C(n, m) exp(m logit)."""
        m = torch.arange(self.n_slots + 1, device=self.logit.device, dtype=self.logit.dtype)
        n = self.n_elements.unsqueeze(-1).to(self.logit.dtype)
        log_binomial = torch.lgamma(n + 1) - torch.lgamma(m + 1) - torch.lgamma((n - m).clamp(min=0) + 1)
        terms = log_binomial + m * self.logit.unsqueeze(-1)
        return terms.masked_fill(m > n, -torch.inf).logsumexp(-1)


@dataclass(frozen=True)
class ConditionalSets(PresenceCodes[Any]):
    """Independent elements, given that at most ``n_slots`` of them are present."""

    logits: Float[Tensor, "batch K"]
    """Log-odds of each element. Minus infinity, or anything below `CLOSED`, is an element that is never present."""
    n_slots: int

    @cached_property
    def _finite(self) -> Float[Tensor, "batch K"]:
        return self.logits.clamp(min=CLOSED)

    @cached_property
    def _moments(self) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch K"]]:
        return set_moments(self._finite, self.n_slots)

    @property
    def log_normaliser(self) -> Float[Tensor, " batch"]:
        """Logarithm of Z."""
        return self._moments[0]

    @property
    def presence(self) -> Float[Tensor, "batch K"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Probability that an element is present."""
        return self._moments[1]

    def log_prob(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes"]:
        """Return the log-probability of sets; minus infinity for those with an element twice or beyond the budget."""
        possible = (counts <= 1).all(-1) & (counts.sum(-1) <= self.n_slots)
        return torch.where(possible, (counts * self._finite).sum(-1) - self.log_normaliser, -torch.inf)

    def log_prob_of(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
        return self.log_prob(symbols)

    # Draws

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch K"]:
        logits = self._finite.detach()
        steps, *shape = noise_shape(logits, self.n_slots)
        uniform = noise.uniform((n_samples * steps, *shape), logits)
        return torch.stack([draw_sets(logits, self.n_slots, part) for part in uniform.split(steps)])

    def counts(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        return symbols

    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        raise NotImplementedError("sets of a budget are drawn, not relaxed")

    def mode(self) -> Int[Tensor, "batch K"]:
        """Return the most probable set: the largest positive logits, within the budget."""
        return most_probable(self._finite, self.n_slots).long()

    # Gradients

    @property
    def summary(self) -> Float[Tensor, "batch K"]:
        return self.logits

    def with_gradient(self, drawn: Float[Tensor, "S batch K"], rule: GradientRule) -> Float[Tensor, "S batch K"]:
        return members_with_gradient(self.presence, drawn, rule)

    # Divergence

    def kl(self, prior: SetPrior, kl: KL = "exact") -> Float[Tensor, " batch"]:
        return divergence(self._finite, self._moments, prior)

    def prior_terms(self, prior: SetPrior, kl: KL) -> PriorTerms:
        """Return the terms of the divergence. The number and the choice are one decision; gates have no part."""
        entropy = self.log_normaliser - (self.presence * self._finite).sum(-1)
        log_prior = self.presence.sum(-1) * prior.logit - prior.log_normaliser
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, log_prior, zero, entropy)

    def log_ratio(self, symbols: Float[Tensor, "S batch K"], prior: SetPrior) -> Float[Tensor, "S batch"]:
        return symbols.sum(-1) * prior.logit - prior.log_normaliser - self.log_prob(symbols)


def divergence(
    logits: Float[Tensor, "*batch K"],
    moments: tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch K"]],
    prior: SetPrior,
) -> Float[Tensor, "*batch"]:
    """Return the KL divergence of sets with finite logits and their `set_moments` from a prior, in nats."""
    log_normaliser, presence = moments
    excess = logits - prior.logit.unsqueeze(-1)
    return (presence * excess).sum(-1) - log_normaliser + prior.log_normaliser


def members_with_gradient(
    presence: Float[Tensor, "batch K"], drawn: Float[Tensor, "S batch K"], rule: GradientRule
) -> Float[Tensor, "S batch K"]:
    """Return drawn sets with a gradient that passes through the probability of each element.

    ``rule`` gives the derivative of a drawn member with respect to the log-odds of its probability, and the derivative
    of the probabilities is exact. With straight-through it is the covariance times the gradient.
    """
    return _Drawn.apply(presence, drawn, rule)


def most_probable(logits: Float[Tensor, "*batch K"], n_slots: int) -> Bool[Tensor, "*batch K"]:
    """Return the largest logits of each row that are positive, no more than ``n_slots``."""
    largest = logits.topk(min(n_slots, logits.shape[-1]), dim=-1, sorted=False)
    return torch.zeros_like(logits, dtype=torch.bool).scatter(-1, largest.indices, largest.values > 0)


class _Drawn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, presence: Tensor, drawn: Tensor, rule: GradientRule) -> Tensor:
        ctx.save_for_backward(presence, drawn)
        ctx.rule = rule
        return drawn.view_as(drawn)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        presence, drawn = ctx.saved_tensors
        # Rounding can lead to one and above, where there is no variance to divide by.
        precision = torch.finfo(presence.dtype)
        presence = presence.clamp(max=1 - precision.eps)
        variance = (presence * (1 - presence)).clamp(min=precision.tiny)
        slopes = ctx.rule.binary_slopes(drawn, presence.expand_as(drawn))
        return (gradient * slopes / variance).sum(0), None, None
