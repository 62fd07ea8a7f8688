"""Choose a set of at most L0 elements by their scores: draw it or take the most probable one, with KL and gradient."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sdlgm.gradients import GRADIENTS
from sdlgm.gradients.hard_draws import HardDraws
from sdlgm.model.codes._set_moments import draw_sets, noise_shape, set_moments
from sdlgm.model.codes.chosen_sets import choose_sets, has_kernels
from sdlgm.model.codes.conditional import SetPrior, divergence, members_with_gradient, most_probable
from sdlgm.model.codes.independent import CLOSED


@dataclass(frozen=True)
class Choice:
    """The sets chosen by scores of shape (..., K)."""

    members: Tensor
    """(..., K): 1 for the members of the set and 0 for all others."""
    kl: Tensor | None
    """(...): KL divergence of the distribution over sets from the prior, in nats."""

    @property
    def n_active(self) -> Tensor:
        """Number of members, of shape (...)."""
        return self.members.detach().sum(-1).long()


class ChoosingLayer(nn.Module):
    """A layer that remembers the divergence and the sizes of the sets of its last call."""

    def __init__(self):
        super().__init__()
        self.kl: Tensor | None = None
        self.n_active: Tensor | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave out the last call: its tensors belong to a graph, which cannot be copied."""
        return {**self.__dict__, "kl": None, "n_active": None}


def check_budget(max_active: int) -> int:
    """Return a budget if it is one."""
    if isinstance(max_active, bool) or not isinstance(max_active, int) or max_active < 1:
        raise ValueError(f"max_active must be a whole number of at least 1, not {max_active!r}")
    return max_active


def check_expected(prior_active: float | None, max_active: int) -> float:
    """Return the expected number of a prior; half the budget if none is given."""
    expected = max_active / 2 if prior_active is None else float(prior_active)
    if not 0 < expected < max_active:
        raise ValueError(f"prior_active must be above 0 and below max_active={max_active}, not {prior_active!r}")
    return expected


def rule_named(gradient: str) -> HardDraws:
    """Return the gradient estimator of a name, one that differentiates hard draws in the backward pass."""
    rules = {name: rule for name, rule in GRADIENTS.items() if issubclass(rule, HardDraws)}
    # The tempered one has a schedule, which a layer has not.
    rules = {name: rule for name, rule in rules.items() if not rule.tempers_posterior}
    if gradient not in rules:
        raise ValueError(f"gradient must be one of {', '.join(sorted(rules))}, not {gradient!r}")
    return rules[gradient](0)  # such a rule has nothing to learn


def expected_prior(
    shape: torch.Size, like: Tensor, allowed: Tensor | None, expected: Tensor, max_active: int
) -> SetPrior:
    """Return the prior of scores of a shape. What rows have in common is not written out for each of them."""
    if shape[-1] == 0:
        raise ValueError("there is nothing to choose from: scores have no elements")
    if allowed is None:
        n_elements = torch.tensor(shape[-1], device=like.device)
    else:
        n_elements = allowed.expand(*allowed.shape[:-1], shape[-1]).sum(-1)
    number, n_elements = torch.broadcast_tensors(expected.to(like), n_elements)
    return SetPrior.expecting(number, n_elements, max_active)


def choose(
    scores: Tensor,
    allowed: Tensor | None,
    expected: Tensor,
    *,
    max_active: int,
    gradient: str,
    draw: bool,
    with_kl: bool,
    generator: torch.Generator | None = None,
) -> Choice:
    """Choose a set for each row of scores.

    Parameters
    ----------
    scores : Tensor of shape (..., K)
        Log-odds of each element beyond those of the prior.
    allowed : Tensor of bool that broadcasts to (..., K), or None
        Which elements may be chosen.
    expected : Tensor that broadcasts to (...)
        Expected number of elements under the prior.
    max_active : int
        L0, the budget.
    gradient : str
        Name of the gradient estimator.
    draw : bool
        Draw the set. Otherwise it is the most probable one, without a gradient.
    with_kl : bool
        Compute the divergence.
    generator : torch.Generator, optional
        Source of random numbers.

    Returns
    -------
    Choice

    """
    dtype = scores.dtype
    if dtype not in (torch.float32, torch.float64):  # sums over sets need the range and the digits
        scores = scores.float()
    prior = expected_prior(scores.shape, scores, allowed, expected, max_active)
    if has_kernels(scores, max_active, gradient):
        weighed = weigh(
            scores,
            allowed,
            prior,
            draw=draw,
            with_kl=with_kl,
            soft=False,
            gradient=gradient,
            generator=generator,
        )
        return Choice(weighed.weights.to(dtype), weighed.kl)
    return choose_by_torch(
        scores, allowed, prior, dtype, gradient=gradient, draw=draw, with_kl=with_kl, generator=generator
    )


def choose_by_torch(
    scores: Tensor,
    allowed: Tensor | None,
    prior: SetPrior,
    dtype: torch.dtype,
    *,
    gradient: str,
    draw: bool,
    with_kl: bool,
    generator: torch.Generator | None,
) -> Choice:
    """Choose a set for each row of scores by torch's own operations, on any device."""
    max_active, batch = prior.n_slots, scores.shape[:-1]
    # Finite, so that the probability 0 times its logarithm is 0.
    logits = (scores + prior.logit.unsqueeze(-1)).clamp(min=CLOSED)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, CLOSED)
    if not (draw or with_kl):
        return Choice(most_probable(logits.detach(), max_active).to(dtype), None)
    rows = logits.reshape(-1, logits.shape[-1])
    log_normaliser, presence = set_moments(rows, max_active)
    if draw:
        # Without a generator, torch's own, as for dropout.
        shape = noise_shape(rows, max_active)
        uniform = torch.rand(shape, generator=generator, dtype=rows.dtype, device=rows.device)
        drawn = draw_sets(rows.detach(), max_active, uniform)
        rule = rule_named(gradient)
        members = members_with_gradient(presence, drawn.unsqueeze(0), rule)[0].view_as(logits).to(dtype)
    else:
        members = most_probable(logits.detach(), max_active).to(dtype)
    if not with_kl:
        return Choice(members, None)
    return Choice(members, divergence(logits, (log_normaliser.view(batch), presence.view_as(logits)), prior))


@dataclass(frozen=True)
class Weighed:
    """The sets chosen by scores of shape (..., L, K), by the kernels."""

    output: Tensor | None
    """(..., L, E): means of the values, if the kernels averaged them."""
    weights: Tensor
    """(..., L, K)."""
    kl: Tensor | None
    """(..., L)."""
    n_active: Tensor
    """(..., L)."""


def weigh(
    scores: Tensor,
    allowed: Tensor | None,
    prior: SetPrior,
    *,
    draw: bool,
    with_kl: bool,
    soft: bool,
    gradient: str,
    gate_bias: Tensor | None = None,
    value: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Weighed:
    """Choose a set for each row of scores by the kernels, weigh its members, and average values over them."""
    batch, n_elements = scores.shape[:-1], scores.shape[-1]
    bias, evidence = scores.new_zeros(()), None
    if gate_bias is not None and gate_bias.dim() and gate_bias.shape[-1] > 1:
        evidence = _closed(scores + gate_bias, allowed).reshape(-1, n_elements)
    elif gate_bias is not None:
        bias = gate_bias.reshape(gate_bias.shape[:-1]).to(scores)
    if evidence is None:
        scores = _closed(scores, allowed)
    chosen = choose_sets(
        scores.reshape(-1, n_elements),
        bias.expand(batch).reshape(-1),
        prior.logit.expand(batch).reshape(-1),
        prior.n_slots,
        draw=draw,
        divergent=with_kl,
        soft=soft,
        gradient=gradient,
        evidence=evidence,
        value=None if value is None else value.reshape(-1, *value.shape[-2:]),
        generator=generator,
    )
    return Weighed(
        None if value is None else chosen.output.view(*batch, value.shape[-1]),
        chosen.weights.view(*batch, n_elements),
        chosen.kl.view(batch) + prior.log_normaliser if with_kl else None,
        chosen.n_active.view(batch),
    )


def _closed(scores: Tensor, allowed: Tensor | None) -> Tensor:
    return scores if allowed is None else scores.masked_fill(~allowed, CLOSED)
