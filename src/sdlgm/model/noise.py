"""Random numbers from a torch generator, the fast way where there is one."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import shards


def has_kernels(tensor: Tensor) -> bool:
    """Whether the compiled loops work on such a tensor; all others take torch's own operations."""
    return tensor.device.type == "cpu" and tensor.dtype in (torch.float32, torch.float64)


def array(tensor: Tensor) -> np.ndarray:
    """A tensor on the CPU as the contiguous array that the compiled loops expect; no copy if it is one."""
    return tensor.detach().contiguous().numpy()


def block_keys(n_rows: int, generator: torch.Generator) -> np.ndarray:
    """Seeds for the compiled loops over that many rows."""
    n_keys = shards.current().size * _kernels.n_blocks(n_rows)
    return shards.own_part(torch.randint(-(2**63), 2**63 - 1, (n_keys, 2), generator=generator), 0).numpy()


def uniform_noise(shape: tuple[int, ...], like: Tensor, generator: torch.Generator, *, rows: int = 1) -> Tensor:
    """Uniform noise of a shape whose dimension ``rows`` is that of the batch, or 1 if the batch has it in common."""
    size = 1 if shape[rows] == 1 else shards.current().size
    whole = (*shape[:rows], shape[rows] * size, *shape[rows + 1 :])
    uniform = torch.rand(whole, generator=generator, dtype=like.dtype, device=like.device)
    return uniform if size == 1 else shards.own_part(uniform, rows).contiguous()


def gumbel(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard Gumbel noise of a shape (samples, rows, ..), finite by construction."""
    uniform = uniform_noise(shape, like, generator)
    info = torch.finfo(like.dtype)
    return -torch.log(-torch.log(uniform.clamp_(info.tiny, 1 - info.eps)))


def bernoulli(probs: Float[Tensor, "rows columns"], generator: torch.Generator) -> Float[Tensor, "rows columns"]:
    """Zeros and ones with these probabilities of a one."""
    if not has_kernels(probs):
        return torch.bernoulli(probs, generator=generator)
    return torch.from_numpy(_kernels.draw_binary(block_keys(len(probs), generator), array(probs)))
