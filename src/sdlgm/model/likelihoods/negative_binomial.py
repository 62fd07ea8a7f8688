"""Counts whose variance is above their mean."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.likelihoods.base import Likelihood
from sdlgm.model.likelihoods.poisson import MAX_LOG_RATE, MIN_MEAN

# Bounds of the size r: below, nearly all mass is at 0; above, the distribution is a Poisson.
MIN_SIZE, MAX_SIZE = 1e-3, 1e5


class NegativeBinomial(Likelihood):
    """Counts with mean m and variance m + m² / r; the decoder's output is log(m), and r of each entry is learned."""

    support = "counts"
    view = "log"

    def __init__(self, n_inputs: int):
        super().__init__(n_inputs)
        self.log_size = nn.Parameter(torch.zeros(n_inputs))

    @property
    def size(self) -> Float[Tensor, " D"]:
        """Learned r of each entry; its inverse is the overdispersion."""
        return self._log_size.exp()

    @property
    def _log_size(self) -> Tensor:
        return self.log_size.clamp(math.log(MIN_SIZE), math.log(MAX_SIZE))

    def log_probs(self, x, output):
        output = output.clamp(max=MAX_LOG_RATE)
        log_size = self._log_size
        log_odds = output - log_size
        # log of (m / (m + r))^x (r / (m + r))^r
        powers = x * F.softplus(-log_odds) + log_size.exp() * F.softplus(log_odds)
        return _log_coefficient(x, log_size.exp()) - powers

    def mean(self, output):
        return torch.exp(output.clamp(max=MAX_LOG_RATE))

    def sample(self, output, generator):
        size = self.size.expand_as(output).contiguous()
        # Public functions draw gamma numbers from the global generator only.
        gamma = torch._standard_gamma(size, generator=generator)  # pyright: ignore[reportPrivateImportUsage]
        rate = gamma / size * self.mean(output)
        return torch.poisson(rate, generator=generator)

    def initial_output(self, data_mean):
        return torch.log(data_mean.clamp(min=MIN_MEAN))

    @torch.no_grad()
    def start(self, statistics):
        """Let r start at the estimate of the moments."""
        mean, excess = statistics.mean.clamp(min=MIN_MEAN), statistics.variance - statistics.mean
        size = torch.where(excess > 0, mean.square() / excess.clamp(min=1e-12), MAX_SIZE)
        # What codes explain is not overdispersion, so at the end r is larger than this. Far up, the gradient vanishes.
        self.log_size.copy_(size.clamp(0.1, 100.0).log())
        return super().start(statistics)


def _log_coefficient(x: Tensor, size: Float[Tensor, " D"]) -> Tensor:
    """Return log of Γ(x + r) / (Γ(r) x!), in double precision, since the terms cancel each other.

    It is 0 where x is 0, which most counts are: only the others are computed.
    """
    is_positive = x > 0
    counts, sizes = x[is_positive].double(), size.expand_as(x)[is_positive].double()
    found = torch.lgamma(counts + sizes) - torch.lgamma(sizes) - torch.lgamma(counts + 1)
    return torch.zeros_like(x).masked_scatter(is_positive, found.to(x.dtype))
