"""Sets of features whose prior is a chain: features that go together are cheaper together.

    p(n_k = 1 | n_1 .. n_{k-1}) = sigmoid(bias_k + coupling of the features before k), and 0 once L0 are present.

Prior and posterior visit the features in the same order and stop at the same budget, so both are normalised over the
sets of at most L0 features, and the divergence is a sum of divergences between Bernoulli variables,

    KL = E sum_k KL(q(n_k | n_<k, x), p(n_k | n_<k)),   over the features k that the budget reaches,

of which only the outer expectation is estimated by draws. Nothing is charged for repetitions, since there are none.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order
from sdlgm.model.codes.base import PriorTerms
from sdlgm.model.codes.chain import Chain
from sdlgm.model.codes.subset import IndependentSubsets, Subsets

ChainPriorDistribution = Chain[Any]
"""p(z): a chain of one row, the same for all observations."""


class UnderChainPrior(Subsets[ChainPriorDistribution]):
    """Subsets with a chain as their prior."""

    has_closed_kl = False

    def log_ratio(
        self, symbols: Float[Tensor, "S batch ..."], prior: ChainPriorDistribution
    ) -> Float[Tensor, "S batch"]:
        counts = self.counts(symbols)
        return prior.log_prob(counts) - self.log_prob(counts)

    def cost(self, counts: Float[Tensor, "S batch K"], prior: ChainPriorDistribution) -> Float[Tensor, "S batch"]:
        """Return the sum of the conditional divergences given drawn codes."""
        if not arrays.has_kernels(counts):
            return self.terms_given(counts, prior).kl
        logits, prior_logits = self.conditional_logits(counts), prior.conditional_logits(counts)
        return _ConditionalDivergence.apply(logits.expand_as(counts), prior_logits, counts.detach(), self.n_slots)

    def terms_given(self, counts: Float[Tensor, "S batch K"], prior: ChainPriorDistribution) -> PriorTerms:
        """Return the terms of the divergence given drawn codes.

        The number of features and their choice are one decision, so the terms of the gates are zero.
        """
        logits, prior_logits = self.conditional_logits(counts), prior.conditional_logits(counts)
        reached, present = self.within_budget(counts.detach()), torch.sigmoid(logits)
        entropy = torch.where(reached, F.softplus(logits) - present * logits, 0.0).sum(-1)
        log_prior = torch.where(reached, present * prior_logits - F.softplus(prior_logits), 0.0).sum(-1)
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, log_prior, zero, entropy)


@dataclass(frozen=True)
class ChainUnderChain(UnderChainPrior, Chain[ChainPriorDistribution]):
    """A chain whose prior is a chain."""

    def expand(self, n_rows: int) -> "ChainUnderChain":
        """Return the same distribution for each of several rows."""
        return ChainUnderChain(self.logits.expand(n_rows, -1), self.coupling, self.n_slots)


@dataclass(frozen=True)
class SubsetUnderChain(UnderChainPrior, IndependentSubsets[ChainPriorDistribution]):
    """Independent features up to the budget, whose prior is a chain."""


class _ConditionalDivergence(torch.autograd.Function):
    """The kernel, which returns the derivatives as well."""

    @staticmethod
    def forward(ctx, logits: Tensor, prior_logits: Tensor, counts: Tensor, n_slots: int) -> Tensor:
        q, p, codes = (as_array(part.flatten(0, 1)) for part in (logits, prior_logits, counts))
        ctx.result = _kernels.conditional_divergence(q, p, codes, n_slots, torch.get_num_threads())
        return torch.from_numpy(ctx.result.cost).unflatten(0, counts.shape[:2])

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        result: _kernels.ConditionalDivergence = ctx.result
        parts = (torch.from_numpy(part).view(*gradient.shape, -1) for part in (result.logits, result.prior_logits))
        return *(gradient.unsqueeze(-1) * part for part in parts), None, None
