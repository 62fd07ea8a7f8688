"""The networks of encoder and decoder, all plain multilayer perceptrons."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model import shards

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU}


def mlp(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Linear layers of the given sizes with the activation between them."""
    return hidden_layers(sizes[:-1], activation).append(nn.Linear(sizes[-2], sizes[-1]))


def hidden_layers(sizes: Sequence[int], activation: str) -> nn.Sequential:
    """Linear layers of the given sizes with the activation after each."""
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Amortised inference: from an observation to the logits of its slots, pi = f(x) and lambda = h(x).

    With ``share_layers=True`` the hidden layers of f are common to both, and h continues from the last of them;
    ``share_layers=False`` is the paper's table: h is a network of its own on x.

    ``normalize_logits=True`` standardises the logits of each feature over the batch (running averages once trained)
    and multiplies them by one learned gain. Every feature then wins for some observations from the first iteration,
    which keeps features alive and makes early codes informative.
    """

    location: Tensor
    """Subtracted from every observation: the mean of the training data."""

    def __init__(
        self,
        n_inputs: int,
        n_features: int,
        *,
        hidden: Sequence[int],
        gate_hidden: Sequence[int],
        activation: str,
        share_layers: bool,
        normalize_logits: bool,
    ):
        super().__init__()
        self.share_layers = share_layers
        self.register_buffer("location", torch.zeros(n_inputs))
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        width = hidden[-1] if hidden else n_inputs
        self.features = nn.Linear(width, n_features)
        self.gate = mlp([width if share_layers else n_inputs, *gate_hidden, 2], activation)
        self.normalize = LogitNorm(n_features) if normalize_logits else nn.Identity()

    def forward(self, x: Float[Tensor, "batch D"]) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch K"]]:
        x = x - self.location
        hidden = self.trunk(x)
        # Two outputs, as in the paper; what counts is their difference.
        on, off = self.gate(hidden if self.share_layers else x).unbind(-1)
        return on - off, self.normalize(self.features(hidden))


class LogitEncoder(nn.Module):
    """Amortised inference with one output: the encoder's hidden layers and a linear layer, normalised as in `Encoder`.

    The outputs have a learned shift, which starts at ``bias``.
    """

    location: Tensor

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        *,
        hidden: Sequence[int],
        activation: str,
        normalize_logits: bool,
        bias: float,
    ):
        super().__init__()
        self.register_buffer("location", torch.zeros(n_inputs))
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        self.out = nn.Linear(hidden[-1] if hidden else n_inputs, n_outputs)
        self.normalize = LogitNorm(n_outputs) if normalize_logits else nn.Identity()
        self.bias = nn.Parameter(torch.full((n_outputs,), bias))

    def forward(self, x: Float[Tensor, "batch D"]) -> Float[Tensor, "batch outputs"]:
        return self.normalize(self.out(self.trunk(x - self.location))) + self.bias


class OrderedEncoder(nn.Module):
    """From an observation to the logits of its length and of the feature at each position.

    Position l asks for a feature by a query, q_l(x) of ``N_QUERY`` numbers, and feature k answers by its key: their
    product is the logit. All positions so speak of the same features, and there is no layer with L0 x K outputs.
    """

    N_QUERY = 32

    location: Tensor

    def __init__(
        self,
        n_inputs: int,
        n_features: int,
        n_slots: int,
        *,
        hidden: Sequence[int],
        activation: str,
        normalize_logits: bool,
        length_bias: Tensor,
    ):
        super().__init__()
        self.n_slots = n_slots
        self.register_buffer("location", torch.zeros(n_inputs))
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        width = hidden[-1] if hidden else n_inputs
        self.length = nn.Linear(width, n_slots + 1)
        with torch.no_grad():
            self.length.bias.copy_(length_bias)
        self.queries = nn.Linear(width, n_slots * self.N_QUERY)
        self.keys = nn.Parameter(torch.randn(n_features, self.N_QUERY) / self.N_QUERY**0.5)
        self.normalize = LogitNorm(n_slots * n_features) if normalize_logits else nn.Identity()

    def forward(
        self, x: Float[Tensor, "batch D"]
    ) -> tuple[Float[Tensor, "batch lengths"], Float[Tensor, "batch L0 K"]]:
        hidden = self.trunk(x - self.location)
        logits = self.queries(hidden).unflatten(-1, (self.n_slots, self.N_QUERY)) @ self.keys.T
        return self.length(hidden), self.normalize(logits.flatten(1)).unflatten(-1, logits.shape[1:])


class LogitNorm(nn.Module):
    """Batch normalisation of logits with one learned gain in the place of a scale and a shift for each feature."""

    INITIAL_GAIN = 2.0  # confident enough that early codes say something, soft enough that they can change

    def __init__(self, n_features: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(n_features, affine=False)
        self.gain = nn.Parameter(torch.tensor(self.INITIAL_GAIN))

    def forward(self, logits: Float[Tensor, "batch K"]) -> Float[Tensor, "batch K"]:
        shared = self.training and shards.current().size > 1
        return self.gain * (self._normalized_over_all(logits) if shared else self.norm(logits))

    def _normalized_over_all(self, logits: Float[Tensor, "batch K"]) -> Float[Tensor, "batch K"]:
        """What batch normalisation does, over the parts of the batch that all processes have."""
        norm, n = self.norm, len(logits) * shards.current().size
        mean = shards.total(logits.sum(0)) / n
        centred = logits - mean
        variance = shards.total(centred.square().sum(0)) / n
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        with torch.no_grad():
            norm.running_mean.lerp_(mean, norm.momentum or 0.0)
            norm.running_var.lerp_(variance * (n / (n - 1)), norm.momentum or 0.0)
            norm.num_batches_tracked += 1
        return centred * torch.rsqrt(variance + norm.eps)
