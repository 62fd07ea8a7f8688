"""Local search for codes: change one feature, or exchange two, as long as that improves log p(x, z).

The posterior proposes a code, and the search improves it for this very row. Each step tries the few changes that look
best, and makes the best one. How a change looks is its first-order estimate less what such estimates overstate: half
the curvature of log p(x given z) in a feature, which is about the same for all rows (`overstatements`).
"""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

Score = Callable[[Float[Tensor, "batch D"], Float[Tensor, "S batch K"]], Float[Tensor, "S batch"]]
"""From rows and S codes of each to log p(x given z) + rate log p(z); differentiable in the codes."""

MOST_STEPS = 40
"""Changes of a code, unless said otherwise."""
N_FLIPS = 8
"""Features that are tried in a step."""
N_ADDED, N_REMOVED = 3, 2
"""Features of which each one to add is tried with each one to remove."""
N_CANDIDATES = N_FLIPS + N_ADDED * N_REMOVED
LEAST_GAIN, LEAST_RELATIVE_GAIN = 1e-3, 1e-6
"""In nats and relative to the score: a smaller gain is rounding."""
MOST_VALUES = 2**22
"""Numbers that are computed at a time for all codes that are tried, up to a few copies."""


def improved(
    score: Score,
    x: Float[Tensor, "batch D"],
    codes: Float[Tensor, "batch K"],
    overstated: Float[Tensor, " K"],
    *,
    n_slots: int,
    n_steps: int,
    width: int,
) -> Float[Tensor, "batch K"]:
    """Return codes that no change that was tried improves, or those after ``n_steps`` changes.

    Parameters
    ----------
    score : callable
    x : Tensor of shape (batch, D)
    codes : Tensor of shape (batch, K)
        Zeros and ones: where the search begins. They are not changed.
    overstated : Tensor of shape (K,)
        See `overstatements`.
    n_slots : int
        L0. No code gets more features.
    n_steps : int
        Largest number of changes of a code.
    width : int
        Length of the longest vector that the score of a code needs.

    Returns
    -------
    Tensor of shape (batch, K)

    """
    with torch.inference_mode(False), torch.no_grad():
        size = max(1, MOST_VALUES // (N_CANDIDATES * width))
        parts = zip(x.split(size), codes.split(size), strict=True)
        # Tensors from inference mode cannot take part in a gradient; copies can.
        return torch.cat([_climb(score, a.clone(), b.clone(), overstated, n_slots, n_steps) for a, b in parts])


def _climb(score: Score, x: Tensor, codes: Tensor, overstated: Tensor, n_slots: int, n_steps: int) -> Tensor:
    """Improve the codes of some rows in place, and return them."""
    rows = torch.arange(len(codes), device=codes.device)
    for _ in range(n_steps):
        if len(rows) == 0:
            break
        of_rows, current = x[rows], codes[rows]
        slope, reached = _slopes(score, of_rows, current)
        gain = (1 - 2 * current) * slope - overstated
        tried, possible = _neighbours(current, gain, n_slots)
        scores = score(of_rows, tried).masked_fill(~possible, -torch.inf)
        best, which = scores.max(0)
        better = best > reached + LEAST_GAIN + LEAST_RELATIVE_GAIN * reached.abs()
        codes[rows[better]] = tried[which, torch.arange(len(rows), device=rows.device)][better]
        rows = rows[better]
    return codes


def _neighbours(codes: Tensor, gain: Tensor, n_slots: int) -> tuple[Tensor, Tensor]:
    """Return codes that differ from those given in the changes that look best, and which of them are codes."""
    present, room = codes > 0, codes.sum(1, keepdim=True) < n_slots
    flips = torch.where(present | room, gain, -torch.inf).topk(min(N_FLIPS, gain.shape[1]))
    added = torch.where(present, -torch.inf, gain).topk(min(N_ADDED, gain.shape[1]))
    removed = torch.where(present, gain, -torch.inf).topk(min(N_REMOVED, gain.shape[1]))
    tried, possible = [], []
    for value, feature in zip(flips.values.T, flips.indices.T, strict=True):
        tried.append(codes.scatter(1, feature[:, None], 1 - codes.gather(1, feature[:, None])))
        possible.append(value.isfinite())
    for value, feature in zip(added.values.T, added.indices.T, strict=True):
        with_feature = codes.scatter(1, feature[:, None], 1.0)
        for lost, other in zip(removed.values.T, removed.indices.T, strict=True):
            tried.append(with_feature.scatter(1, other[:, None], 0.0))
            possible.append(value.isfinite() & lost.isfinite())
    return torch.stack(tried), torch.stack(possible)


def overstatements(
    score: Score, x: Float[Tensor, "batch D"], codes: Float[Tensor, "batch K"], *, width: int
) -> Float[Tensor, " K"]:
    """Return by how much the first-order estimate of changing each feature exceeds the exact gain, a mean over rows."""
    with torch.inference_mode(False), torch.no_grad():
        x, codes = x.clone(), codes.clone()
        slope, reached = _slopes(score, x, codes)
        estimate = ((1 - 2 * codes) * slope).mean(0)
        exact = [(score(x, tried) - reached).mean(1) for tried in _all_flips(codes, width)]
        return torch.nan_to_num(estimate - torch.cat(exact), nan=0.0, posinf=0.0, neginf=0.0)


def _all_flips(codes: Tensor, width: int) -> Iterator[Tensor]:
    """Iterate over the codes with each feature changed, some features at a time."""
    n_features = codes.shape[1]
    size = max(1, MOST_VALUES // (len(codes) * width))
    for first in range(0, n_features, size):
        features = torch.arange(first, min(first + size, n_features), device=codes.device)
        tried = codes.repeat(len(features), 1, 1)
        places = torch.arange(len(features), device=codes.device)
        tried[places, :, features] = 1 - tried[places, :, features]
        yield tried


def _slopes(score: Score, x: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the derivative of the score in each entry of the codes, and the score."""
    with torch.enable_grad():
        codes = codes.clone().requires_grad_()
        reached = score(x, codes[None])[0]
        (slope,) = torch.autograd.grad(reached.sum(), codes)
    return slope, reached.detach()
