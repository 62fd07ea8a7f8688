"""Choose entries of an observation."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor


def places(entries: Sequence[int]) -> Int[Tensor, " n"]:
    """Return indices as a tensor. It is on the CPU even if modules are made without memory, as for the file reader."""
    return torch.tensor(entries, dtype=torch.long, device="cpu")


def take(values: Tensor, entries: Tensor) -> Tensor:
    """Return chosen entries of the last dimension."""
    return values.index_select(-1, entries.to(values.device))
