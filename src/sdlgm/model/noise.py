"""Random numbers from a torch generator, the fast way where there is one."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels


def has_kernels(tensor: Tensor) -> bool:
    """Whether the compiled loops work on such a tensor; all others take torch's own operations."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def array(tensor: Tensor) -> np.ndarray:
    """A tensor on the CPU as the contiguous array that the compiled loops expect; no copy if it is one."""
    return tensor.detach().contiguous().numpy()


def block_keys(n_rows: int, generator: torch.Generator) -> np.ndarray:
    """Seeds for the compiled loops over that many rows."""
    return torch.randint(-(2**63), 2**63 - 1, (_kernels.n_blocks(n_rows), 2), generator=generator).numpy()


def gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise of a shape, finite by construction."""
    uniform = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    info = torch.finfo(like.dtype)
    return -torch.log(-torch.log(uniform.clamp_(info.tiny, 1 - info.eps)))


def bernoulli(probs: Float[Tensor, "rows columns"], generator: torch.Generator) -> Float[Tensor, "rows columns"]:
    """Zeros and ones with these probabilities of a one."""
    if not has_kernels(probs):
        return torch.bernoulli(probs, generator=generator)
    return torch.from_numpy(_kernels.draw_binary(block_keys(len(probs), generator), array(probs)))
