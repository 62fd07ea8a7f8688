"""Distributions over sets of labels: log q(y given x), presence of each label, number of labels.

The labels y of an observation are the features of its code. Four forms, by name:

- ``closed_form``: each label by its own probability, P(y_k = 1) = 1 - (1 - lambda pi_k) ** L0. No samples.
- ``multinomial``: y as the counts of the slots, |y| ~ Binomial(L0, lambda) and the labels drawn from pi. No samples.
  Counts with a label twice are not a set of labels; their probability is missing in the sum over all sets.
- ``subset``: each label has log-odds of its own; labels are visited in their order, and once L0 are present the rest
  stay off (`sdlgm.model.codes.subset`). No samples.
- ``monte_carlo``: the paper's, with relaxed slots. The paper does not say how a relaxed count becomes the probability
  of a label. Here its share of the slots replaces lambda pi_k in the closed form, P(y_k = 1) = 1 - (1 - count /
  L0) ** L0, averaged over the samples.
"""

import math
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm.model.arrays import as_array
from sdlgm.model.codes.base import Temperatures
from sdlgm.model.codes.set_distribution import SetDistribution
from sdlgm.model.codes.slots import SlotDistribution, log_binomial
from sdlgm.model.codes.subset import SubsetDistribution
from sdlgm.model.noise import Noise

LabelForm = Literal["closed_form", "multinomial", "subset", "monte_carlo"]
LABEL_FORMS: tuple[LabelForm, ...] = ("closed_form", "multinomial", "subset", "monte_carlo")

# Below this, 1 - (1 - p) ** L0 equals L0 p in single precision.
_SMALL = 1e-6


def log_presence(posterior: SlotDistribution) -> tuple[Float[Tensor, "*batch K"], Float[Tensor, "*batch K"]]:
    """Return the log-probability that a feature is present and that it is not, both finite with finite gradients."""
    log_probs, probs = posterior.log_probs[..., 1:], posterior.probs[..., 1:]
    log_absent = posterior.n_slots * torch.log1p(-probs.clamp(max=1 - 1e-6))
    small = probs * posterior.n_slots < _SMALL
    away_from_zero = torch.where(small, -1.0, log_absent)  # so that the branch not taken has a gradient
    log_present = torch.where(small, log_probs + math.log(posterior.n_slots), torch.log(-torch.expm1(away_from_zero)))
    return log_present, log_absent


def closed_form_log_prob(posterior: SlotDistribution, y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
    """Return the sum over the labels of the log-probability that each is present, or absent."""
    log_present, log_absent = log_presence(posterior)
    return torch.where(y > 0, log_present, log_absent).sum(-1)


def relaxed_presence(
    posterior: SlotDistribution, temperatures: Temperatures, n_samples: int, noise: Noise
) -> Float[Tensor, "batch K"]:
    """Return 1 - (1 - relaxed count / L0) ** L0, the mean over samples."""
    return _presence_of(posterior.relaxed_sample(n_samples, temperatures, noise), posterior.n_slots).mean(0)


def repeatable_presence(
    posterior: SlotDistribution, temperatures: Temperatures, n_samples: int, noise: Noise
) -> Float[Tensor, "batch K"]:
    """Return `relaxed_presence` with the same noise for every row, so that a result does not depend on its place."""
    total = torch.zeros_like(posterior.feature_logits)
    for _ in range(n_samples):  # one after the other, since each is a (batch, L0, K) tensor
        parts = posterior.relaxed_parts(1, temperatures, noise, common_noise=True)
        total += _presence_of(posterior.from_parts(*parts)[0], posterior.n_slots)
    return total / n_samples


def _presence_of(counts: Float[Tensor, "*batch K"], n_slots: int) -> Float[Tensor, "*batch K"]:
    return -torch.expm1(n_slots * torch.log1p(-(counts / n_slots).clamp(max=1 - 1e-6)))


def relaxed_log_prob(presence: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
    """Return the log-probability of labels whose presence was estimated."""
    return -F.binary_cross_entropy(presence.clamp(1e-6, 1 - 1e-6), y, reduction="none").sum(-1)


def label_log_prob(
    posterior: SlotDistribution | SubsetDistribution, form: LabelForm, y: Float[Tensor, "batch K"]
) -> Float[Tensor, " batch"]:
    """Return log q(y given x), exactly; for ``monte_carlo`` that of the slots that it relaxes."""
    if isinstance(posterior, SubsetDistribution):
        return posterior.log_prob(y.unsqueeze(0))[0]
    if form == "multinomial":
        return posterior.log_prob(y)
    return closed_form_log_prob(posterior, y)


def number_of_labels(
    posterior: SlotDistribution | SubsetDistribution, form: LabelForm, presence: Float[Tensor, "batch K"]
) -> Float[Tensor, "batch numbers"]:
    """Return the distribution of the number of labels over 0..L0 for each observation.

    ``presence`` is the probability of each label. ``multinomial``: Binomial(L0, lambda), given that it is not above the
    number of labels. ``subset``: exact. Otherwise labels are independent given x, and the number is the sum of
    independent draws, given that it is within the budget.
    """
    if isinstance(posterior, SubsetDistribution):
        return posterior.number_present
    n_labels = presence.shape[-1]
    if form == "multinomial":
        log_probs = log_binomial(posterior)
        possible = torch.arange(posterior.n_slots + 1, device=log_probs.device) <= n_labels
        numbers = log_probs.masked_fill(~possible, -torch.inf).softmax(-1)
    else:
        numbers = F.one_hot(torch.zeros_like(presence[:, 0], dtype=torch.long), posterior.n_slots + 1).to(presence)
        for k in range(n_labels):
            prob = presence[:, k, None]
            numbers = numbers * (1 - prob) + F.pad(numbers[:, :-1], (1, 0)) * prob
    return numbers / numbers.sum(-1, keepdim=True).clamp(min=torch.finfo(numbers.dtype).tiny)


def set_distribution(
    posterior: SlotDistribution | SubsetDistribution, form: LabelForm, presence: Float[Tensor, "batch K"]
) -> SetDistribution:
    """Return the joint distribution over sets of labels, whose number is that of `number_of_labels`.

    ``presence`` is the probability of each label. ``subset``: q(y given x). ``multinomial``: the labels given their
    number, of counts without a label twice. Otherwise labels are independent given x, and within the budget.
    """
    budget = min(posterior.n_slots, presence.shape[-1])
    if isinstance(posterior, SubsetDistribution):
        return SetDistribution.absorbing(_double(posterior.logits), budget)
    if form == "multinomial":
        numbers = _double(number_of_labels(posterior, form, presence))[:, : budget + 1]
        # Given their number, labels depend on the ratios of the probabilities only; these odds keep sums near 1.
        expected = np.maximum(numbers @ np.arange(numbers.shape[1]), 1e-3)
        logits = _double(posterior.feature_log_probs) + np.log(expected)[:, None]
        return SetDistribution.given_numbers(logits, budget, numbers)
    probs = _double(presence).clip(1e-300, 1 - 1e-16)
    return SetDistribution.given_numbers(np.log(probs) - np.log1p(-probs), budget)


def _double(values: Tensor) -> np.ndarray:
    return as_array(values.detach().cpu().double())
