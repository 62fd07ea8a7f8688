"""The prior over codes: lambda_0 and alpha, fixed as in the paper or learned."""

import math

import torch
from torch import nn

from sdlgm.model.codes.slots import SlotDistribution


def log_odds(probability: float) -> float:
    """Return log(p / (1 - p))."""
    return math.log(probability) - math.log1p(-probability)


class SlotPrior(nn.Module):
    """L0 slots that are on with probability ``gate_prior`` and then hold a feature drawn from alpha (uniform at first).

    With ``learn=True`` both are parameters, trained with the rest of the model (empirical Bayes).
    """

    gate_logit: torch.Tensor
    feature_logits: torch.Tensor

    def __init__(self, n_features: int, n_slots: int, gate_prior: float, *, learn: bool = False):
        super().__init__()
        self.n_slots = n_slots
        gate_logit = torch.tensor(log_odds(gate_prior))
        feature_logits = torch.zeros(n_features)
        if learn:
            self.gate_logit = nn.Parameter(gate_logit)
            self.feature_logits = nn.Parameter(feature_logits)
        else:
            self.register_buffer("gate_logit", gate_logit)
            self.register_buffer("feature_logits", feature_logits)

    def forward(self) -> SlotDistribution:
        return SlotDistribution(self.gate_logit, self.feature_logits, self.n_slots)
