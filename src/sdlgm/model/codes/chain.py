"""Subsets of the features in which each feature depends on those before it.

    q(n_k = 1 | n_1 .. n_{k-1}, x) = sigmoid(logit_k(x) + sum_{j < k} coupling_jk n_j), and 0 once L0 are present.

`sdlgm.model.codes.coupling` has couplings of low rank, too.

Such a distribution can prefer one of two features to both, which no product of independent features can, so the bound
is tighter. Expectations under it have no closed form. The divergence from the prior is a sum over the features,

    KL = E sum_k E[log q(n_k | n_<k) - log p's factor for n_k | n_<k],

of which only the outer expectation is estimated by draws. The prior is that of `sdlgm.model.codes.subset`, written as a
product: the m-th feature that is present is charged -log(L0 - m + 1) - log(lambda_0 alpha_k / (1 - lambda_0)). The part
that repetitions add (`log_repetitions`) is a function of the whole code.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order
from sdlgm.model.codes.base import GradientRule, Prior, PriorTerms, Temperatures
from sdlgm.model.codes.coupling import Coupling, DrawnCodes, PosteriorCoupling
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import Subsets, log_repetitions
from sdlgm.model.noise import Noise


@dataclass(frozen=True)
class Chain(Subsets[Prior]):
    """Subsets of K features with at most ``n_slots`` elements, drawn feature after feature.

    A subclass defines `terms_given` and `log_ratio` for a family of priors.
    """

    logits: Float[Tensor, "batch K"]
    """Log-odds of each feature if none is present before it."""
    coupling: Coupling
    """Effect of the features before a feature on its log-odds."""
    n_slots: int
    common_noise: bool = False

    has_closed_kl = False

    @cached_property
    def _drawn(self) -> list[DrawnCodes]:
        """The codes that `with_gradient` has returned. Their conditional logits need not be computed again."""
        return []

    @property
    def summary(self) -> Float[Tensor, "batch K"]:
        return self.logits

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch K"]:
        """Draw feature after feature; on the CPU, whatever the device."""
        return self._draw(_positive_uniform((n_samples, *self.logits.shape), self.logits, noise))

    def _draw(self, uniform: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        return self.coupling.draw(self.logits, uniform, self.n_slots)

    def counts(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        return symbols

    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        """Draw relaxed features, sigmoid((log-odds + logistic noise) / temperature).

        Later features depend on the relaxed values of earlier ones.
        """
        uniform = _positive_uniform((n_samples, *self.logits.shape), self.logits, noise)
        logistic = torch.logit(uniform, eps=torch.finfo(uniform.dtype).eps)
        return self._posterior_coupling.draw_relaxed(self.logits, logistic, float(temperatures.feature), self.n_slots)

    def conditional_logits(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes K"]:
        for drawn in self._drawn:
            if counts is drawn.counts:
                return drawn.conditional_logits
        return self.coupling.conditional_logits(self.logits, counts)

    def with_temperature(self, temperature: Float[Tensor, ""]) -> "Chain[Prior]":
        coupling = self._posterior_coupling.divided_by(temperature)
        return replace(self, logits=self.logits / temperature, coupling=coupling)

    def with_gradient(self, drawn: Float[Tensor, "S batch K"], rule: GradientRule) -> Float[Tensor, "S batch K"]:
        """Return the drawn features with an estimated gradient, which includes their effect on later features."""
        with torch.no_grad():
            conditional = self.coupling.conditional_logits(self.logits, drawn)
            slopes = rule.binary_slopes(drawn, torch.sigmoid(conditional)).mul_(self.within_budget(drawn))
        result = self._posterior_coupling.with_slopes(self.logits, DrawnCodes(drawn, conditional), slopes)
        self._drawn.append(result)
        return result.counts

    @property
    def _posterior_coupling(self) -> PosteriorCoupling:
        assert isinstance(self.coupling, PosteriorCoupling), "a prior is not differentiated through its draws"
        return self.coupling

    def log_prob_of(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
        return self.log_prob(symbols)

    def mode(self) -> Int[Tensor, "batch K"]:
        """Return the more probable choice, feature after feature; on the CPU."""
        return self._posterior_coupling.modes(self.logits, self.n_slots)

    def cost(self, counts: Float[Tensor, "S batch K"], prior: Prior) -> Float[Tensor, "S batch"]:
        return self.terms_given(counts, prior).kl

    @cached_property
    def presence(self) -> Float[Tensor, "batch K"]:
        """Probability that a feature is present, estimated."""
        drawn = self._fixed_draws
        return (self.within_budget(drawn) * torch.sigmoid(self.conditional_logits(drawn))).mean(0)


@dataclass(frozen=True)
class ChainDistribution(Chain[SlotDistribution]):
    """A chain whose prior is that of the slots."""

    def log_ratio(self, symbols: Float[Tensor, "S batch K"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        log_ratio = prior.log_prob(symbols) - self.log_prob(symbols)
        return log_ratio + log_repetitions(symbols, prior)

    def cost(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        """Return the sum of the conditional divergences given drawn codes, less `log_repetitions`."""
        if not arrays.has_kernels(self.logits):
            return self.terms_given(counts, prior).kl
        charges = prior.gate_logit + prior.feature_log_probs
        cost = _Cost.apply(self.conditional_logits(counts), counts, charges, self.n_slots)
        return cost - self.n_slots * F.logsigmoid(-prior.gate_logit) - log_repetitions(counts, prior)

    def terms_given(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> PriorTerms:
        """Return the terms of the divergence given drawn codes.

        The number of features and their choice are one decision, so the terms of the gates are zero.
        """
        logits = self.conditional_logits(counts)
        before = counts.cumsum(-1) - counts
        reached = before.detach() < self.n_slots
        present = torch.sigmoid(logits)
        # A feature is charged for its place among those present and for its identity; slots left over, for being off.
        charged = torch.log((self.n_slots - before).clamp(min=0.5)) + prior.gate_logit + prior.feature_log_probs
        entropy = torch.where(reached, F.softplus(logits) - present * logits, 0.0).sum(-1)
        log_prior = torch.where(reached, present * charged, 0.0).sum(-1) + self.n_slots * F.logsigmoid(
            -prior.gate_logit
        )
        log_prior = log_prior + log_repetitions(counts, prior)
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, log_prior, zero, entropy)


class _Cost(torch.autograd.Function):
    """The kernel, which returns the derivatives as well."""

    @staticmethod
    def forward(ctx, conditional: Tensor, counts: Tensor, charges: Tensor, n_slots: int) -> Tensor:
        logits, codes = as_array(conditional.flatten(0, 1)), as_array(counts.flatten(0, 1))
        ctx.result = _kernels.chain_cost(logits, codes, as_array(charges), n_slots)
        return torch.from_numpy(ctx.result.cost).unflatten(0, counts.shape[:2])

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        result: _kernels.ChainCost = ctx.result
        shape, weight = (*gradient.shape, -1), gradient.flatten().unsqueeze(-1)
        to_conditional, to_counts = (weight * torch.from_numpy(part) for part in (result.logits, result.counts))
        to_charges = -(weight.T @ torch.from_numpy(result.presence)).squeeze(0) if ctx.needs_input_grad[2] else None
        return to_conditional.view(shape), to_counts.view(shape), to_charges, None


def _positive_uniform(shape: tuple[int, ...], like: Tensor, noise: Noise) -> Tensor:
    """Draw uniform noise that is never zero: zero would draw features of probability zero."""
    return noise.uniform(shape, like).add_(torch.finfo(like.dtype).eps / 4)
