"""Every code of a tiny model: K = 3 features, L0 = 2 slots, so that sums over codes can be written out."""

from itertools import product

import torch
from torch import Tensor

from sdlgm.model import SlotDistribution

K, L0 = 3, 2


def all_counts(n_features: int = K, n_slots: int = L0) -> Tensor:
    """All count vectors within the budget, one a row."""
    grid = product(range(n_slots + 1), repeat=n_features)
    return torch.tensor([counts for counts in grid if sum(counts) <= n_slots], dtype=torch.float64)


def all_slots() -> list[tuple[int, ...]]:
    """All ordered fillings of the slots with symbols; 0 is off."""
    return list(product(range(K + 1), repeat=L0))


def tiny(batch: int = 1, seed: int = 0) -> SlotDistribution:
    """A distribution with uneven probabilities, in double precision, that gradients can be taken of."""
    generator = torch.Generator().manual_seed(seed)
    gate_logit = torch.randn(batch, generator=generator, dtype=torch.float64).requires_grad_()
    feature_logits = torch.randn(batch, K, generator=generator, dtype=torch.float64).requires_grad_()
    return SlotDistribution(gate_logit, feature_logits.log_softmax(-1), L0)


def tiny_prior(seed: int = 7) -> SlotDistribution:
    distribution = tiny(1, seed)
    return SlotDistribution(distribution.gate_logit[0].detach(), distribution.feature_log_probs[0].detach(), L0)


def expectation(distribution: SlotDistribution, values: Tensor) -> Tensor:
    """Sum over all counts of probability times value."""
    return (distribution.log_prob(all_counts()[:, None, :]).exp()[:, 0] * values).sum()
