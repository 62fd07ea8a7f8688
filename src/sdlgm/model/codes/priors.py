"""Priors over codes: the paper's slots, fixed or learned, and a learned chain."""

import math

import torch
from torch import nn

from sdlgm.model.codes import usage
from sdlgm.model.codes.coupling import HiddenCoupling, LowRankCoupling
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.under_chain import ChainUnderChain


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


def share_present(gate_prior: float, n_slots: int, n_features: int) -> float:
    """Return the share of the features that the prior of the slots expects, but no more than half of them."""
    return min(gate_prior * n_slots / n_features, 0.5)


class ChainPrior(nn.Module):
    """A learned prior in which each feature depends on the features before it; see `sdlgm.model.codes.under_chain`.

    At first all features are independent, and as many are present as ``gate_prior`` of the slots would be on. All are
    equally frequent, or where they are many, have the shares of `usage.first_shares`.

    Parameters
    ----------
    n_features : int
        K.
    n_slots : int
        L0, the budget.
    gate_prior : float
        Share of the budget that is used at first.
    n_units : int
        Rank of the coupling, or width of its hidden layer.
    hidden : bool
        Whether there is a hidden layer.

    """

    def __init__(self, n_features: int, n_slots: int, gate_prior: float, n_units: int, *, hidden: bool):
        super().__init__()
        self.n_slots = n_slots
        share = share_present(gate_prior, n_slots, n_features)
        self.bias = nn.Parameter(torch.full((1, n_features), log_odds(share)))
        if n_features >= usage.MANY:
            with torch.no_grad():
                self.bias.copy_(torch.logit(usage.first_shares(n_features, share)))
        self.reads = nn.Parameter(torch.zeros(n_features, n_units))
        self.writes = nn.Parameter(torch.randn(n_features, n_units).div_(math.sqrt(n_units)))
        self.start = nn.Parameter(torch.zeros(n_units)) if hidden else None

    def forward(self) -> ChainUnderChain:
        if self.start is None:
            coupling = LowRankCoupling(self.reads, self.writes)
        else:
            coupling = HiddenCoupling(self.reads, self.writes, self.start)
        return ChainUnderChain(self.bias, coupling, self.n_slots)
