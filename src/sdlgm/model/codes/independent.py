"""Codes that are made of independent variables, each of which takes one of several symbols."""

from abc import abstractmethod
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.codes.base import CodeDistribution, GradientRule, Prior, Temperatures
from sdlgm.model.codes.surrogate import symbols_with_gradient
from sdlgm.model.noise import Noise

CLOSED = -1e9
"""The logit of a symbol that a variable cannot take: finite, so that its probability 0 times its logarithm is 0."""


class IndependentSymbols(CodeDistribution[Prior]):
    """Codes drawn from independent symbols with known probabilities, of which relaxed draws exist."""

    @cached_property
    def log_probs(self) -> Float[Tensor, "*batch symbols"]:
        """Log-probabilities of the symbols."""
        raise NotImplementedError(f"{type(self).__name__} has to define log_probs")

    @cached_property
    def probs(self) -> Float[Tensor, "*batch symbols"]:
        """Probabilities of the symbols."""
        return self.log_probs.exp()

    @abstractmethod
    def relaxed_parts(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> tuple[Tensor, ...]:
        """Draw relaxed one-hot vectors for everything that is drawn."""

    @abstractmethod
    def from_parts(self, *parts: Tensor) -> Float[Tensor, "S batch K"]:
        """Return the code that (relaxed) one-hot vectors make."""


def one_hot_draws(
    probs: Float[Tensor, "*batch V W"], noise: Float[Tensor, "S *batch V 1"]
) -> Float[Tensor, "S *batch V W"]:
    """Return, for uniform noise, the first symbol whose cumulative probability is above it.

    A symbol of probability zero is never drawn.
    """
    if arrays.has_kernels(probs):
        return torch.from_numpy(_kernels.draw_one_hot(as_array(probs), as_array(noise)))
    cumulative = probs.cumsum(-1)
    drawn = (cumulative <= noise * cumulative[..., -1:]).sum(-1)
    return F.one_hot(drawn, cumulative.shape[-1]).to(cumulative.dtype)


class IndependentVariables(IndependentSymbols[Prior]):
    """V variables with W symbols each, drawn once, that together make a code.

    A subclass defines ``log_probs`` and `counts`; draws and gradients follow from them. `counts` has to be
    differentiable and defined for vectors between the one-hot ones.
    """

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch V W"]:
        """Draw one-hot symbols by the inverse of the cumulative distribution."""
        probs = self.probs.detach()
        return one_hot_draws(probs, noise.uniform((n_samples, *probs.shape[:-1], 1), probs))

    @property
    def summary(self) -> Float[Tensor, "batch logits"]:
        return self.log_probs.flatten(1)

    def log_prob_of(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch"]:
        """Return the log-probability of one-hot symbols; several of them may make the same code."""
        return (symbols * self.log_probs).flatten(2).sum(-1)

    def with_gradient(self, drawn: Float[Tensor, "S batch V W"], rule: GradientRule) -> Float[Tensor, "S batch V W"]:
        return symbols_with_gradient(self.log_probs, self.probs, drawn, 1, rule)

    def relaxed_parts(
        self, n_samples: int, temperatures: Temperatures, noise: Noise
    ) -> tuple[Float[Tensor, "S batch V W"]]:
        """Draw one Gumbel-Softmax for each variable, all at the temperature of the features."""
        return (relaxed_one_hots(self.log_probs, n_samples, temperatures, noise),)

    def from_parts(self, *parts: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch K"]:
        return self.counts(*parts)

    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        return self.from_parts(*self.relaxed_parts(n_samples, temperatures, noise))


def relaxed_one_hots(
    log_probs: Float[Tensor, "*batch V W"], n_samples: int, temperatures: Temperatures, noise: Noise
) -> Float[Tensor, "S *batch V W"]:
    """Draw softmax((log p + Gumbel noise) / temperature)."""
    gumbel = noise.gumbel((n_samples, *log_probs.shape), log_probs)
    return ((log_probs + gumbel) / temperatures.feature).softmax(-1)
