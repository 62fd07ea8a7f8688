"""Ensembles in one network: the same layers once for each member, trained side by side on the same rows.

Each operation is one batched product for all members. Shapes have the members first: (members, batch, width).
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.networks.layers import ACTIVATIONS, dropout


class MemberLinear(nn.Module):
    """A linear layer with weights of its own for each member."""

    def __init__(self, n_members: int, n_in: int, n_out: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_members, n_in, n_out).div_(n_in**0.5))
        self.bias = nn.Parameter(torch.zeros(n_members, 1, n_out))

    def forward(self, x: Float[Tensor, "members batch n_in"]) -> Float[Tensor, "members batch n_out"]:
        return torch.baddbmm(self.bias, x, self.weight)


class MemberLayers(nn.Module):
    """Hidden layers with dropout of their inputs and outputs."""

    def __init__(
        self, n_members: int, sizes: Sequence[int], *, activation: str, dropout: float = 0.0, input_dropout: float = 0.0
    ):
        super().__init__()
        self.layers = nn.ModuleList(MemberLinear(n_members, a, b) for a, b in pairwise(sizes))
        self.activation = ACTIVATIONS[activation]()
        self.dropout = dropout
        self.input_dropout = input_dropout

    def forward(
        self, x: Float[Tensor, "members batch n_in"], generator: torch.Generator | None
    ) -> Float[Tensor, "members batch n_out"]:
        """Apply the layers; without a generator there is no dropout."""
        x = dropout(x, self.input_dropout, generator)
        for layer in self.layers:
            x = dropout(self.activation(layer(x)), self.dropout, generator)
        return x


def mean_over_members(values: Float[Tensor, "rows ..."], n_members: int) -> Float[Tensor, "batch ..."]:
    """Return the mean over members of values whose first dimension is members times batch."""
    return values.unflatten(0, (n_members, -1)).mean(0)


def for_each_member(rows: Float[Tensor, "batch ..."], n_members: int) -> Float[Tensor, "rows ..."]:
    """Repeat the rows once for each member, one after the other."""
    return rows.expand(n_members, *rows.shape).flatten(0, 1)
