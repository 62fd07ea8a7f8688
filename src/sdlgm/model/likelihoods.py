"""p(x given z): from the decoder's output to the distribution of an observation, chosen by name."""

import math
from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# In units of the data's own standard deviation: predicting better than this gains nothing more.
MIN_DEVIATION = 1e-2


class Likelihood(nn.Module, ABC):
    """Distribution of the D entries of an observation, independent given the decoder's output."""

    @abstractmethod
    def log_prob(self, x: Float[Tensor, "*batch D"], output: Float[Tensor, "*samples D"]) -> Float[Tensor, "*samples"]:
        """Log-density of x in nats, summed over the D entries."""

    @abstractmethod
    def mean(self, output: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch D"]:
        """Expected observation."""

    @abstractmethod
    def sample(self, output: Float[Tensor, "*batch D"], generator: torch.Generator) -> Float[Tensor, "*batch D"]:
        """Draw an observation."""

    @abstractmethod
    def initial_output(self, data_mean: Float[Tensor, " D"]) -> Float[Tensor, " D"]:
        """Decoder output whose mean is the data's: where the last bias starts."""


class Bernoulli(Likelihood):
    """Binary entries; the decoder's output is the logit. Grey levels in [0, 1] count as probabilities of a one."""

    def __init__(self, n_inputs: int):
        super().__init__()

    def log_prob(self, x, output):
        return -F.binary_cross_entropy_with_logits(output, x.expand_as(output), reduction="none").sum(-1)

    def mean(self, output):
        return torch.sigmoid(output)

    def sample(self, output, generator):
        return torch.bernoulli(torch.sigmoid(output), generator=generator)

    def initial_output(self, data_mean):
        return torch.logit(data_mean.clamp(1e-3, 1 - 1e-3))


class Gaussian(Likelihood):
    """Continuous entries, standardised; the decoder's output is the mean, the variance of each entry is learned.

    An entry that is constant in the training data has no density and carries no information; it is left out.
    """

    varies: Tensor

    def __init__(self, n_inputs: int):
        super().__init__()
        self.register_buffer("varies", torch.ones(n_inputs, dtype=torch.bool))
        self.raw_deviation = nn.Parameter(torch.full((n_inputs,), math.log(math.expm1(1.0))))

    @property
    def deviation(self) -> Float[Tensor, " D"]:
        """Learned standard deviation of each entry, positive by construction."""
        return F.softplus(self.raw_deviation) + MIN_DEVIATION

    def log_prob(self, x, output):
        residual = (x - output) / self.deviation
        log_normaliser = torch.log(self.deviation) + 0.5 * math.log(2 * math.pi)
        return -torch.where(self.varies, 0.5 * residual.square() + log_normaliser, 0.0).sum(-1)

    def mean(self, output):
        return output

    def sample(self, output, generator):
        noise = torch.randn(output.shape, generator=generator, dtype=output.dtype, device=output.device)
        return output + self.deviation * noise

    def initial_output(self, data_mean):
        return data_mean


LIKELIHOODS: dict[str, type[Bernoulli] | type[Gaussian]] = {"bernoulli": Bernoulli, "gaussian": Gaussian}
