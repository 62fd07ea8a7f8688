"""The border between torch tensors and the compiled kernels."""

import numpy as np
import torch
from torch import Tensor


def has_kernels(tensor: Tensor) -> bool:
    """Return whether the compiled kernels work on a tensor. All others take torch's own operations."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a CPU tensor as the contiguous array that the kernels expect, without a copy where possible."""
    return tensor.detach().contiguous().numpy()
