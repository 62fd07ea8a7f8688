"""The chain posterior: a subset of the features in which each looks at those before it.

    q(n_k = 1 | n_1 .. n_{k-1}, x) = sigmoid(logit_k(x) + sum_{j < k} coupling_jk n_j), and 0 once L0 are present.

It can say "this one or that one", which no product of independent features can, and so the bound is tighter. The price:
expectations under it are no closed forms any more. The divergence from the prior is a sum over the features,

    KL = E sum_k E[log q(n_k | n_<k) - log p's factor for n_k | n_<k],

of which only the outer expectation is estimated by draws. The prior is the one of `sdlgm.model.subset`, written as a
product: the feature that is the m-th to come is charged -log(L0 - m + 1) - log(lambda_0 alpha_k / (1 - lambda_0)). What
repeated features add to it (`log_repetitions`) is a function of the whole code.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from sdlgm import _kernels
from sdlgm.model.draws import ToLogProbs
from sdlgm.model.noise import array, has_kernels, uniform_noise
from sdlgm.model.slots import KL, PriorTerms, SlotDistribution, Temperatures
from sdlgm.model.subset import N_DRAWS, Subsets, log_repetitions


@dataclass(frozen=True)
class ChainDistribution(Subsets):
    """Subsets of K features with at most ``n_slots`` elements.

    Only `cost`, `_terms_given` and `log_ratio` know what they cost under a prior; a subclass may have another one.
    """

    logits: Float[Tensor, "batch K"]
    """Log-odds of each feature if none is present before it."""
    coupling: Float[Tensor, "K K"]
    """``coupling[j, k]``: what the presence of j adds to the log-odds of k > j; zero elsewhere."""
    n_slots: int
    common_noise: bool = False
    """Whether all rows share the noise behind what is estimated by draws: the estimates of a row then depend on the row
    alone, and no longer average out over rows."""

    n_draws = 1
    has_closed_kl = False

    @property
    def summary(self) -> Float[Tensor, "batch K"]:
        return self.logits

    def _repeated(self, n_samples: int) -> Float[Tensor, "rows K"]:
        return self.logits.detach().repeat(n_samples, 1)

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch K"]:
        """Draw feature after feature; on the CPU, whatever the device."""
        return self._drawn(_uniform((n_samples, *self.logits.shape), self.logits, generator))

    def _drawn(self, noise: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        logits, coupling = array(self._repeated(len(noise)).cpu()), array(self.coupling.cpu())
        counts = _kernels.draw_chain(logits, coupling, array(noise.flatten(0, 1).cpu()), self.n_slots)
        return torch.from_numpy(counts).to(self.logits.device).unflatten(0, noise.shape[:2])

    sample_symbols = sample

    def counts(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        return symbols

    def relaxed_sample(
        self, n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> Float[Tensor, "S batch K"]:
        """Relaxed features, sigmoid((log-odds + logistic noise) / temperature), each seen relaxed by the later ones."""
        uniform = _uniform((n_samples, *self.logits.shape), self.logits, generator)
        noise = torch.logit(uniform, eps=torch.finfo(uniform.dtype).eps).flatten(0, 1)
        logits, coupling = array(self._repeated(n_samples).cpu()), array(self.coupling.cpu())
        temperature = float(temperatures.feature)
        counts = _kernels.draw_relaxed_chain(logits, coupling, array(noise.cpu()), temperature, self.n_slots)
        return torch.from_numpy(counts).to(self.logits.device).unflatten(0, (n_samples, len(self.logits)))

    def conditional_logits(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        """Log-odds of each feature given those before it."""
        return self.logits + counts @ self.coupling

    def with_gradient(self, drawn: Float[Tensor, "S batch K"], to_log_probs: ToLogProbs) -> Float[Tensor, "S batch K"]:
        """The drawn features with an estimated gradient, which includes what they do to the later ones."""
        present = torch.sigmoid(self.conditional_logits(drawn).detach())
        probs, symbols = torch.stack([1 - present, present], -1), torch.stack([1 - drawn, drawn], -1)
        unit = drawn.new_tensor([0.0, 1.0]).expand_as(symbols)
        off, on = to_log_probs(unit, symbols, probs, 1).unbind(-1)
        slopes = self.asked(drawn) * (on * (1 - present) - off * present)
        return _Chain.apply(self.logits, self.coupling, drawn, slopes)  # pyright: ignore[reportReturnType]

    def log_prob_of(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
        return self.log_prob(symbols)

    def log_ratio(self, symbols: Float[Tensor, "S batch K"], prior: Any) -> Float[Tensor, "S batch"]:
        return super().log_ratio(symbols, prior) + log_repetitions(symbols, prior)

    def mode(self) -> Int[Tensor, "batch K"]:
        """Feature after feature the more probable choice; on the CPU."""
        return self._drawn(torch.full_like(self.logits, 0.5).unsqueeze(0))[0].long().cpu()

    def cost(self, counts: Float[Tensor, "S batch K"], prior: Any) -> Float[Tensor, "S batch"]:
        """The sum of the conditional divergences given drawn codes, less `log_repetitions`; the mean is the KL."""
        if not has_kernels(self.logits):
            return self._terms_given(counts, prior).kl
        charges = prior.gate_logit + prior.feature_log_probs
        cost: Tensor = _Cost.apply(counts, self.logits, self.coupling, charges, self.n_slots)  # pyright: ignore[reportAssignmentType]
        return cost - self.n_slots * F.logsigmoid(-prior.gate_logit) - log_repetitions(counts, prior)

    def _terms_given(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> PriorTerms:
        """The two sides of the divergence. How many features and which ones are one decision, so gates have no part."""
        logits = self.conditional_logits(counts)
        before = counts.cumsum(-1) - counts
        asked = before.detach() < self.n_slots
        present = torch.sigmoid(logits)
        # A feature is charged for its place among those present and for being itself; slots left over, for being off.
        charged = torch.log((self.n_slots - before).clamp(min=0.5)) + prior.gate_logit + prior.feature_log_probs
        entropy = torch.where(asked, F.softplus(logits) - present * logits, 0.0).sum(-1)
        log_prior = torch.where(asked, present * charged, 0.0).sum(-1) + self.n_slots * F.logsigmoid(-prior.gate_logit)
        log_prior = log_prior + log_repetitions(counts, prior)
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, log_prior, zero, entropy)

    @cached_property
    def _fixed_draws(self) -> Float[Tensor, "S batch K"]:
        generator = torch.Generator(self.logits.device).manual_seed(0)
        if self.common_noise:
            noise = _uniform((N_DRAWS, 1, self.logits.shape[-1]), self.logits, generator)
            return self._drawn(noise.expand(N_DRAWS, *self.logits.shape))
        return self.sample(N_DRAWS, generator)

    def prior_terms(self, prior: Any, kl: KL) -> PriorTerms:
        terms = self._terms_given(self._fixed_draws, prior)
        return PriorTerms(*(part.mean(0) for part in vars(terms).values()))

    def kl(self, prior: Any, kl: KL) -> Float[Tensor, " batch"]:
        return self.prior_terms(prior, kl).kl

    @cached_property
    def presence(self) -> Float[Tensor, "batch K"]:
        """Probability that a feature is present, estimated."""
        drawn = self._fixed_draws
        return (self.asked(drawn) * torch.sigmoid(self.conditional_logits(drawn))).mean(0)


class _Chain(torch.autograd.Function):
    """Drawn features as a function of logits and coupling.

    With g_k the gradient of feature k from outside and s_k its slope, the gradient of its conditional logit is
    d_k = s_k (g_k + sum_{j > k} coupling_kj d_j), from the last feature to the first; d is the gradient of the logits,
    and n_j d_k that of coupling_jk.
    """

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any,
        logits: Tensor,  # noqa: ARG004 - it has the gradient
        coupling: Tensor,
        drawn: Tensor,
        slopes: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(coupling, drawn, slopes)
        return drawn.view_as(drawn)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        coupling, drawn, slopes = ctx.saved_tensors
        parts = (array(part.cpu()) for part in (coupling, slopes.flatten(0, 1), gradient.flatten(0, 1)))
        to_logits = torch.from_numpy(_kernels.chain_gradients(*parts)).to(gradient.device)
        to_coupling = torch.triu(drawn.flatten(0, 1).T @ to_logits, 1)
        return to_logits.unflatten(0, drawn.shape[:2]).sum(0), to_coupling, None, None


class _Cost(torch.autograd.Function):
    """The kernel, with the derivatives that it finds on the way."""

    @staticmethod
    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, counts: Tensor, logits: Tensor, coupling: Tensor, charges: Tensor, n_slots: int
    ) -> Tensor:
        conditional = (logits + counts @ coupling).flatten(0, 1)
        result = _kernels.chain_cost(array(conditional), array(counts.flatten(0, 1)), array(charges), n_slots)
        ctx.result = result
        ctx.save_for_backward(counts, coupling)
        return torch.from_numpy(result.cost).unflatten(0, counts.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        counts, coupling = ctx.saved_tensors
        result: _kernels.ChainCost = ctx.result
        weight = gradient.flatten().unsqueeze(-1)
        to_conditional = weight * torch.from_numpy(result.logits)
        to_counts = torch.addmm(weight * torch.from_numpy(result.counts), to_conditional, coupling.T)
        to_coupling = torch.triu(counts.flatten(0, 1).T @ to_conditional, 1)
        to_charges = -(weight.T @ torch.from_numpy(result.presence)).squeeze(0) if ctx.needs_input_grad[3] else None
        shape = counts.shape
        return to_counts.view(shape), to_conditional.view(shape).sum(0), to_coupling, to_charges, None


def _uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    uniform = uniform_noise(shape, like, generator)
    return uniform.add_(torch.finfo(like.dtype).eps / 4)  # zero, a multiple of eps / 2 too, would draw the impossible
