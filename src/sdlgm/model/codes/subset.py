"""Subsets of the features, each present with a probability of its own, never more than the budget.

Features are visited in a fixed order. Each is present with its own probability, independently, until ``n_slots`` are
present; the rest stay off. So the budget is a property of the distribution and not a correction afterwards, and all
sums over subsets are sums over the number of features present so far, which is a Markov chain.

Under the paper's prior over counts, a multinomial, N features that are present once each have

    log p(n) = log L0! - log (L0 - N)! + sum over those present of log(lambda_0 alpha_k) + (L0 - N) log(1 - lambda_0).

The assignment of features to slots is not charged, since it is not part of the code. Where the decoder gets only which
features are present, as with the codes of an `sdlgm.SDLGM`, repetitions are not charged either: all counts with the
same features are one code (`log_repetitions`).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order
from sdlgm.model.codes.base import KL, PresenceCodes, Prior, PriorTerms
from sdlgm.model.codes.independent import IndependentVariables
from sdlgm.model.codes.slots import SlotDistribution, log_binomial
from sdlgm.model.noise import Noise

N_DRAWS = 16
"""Number of draws, always with the same noise, behind probabilities and terms that have no closed form."""
MOST_DRAWN = 2**22
"""Numbers of all these draws together. Where the codes of a batch are larger, there are fewer draws, at least one: the
errors of many rows and features average out, and memory does not grow with the draws."""


def log_repetitions(counts: Float[Tensor, "*batch K"], prior: SlotDistribution) -> Float[Tensor, "*batch"]:
    r"""Return a lower bound on what counts with repeated features add to the log-probability of a set.

    With a_k = lambda_0 alpha_k / (1 - lambda_0), and U_k independent and uniform between 0 and 1, the sum over all
    counts whose features are the set S of N is

        p(S) = p(each once) E (1 + sum_{k in S} a_k U_k)^(L0 - N) >= p(each once) (1 + sum_{k in S} a_k / 2)^(L0 - N):

    extra holdings e_k >= 0 in the L0 - N slots left have the weight (L0 - N)! / (L0 - N - E)! prod a_k^e_k / (1 + e_k)!
    with E their sum, and 1 / (1 + e) is the e-th moment of U. The inequality is Jensen's, so that the bound on log p(x)
    stays a bound; with at most one slot left it is an equality, and close to one while a_k is much smaller than 1.
    """
    odds = torch.exp(prior.gate_logit + prior.feature_log_probs)
    slots_left = (prior.n_slots - counts.sum(-1)).clamp(min=0)
    return slots_left * torch.log1p(0.5 * (counts @ odds))


class Subsets(PresenceCodes[Prior]):
    """Subsets of K features that are visited in their order, until ``n_slots`` are present."""

    logits: Float[Tensor, "batch K"]
    common_noise: bool
    """Whether all rows share the noise behind estimates. Estimates of a row then depend on the row alone, but their
    errors do not average out over rows."""

    @cached_property
    def _fixed_draws(self) -> Float[Tensor, "S batch K"]:
        """Draws behind probabilities and terms that have no closed form, always with the same noise."""
        noise, n_draws = Noise.seeded(0, self.logits.device), self._n_fixed_draws
        if not self.common_noise:
            return self.sample(n_draws, noise)
        return torch.cat([self.sample(1, noise.common()) for _ in range(n_draws)])

    @property
    def _n_fixed_draws(self) -> int:
        return max(1, min(N_DRAWS, MOST_DRAWN // max(1, self.logits.numel())))

    def conditional_logits(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "... K"]:
        """Return the log-odds of each feature given those before it."""
        raise NotImplementedError

    def terms_given(self, counts: Float[Tensor, "S batch K"], prior: Prior) -> PriorTerms:
        """Return the terms of the divergence from ``prior`` given drawn codes; only where it has no closed form."""
        raise NotImplementedError

    def prior_terms(self, prior: Prior, kl: KL) -> PriorTerms:
        terms = self.terms_given(self._fixed_draws, prior)
        return PriorTerms(*(part.mean(0) for part in vars(terms).values()))

    def kl(self, prior: Prior, kl: KL) -> Float[Tensor, " batch"]:
        return self.prior_terms(prior, kl).kl

    def within_budget(self, counts: Float[Tensor, "*codes K"]) -> Bool[Tensor, "*codes K"]:
        """Return whether fewer than ``n_slots`` features are present before each feature."""
        return counts.cumsum(-1) - counts < self.n_slots

    def log_prob(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes"]:
        """Return the log-probability of codes; minus infinity for those with a feature twice or beyond the budget."""
        logits = self.conditional_logits(counts)
        each = torch.where(counts > 0, F.logsigmoid(logits), F.logsigmoid(-logits))
        possible = (counts <= 1).all(-1) & (counts.sum(-1) <= self.n_slots)
        return torch.where(possible, torch.where(self.within_budget(counts), each, 0.0).sum(-1), -torch.inf)


@dataclass(frozen=True)
class IndependentSubsets(Subsets[Prior], IndependentVariables[Prior]):
    """Subsets of K features with at most ``n_slots`` elements, drawn independently of each other.

    A subclass defines the divergence from a family of priors.
    """

    logits: Float[Tensor, "batch K"]
    """Log-odds of each feature that the budget reaches."""
    n_slots: int
    common_noise: bool = False

    @cached_property
    def log_probs(self) -> Float[Tensor, "batch K 2"]:
        return torch.stack([F.logsigmoid(-self.logits), F.logsigmoid(self.logits)], dim=-1)

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch K 2"]:
        """Draw features without regard to the budget, which `counts` applies."""
        probs = torch.sigmoid(self.logits.detach())
        drawn = noise.bernoulli(probs.repeat(n_samples, 1)).unflatten(0, (n_samples, len(probs)))
        return torch.stack([1 - drawn, drawn], dim=-1)

    def counts(self, symbols: Float[Tensor, "S batch K 2"]) -> Float[Tensor, "S batch K"]:
        """Return the features drawn present, in their order, as long as the budget lasts."""
        present = symbols[..., 1]
        if bool((present.detach().sum(-1) <= self.n_slots).all()):  # nearly always
            return present
        return present * (present.detach().cumsum(-1) <= self.n_slots)

    @cached_property
    def _marginals(self) -> tuple[Float[Tensor, "batch n"], Float[Tensor, "batch K"], Float[Tensor, " batch"]]:
        """Distribution of the number present, presence of each feature, entropy."""
        if arrays.has_kernels(self.logits) and not (torch.is_grad_enabled() and self.logits.requires_grad):
            parts = _kernels.subset_marginals(as_array(self.logits), self.n_slots)
            n_present, presence, entropy = (torch.from_numpy(part) for part in parts)
            return n_present, presence, entropy
        return _plain_marginals(self.logits, self.n_slots)

    @property
    def number_present(self) -> Float[Tensor, "batch numbers"]:
        """Distribution of the number of features present, over 0..L0."""
        return self._marginals[0]

    @cached_property
    def presence(self) -> Float[Tensor, "batch K"]:
        return self._marginals[1]

    def conditional_logits(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "batch K"]:
        """Return the log-odds of each feature, which do not depend on the others."""
        return self.logits

    def mode(self) -> Int[Tensor, "batch K"]:
        """Return the most probable subset, exactly; on the CPU."""
        return torch.from_numpy(_kernels.subset_modes(as_array(self.logits.cpu()), self.n_slots))


@dataclass(frozen=True)
class SubsetDistribution(IndependentSubsets[SlotDistribution]):
    """Independent features up to the budget, whose prior is that of the slots."""

    def log_ratio(self, symbols: Float[Tensor, "S batch K 2"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        counts = self.counts(symbols)
        return prior.log_prob(counts) - self.log_prob(counts)

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]:
        # The slots that are off cost (N - L0) log(1 - lambda_0): a constant, and a part of each feature's own cost.
        cost = -(prior.feature_log_probs + prior.gate_logit)
        numbers = torch.arange(self.n_slots + 1, dtype=self.logits.dtype, device=self.logits.device)
        orders = torch.lgamma(numbers.new_tensor(self.n_slots + 1.0)) - torch.lgamma(self.n_slots - numbers + 1)
        if arrays.has_kernels(self.logits):
            divergence = _Divergence.apply(self.logits, cost, -orders)
        else:
            n_present, presence, entropy = _plain_marginals(self.logits, self.n_slots)
            divergence = presence @ cost - n_present @ orders - entropy
        return divergence - self.n_slots * F.logsigmoid(-prior.gate_logit)

    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms:
        """Return the divergence of the number N of features present, and of which they are given N."""
        n_present, presence, entropy = self._marginals
        numbers = torch.arange(self.n_slots + 1, dtype=n_present.dtype, device=n_present.device)
        log_factorial = torch.lgamma(numbers + 1)
        entropy_of_number = torch.special.entr(n_present).sum(-1)
        return PriorTerms(
            log_prior_gates=n_present @ log_binomial(prior),
            log_prior_features=n_present @ log_factorial + presence @ prior.feature_log_probs,
            entropy_gates=entropy_of_number,
            entropy_features=entropy - entropy_of_number,
        )


@dataclass(frozen=True)
class SubsetCodes(SubsetDistribution):
    """Subsets as codes: the decoder gets which features are present, whatever their counts.

    The cost of a `SubsetDistribution` has a closed form. The part that repetitions add depends on the code.
    """

    has_closed_kl = False

    def cost(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        return super().kl(prior, "exact") - log_repetitions(counts, prior)

    def log_ratio(self, symbols: Float[Tensor, "S batch K 2"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        return super().log_ratio(symbols, prior) + log_repetitions(self.counts(symbols), prior)

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]:
        return self.prior_terms(prior, kl).kl

    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms:
        terms = super().prior_terms(prior, kl)
        repetitions = log_repetitions(self._fixed_draws, prior).mean(0)
        return replace(terms, log_prior_features=terms.log_prior_features + repetitions)


class _Divergence(torch.autograd.Function):
    """The kernel, which returns the derivatives as well."""

    @staticmethod
    def forward(ctx, logits: Tensor, cost: Tensor, closing: Tensor) -> Tensor:
        ctx.result = _kernels.subset_divergence(as_array(logits), as_array(cost), as_array(closing))
        return torch.from_numpy(ctx.result.kl)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        result: _kernels.SubsetDivergence = ctx.result
        to_cost = gradient @ torch.from_numpy(result.presence) if ctx.needs_input_grad[1] else None
        return gradient.unsqueeze(-1) * torch.from_numpy(result.logits), to_cost, None


def _plain_marginals(logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what `_kernels.subset_marginals` does, by torch's operations: differentiable, on any device."""
    before = F.one_hot(torch.zeros(len(logits), dtype=torch.long, device=logits.device), n_slots + 1).to(logits)
    probs = torch.sigmoid(logits)
    entropies = F.softplus(logits) - probs * logits
    presence, entropy = [], torch.zeros_like(logits[:, 0])
    for k in range(logits.shape[-1]):
        reached = before[:, :-1].sum(-1)
        presence.append(reached * probs[:, k])
        entropy = entropy + reached * entropies[:, k]
        present = before[:, :-1] * probs[:, k, None]
        absent = before[:, :-1] * (1 - probs[:, k, None])
        before = F.pad(absent, (0, 1)) + F.pad(present, (1, 0)) + F.pad(before[:, -1:], (n_slots, 0))
    return before, torch.stack(presence, dim=-1), entropy
