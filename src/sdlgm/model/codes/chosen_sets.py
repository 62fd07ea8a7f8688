"""Sets chosen by compiled kernels on the CPU, with the weights of their members, and values averaged over them.

One kernel draws sets and finds their divergence, one averages the values of the few members, and one goes back from the
gradients of all of these to the scores. What a set needs is kept, and nothing else of the size of the scores.

`sdlgm.model.codes.conditional` has the distribution, and the same in torch's own operations for other devices.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.autograd import first_order

MAX_BUDGET = 64
"""Largest budget of the kernels."""
RULES = {"straight_through": 1, "reinmax": 2, "darn": 2}
"""Gradients that the kernels know, by their number there; the last two are the same for members of a set."""
_FIXED = 0


@dataclass(frozen=True)
class ChosenSets:
    """Sets of R rows of K elements."""

    output: Float[Tensor, "R E"]
    """Means of the values in the sets."""
    weights: Float[Tensor, "R K"]
    """Weight of each element, zero outside the set."""
    kl: Float[Tensor, " R"]
    """sum_k P(k in S) (evidence_k + bias) - log Z: the divergence from a prior, but for its own log Z."""
    elements: Int[Tensor, "R L0"]
    """The elements of each set; -1 where it has fewer."""

    @property
    def n_active(self) -> Int[Tensor, " R"]:
        """Number of elements of each set."""
        return (self.elements >= 0).sum(-1)


def has_kernels(scores: Tensor, budget: int, gradient: str) -> bool:
    """Return whether the kernels can choose; if not, torch's own operations do, as they do in exported programs."""
    return (
        arrays.has_kernels(scores)
        and min(budget, scores.shape[-1]) <= MAX_BUDGET
        and gradient in RULES
        and not torch.compiler.is_exporting()
    )


def choose_sets(
    scores: Float[Tensor, "R K"],
    bias: Float[Tensor, " R"],
    prior: Float[Tensor, " R"],
    budget: int,
    *,
    draw: bool,
    divergent: bool,
    soft: bool,
    gradient: str,
    evidence: Float[Tensor, "R K"] | None = None,
    value: Float[Tensor, "G K E"] | None = None,
    generator: torch.Generator | None = None,
) -> ChosenSets:
    """Choose a set for each row, and weigh its members.

    Parameters
    ----------
    scores : Tensor of shape (R, K)
        What weighs the members, and chooses them unless there is ``evidence``. Below `CLOSED`, it is never chosen.
    bias, prior : Tensor of shape (R,)
        Added to the evidence; the sum is the log-odds of an element before the budget.
    budget : int
        L0, the largest number of elements.
    draw : bool
        Draw the sets, with the estimator ``gradient``. Otherwise they are the most probable ones, without a gradient.
    divergent : bool
        Compute ``kl``.
    soft : bool
        Weights are the softmax of the scores over the set. Otherwise they are one.
    gradient : str
        One of `RULES`.
    evidence : Tensor of shape (R, K), optional
        What chooses the members, if it is not the scores.
    value : Tensor of shape (G, K, E), optional
        Values of R / G rows that follow each other.
    generator : torch.Generator, optional
        Source of random numbers; torch's own by default.

    """
    n_rows, n_elements = scores.shape
    keys = torch.randint(-(2**63), 2**63 - 1, (n_rows,), generator=generator) if draw else None
    if value is None:
        value = scores.new_empty(1, n_elements, 0)
    rule = RULES[gradient] if draw else _FIXED
    # Operations are for compiled code and for tensors without data; torch loads its compiler when one is first called.
    plain = type(scores) in (Tensor, nn.Parameter) and not torch.compiler.is_compiling()
    call = _Chosen.apply if plain else _choose_operation
    output, weights, kl, elements, *_ = call(
        scores, evidence, bias, prior, value, keys, min(budget, n_elements), divergent, soft, rule
    )
    return ChosenSets(output, weights, kl, elements)


def _choose(
    scores: Tensor,
    evidence: Tensor | None,
    bias: Tensor,
    prior: Tensor,
    value: Tensor,
    keys: Tensor | None,
    budget: int,
    divergent: bool,
    soft: bool,
    rule: int,  # noqa: ARG001 - for the backward pass
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return output, weights, kl and elements, and what the backward pass needs: shares of the members and tilts."""
    x, b, r, v = (arrays.as_array(part) for part in (scores, bias, prior, value))
    y = x if evidence is None else arrays.as_array(evidence)
    n_threads = torch.get_num_threads()
    seeds = None if keys is None else arrays.as_array(keys)
    sets = _kernels.choose_sets(y, b, r, budget, seeds, divergent=divergent, n_threads=n_threads)
    weights, shares, output = _kernels.set_mixtures(x, sets.elements, v, soft=soft, n_threads=n_threads)
    found = output, weights, sets.kl, sets.elements, shares, sets.tilts
    return tuple(torch.from_numpy(part) for part in found)  # pyright: ignore[reportReturnType]


def _gradients(
    to_output: Tensor | None,
    to_weights: Tensor | None,
    to_kl: Tensor | None,
    scores: Tensor,
    evidence: Tensor | None,
    bias: Tensor,
    prior: Tensor,
    value: Tensor,
    elements: Tensor,
    shares: Tensor,
    tilts: Tensor,
    soft: bool,
    rule: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of scores, evidence (empty if there is none), bias, prior and value."""
    n_rows, n_elements = scores.shape
    n_groups, _, width = value.shape
    n_threads = torch.get_num_threads()
    chosen, share = elements.numpy(), shares.numpy()
    if to_output is not None and width:
        grouped = to_output.reshape(n_groups, -1, width)
        gradient = (grouped @ value.transpose(-2, -1)).view(n_rows, n_elements)
        if to_weights is not None:
            gradient += to_weights
        slopes = arrays.as_array(to_output)
        to_value = _kernels.set_value_gradients(chosen, share, slopes, n_elements, n_groups, n_threads=n_threads)
        to_value = torch.from_numpy(to_value)
    else:
        gradient = torch.zeros_like(scores) if to_weights is None else to_weights.clone()
        to_value = torch.zeros_like(value)
    # The kernels write their result over this array, which is nobody else's.
    gradient = arrays.as_array(gradient)
    if rule == _FIXED and to_kl is None:
        if soft:
            _kernels.given_set_gradients(chosen, share, gradient, n_threads=n_threads)
        else:
            gradient.fill(0)
        to_evidence = scores.new_empty(0) if evidence is None else torch.zeros_like(evidence)
        return torch.from_numpy(gradient), to_evidence, torch.zeros_like(bias), torch.zeros_like(prior), to_value
    x, b, r = (arrays.as_array(part) for part in (scores, bias, prior))
    y = x if evidence is None else arrays.as_array(evidence)
    slope = arrays.as_array(torch.zeros_like(bias) if to_kl is None else to_kl)
    found = _kernels.set_gradients(
        x, y, b, r, tilts.numpy(), chosen, share, gradient, slope, rule=rule, soft=soft, n_threads=n_threads
    )
    to_scores, to_evidence = torch.from_numpy(found.scores), torch.from_numpy(found.evidence)
    if evidence is None:
        to_evidence = scores.new_empty(0)
    return to_scores, to_evidence, torch.from_numpy(found.bias), torch.from_numpy(found.prior), to_value


def _keep(ctx, inputs, output) -> None:
    scores, evidence, bias, prior, value, _, _, _, soft, rule = inputs
    _, _, _, elements, shares, tilts = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(elements, shares, tilts)
    ctx.save_for_backward(scores, evidence, bias, prior, value, elements, shares, tilts)
    ctx.soft, ctx.rule = soft, rule


def _back(ctx, gradients: tuple[Tensor | None, ...], call) -> tuple[Tensor | None, ...]:
    if all(gradient is None for gradient in gradients[:3]):
        return (None,) * 10
    evidence = ctx.saved_tensors[1]
    to_scores, to_evidence, *others = call(*gradients[:3], *ctx.saved_tensors, ctx.soft, ctx.rule)
    return to_scores, None if evidence is None else to_evidence, *others, None, None, None, None, None


class _Chosen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        output = _choose(*inputs)
        _keep(ctx, inputs, output)
        return output

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor | None):
        return _back(ctx, gradients, _gradients)


_choose_operation = torch.library.custom_op("sdlgm::choose_sets", _choose, mutates_args=())
_gradients_operation = torch.library.custom_op("sdlgm::chosen_set_gradients", _gradients, mutates_args=())


@_choose_operation.register_fake
def _(scores, evidence, bias, prior, value, keys, budget, divergent, soft, rule):  # noqa: ARG001
    n_rows = scores.shape[0]
    return (
        scores.new_empty(n_rows, value.shape[2]),
        scores.new_empty(scores.shape),
        scores.new_empty(n_rows),
        scores.new_empty((n_rows, budget), dtype=torch.int32),
        scores.new_empty(n_rows, budget),
        scores.new_empty(n_rows, dtype=torch.float64),
    )


@_gradients_operation.register_fake
def _(to_output, to_weights, to_kl, scores, evidence, bias, prior, value, *_):  # noqa: ARG001
    to_evidence = scores.new_empty(0) if evidence is None else evidence.new_empty(evidence.shape)
    others = tuple(part.new_empty(part.shape) for part in (bias, prior, value))
    return scores.new_empty(scores.shape), to_evidence, *others


_choose_operation.register_autograd(
    lambda ctx, *gradients: _back(ctx, gradients, _gradients_operation), setup_context=_keep
)
