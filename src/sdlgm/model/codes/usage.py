"""How often each of many features is present: at first, and at least.

Codes have a few dozen of thousands of features. A feature that is never drawn is not learned, so features can go out of
use for good, in two ways. Codes that are too long at first fill the budget before it reaches the last features. And
once the prior is learned, rare features become expensive, and rarer. Against the first, the posterior starts with as
many features as the prior expects (`biases`). Against the second, `rarity_penalty` keeps features from becoming
rarer than they start.

At first features are not equally frequent (`first_shares`). The frequent ones are learned as quickly as if they were
few, and the rare ones refine them.
"""

import torch
from jaxtyping import Float
from torch import Tensor

MANY = 1000
"""Number of features from which on this is needed."""
EVEN = 0.05
"""Features have shares proportional to 1 / (place + EVEN * K): the first is about 1 / EVEN as frequent as the last."""
LEAST = 0.4
"""The least share of a feature, relative to the mean share."""


def first_shares(n_features: int, mean: float) -> Float[Tensor, " K"]:
    """Return the share of codes that contain each feature at first, in the order of the chain; double precision."""
    places = torch.arange(n_features, dtype=torch.float64)
    shares = 1 / (places + EVEN * n_features)
    return (shares * (mean / shares.mean())).clamp(min=LEAST * mean, max=0.5)


def biases(shares: Float[Tensor, " K"], deviation: float) -> Float[Tensor, " K"]:
    """Return biases b with E sigmoid(deviation * n + b) = shares, where n is standard normal."""
    n = torch.linspace(-8, 8, 401, dtype=torch.float64)
    weights = torch.softmax(-n.square() / 2, dim=0)
    grid = torch.linspace(-30 - deviation**2, 10, 2001, dtype=torch.float64)
    means = torch.sigmoid(deviation * n + grid.unsqueeze(-1)) @ weights
    above = torch.searchsorted(means, shares.double()).clamp(1, len(grid) - 1)
    low, high = means[above - 1].log(), means[above].log()
    return torch.lerp(grid[above - 1], grid[above], (shares.double().log() - low) / (high - low)).to(shares.dtype)


def rarity_penalty(presence: Float[Tensor, " K"], least: float) -> Float[Tensor, ""]:
    """Return ``least`` times the sum of log(least / presence) over the features with less presence.

    Parameters
    ----------
    presence : Tensor
        Mean probability of each feature over a batch.
    least : float
        Share of the codes that should contain a feature.

    """
    shortfall = torch.log(least / presence.clamp(min=torch.finfo(presence.dtype).tiny))
    return least * shortfall.clamp(min=0).sum()
