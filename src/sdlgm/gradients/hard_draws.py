"""Hard draws forward and a gradient of their own backward, the common part of several estimators."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm.gradients.base import ANY, Draw, GradientEstimator


class HardDraws(GradientEstimator):
    """Draw hard symbols. In the backward pass, `to_log_probs` maps their gradient to that of the log-probabilities."""

    defined_for = ANY

    @staticmethod
    @abstractmethod
    def to_log_probs(
        gradient: Float[Tensor, "S batch *variables symbols"],
        drawn: Float[Tensor, "S batch *variables symbols"],
        probs: Float[Tensor, "*batch symbols"],
        n_draws: int,
    ) -> Float[Tensor, "S batch *variables symbols"]:
        """Return the gradient of the log-probabilities, given the gradient of the drawn symbols."""

    @classmethod
    def binary_slopes(
        cls, drawn: Float[Tensor, "S batch K"], probs: Float[Tensor, "S batch K"]
    ) -> Float[Tensor, "S batch K"]:
        """Return the derivative of drawn binary variables with respect to their log-odds."""
        symbols = torch.stack([1 - drawn, drawn], -1)
        unit = drawn.new_tensor([0.0, 1.0]).expand_as(symbols)
        off, on = cls.to_log_probs(unit, symbols, torch.stack([1 - probs, probs], -1), 1).unbind(-1)
        return on * (1 - probs) - off * probs

    def draw(self, posterior, *, n_samples, temperatures, noise):
        drawn = posterior.sample_symbols(n_samples, noise)
        return Draw(posterior.counts(posterior.with_gradient(drawn, self)))
