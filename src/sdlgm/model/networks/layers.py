"""Layers that several networks share."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.shards import WHOLE_BATCH, Shard, sum_over_processes

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU}


def mlp(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Return linear layers of the given sizes with the activation between them."""
    return hidden_layers(sizes[:-1], activation).append(nn.Linear(sizes[-2], sizes[-1]))


def hidden_layers(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Return linear layers of the given sizes with the activation after each."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def dropout(x: Tensor, rate: float, generator: torch.Generator | None) -> Tensor:
    """Apply dropout with noise from the given generator; do nothing without one."""
    if generator is None or rate == 0.0:
        return x
    kept = torch.rand(x.shape, generator=generator, dtype=x.dtype, device=x.device) >= rate
    return x * kept / (1 - rate)


class LogitNorm(nn.Module):
    """Batch normalisation of logits with one learned gain in place of a scale and a shift for each feature."""

    INITIAL_GAIN = 2.0  # large enough that early codes carry information, small enough that they can change

    def __init__(self, n_features: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(n_features, affine=False)
        self.gain = nn.Parameter(torch.tensor(self.INITIAL_GAIN))

    def forward(self, logits: Float[Tensor, "batch K"], shard: Shard = WHOLE_BATCH) -> Float[Tensor, "batch K"]:
        is_part = self.training and shard.size > 1
        return self.gain * (self._normalize_all_parts(logits, shard.size) if is_part else self.norm(logits))

    def scale_and_shift(self) -> tuple[Float[Tensor, " K"], Float[Tensor, " K"]]:
        """Return the linear function of the logits that this layer is once it is trained."""
        norm = self.norm
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = self.gain * torch.rsqrt(norm.running_var + norm.eps)
        return scale, -scale * norm.running_mean

    def _normalize_all_parts(self, logits: Float[Tensor, "batch K"], n_parts: int) -> Float[Tensor, "batch K"]:
        """Apply batch normalisation over the parts of the batch in all processes."""
        norm, n = self.norm, len(logits) * n_parts
        mean = sum_over_processes(logits.sum(0)) / n
        centred = logits - mean
        variance = sum_over_processes(centred.square().sum(0)) / n
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum or 0.0)
            norm.running_var.lerp_(variance * (n / (n - 1)), norm.momentum or 0.0)
            norm.num_batches_tracked += 1
        return centred * torch.rsqrt(variance + norm.eps)


class NoNorm(nn.Module):
    """The identity, in place of `LogitNorm`."""

    def forward(self, logits: Float[Tensor, "batch K"], shard: Shard = WHOLE_BATCH) -> Float[Tensor, "batch K"]:
        return logits


def logit_norm(n_features: int, normalize: bool) -> LogitNorm | NoNorm:
    """Return the layer that normalises logits, or one that does nothing."""
    return LogitNorm(n_features) if normalize else NoNorm()
