"""The distribution of L0 independent slots, each of which is off or holds one of K features.

A slot's feature cannot be seen while its gate is off, so a slot is one symbol out of K + 1 with probabilities

    p = (1 - gate_prob, gate_prob * feature_probs[0], ..., gate_prob * feature_probs[K - 1])

and the counts of the K features over the L0 slots are the entries of ``Multinomial(L0, p)`` except the first.
Prior and shared posterior are both of this form; they differ in where the probabilities come from.

In the shapes ``symbols`` is K + 1.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.codes._relaxed_slots import relaxed_counts
from sdlgm.model.codes._slot_divergence import slot_divergence
from sdlgm.model.codes._slot_symbols import slot_symbols
from sdlgm.model.codes.base import KL, GradientRule, PriorTerms, Temperatures
from sdlgm.model.codes.independent import IndependentSymbols
from sdlgm.model.codes.surrogate import symbols_with_gradient
from sdlgm.model.noise import CommonNoise, Noise


@dataclass(frozen=True)
class SlotDistribution(IndependentSymbols["SlotDistribution"]):
    """Counts of K features over ``n_slots`` independent and identically distributed slots.

    Parameters
    ----------
    gate_logit : log-odds that a slot is on.
    feature_logits : log-probabilities of the features in a slot that is on, up to a constant.
    n_slots : L0, the hard budget: no sample or mode has more than this many active slots.

    """

    gate_logit: Float[Tensor, "*batch"]
    feature_logits: Float[Tensor, "*batch K"]
    n_slots: int

    @cached_property
    def _symbols(self) -> tuple[Float[Tensor, "*batch symbols"], Float[Tensor, "*batch symbols"]]:
        return slot_symbols(self.gate_logit, self.feature_logits)

    @cached_property
    def log_probs(self) -> Float[Tensor, "*batch symbols"]:
        """Log-probabilities of the K + 1 symbols of a slot; the first one is "off"."""
        return self._symbols[0]

    @cached_property
    def probs(self) -> Float[Tensor, "*batch symbols"]:
        """Probabilities of the K + 1 symbols."""
        return self._symbols[1]

    @cached_property
    def feature_log_probs(self) -> Float[Tensor, "*batch K"]:
        """Log-probabilities of the features in a slot that is on."""
        return self.feature_logits.log_softmax(-1)

    @property
    def gate_prob(self) -> Float[Tensor, "*batch"]:
        """Probability that a slot is on."""
        return torch.sigmoid(self.gate_logit)

    @property
    def feature_probs(self) -> Float[Tensor, "*batch K"]:
        return self.feature_log_probs.exp()

    @cached_property
    def presence(self) -> Float[Tensor, "*batch K"]:
        """Probability that a feature is present, 1 - (1 - gate_prob * feature_probs) ** L0."""
        return -torch.expm1(self.n_slots * torch.log1p(-self.probs[..., 1:]))

    def expand(self, n: int) -> "SlotDistribution":
        """Return the same distribution for each observation of a batch of n."""
        return SlotDistribution(self.gate_logit.expand(n), self.feature_logits.expand(n, -1), self.n_slots)

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch symbols"]:
        """Draw the counts of all K + 1 symbols; they add up to ``n_slots``.

        Apart from the counts, memory is O(L0) for each observation.
        """
        probs = self.probs.detach()
        if isinstance(noise, CommonNoise):
            return self._drawn_by(noise.uniform((n_samples, len(probs), self.n_slots), probs))
        if arrays.has_kernels(probs):
            keys = noise.block_keys(n_samples * len(probs))
            counts = _kernels.draw_counts(keys, as_array(probs), n_slots=self.n_slots, n_samples=n_samples)
            return torch.from_numpy(counts)
        drawn = torch.multinomial(probs, n_samples * self.n_slots, replacement=True, generator=noise.generator)
        drawn = drawn.unflatten(-1, (n_samples, self.n_slots)).movedim(1, 0)
        counts = probs.new_zeros(n_samples, *probs.shape)
        return counts.scatter_add_(-1, drawn, torch.ones_like(drawn, dtype=probs.dtype))

    def _drawn_by(self, uniform: Float[Tensor, "S batch L0"]) -> Float[Tensor, "S batch symbols"]:
        """Return the counts of all symbols with one uniform number for each slot."""
        cumulative = self.probs.detach().cumsum(-1).expand(*uniform.shape[:2], -1).contiguous()
        drawn = torch.searchsorted(cumulative, uniform * cumulative[..., -1:], right=True)
        counts = torch.zeros_like(cumulative)
        return counts.scatter_add_(-1, drawn.clamp(max=cumulative.shape[-1] - 1), torch.ones_like(uniform))

    @property
    def n_draws(self) -> int:
        """L0: all slots are draws of the same symbols."""
        return self.n_slots

    def counts(self, symbols: Float[Tensor, "S batch symbols"]) -> Float[Tensor, "S batch K"]:
        """Return the counts of the features, without those of "off"."""
        return symbols[..., 1:]

    @property
    def summary(self) -> Float[Tensor, "batch symbols"]:
        return self.log_probs

    def log_prob_of(self, symbols: Float[Tensor, "S batch symbols"]) -> Float[Tensor, "S batch"]:
        """Return the log-probability of drawn symbols in the order of the slots; a constant is left out."""
        return (symbols * self.log_probs).sum(-1)

    def log_ratio(
        self, symbols: Float[Tensor, "S batch symbols"], prior: "SlotDistribution"
    ) -> Float[Tensor, "S batch"]:
        """Return log p(z) - log q(z) of drawn symbols; the number of their orders cancels."""
        # xlogy's rule 0 * log 0 = 0, written for log-probabilities.
        return torch.where(symbols > 0, symbols * (prior.log_probs - self.log_probs), 0.0).sum(-1)

    def with_gradient(
        self, drawn: Float[Tensor, "S batch symbols"], rule: GradientRule
    ) -> Float[Tensor, "S batch symbols"]:
        return symbols_with_gradient(self.log_probs, self.probs, drawn, self.n_slots, rule)

    def relaxed_parts(
        self, n_samples: int, temperatures: Temperatures, noise: Noise, *, common_noise: bool = False
    ) -> tuple[Float[Tensor, "S batch L0 2"], Float[Tensor, "S batch L0 K"]]:
        """Draw relaxed gates (the paper's ``equ:2dgumbelsoftmax``) and features (``equ:kdgumbelsoftmax``) of each slot.

        With ``common_noise`` all observations share the noise, so that a draw does not depend on the place of a row.
        """
        batch, n_features = self.feature_log_probs.shape
        shape = (n_samples, 1 if common_noise else batch, self.n_slots)
        log_gate = torch.stack([F.logsigmoid(self.gate_logit), F.logsigmoid(-self.gate_logit)], dim=-1)
        gate_noise = noise.gumbel((*shape, 2), log_gate)
        gates = ((log_gate[:, None, :] + gate_noise) / temperatures.gate).softmax(-1)
        feature_noise = noise.gumbel((*shape, n_features), self.feature_log_probs)
        features = ((self.feature_log_probs[:, None, :] + feature_noise) / temperatures.feature).softmax(-1)
        return gates, features

    def from_parts(self, *parts: Float[Tensor, "S batch L0 _"]) -> Float[Tensor, "S batch K"]:
        """Return the sum over the slots of gate times feature (the paper's ``equ:mc_ELL_sample``)."""
        gates, features = parts
        return (gates[..., 0].unsqueeze(-2) @ features).squeeze(-2)

    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        if not arrays.has_kernels(self.feature_logits):
            return self.from_parts(*self.relaxed_parts(n_samples, temperatures, noise))
        return relaxed_counts(
            self.gate_logit,
            self.feature_logits,
            temperatures,
            n_slots=self.n_slots,
            n_samples=n_samples,
            noise=noise,
        )

    def log_prob(self, counts: Float[Tensor, "... K"]) -> Float[Tensor, "..."]:
        """Return the log-probability of count vectors; minus infinity for counts beyond the budget."""
        n_off = self.n_slots - counts.sum(-1, keepdim=True)
        filled = torch.cat([n_off.clamp(min=0), counts], dim=-1)
        log_coefficient = torch.lgamma(counts.new_tensor(self.n_slots + 1.0)) - torch.lgamma(filled + 1).sum(-1)
        # xlogy's rule 0 * log 0 = 0, written for log-probabilities.
        weighted = torch.where(filled > 0, filled * self.log_probs, 0.0).sum(-1)
        return torch.where(n_off.squeeze(-1) >= 0, log_coefficient + weighted, -torch.inf)

    def mode(self) -> Int[Tensor, "batch K"]:
        """Return the most probable counts, exactly; on the CPU."""
        logits = as_array(self.gate_logit.cpu()), as_array(self.feature_logits.cpu())
        return torch.from_numpy(_kernels.slot_modes(*logits, self.n_slots, n_threads=torch.get_num_threads()))

    def kl(self, prior: "SlotDistribution", kl: KL) -> Float[Tensor, "*batch"]:
        """Return the sum of the `prior_terms`, without its parts."""
        if not arrays.has_kernels(self.feature_logits):
            return self.prior_terms(prior, kl).kl
        return slot_divergence(
            self.gate_logit,
            self.feature_logits,
            prior.gate_logit,
            prior.feature_log_probs,
            n_slots=self.n_slots,
            exact=kl == "exact",
        )

    def prior_terms(self, prior: "SlotDistribution", kl: KL) -> PriorTerms:
        """Return the terms of the divergence from ``prior``.

        ``kl="paper"`` charges every slot for its feature, KL = L0 [KL(gate) + KL(feature)] (``equ:mc_KLL`` and
        ``equ:mc_KLZ``). ``kl="exact"`` charges open slots only, KL = L0 [KL(gate) + gate_prob KL(feature)]. That is the
        divergence of the counts themselves and gives the tighter bound.
        """
        gate_prob, feature_probs = self.gate_prob, self.feature_probs
        open_slots = self.n_slots * (gate_prob if kl == "exact" else torch.ones_like(gate_prob))
        entropy_of_gate = -(
            gate_prob * F.logsigmoid(self.gate_logit) + (1 - gate_prob) * F.logsigmoid(-self.gate_logit)
        )
        cross_of_gate = gate_prob * F.logsigmoid(prior.gate_logit) + (1 - gate_prob) * F.logsigmoid(-prior.gate_logit)
        return PriorTerms(
            log_prior_gates=self.n_slots * cross_of_gate,
            log_prior_features=open_slots * (feature_probs * prior.feature_log_probs).sum(-1),
            entropy_gates=self.n_slots * entropy_of_gate,
            entropy_features=-open_slots * (feature_probs * self.feature_log_probs).sum(-1),
        )


def log_binomial(slots: SlotDistribution) -> Float[Tensor, "*batch lengths"]:
    """Return the log-probability of each number of open slots, Binomial(L0, gate_prob)."""
    n_slots = slots.n_slots
    numbers = torch.arange(n_slots + 1, dtype=slots.feature_logits.dtype, device=slots.feature_logits.device)
    log_factorial = torch.lgamma(numbers + 1)
    log_orders = log_factorial[-1] - log_factorial - log_factorial.flip(0)
    gate_logit = slots.gate_logit.unsqueeze(-1)
    return log_orders + numbers * F.logsigmoid(gate_logit) + (n_slots - numbers) * F.logsigmoid(-gate_logit)
