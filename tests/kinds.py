"""A tiny model whose columns are of every kind."""

import torch
from torch import Tensor

from sdlgm.model.likelihoods import ColumnStatistics, Layout

LIKELIHOODS = ("gaussian", "poisson", "categorical", "bernoulli", "negative_binomial", "categorical", "student_t")
LAYOUT = Layout(LIKELIHOODS, n_levels=(3, 2), with_missing=(0, 2))
N_OUTPUTS = 10
ROWS = torch.tensor(
    [[0.1, 3.0, 2.0, 1.0, 4.0, 0.0, -3.0], [-1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0], [0.5, 1.0, 1.0, 1.0, 9.0, 1.0, 0.0]],
    dtype=torch.float64,
)


def statistics() -> ColumnStatistics:
    """Return statistics of data that could be these rows."""
    mean = torch.tensor([0.0, 1.5, 1.0, 0.6, 4.0, 0.5, 0.0])
    return ColumnStatistics(
        mean=mean,
        varies=torch.ones(7, dtype=torch.bool),
        variance=torch.tensor([1.0, 2.0, 1.0, 0.2, 9.0, 0.2, 1.0]),
        log_mean=torch.log1p(mean.clamp(min=0)),
        log_deviation=torch.full((7,), 0.5),
        share_missing=torch.tensor([0.25, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0]),
        frequencies=(torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.5, 0.5])),
    )


def without(rows: Tensor, column: int, row: int = 0) -> Tensor:
    """Return rows with one missing value."""
    found = rows.clone()
    found[row, column] = torch.nan
    return found
