"""The first layer of a decoder, which reads a code."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order

MANY_FEATURES = 1000
"""Number of features from which on a `CodeLayer` is faster than a dense product."""
SPARSE = 1 / 8
"""Largest share of non-zeros in codes that are not multiplied as dense matrices."""


class CodeLayer(nn.Linear):
    """A linear layer that reads only the weights of the features that are present.

    The weights of a feature are next to each other in memory, other than in `torch.nn.Linear`. Shapes and names are the
    same.
    """

    def __init__(self, n_features: int, n_outputs: int):
        super().__init__(n_features, n_outputs)
        self.weight = nn.Parameter(_by_feature(self.weight.detach()))

    def forward(self, codes: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch outputs"]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if not arrays.has_kernels(codes):
            return super().forward(codes)
        rows = codes.reshape(-1, self.in_features)
        _, features, n_present = (torch.from_numpy(part) for part in _kernels.compress(as_array(rows)))
        if len(features) > SPARSE * codes.numel():  # relaxed codes
            return super().forward(codes)
        product = _SparseProduct.apply(rows, self.weight, features.long(), n_present) + self.bias
        return product.view(*codes.shape[:-1], self.out_features)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        name = f"{prefix}weight"
        if name in state_dict and state_dict[name].dim() == 2:
            state_dict = {**state_dict, name: _by_feature(state_dict[name])}
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)  # pyright: ignore[reportArgumentType]


def _by_feature(weight: Float[Tensor, "outputs K"]) -> Float[Tensor, "outputs K"]:
    """Return a weight whose columns are contiguous."""
    return weight.T.contiguous().T


class _SparseProduct(torch.autograd.Function):
    """The product of codes, given by their non-zeros, and weights. The gradient of the codes is dense."""

    @staticmethod
    def forward(ctx, codes: Tensor, weight: Tensor, features: Tensor, n_present: Tensor) -> Tensor:
        rows = torch.repeat_interleave(torch.arange(len(codes)), n_present)
        values = codes[rows, features]
        ctx.save_for_backward(weight, rows, features, values)
        starts = n_present.cumsum(0) - n_present
        return F.embedding_bag(features, weight.T.contiguous(), starts, mode="sum", per_sample_weights=values)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        weight, rows, features, values = ctx.saved_tensors
        to_weight = gradient.new_zeros(weight.shape[::-1])
        to_weight.index_add_(0, features, values.unsqueeze(-1) * gradient[rows])
        return gradient @ weight, to_weight.T, None, None
