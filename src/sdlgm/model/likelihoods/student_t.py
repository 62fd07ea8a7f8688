"""Continuous entries with heavy tails."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.likelihoods.base import Likelihood

# As for the Gaussian, in units of the standardised data.
MIN_SCALE = 1e-2
# Above 1, so that the mean exists. Nearer to 1 the mean of draws hardly settles.
MIN_DEGREES = 1.5
# Where degrees of freedom start: clearly heavier tails than those of a Gaussian, and a finite variance.
INITIAL_DEGREES = 5.0


class StudentT(Likelihood):
    """Continuous entries, standardised by median and quartiles; the decoder's output is the centre.

    Scale and degrees of freedom of each entry are learned. The log-density falls with the logarithm of the distance, so
    that an entry far from all training data costs tens of nats and not a number that grows with its square. Entries
    that are constant in the training data are left out, as by the Gaussian.
    """

    standardized = True
    robust = True
    view = "squashed"
    varies: Tensor

    def __init__(self, n_inputs: int):
        super().__init__(n_inputs)
        self.register_buffer("varies", torch.ones(n_inputs, dtype=torch.bool))
        self.raw_scale = nn.Parameter(torch.full((n_inputs,), math.log(math.expm1(1.0))))
        self.raw_degrees = nn.Parameter(torch.full((n_inputs,), math.log(math.expm1(INITIAL_DEGREES - MIN_DEGREES))))

    @property
    def scale(self) -> Float[Tensor, " D"]:
        """Learned scale of each entry, positive by construction."""
        return F.softplus(self.raw_scale) + MIN_SCALE

    @property
    def degrees(self) -> Float[Tensor, " D"]:
        """Learned degrees of freedom of each entry."""
        return F.softplus(self.raw_degrees) + MIN_DEGREES

    def log_probs(self, x, output):
        scale, degrees = self.scale, self.degrees
        half = 0.5 * (degrees + 1)
        log_normaliser = (
            torch.lgamma(half) - torch.lgamma(0.5 * degrees) - 0.5 * torch.log(math.pi * degrees) - torch.log(scale)
        )
        residual = (x - output) / scale
        log_density = log_normaliser - half * torch.log1p(residual.square() / degrees)
        return torch.where(self.varies, log_density, 0.0)

    def mean(self, output):
        return output

    def sample(self, output, generator):
        # Bailey (Mathematics of Computation, 1994): exact, from two uniform numbers.
        size = {"generator": generator, "dtype": output.dtype, "device": output.device}
        radius, angle = torch.rand(output.shape, **size), torch.rand(output.shape, **size)
        radius = radius.clamp(min=torch.finfo(output.dtype).tiny)
        degrees = self.degrees
        drawn = torch.sqrt(degrees * torch.expm1(-2 / degrees * torch.log(radius))) * torch.cos(2 * math.pi * angle)
        return output + self.scale * drawn

    def initial_output(self, data_mean):
        return data_mean

    def start(self, statistics):
        self.adapt_to(statistics.varies)
        return torch.zeros_like(statistics.mean)  # the median; the mean may be anywhere

    @torch.no_grad()
    def adapt_to(self, varies):
        self.varies.copy_(varies)
