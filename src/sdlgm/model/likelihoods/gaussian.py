"""Continuous entries."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.likelihoods.base import Likelihood

# In units of the data's own standard deviation: a smaller error than this gains nothing.
MIN_DEVIATION = 1e-2


class Gaussian(Likelihood):
    """Continuous entries, standardised; the decoder's output is the mean, and the variance of each entry is learned.

    An entry that is constant in the training data has no density and carries no information; it is left out.

    Parameters
    ----------
    n_inputs : int
    fixed : bool, default=False
        Take the deviations from the statistics of the data, and do not learn them.

    """

    standardized = True
    varies: Tensor

    def __init__(self, n_inputs: int, *, fixed: bool = False):
        super().__init__(n_inputs)
        self.fixed = fixed
        self.register_buffer("varies", torch.ones(n_inputs, dtype=torch.bool))
        self.raw_deviation = nn.Parameter(torch.full((n_inputs,), math.log(math.expm1(1.0))), requires_grad=not fixed)

    @property
    def deviation(self) -> Float[Tensor, " D"]:
        """Standard deviation of each entry, positive by construction."""
        return F.softplus(self.raw_deviation) + MIN_DEVIATION

    def log_probs(self, x, output):
        residual = (x - output) / self.deviation
        log_normaliser = torch.log(self.deviation) + 0.5 * math.log(2 * math.pi)
        return -torch.where(self.varies, 0.5 * residual.square() + log_normaliser, 0.0)

    def mean(self, output):
        return output

    def sample(self, output, generator):
        noise = torch.randn(output.shape, generator=generator, dtype=output.dtype, device=output.device)
        return output + self.deviation * noise

    def initial_output(self, data_mean):
        return data_mean

    @torch.no_grad()
    def start(self, statistics):
        if self.fixed:
            assert statistics.deviation is not None
            self.raw_deviation.copy_(_raw(statistics.deviation))
            return super().start(statistics)
        # Where one scale is common to several entries, their deviations differ from 1. Training would need long to
        # learn how small that of a rare pixel is.
        others = statistics.varies & (statistics.variance != 1.0)
        self.raw_deviation[others] = _raw(statistics.variance[others].sqrt())
        return super().start(statistics)

    @torch.no_grad()
    def adapt_to(self, varies):
        self.varies.copy_(varies)


def _raw(deviation: Tensor) -> Tensor:
    """Return the parameter that stands for a deviation, or for twice the least one if it is smaller."""
    above = deviation.clamp(min=2 * MIN_DEVIATION) - MIN_DEVIATION
    return above + torch.log(-torch.expm1(-above))  # the inverse of softplus
