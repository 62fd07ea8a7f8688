"""Centring and scaling of a learning signal by its running moments."""

import torch
from jaxtyping import Float
from torch import Tensor, nn


class RunningSignal(nn.Module):
    """Mean and variance of a learning signal, as running averages (Mnih and Gregor, ICML 2014, section 2.3)."""

    DECAY = 0.9

    mean: Tensor
    variance: Tensor
    seen: Tensor
    """Whether there was a signal before."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("variance", torch.ones(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.bool))

    @torch.no_grad()
    def centred(self, signal: Float[Tensor, "S batch"]) -> Float[Tensor, "S batch"]:
        """Return the signal less its running mean, which does not depend on the signal except the first time."""
        if not self.seen:
            self._follow(signal, 1.0)
            self.seen.fill_(True)
        centred = signal - self.mean
        self._follow(signal, 1 - self.DECAY)
        return centred

    @property
    def scale(self) -> float:
        """Standard deviation of the signal, at least 1."""
        return max(1.0, float(self.variance) ** 0.5)

    def _follow(self, signal: Tensor, weight: float) -> None:
        self.mean.lerp_(signal.mean().to(self.mean), weight)
        self.variance.lerp_(signal.var(correction=0).to(self.variance), weight)
