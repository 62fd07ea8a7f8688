"""The subset posterior: which features are present, each with a probability of its own, never more than the budget.

Features are asked in a fixed order; each is present with its own probability, independently, until ``n_slots`` are
present, and the rest stay off. So the budget is a property of the distribution and not a correction afterwards, and
all sums over subsets are sums over the number of features present so far, which is a Markov chain.

Under the prior over counts of the paper, a multinomial, N features that are present once each have

    log p(n) = log L0! - log (L0 - N)! + sum over those present of log(lambda_0 alpha_k) + (L0 - N) log(1 - lambda_0).

Nothing is charged for which slot holds which feature, since nobody sees it. Where the decoder sees no more than which
features are present, as with the codes of an `sdlgm.SDLGM`, neither is it for a feature that could have been there
twice: the counts with these features and no others, repeated or not, are one code (`log_repetitions`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from sdlgm import _kernels
from sdlgm.model.noise import array, bernoulli, has_kernels
from sdlgm.model.presence import FromPresence
from sdlgm.model.slots import KL, PriorTerms, SlotDistribution, log_binomial
from sdlgm.model.variables import IndependentVariables

N_DRAWS = 16
"""Draws, with noise of their own that is always the same, behind probabilities and terms that have no closed form."""


def log_repetitions(counts: Float[Tensor, "*batch K"], prior: Any) -> Float[Tensor, "*batch"]:
    r"""What the counts of the same features, some of them repeated, add to the log-probability of a set; at least.

    With a_k = lambda_0 alpha_k / (1 - lambda_0), and U_k independent and uniform between 0 and 1, the sum over all
    counts whose features are the set S of N is

        p(S) = p(each once) E (1 + sum_{k in S} a_k U_k)^(L0 - N) >= p(each once) (1 + sum_{k in S} a_k / 2)^(L0 - N):

    extra holdings e_k >= 0 in the L0 - N slots left have the weight (L0 - N)! / (L0 - N - E)! prod a_k^e_k / (1 + e_k)!
    with E their sum, and 1 / (1 + e) is the e-th moment of U. The inequality is Jensen's, so that the bound on log p(x)
    stays a bound; with no more than one slot left it is an equation, and nearly one while a_k is small beside 1.
    """
    odds = torch.exp(prior.gate_logit + prior.feature_log_probs)
    slots_left = (prior.n_slots - counts.sum(-1)).clamp(min=0)
    return slots_left * torch.log1p(0.5 * (counts @ odds))


class Subsets(FromPresence):
    """Subsets of K features that are asked in their order, until ``n_slots`` are present."""

    def conditional_logits(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "*batch K"]:
        """Log-odds of each feature given those before it."""
        raise NotImplementedError

    def counts(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch K"]:
        """The subset that drawn symbols make."""
        raise NotImplementedError

    def asked(self, counts: Float[Tensor, "S batch K"]) -> Bool[Tensor, "S batch K"]:
        """Whether the budget lasts as far as each feature."""
        return counts.cumsum(-1) - counts < self.n_slots

    def log_prob(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
        """Log-probability of codes; minus infinity for those with a feature twice or beyond the budget."""
        logits = self.conditional_logits(counts)
        each = torch.where(counts > 0, F.logsigmoid(logits), F.logsigmoid(-logits))
        possible = (counts <= 1).all(-1) & (counts.sum(-1) <= self.n_slots)
        return torch.where(possible, torch.where(self.asked(counts), each, 0.0).sum(-1), -torch.inf)

    def log_ratio(self, symbols: Float[Tensor, "S batch ..."], prior: Any) -> Float[Tensor, "S batch"]:
        """Log p(z) - log q(z) of drawn codes."""
        counts = self.counts(symbols)
        return prior.log_prob(counts) - self.log_prob(counts)


@dataclass(frozen=True)
class SubsetDistribution(Subsets, IndependentVariables):
    """Subsets of K features with at most ``n_slots`` elements; ``logits`` are the log-odds of each feature asked."""

    logits: Float[Tensor, "batch K"]
    n_slots: int

    @cached_property
    def log_probs(self) -> Float[Tensor, "batch K 2"]:
        return torch.stack([F.logsigmoid(-self.logits), F.logsigmoid(self.logits)], dim=-1)

    def sample_symbols(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch K 2"]:
        """As if there were no budget; `counts` stops there."""
        probs = torch.sigmoid(self.logits.detach())
        drawn = bernoulli(probs.repeat(n_samples, 1), generator).unflatten(0, (n_samples, len(probs)))
        return torch.stack([1 - drawn, drawn], dim=-1)

    def counts(self, symbols: Float[Tensor, "S batch K 2"]) -> Float[Tensor, "S batch K"]:
        """The features drawn present, in their order, as long as the budget lasts."""
        present = symbols[..., 1]
        if bool((present.detach().sum(-1) <= self.n_slots).all()):  # nearly always
            return present
        return present * (present.detach().cumsum(-1) <= self.n_slots)

    @cached_property
    def _marginals(self) -> tuple[Float[Tensor, "batch n"], Float[Tensor, "batch K"], Float[Tensor, " batch"]]:
        """Distribution of the number present, presence of each feature, entropy."""
        if has_kernels(self.logits) and not (torch.is_grad_enabled() and self.logits.requires_grad):
            parts = _kernels.subset_marginals(array(self.logits), self.n_slots)
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

    def conditional_logits(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "batch K"]:
        """The same whatever the other features are."""
        return self.logits

    def mode(self) -> Int[Tensor, "batch K"]:
        """The most probable subset, exactly; on the CPU."""
        return torch.from_numpy(_kernels.subset_modes(array(self.logits.cpu()), self.n_slots))

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]:
        """What the code costs under ``prior``."""
        # The slots that are off cost (N - L0) log(1 - lambda_0): a constant, and a part of each feature's own cost.
        cost = -(prior.feature_log_probs + prior.gate_logit)
        numbers = torch.arange(self.n_slots + 1, dtype=self.logits.dtype, device=self.logits.device)
        orders = torch.lgamma(numbers.new_tensor(self.n_slots + 1.0)) - torch.lgamma(self.n_slots - numbers + 1)
        if has_kernels(self.logits):
            divergence: Tensor = _Divergence.apply(self.logits, cost, -orders)  # pyright: ignore[reportAssignmentType]
        else:
            n_present, presence, entropy = _plain_marginals(self.logits, self.n_slots)
            divergence = presence @ cost - n_present @ orders - entropy
        return divergence - self.n_slots * F.logsigmoid(-prior.gate_logit)

    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms:
        """The divergence in parts: of the number N of features present, and of which they are given N."""
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
    """Subsets as codes of which the decoder sees no more than what is present.

    All that `SubsetDistribution` costs is a closed form; what repetitions make of it depends on the code.
    """

    has_closed_kl = False

    def cost(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        """What is a function of the drawn code and what is not; its mean over the draws is the KL."""
        return super().kl(prior, "exact") - log_repetitions(counts, prior)

    def log_ratio(self, symbols: Float[Tensor, "S batch K 2"], prior: Any) -> Float[Tensor, "S batch"]:
        return super().log_ratio(symbols, prior) + log_repetitions(self.counts(symbols), prior)

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]:
        return self.prior_terms(prior, kl).kl

    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms:
        drawn = self.sample(N_DRAWS, torch.Generator(self.logits.device).manual_seed(0))
        terms = super().prior_terms(prior, kl)
        return replace(terms, log_prior_features=terms.log_prior_features + log_repetitions(drawn, prior).mean(0))


class _Divergence(torch.autograd.Function):
    """The kernel, with the derivatives that it finds on the way."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, cost: Tensor, closing: Tensor) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.result = _kernels.subset_divergence(array(logits), array(cost), array(closing))
        return torch.from_numpy(ctx.result.kl)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        result: _kernels.SubsetDivergence = ctx.result
        to_cost = gradient @ torch.from_numpy(result.presence) if ctx.needs_input_grad[1] else None
        return gradient.unsqueeze(-1) * torch.from_numpy(result.logits), to_cost, None


def _plain_marginals(logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """As `_kernels.subset_marginals`, by torch's operations, which have gradients and run on any device."""
    before = F.one_hot(torch.zeros(len(logits), dtype=torch.long, device=logits.device), n_slots + 1).to(logits)
    probs = torch.sigmoid(logits)
    entropies = F.softplus(logits) - probs * logits
    presence, entropy = [], torch.zeros_like(logits[:, 0])
    for k in range(logits.shape[-1]):
        asked = before[:, :-1].sum(-1)
        presence.append(asked * probs[:, k])
        entropy = entropy + asked * entropies[:, k]
        present = before[:, :-1] * probs[:, k, None]
        absent = before[:, :-1] * (1 - probs[:, k, None])
        before = F.pad(absent, (0, 1)) + F.pad(present, (1, 0)) + F.pad(before[:, -1:], (n_slots, 0))
    return before, torch.stack(presence, dim=-1), entropy
