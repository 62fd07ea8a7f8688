"""Codes that were found for each observation: q(z given x) is a point mass.

The bound on log p(x) is then log p(x, z) for the code z that was found, without draws: E_q has one term, and q has no
entropy.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm.model.codes.base import KL, GradientRule, PresenceCodes, PriorTerms, Temperatures
from sdlgm.model.codes.chain import Chain
from sdlgm.model.noise import Noise


@dataclass(frozen=True)
class FoundCodes(PresenceCodes[Chain]):
    """A code for each observation, with probability 1."""

    codes: Float[Tensor, "batch K"]
    n_slots: int

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch K"]:
        return self.codes.expand(n_samples, -1, -1)

    def counts(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch K"]:
        return symbols

    def relaxed_sample(
        self,
        n_samples: int,
        temperatures: Temperatures,
        noise: Noise,
    ) -> Float[Tensor, "S batch K"]:
        return self.sample(n_samples, noise)

    def mode(self) -> Int[Tensor, "batch K"]:
        return self.codes.to(torch.int32).cpu()

    @property
    def summary(self) -> Float[Tensor, "batch K"]:
        return self.codes

    def log_prob_of(self, symbols: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
        return torch.where((symbols == self.codes).all(-1), 0.0, -torch.inf)

    def with_gradient(self, drawn: Float[Tensor, "S batch K"], rule: GradientRule) -> Float[Tensor, "S batch K"]:
        return drawn  # there are no parameters

    @property
    def presence(self) -> Float[Tensor, "batch K"]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.codes

    def log_ratio(self, symbols: Float[Tensor, "S batch K"], prior: Chain) -> Float[Tensor, "S batch"]:
        return prior.log_prob(symbols) - self.log_prob_of(symbols)

    def prior_terms(self, prior: Chain, kl: KL) -> PriorTerms:
        log_prior = prior.log_prob(self.codes)
        zero = torch.zeros_like(log_prior)
        return PriorTerms(zero, log_prior, zero, zero)

    def kl(self, prior: Chain, kl: KL) -> Float[Tensor, " batch"]:
        return self.prior_terms(prior, kl).kl
