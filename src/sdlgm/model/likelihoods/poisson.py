"""Counts."""

import torch

from sdlgm.model.likelihoods.base import Likelihood

# Of the logarithm of a rate: larger rates than 1e13 are not counts that single precision could hold.
MAX_LOG_RATE = 30.0
# Of the mean of a column, for the output to start from.
MIN_MEAN = 1e-4


class Poisson(Likelihood):
    """Counts; the decoder's output is the logarithm of the rate."""

    support = "counts"
    view = "log"

    def log_probs(self, x, output):
        output = output.clamp(max=MAX_LOG_RATE)
        # x log(rate) - rate - log(x!), written so that large counts do not cancel each other: with u the logarithm of
        # rate / x it is -x (exp(u) - 1 - u) - log(x!) + x log(x) - x.
        is_positive = x > 0
        some = torch.where(is_positive, x, 1.0)
        u = torch.where(is_positive, output - torch.log(some), 0.0)
        distance = torch.where(is_positive, some * (torch.expm1(u) - u), torch.exp(output))
        return -distance - log_factorial_remainder(x)

    def mean(self, output):
        return torch.exp(output.clamp(max=MAX_LOG_RATE))

    def sample(self, output, generator):
        return torch.poisson(self.mean(output), generator=generator)

    def initial_output(self, data_mean):
        return torch.log(data_mean.clamp(min=MIN_MEAN))


def log_factorial_remainder(x: torch.Tensor) -> torch.Tensor:
    """Return log(x!) - x log(x) + x, and 0 at 0. In double precision, since the terms cancel each other."""
    wide = x.double()
    return (torch.lgamma(wide + 1) - torch.xlogy(wide, wide) + wide).to(x.dtype)
