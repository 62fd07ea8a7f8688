"""Ordered lists of features: a distribution over their length, and one over features for each position.

q(L) is a distribution over 0..L0, and position l <= L holds a feature drawn from pi_l. The slots of the prior are
exchangeable, so a list of L features costs the same wherever they stand, and

    KL = KL(q(L) || Binomial(L0, lambda_0)) + sum_l P(L >= l) KL(pi_l || alpha):

closed slots are not charged, nor is the place of the open ones. Codes are scored as lists although the decoder gets
their counts, so up to log(L! / prod n_k!) nats are paid for the order of the features.

Position 1 is open whenever any other is, and so on: the first m features of a code are a code as well. If q(L) is
certain of one length, nothing distinguishes the positions. So every second list is cut short during training (nested
dropout; Rippel, Gelbart and Adams, ICML 2014). The bound of a cut list is a bound too. Early positions learn the most
important features, and the decoder learns to decode short lists.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm.model import arrays
from sdlgm.model.codes._slot_divergence import slot_divergence
from sdlgm.model.codes.base import KL, PriorTerms, Temperatures
from sdlgm.model.codes.independent import CLOSED, IndependentVariables, one_hot_draws, relaxed_one_hots
from sdlgm.model.codes.slots import SlotDistribution, log_binomial
from sdlgm.model.noise import Noise

_IMPOSSIBLE = -30.0  # in the summary, the logarithm of a length that a cut list cannot have


@dataclass(frozen=True)
class OrderedDistribution(IndependentVariables[SlotDistribution]):
    """Lists of at most L0 features out of K, of which the decoder gets the counts.

    The variables are the length, which comes first, and the feature at each position within `reach`.
    """

    length_logits: Float[Tensor, "batch lengths"]
    """Log-probabilities, up to a constant, of the L0 + 1 lengths."""
    feature_logits: Float[Tensor, "batch L0 K"]

    @property
    def n_slots(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.feature_logits.shape[-2]

    @property
    def n_features(self) -> int:
        return self.feature_logits.shape[-1]

    @cached_property
    def length_log_probs(self) -> Float[Tensor, "batch lengths"]:
        return self.length_logits.log_softmax(-1)

    @cached_property
    def feature_log_probs(self) -> Float[Tensor, "batch L0 K"]:
        return self.feature_logits.log_softmax(-1)

    @cached_property
    def reach(self) -> int:
        """Number of positions that some list of the batch may fill.

        Later positions are open with a probability below the resolution of the uniform noise and of a sum over the
        positions. Few observations need a long list, so most of the work is saved.
        """
        least = 1e-4 * torch.finfo(self.open.dtype).eps
        return max(1, int((self.open >= least).any(0).sum()))

    @cached_property
    def _reached_logits(self) -> Float[Tensor, "batch reach K"]:
        return self.feature_logits[:, : self.reach].contiguous()

    @cached_property
    def log_probs(self) -> Float[Tensor, "batch V W"]:
        return self._with_length(self._reached_logits.log_softmax(-1))

    def _with_length(self, feature_log_probs: Float[Tensor, "batch positions K"]) -> Float[Tensor, "batch V W"]:
        width = max(self.n_slots + 1, self.n_features)
        length = F.pad(self.length_log_probs, (0, width - self.n_slots - 1), value=CLOSED)
        features = F.pad(feature_log_probs, (0, width - self.n_features), value=CLOSED)
        return torch.cat([length.unsqueeze(-2), features], dim=-2)

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch V W"]:
        """Draw one-hot symbols; the draws do not depend on `reach`, which depends on other rows."""
        probs = self.probs.detach()
        uniform = noise.uniform((n_samples, len(probs), 1 + self.n_slots, 1), probs)
        return one_hot_draws(probs, uniform[:, :, : 1 + self.reach])

    def relaxed_parts(
        self, n_samples: int, temperatures: Temperatures, noise: Noise
    ) -> tuple[Float[Tensor, "S batch V W"]]:
        """Draw relaxed symbols for all positions: at a high temperature, a relaxed length opens any of them."""
        return (relaxed_one_hots(self._with_length(self.feature_log_probs), n_samples, temperatures, noise),)

    @property
    def summary(self) -> Float[Tensor, "batch logits"]:
        """All numbers that the distribution depends on, without the padding of `log_probs`."""
        lengths = self.length_log_probs.clamp(min=_IMPOSSIBLE)
        return torch.cat([lengths, self.feature_log_probs.flatten(1)], dim=-1)

    @cached_property
    def open(self) -> Float[Tensor, "batch L0"]:
        """P(L >= l) for each position l."""
        return _at_least(self.length_log_probs.exp())

    def counts(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch K"]:
        """Return the sum of the features at the positions that are open."""
        features = symbols[..., 1:, : self.n_features]
        is_open = _at_least(symbols[..., 0, : self.n_slots + 1])[..., : features.shape[-2]]
        return (is_open.unsqueeze(-2) @ features).squeeze(-2)

    @property
    def gate_prob(self) -> Float[Tensor, " batch"]:
        return self.open.mean(-1)

    @property
    def feature_probs(self) -> Float[Tensor, "batch K"]:
        is_open = self.open.clamp(min=torch.finfo(self.open.dtype).tiny)
        expected = (is_open.unsqueeze(-2) @ self.feature_log_probs.exp()).squeeze(-2)
        return expected / expected.sum(-1, keepdim=True)

    @cached_property
    def presence(self) -> Float[Tensor, "batch K"]:
        absent = torch.log1p(-self.feature_log_probs.exp().clamp(max=1 - 1e-6)).cumsum(-2).exp()
        lengths = self.length_log_probs.exp()
        return 1 - lengths[:, :1] - (lengths[:, 1:].unsqueeze(-2) @ absent).squeeze(-2)

    def mode(self, budget: int | None = None) -> Int[Tensor, "batch K"]:
        """Return the most probable length, cut to ``budget``, and the most probable feature at each position."""
        length = self.length_log_probs.argmax(-1, keepdim=True)
        if budget is not None:
            length = length.clamp(max=budget)
        is_open = torch.arange(self.n_slots, device=length.device) < length
        counts = torch.zeros_like(self.feature_logits[:, 0], dtype=torch.long)
        return counts.scatter_add_(-1, self.feature_logits.argmax(-1), is_open.long())

    def cut(self, limit: Int[Tensor, " batch"]) -> "OrderedDistribution":
        """Return the distribution of the lists cut to at most ``limit`` positions."""
        lengths = torch.arange(self.n_slots + 1, device=limit.device)
        at_least = self.length_log_probs.flip(-1).logcumsumexp(-1).flip(-1)
        is_limit, is_beyond = (limit.unsqueeze(-1) == lengths, limit.unsqueeze(-1) < lengths)
        log_probs = torch.where(is_limit, at_least, self.length_log_probs).masked_fill(is_beyond, CLOSED)
        return replace(self, length_logits=log_probs)

    def log_ratio(self, symbols: Float[Tensor, "S batch V W"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        """Return log p(list) - log q(list) of a drawn length and the features at the positions that it opens."""
        lengths, features = symbols[..., 0, : self.n_slots + 1], symbols[..., 1:, : self.n_features]
        of_length = (lengths * (log_binomial(prior) - self.length_log_probs)).sum(-1)
        n_positions = features.shape[-2]
        of_features = (features * (prior.feature_log_probs - self.feature_log_probs[:, :n_positions])).sum(-1)
        return of_length + (_at_least(lengths)[..., :n_positions] * of_features).sum(-1)

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]:
        if not arrays.has_kernels(self.feature_logits):
            return self.prior_terms(prior, kl).kl
        of_length = (self.length_log_probs.exp() * (self.length_log_probs - log_binomial(prior))).sum(-1)
        # One slot for each position, its gate as in the prior: only the divergence of its feature remains.
        logits = self._reached_logits.flatten(0, 1)
        gate = logits.new_zeros(())
        of_feature = slot_divergence(
            gate.expand(len(logits)), logits, gate, prior.feature_log_probs, n_slots=1, exact=False
        )
        return of_length + (self.open[:, : self.reach] * of_feature.unflatten(0, (-1, self.reach))).sum(-1)

    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms:
        """Return the divergence of the length, and of the features at the open positions."""
        lengths = self.length_log_probs.exp()
        is_open, log_features = self.open[:, : self.reach], self._reached_logits.log_softmax(-1)
        features = log_features.exp()
        return PriorTerms(
            log_prior_gates=lengths @ log_binomial(prior),
            log_prior_features=(is_open * (features @ prior.feature_log_probs)).sum(-1),
            entropy_gates=-(lengths * self.length_log_probs).sum(-1),
            entropy_features=-(is_open * (features * log_features).sum(-1)).sum(-1),
        )


def _at_least(lengths: Float[Tensor, "*batch lengths"]) -> Float[Tensor, "*batch L0"]:
    """Return the probabilities of being at least 1..L0 long from those of the lengths 0..L0."""
    return lengths.flip(-1).cumsum(-1).flip(-1)[..., 1:]
