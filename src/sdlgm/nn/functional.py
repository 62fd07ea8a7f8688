"""Attention to a set of keys, as functions."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sdlgm.model.autograd import first_order
from sdlgm.model.codes.chosen_sets import has_kernels
from sdlgm.model.codes.independent import CLOSED
from sdlgm.nn._choice import check_budget, check_expected, choose, expected_prior, rule_named, weigh


class SparseAttentionResult(NamedTuple):
    """What `sparse_attention` returns."""

    output: Tensor
    """(..., L, Ev): means of the values in the sets; zero where a set is empty."""
    weights: Tensor
    """(..., L, S): weight of each key, at most ``max_active`` of them not zero."""
    kl: Tensor | None
    """(..., L): divergence of the sets from the prior, in nats."""
    n_active: Tensor
    """(..., L): number of keys in each set."""


def set_softmax(scores: Tensor, members: Tensor) -> Tensor:
    """Return the softmax of scores over the members of a set, zero for all others, and zeros for an empty set.

    The gradient of ``members`` is the difference that each element makes: the result with it less the result without
    it, times the gradient of the result. It is exact where the loss is linear in the result. The derivative of a
    softmax with masses would vanish for a set of one, so that none could be told to be empty, and grows without limit
    for elements outside the set.

    Parameters
    ----------
    scores : Tensor of shape (..., K)
    members : Tensor of shape (..., K)
        1 for members and 0 for all others.

    Returns
    -------
    Tensor of shape (..., K)

    """
    return _SetSoftmax.apply(scores, members)


class _SetSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores: Tensor, members: Tensor) -> Tensor:
        inside = scores.masked_fill(members == 0, -torch.inf)
        log_total = inside.logsumexp(-1, keepdim=True)
        # The difference of minus infinities of an empty set is not a number.
        weights = torch.where(members == 0, 0.0, torch.exp(inside - log_total))
        ctx.save_for_backward(scores, members, weights, log_total)
        return weights

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        scores, members, weights, log_total = ctx.saved_tensors
        above_mean = gradient - (weights * gradient).sum(-1, keepdim=True)
        to_scores = weights * above_mean
        if not ctx.needs_input_grad[1]:
            return to_scores, None
        if_added = torch.sigmoid(scores.clamp(min=CLOSED) - log_total)
        of_others = (1 - weights).clamp(min=math.sqrt(torch.finfo(weights.dtype).eps))
        share = torch.where(members == 0, if_added, weights / of_others)
        alone = (members != 0) & ((members != 0).sum(-1, keepdim=True) == 1)
        return to_scores, torch.where(alone, gradient, share * above_mean)


def attend(
    scores: Tensor,
    value: Tensor,
    allowed: Tensor | None,
    expected: Tensor,
    gate_bias: Tensor | None,
    *,
    max_active: int,
    gradient: str,
    dropout_p: float,
    training: bool,
    need_kl: bool,
    generator: torch.Generator | None,
) -> SparseAttentionResult:
    """Choose keys by their scores and average their values."""
    dtype = scores.dtype
    drops = dropout_p > 0 and training
    if gate_bias is not None:
        scores = scores.expand(torch.broadcast_shapes(scores.shape, gate_bias.shape))
    exact = scores if dtype in (torch.float32, torch.float64) else scores.float()
    if has_kernels(exact, max_active, gradient):
        # The kernels read the values of the few members only, where every head has values of its own.
        reads = not drops and value.dtype == exact.dtype and value.shape[:-2] == exact.shape[:-2]
        weighed = weigh(
            exact,
            allowed,
            expected_prior(exact.shape, exact, allowed, expected, max_active),
            draw=training,
            with_kl=need_kl,
            soft=True,
            gradient=gradient,
            gate_bias=gate_bias,
            value=value if reads else None,
            generator=generator,
        )
        weights, kl, n_active = weighed.weights.to(dtype), weighed.kl, weighed.n_active
        if weighed.output is not None:
            return SparseAttentionResult(weighed.output, weights, kl, n_active)
    else:
        choice = choose(
            scores if gate_bias is None else scores + gate_bias,
            allowed,
            expected,
            max_active=max_active,
            gradient=gradient,
            draw=training,
            with_kl=need_kl,
            generator=generator,
        )
        weights, kl, n_active = set_softmax(scores, choice.members), choice.kl, choice.n_active
    if drops:
        weights = F.dropout(weights, dropout_p)
    return SparseAttentionResult(weights @ value, weights, kl, n_active)


def with_mask(scores: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the scores with a mask of numbers added, and which keys may be chosen.

    A mask of bools is True for keys that may be chosen. In one of numbers, minus infinity is one that may not.
    """
    if mask is None:
        return scores, None
    if mask.dtype == torch.bool:
        return scores, mask
    if not mask.is_floating_point():
        raise ValueError(f"a mask has bools or floating-point numbers, not {mask.dtype}")
    forbidden = mask == -torch.inf
    return scores + mask.masked_fill(forbidden, 0.0).to(scores.dtype), ~forbidden


def sparse_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    max_active: int,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    *,
    prior_active: float | Tensor | None = None,
    gate_bias: Tensor | None = None,
    gradient: str = "reinmax",
    training: bool = False,
    need_kl: bool | None = None,
    generator: torch.Generator | None = None,
) -> SparseAttentionResult:
    """Attend to at most ``max_active`` keys for each query, and to as few as it needs.

    Arguments and shapes are those of `torch.nn.functional.scaled_dot_product_attention`. The score of a key is
    query . key x scale, and `SubsetGate` says how the scores choose a set. The values of its keys are averaged with the
    softmax of their scores.

    Parameters
    ----------
    query : Tensor of shape (..., L, E)
    key : Tensor of shape (..., S, E)
    value : Tensor of shape (..., S, Ev)
    max_active : int
        Largest number of keys with a weight.
    attn_mask : Tensor that broadcasts to (..., L, S), optional
        Bools, True for keys that may be chosen, or numbers that are added to the scores.
    dropout_p : float, default=0.0
        Probability that a weight is dropped in training.
    is_causal : bool, default=False
        Let query i choose among the first i + 1 keys only.
    scale : float, optional
        1 / sqrt(E) by default.
    prior_active : float or Tensor that broadcasts to (..., L), optional
        Number of keys that the prior expects, half the budget by default.
    gate_bias : Tensor that broadcasts to (..., L, S), optional
        Added to the scores that choose the set, and not to those that weigh its values.
    gradient : {"reinmax", "straight_through", "darn"}, default="reinmax"
        Gradient estimator for drawn sets.
    training : bool, default=False
        Draw the sets. Otherwise they are the most probable ones.
    need_kl : bool, optional
        Compute the divergence from the prior. By default only in training.
    generator : torch.Generator, optional
        Source of random numbers; torch's own by default.

    Returns
    -------
    SparseAttentionResult

    """
    check_budget(max_active)
    rule_named(gradient)  # raises if there is none
    scores = (query * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)) @ key.transpose(-2, -1)
    scores, allowed = with_mask(scores, attn_mask)
    if is_causal:
        if attn_mask is not None:
            raise ValueError("give attn_mask or is_causal, not both")
        allowed = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if not isinstance(prior_active, Tensor):
        prior_active = torch.tensor(check_expected(prior_active, max_active), device=scores.device)
    return attend(
        scores,
        value,
        allowed,
        prior_active,
        gate_bias,
        max_active=max_active,
        gradient=gradient,
        dropout_p=dropout_p,
        training=training,
        need_kl=training if need_kl is None else need_kl,
        generator=generator,
    )
