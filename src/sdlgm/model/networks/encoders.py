"""Encoders: from an observation to the logits of its posterior."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.networks.layers import LogitNorm, hidden_layers, logit_norm, mlp
from sdlgm.model.shards import WHOLE_BATCH, Shard


class Encoder(nn.Module):
    """An encoder whose input is centred on the mean of the training data."""

    location: Tensor
    """Subtracted from every observation."""

    def __init__(self, n_inputs: int):
        super().__init__()
        self.register_buffer("location", torch.zeros(n_inputs))


class SlotEncoder(Encoder):
    """From an observation to the logits of its slots, pi = f(x) and lambda = h(x).

    With ``share_layers=True`` both share the hidden layers of f, and h continues from the last of them. With
    ``share_layers=False``, as in the paper, h is a network of its own on x.

    ``normalize_logits=True`` standardises the logits of each feature over the batch (running averages once trained)
    and multiplies them by one learned gain. Every feature is then the most probable one for some observations from
    the first iteration on, which keeps features alive and makes early codes informative.
    """

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
        super().__init__(n_inputs)
        self.share_layers = share_layers
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        width = hidden[-1] if hidden else n_inputs
        self.features = nn.Linear(width, n_features)
        self.gate = mlp([width if share_layers else n_inputs, *gate_hidden, 2], activation)
        self.normalize = logit_norm(n_features, normalize_logits)

    def forward(
        self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH
    ) -> tuple[Float[Tensor, " batch"], Float[Tensor, "batch K"]]:
        x = x - self.location
        hidden = self.trunk(x)
        # Two outputs, as in the paper; only their difference matters.
        on, off = self.gate(hidden if self.share_layers else x).unbind(-1)
        return on - off, self.normalize(self.features(hidden), shard)


class LogitEncoder(Encoder):
    """From an observation to one logit for each feature, normalised as in `SlotEncoder`.

    The logits have a learned shift, which starts at ``bias``.
    """

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
        super().__init__(n_inputs)
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        self.out = nn.Linear(hidden[-1] if hidden else n_inputs, n_outputs)
        self.normalize = logit_norm(n_outputs, normalize_logits)
        self.bias = nn.Parameter(torch.full((n_outputs,), bias))

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> Float[Tensor, "batch outputs"]:
        logits = self.out(self.trunk(x - self.location))
        if not self.training and torch.is_inference(logits) and isinstance(self.normalize, LogitNorm):
            scale, shift = self.normalize.scale_and_shift()  # in place: with many features, memory takes the time
            return torch.addcmul(shift + self.bias, logits, scale, out=logits)
        return self.normalize(logits, shard) + self.bias


class OrderedEncoder(Encoder):
    """From an observation to the logits of its length and of the feature at each position.

    The logit of feature k at position l is the product of a query q_l(x) of ``N_QUERY`` numbers and the key of the
    feature. So all positions share the features, and no layer has L0 x K outputs.
    """

    N_QUERY = 32

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
        super().__init__(n_inputs)
        self.n_slots = n_slots
        self.trunk = hidden_layers([n_inputs, *hidden], activation)
        width = hidden[-1] if hidden else n_inputs
        self.length = nn.Linear(width, n_slots + 1)
        with torch.no_grad():
            self.length.bias.copy_(length_bias)
        self.queries = nn.Linear(width, n_slots * self.N_QUERY)
        self.keys = nn.Parameter(torch.randn(n_features, self.N_QUERY) / self.N_QUERY**0.5)
        self.normalize = logit_norm(n_slots * n_features, normalize_logits)

    def forward(
        self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH
    ) -> tuple[Float[Tensor, "batch lengths"], Float[Tensor, "batch L0 K"]]:
        hidden = self.trunk(x - self.location)
        logits = self.queries(hidden).unflatten(-1, (self.n_slots, self.N_QUERY)) @ self.keys.T
        return self.length(hidden), self.normalize(logits.flatten(1), shard).unflatten(-1, logits.shape[1:])
