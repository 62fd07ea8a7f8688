"""Hard draws forward and a gradient of their own backward, the common part of several estimators."""

from abc import abstractmethod

from jaxtyping import Float
from torch import Tensor

from sdlgm.gradients.base import ANY, GradientEstimator


class HardDraws(GradientEstimator):
    """Drawn symbols forward; backward whatever `to_log_probs` makes of the gradient of the symbols."""

    defined_for = ANY

    @staticmethod
    @abstractmethod
    def to_log_probs(
        gradient: Float[Tensor, "S batch *variables symbols"],
        drawn: Float[Tensor, "S batch *variables symbols"],
        probs: Float[Tensor, "*batch symbols"],
        n_draws: int,
    ) -> Float[Tensor, "S batch *variables symbols"]:
        """From the gradient with respect to the drawn symbols to that with respect to their log-probabilities."""

    def forward(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        drawn = posterior.sample_symbols(n_samples, generator)
        symbols = posterior.with_gradient(drawn, self.to_log_probs)
        return log_likelihood(posterior.counts(symbols)).mean(0)
