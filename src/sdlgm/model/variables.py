"""Codes that are made of independent variables, each of which takes one of some symbols."""

from abc import ABC, abstractmethod
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model.draws import ToLogProbs, symbols_with_gradient
from sdlgm.model.noise import array, gumbel, has_kernels, uniform_noise
from sdlgm.model.slots import Temperatures

CLOSED = -1e9
"""The logit of a symbol that a variable cannot take: finite, so that its probability 0 times its logarithm is 0."""


def one_hot_draws(
    probs: Float[Tensor, "*batch V W"], noise: Float[Tensor, "S *batch V 1"]
) -> Float[Tensor, "S *batch V W"]:
    """From uniform noise the first symbol whose cumulative probability is above it: never one of probability zero."""
    if has_kernels(probs):
        return torch.from_numpy(_kernels.draw_one_hot(array(probs), array(noise)))
    cumulative = probs.cumsum(-1)
    drawn = (cumulative <= noise * cumulative[..., -1:]).sum(-1)
    return F.one_hot(drawn, cumulative.shape[-1]).to(cumulative.dtype)


class IndependentVariables(ABC):
    """V variables with W symbols each, drawn once, that together make a code.

    What gradient estimators need (`sdlgm.gradients.base`) follows from ``log_probs`` and from `counts`.
    """

    n_draws = 1
    has_closed_kl = True

    @cached_property
    def log_probs(self) -> Float[Tensor, "*batch V W"]:
        raise NotImplementedError

    @abstractmethod
    def counts(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch K"]:
        """The code that one-hot symbols make; differentiable, and defined for what lies between them."""

    @cached_property
    def probs(self) -> Float[Tensor, "*batch V W"]:
        return self.log_probs.exp()

    def sample(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch K"]:
        """Draw codes."""
        return self.counts(self.sample_symbols(n_samples, generator))

    def sample_symbols(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch V W"]:
        """Draw one-hot symbols, by the inverse of the cumulative distribution."""
        probs = self.probs.detach()
        return one_hot_draws(probs, uniform_noise((n_samples, *probs.shape[:-1], 1), probs, generator))

    @property
    def summary(self) -> Float[Tensor, "batch logits"]:
        """All that the distribution depends on."""
        return self.log_probs.flatten(1)

    def log_prob_of(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch"]:
        """Log-probability of one-hot symbols, of which several may make the same code."""
        return (symbols * self.log_probs).flatten(2).sum(-1)

    def with_gradient(
        self, drawn: Float[Tensor, "S batch V W"], to_log_probs: ToLogProbs
    ) -> Float[Tensor, "S batch V W"]:
        """Drawn symbols with an estimated gradient."""
        return symbols_with_gradient(self.log_probs, self.probs, drawn, 1, to_log_probs)

    def relaxed_parts(
        self, n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> tuple[Float[Tensor, "S batch V W"]]:
        """One Gumbel-Softmax for each variable, all at the temperature of the features."""
        return self._relaxed(self.log_probs, n_samples, temperatures, generator)

    @staticmethod
    def _relaxed(
        log_probs: Float[Tensor, "*batch V W"], n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> tuple[Float[Tensor, "S batch V W"]]:
        noise = gumbel((n_samples, *log_probs.shape), log_probs, generator)
        return (((log_probs + noise) / temperatures.feature).softmax(-1),)

    def from_parts(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch K"]:
        return self.counts(symbols)

    def relaxed_sample(
        self, n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> Float[Tensor, "S batch K"]:
        """Relaxed codes."""
        return self.counts(*self.relaxed_parts(n_samples, temperatures, generator))
