"""The contract of a likelihood: from the decoder's output to the distribution of an observation."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Likelihood(nn.Module, ABC):
    """Distribution of the D entries of an observation, independent given the decoder's output.

    Parameters
    ----------
    n_inputs : int
        D, the number of entries.

    """

    standardized: bool = False
    """Whether the data are standardised before they reach the model."""

    def __init__(self, n_inputs: int):
        super().__init__()
        self.n_inputs = n_inputs

    def log_prob(self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples D"]) -> Float[Tensor, "*samples"]:
        """Return the log-density of x in nats, summed over the D entries."""
        return self.entry_log_prob(x, output).sum(-1)

    def entry_log_prob(
        self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples D"]
    ) -> Float[Tensor, "*samples D"]:
        """Return the log-density of each entry of x in nats; `log_prob` is the sum over the entries.

        Not abstract: a likelihood that defines `log_prob` alone can be fitted, but its bounds have no parts.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define entry_log_prob, the log-density of each entry")

    @abstractmethod
    def mean(self, output: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Return the expected observation."""

    @abstractmethod
    def sample(self, output: Float[Tensor, "*batch D"], generator: torch.Generator) -> Float[Tensor, "*batch D"]:
        """Draw an observation."""

    @abstractmethod
    def initial_output(self, data_mean: Float[Tensor, " D"]) -> Float[Tensor, " D"]:
        """Return the decoder output whose mean is that of the data, where the last bias starts."""

    def adapt_to(self, varies: Bool[Tensor, " D"]) -> None:
        """Store which entries vary in the training data."""
