"""Hard draws forward and a gradient of their own backward, the common part of several estimators."""

from abc import abstractmethod

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

    def draw(self, posterior, *, n_samples, temperatures, noise):
        drawn = posterior.sample_symbols(n_samples, noise)
        return Draw(posterior.counts(posterior.with_gradient(drawn, self.to_log_probs)))
