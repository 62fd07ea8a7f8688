"""The contract of a likelihood: from the decoder's output to the distribution of an observation."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

Support = Literal["real", "unit", "counts", "levels"]
"""Values that an entry may have: any number, those from 0 to 1, whole numbers from 0 on, or indices of levels."""
View = Literal["plain", "squashed", "log", "levels"]
"""How the encoder sees an entry; see `sdlgm.model.networks.inputs`."""


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of the prepared training data that a model starts from; missing values are left out."""

    mean: Float[Tensor, " D"]
    varies: Bool[Tensor, " D"]
    variance: Float[Tensor, " D"]
    log_mean: Float[Tensor, " D"]
    """Mean of log(1 + x), where the encoder sees that."""
    log_deviation: Float[Tensor, " D"]
    share_missing: Float[Tensor, " D"]
    frequencies: tuple[Float[Tensor, " _"], ...] = ()
    """Share of each level of each categorical column."""
    deviation: Float[Tensor, " D"] | None = None
    """Deviation of Gaussian entries given the code, where it is fixed."""


class Likelihood(nn.Module, ABC):
    """Distribution of the D entries of an observation, independent given the decoder's output.

    An entry that is NaN is missing: it has log-probability 0, which is that of all its values together.

    Parameters
    ----------
    n_inputs : int
        D, the number of entries.

    """

    standardized: ClassVar[bool] = False
    """Whether the data are standardised before they reach the model."""
    robust: ClassVar[bool] = False
    """Whether median and quartiles, and not mean and deviation, standardise them."""
    support: ClassVar[Support] = "real"
    view: ClassVar[View] = "plain"

    def __init__(self, n_inputs: int):
        super().__init__()
        self.n_inputs = n_inputs

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the decoder."""
        return self.n_inputs

    @abstractmethod
    def log_probs(
        self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples O"]
    ) -> Float[Tensor, "*samples D"]:
        """Return the log-density of each entry of x in nats. No entry is missing here."""

    @abstractmethod
    def mean(self, output: Float[Tensor, "*batch O"]) -> Float[Tensor, "*batch D"]:
        """Return the expected observation."""

    @abstractmethod
    def sample(self, output: Float[Tensor, "*batch O"], generator: torch.Generator) -> Float[Tensor, "*batch D"]:
        """Draw an observation."""

    @abstractmethod
    def initial_output(self, data_mean: Float[Tensor, " D"]) -> Float[Tensor, " O"]:
        """Return the decoder output whose mean is that of the data, where the last bias starts."""

    def adapt_to(self, varies: Bool[Tensor, " D"]) -> None:
        """Store which entries vary in the training data."""

    def start(self, statistics: ColumnStatistics) -> Float[Tensor, " O"]:
        """Adapt to the training data, and return the decoder output to start from."""
        self.adapt_to(statistics.varies)
        return self.initial_output(statistics.mean)

    def log_prob(self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples O"]) -> Float[Tensor, "*samples"]:
        """Return the log-density of x in nats, summed over the entries that are not missing."""
        return self.entry_log_probs(x, output).sum(-1)

    def entry_log_probs(
        self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples O"]
    ) -> Float[Tensor, "*samples D"]:
        """Return the log-density of each entry of x in nats, and 0 where one is missing."""
        missing = torch.isnan(x)
        if not missing.any():
            return self.log_probs(x, output)
        # Every likelihood has a finite value and gradient at 0, so that the gradient of what is left out is 0.
        return self.log_probs(x.masked_fill(missing, 0.0), output).masked_fill(missing, 0.0)
