"""What a set of labels is worth under the slot model: log q(y given x), presence of each label, number of labels.

The labels y of an observation are the features of its code. Four forms, by name:

- ``closed_form``: each label by its own probability, P(y_k = 1) = 1 - (1 - lambda pi_k) ** L0. No samples.
- ``multinomial``: y as the counts of the slots, |y| ~ Binomial(L0, lambda) and the labels drawn from pi. No samples.
- ``subset``: each label has log-odds of its own, and no more than L0 are present (`sdlgm.model.subset`). No samples.
- ``monte_carlo``: the paper's, with relaxed slots. A label is present if some slot holds it, in the relaxed form
  1 - prod over the slots of (1 - omega z_k), averaged over the samples.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm.model.noise import gumbel
from sdlgm.model.slots import SlotDistribution, Temperatures, log_binomial
from sdlgm.model.subset import SubsetDistribution

LabelForm = Literal["closed_form", "multinomial", "subset", "monte_carlo"]
LABEL_FORMS: tuple[LabelForm, ...] = ("closed_form", "multinomial", "subset", "monte_carlo")

# Below this, 1 - (1 - p) ** L0 is L0 p to the last digit that single precision has.
_SMALL = 1e-4


def log_presence(posterior: SlotDistribution) -> tuple[Float[Tensor, "*batch K"], Float[Tensor, "*batch K"]]:
    """Log-probability that a feature is present at all, and that it is not; finite, with finite gradients."""
    log_probs, probs = posterior.log_probs[..., 1:], posterior.probs[..., 1:]
    log_absent = posterior.n_slots * torch.log1p(-probs.clamp(max=1 - 1e-6))
    small = probs * posterior.n_slots < _SMALL
    away_from_zero = torch.where(small, -1.0, log_absent)  # so that the branch not taken has a gradient
    log_present = torch.where(small, log_probs + math.log(posterior.n_slots), torch.log(-torch.expm1(away_from_zero)))
    return log_present, log_absent


def closed_form_log_prob(posterior: SlotDistribution, y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
    """The sum over the labels of the log-probability that each is there, or is not."""
    log_present, log_absent = log_presence(posterior)
    return torch.where(y > 0, log_present, log_absent).sum(-1)


def relaxed_presence(
    posterior: SlotDistribution,
    temperatures: Temperatures,
    n_samples: int,
    generator: torch.Generator,
    *,
    common_noise: bool = False,
) -> Float[Tensor, "batch K"]:
    """Presence in relaxed slots, the mean over samples; ``common_noise`` gives every row the same noise."""
    batch, n_features = posterior.feature_logits.shape
    shape = (n_samples, 1 if common_noise else batch, posterior.n_slots)
    log_gate = torch.stack([F.logsigmoid(posterior.gate_logit), F.logsigmoid(-posterior.gate_logit)], dim=-1)
    gates = ((log_gate[:, None, :] + gumbel((*shape, 2), log_gate, generator)) / temperatures.gate).softmax(-1)
    noise = gumbel((*shape, n_features), log_gate, generator)
    features = ((posterior.feature_log_probs[:, None, :] + noise) / temperatures.feature).softmax(-1)
    held = (gates[..., :1] * features).clamp(max=1 - 1e-6)
    return -torch.expm1(torch.log1p(-held).sum(-2)).mean(0)


def relaxed_log_prob(presence: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
    """Log-probability of labels whose presence was estimated."""
    return -F.binary_cross_entropy(presence.clamp(1e-6, 1 - 1e-6), y, reduction="none").sum(-1)


def label_log_prob(
    posterior: SlotDistribution | SubsetDistribution, form: LabelForm, y: Float[Tensor, "batch K"]
) -> Float[Tensor, " batch"]:
    """Log q(y given x), exactly: for ``monte_carlo`` that of the slots that it relaxes."""
    if isinstance(posterior, SubsetDistribution):
        return posterior.log_prob(y.unsqueeze(0))[0]
    if form == "multinomial":
        return posterior.log_prob(y)
    return closed_form_log_prob(posterior, y)


def number_of_labels(
    posterior: SlotDistribution | SubsetDistribution, form: LabelForm
) -> Float[Tensor, "batch numbers"]:
    """Distribution of the number of labels over 0..L0, for each observation.

    ``multinomial``: Binomial(L0, lambda). ``subset``: exact. Otherwise labels are independent given x, and the number
    is the sum of independent draws, given that it is within the budget.
    """
    if isinstance(posterior, SubsetDistribution):
        return posterior.number_present
    if form == "multinomial":
        return log_binomial(posterior).exp()
    presence = posterior.presence
    numbers = F.one_hot(torch.zeros_like(presence[:, 0], dtype=torch.long), posterior.n_slots + 1).to(presence)
    for k in range(presence.shape[-1]):
        prob = presence[:, k, None]
        numbers = numbers * (1 - prob) + F.pad(numbers[:, :-1], (1, 0)) * prob
    return numbers / numbers.sum(-1, keepdim=True)
