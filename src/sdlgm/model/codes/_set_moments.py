"""log Z, the probability of each element and draws, for rows of independent elements given that at most L0 are present.

With weights w_k = exp(logit_k), Z is the sum of prod_{k in S} w_k over all sets S of at most L0 elements. For numerical
range the weights are scaled to e^-tilt w_k, which multiplies the part of the sets of m elements by e^(-tilt m). No more
than twice the budget are then expected, and the sets that count have probabilities far from zero. Any tilt gives the
same result, so it takes no part in derivatives.

Trees are made again in the backward pass, a block of rows at a time, so that memory does not grow with them.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm.model.autograd import first_order
from sdlgm.model.codes import _set_sums

BLOCK = 2**18
"""Logits whose tree is in memory at the same time; a tree takes about eight times as much as its logits."""


def set_moments(logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor]:
    """Return log Z and the probability that each element is present; differentiable once.

    Parameters
    ----------
    logits : Tensor of shape (rows, K)
        Finite log-odds.
    n_slots : int
        Largest number of elements of a set.

    """
    return _moments_operation(logits, n_slots) if torch.compiler.is_compiling() else _Moments.apply(logits, n_slots)


def noise_shape(logits: Tensor, n_slots: int) -> tuple[int, int, int]:
    """Return the shape of the uniform random numbers that draw one set for each row."""
    n_rows, n_elements = logits.shape
    return 1 + max(0, n_elements - 1).bit_length(), n_rows, _budget(logits, n_slots)


def draw_sets(logits: Tensor, n_slots: int, uniform: Tensor) -> Tensor:
    """Draw one set for each row, exactly, as zeros and ones.

    Parameters
    ----------
    logits : Tensor of shape (rows, K)
        Finite log-odds.
    n_slots : int
        Largest number of elements of a set.
    uniform : Tensor of shape (steps, rows, L0)
        Random numbers, of `noise_shape`.

    """
    return (_draws_operation if torch.compiler.is_compiling() else _draws)(logits, n_slots, uniform)


@dataclass(frozen=True)
class _Tree:
    """The sums over sets of some rows."""

    levels: list[Tensor]
    root: Float[Tensor, "degrees rows"]
    """Weight of each number of elements, at most 1: what the tilt took from it."""
    total: Float[Tensor, " rows"]
    log_normaliser: Float[Tensor, " rows"]

    @classmethod
    def of(cls, logits: Float[Tensor, "rows K"], n_slots: int) -> "_Tree":
        budget = _budget(logits, n_slots)
        tilt = _tilt(logits, budget)
        tilted = logits - tilt
        levels = _set_sums.products(
            _set_sums.leaves(torch.sigmoid(tilted), torch.sigmoid(-tilted)),
            budget,
        )
        top = levels[-1][:, :, 0]
        m = torch.arange(len(top), device=logits.device, dtype=logits.dtype).unsqueeze(-1)
        root = torch.exp(tilt.squeeze(-1) * (m - budget))
        total = (root * top).sum(0)
        log_normaliser = F.softplus(tilted).sum(-1) + budget * tilt.squeeze(-1) + total.log()
        return cls(levels, root, total, log_normaliser)


def _moments(logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor]:
    log_normaliser, presence = torch.empty_like(logits[:, 0]), torch.empty_like(logits)
    for rows in _blocks(logits):
        tree = _Tree.of(logits[rows], n_slots)
        outer = _set_sums.outer_sums(tree.levels, tree.root / tree.total)
        presence[rows] = _in_range(tree.levels[0][1] * outer[1], logits)
        log_normaliser[rows] = tree.log_normaliser
    return log_normaliser, presence


def _covariance_products(logits: Tensor, presence: Tensor, vectors: Tensor, n_slots: int) -> Tensor:
    """Return the covariance matrix of the members times a vector, for each row."""
    result = torch.empty_like(logits)
    for rows in _blocks(logits):
        result[rows] = _covariance_product(logits[rows], presence[rows], vectors[rows], n_slots)
    return result


def _covariance_product(logits: Tensor, presence: Tensor, vector: Tensor, n_slots: int) -> Tensor:
    """Return Cov(n) v = E[n (n'v)] - E[n] E[n]'v. The first is the derivative of the sums with the weights w_k v_k."""
    tree = _Tree.of(logits, n_slots)
    inner = (presence * vector).sum(-1, keepdim=True)
    present = tree.levels[0][1]
    weighted = present[:, : logits.shape[-1]] * vector
    first = _set_sums.leaves(weighted, torch.zeros_like(weighted))
    first[0] = 0.0
    slopes = _set_sums.product_slopes(tree.levels, first, len(tree.root) - 1)
    outer, d_outer = _set_sums.outer_sums_and_slopes(tree.levels, slopes, tree.root / tree.total)
    second = _in_range(present * d_outer[1], logits) + weighted * _in_range(outer[1], logits)
    return second - presence * inner


def _draws(logits: Tensor, n_slots: int, uniform: Tensor) -> Tensor:
    drawn = torch.zeros_like(logits)
    for rows in _blocks(logits):
        tree = _Tree.of(logits[rows], n_slots)
        elements, n_present = _set_sums.draw(tree.levels, tree.root, uniform[:, rows])
        taken = torch.arange(elements.shape[-1], device=elements.device) < n_present
        # Places that are not taken may lie anywhere, also at elements that were drawn: they add nothing.
        elements = elements.clamp(max=logits.shape[-1] - 1)
        drawn[rows] = drawn[rows].scatter_add(-1, elements, taken.to(logits.dtype))
    return drawn


class _Moments(torch.autograd.Function):
    """log Z and its first derivatives; the backward pass needs the second ones, times a vector."""

    @staticmethod
    def forward(ctx, logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor]:
        log_normaliser, presence = _moments(logits, n_slots)
        ctx.save_for_backward(logits, presence)
        ctx.n_slots = n_slots
        return log_normaliser, presence

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        to_normaliser, to_presence = gradients
        logits, presence = ctx.saved_tensors
        product = _covariance_products(logits, presence, to_presence, ctx.n_slots)
        return torch.addcmul(product, to_normaliser.unsqueeze(-1), presence), None


def _budget(logits: Tensor, n_slots: int) -> int:
    return min(n_slots, logits.shape[-1])


def _tilt(logits: Float[Tensor, "rows K"], budget: int) -> Float[Tensor, "rows 1"]:
    """Return what to take from all logits, so that the budget is expected to be used up to twice at most.

    With t the L0-th largest logit, sum_k min(w_k, e^t) / e^tilt = L0: each of the L0 largest then adds at most one to
    the expected number, and all others together at most L0. Nothing is taken if the budget does not bind.
    """
    threshold = logits.topk(budget, dim=-1, sorted=False).values.amin(-1, keepdim=True)
    excess = torch.exp((logits - threshold).clamp(max=0)).sum(-1, keepdim=True)
    return (threshold + torch.log(excess) - math.log(budget)).clamp(min=0)


def _in_range(padded: Tensor, logits: Tensor) -> Tensor:
    return padded[:, : logits.shape[-1]]


def _blocks(logits: Tensor) -> list[slice]:
    n_rows, n_elements = logits.shape
    size = max(1, BLOCK // max(1, n_elements))
    return [slice(start, start + size) for start in range(0, n_rows, size)]


# The same as operations that torch.compile takes as they are; it would otherwise write out each step of the trees, and
# take minutes. They are used in compiled code only, since torch loads its compiler when one is first called.

_moments_operation = torch.library.custom_op("sdlgm::set_moments", _moments, mutates_args=())
_covariance_operation = torch.library.custom_op("sdlgm::set_covariance", _covariance_products, mutates_args=())
_draws_operation = torch.library.custom_op("sdlgm::draw_sets", _draws, mutates_args=())


@_moments_operation.register_fake
def _(logits: Tensor, n_slots: int) -> tuple[Tensor, Tensor]:  # noqa: ARG001
    return logits.new_empty(logits.shape[:1]), torch.empty_like(logits)


@_covariance_operation.register_fake
@_draws_operation.register_fake
def _(logits: Tensor, *_: object) -> Tensor:
    return torch.empty_like(logits)


def _keep_for_backward(ctx, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[0], output[1])
    ctx.n_slots = inputs[1]


def _moments_backward(ctx, to_normaliser: Tensor, to_presence: Tensor):
    logits, presence = ctx.saved_tensors
    product = _covariance_operation(logits, presence, to_presence, ctx.n_slots)
    return torch.addcmul(product, to_normaliser.unsqueeze(-1), presence), None


_moments_operation.register_autograd(_moments_backward, setup_context=_keep_for_backward)
