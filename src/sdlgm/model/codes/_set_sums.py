"""Sums over all sets of at most L0 of K elements, by divide and conquer.

Each element is a polynomial (1 - p_k) + p_k x, whose product has at x^m the probability that m of the independent
elements are present. Products are taken in pairs up a tree, cut off after x^L0, so that everything takes O(K L0) and
log2 K steps. All numbers are probabilities: nothing is subtracted, so nothing cancels.

Polynomials have their coefficients in the first dimension and lie side by side in the last; the two halves of a level
are multiplied with each other. The functions work on any device and are not differentiated by autograd.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

Level = Float[Tensor, "_ _ _"]
"""Polynomials of shape (degrees, rows, nodes)."""


def leaves(present: Float[Tensor, "rows K"], absent: Float[Tensor, "rows K"]) -> Level:
    """Return the polynomials of the elements, as many as a power of two; those added are never present."""
    n_elements = present.shape[-1]
    missing = (1 << max(0, n_elements - 1).bit_length()) - n_elements
    return torch.stack([F.pad(absent, (0, missing), value=1.0), F.pad(present, (0, missing))])


def products(first: Level, budget: int) -> list[Level]:
    """Return all levels of the tree from the elements to the root."""
    levels = [first]
    while levels[-1].shape[-1] > 1:
        left, right = levels[-1].chunk(2, dim=-1)
        levels.append(_product(left, right, budget))
    return levels


def product_slopes(levels: list[Level], first: Level, budget: int) -> list[Level]:
    """Return the derivative of all levels, given that of the elements."""
    slopes = [first]
    for level in levels[:-1]:
        (left, right), (d_left, d_right) = level.chunk(2, dim=-1), slopes[-1].chunk(2, dim=-1)
        slopes.append(_product(left, d_right, budget).add_(_product(d_left, right, budget)))
    return slopes


def outer_sums(levels: list[Level], root: Float[Tensor, "degrees rows"]) -> Level:
    """Return the derivative of sum_m root_m P(m) with respect to the polynomials of the elements."""
    outer = root.unsqueeze(-1)
    for level in reversed(levels[:-1]):
        left, right = level.chunk(2, dim=-1)
        n = len(level)
        outer = torch.cat([_correlation(outer, right, n), _correlation(outer, left, n)], dim=-1)
    return outer


def outer_sums_and_slopes(
    levels: list[Level], slopes: list[Level], root: Float[Tensor, "degrees rows"]
) -> tuple[Level, Level]:
    """Return `outer_sums`, and their derivative given that of the levels."""
    outer = root.unsqueeze(-1)
    d_outer = torch.zeros_like(outer)
    for level, d_level in zip(reversed(levels[:-1]), reversed(slopes[:-1]), strict=True):
        (left, right), (d_left, d_right) = level.chunk(2, dim=-1), d_level.chunk(2, dim=-1)
        n = len(level)
        d_outer = torch.cat(
            [
                _correlation(d_outer, right, n).add_(_correlation(outer, d_right, n)),
                _correlation(d_outer, left, n).add_(_correlation(outer, d_left, n)),
            ],
            dim=-1,
        )
        outer = torch.cat([_correlation(outer, right, n), _correlation(outer, left, n)], dim=-1)
    return outer, d_outer


def draw(
    levels: list[Level], root: Float[Tensor, "degrees rows"], uniform: Float[Tensor, "steps rows L0"]
) -> tuple[Int[Tensor, "rows L0"], Int[Tensor, "rows 1"]]:
    """Draw a set for each row: the number of its elements, then at each node how many of them lie in its left half.

    The L0 places of a set move down the tree together. Places at the same node share their random number, and the first
    of them go left.

    Parameters
    ----------
    levels : list of Tensor
        The tree, from `products`.
    root : Tensor
        Weight of each number of elements.
    uniform : Tensor
        Random numbers between 0 and 1, one step for the number and one for each level of the tree.

    Returns
    -------
    elements : Tensor
        The elements in the first places, and any in the others.
    n_present : Tensor
        How many places are taken.

    """
    n_rows, budget = uniform.shape[1:]
    place = torch.arange(budget, device=root.device).expand(n_rows, budget)
    n_present = _first_above((root * levels[-1][:, :, 0]).unsqueeze(-1), uniform[0, :, :1])
    node = torch.zeros_like(place)
    number, rank = n_present.expand_as(place), place  # elements below the node of a place, and its rank among them
    for level, noise in zip(reversed(levels[:-1]), uniform[1:], strict=True):
        n_degrees, _, n_nodes = level.shape
        half = n_nodes // 2
        left = level[:, :, :half].gather(-1, node.expand(n_degrees, -1, -1))
        right = level[:, :, half:].gather(-1, node.expand(n_degrees, -1, -1))
        in_left = torch.arange(n_degrees, device=root.device).view(-1, 1, 1)
        in_right = number - in_left
        possible = (in_right >= 0) & (in_right < n_degrees)
        weights = left * right.gather(0, in_right.clamp(0, n_degrees - 1)) * possible
        shared = noise.gather(-1, (place - rank).clamp(min=0))
        n_left = _first_above(weights, shared)
        goes_left = rank < n_left
        node = torch.where(goes_left, node, node + half)
        number = torch.where(goes_left, n_left, number - n_left)
        rank = torch.where(goes_left, rank, rank - n_left)
    return node, n_present


def _first_above(weights: Float[Tensor, "degrees rows L0"], uniform: Float[Tensor, "rows L0"]) -> Tensor:
    """Return the first index whose cumulative weight is above a share of the whole; its weight is never zero."""
    cumulative = weights.cumsum(0)
    index = (cumulative <= uniform * cumulative[-1]).sum(0)
    return index.clamp(max=len(weights) - 1)


def _product(left: Level, right: Level, budget: int) -> Level:
    n_degrees = min(len(left) + len(right) - 1, budget + 1)
    result = left.new_zeros(n_degrees, *left.shape[1:])
    for degree in range(len(left)):
        n = min(len(right), n_degrees - degree)
        if n > 0:
            result[degree : degree + n].addcmul_(left[degree : degree + 1], right[:n])
    return result


def _correlation(outer: Level, other: Level, n_degrees: int) -> Level:
    """Return the derivative of the product with respect to one factor, given that of the result."""
    result = other.new_zeros(n_degrees, *other.shape[1:])
    for degree in range(len(other)):
        n = min(n_degrees, len(outer) - degree)
        if n > 0:
            result[:n].addcmul_(outer[degree : degree + n], other[degree : degree + 1])
    return result
