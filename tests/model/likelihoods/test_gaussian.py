"""Continuous entries, compared with torch.distributions."""

import torch
from torch.distributions import Normal

from sdlgm.model.likelihoods import ColumnStatistics, Gaussian


def test__gaussian__density__equals_torch_distributions():
    likelihood = Gaussian(3)
    likelihood.raw_deviation.data = torch.tensor([-1.0, 0.0, 2.0])
    output, x = torch.randn(2, 5, 3), torch.randn(5, 3)
    expected = Normal(output, likelihood.deviation).log_prob(x).sum(-1)
    torch.testing.assert_close(likelihood.log_prob(x, output), expected)


def test__gaussian__constant_entry__is_left_out():
    likelihood = Gaussian(2)
    likelihood.varies[1] = False
    output = torch.zeros(1, 2)
    near, far = likelihood.log_prob(torch.zeros(1, 2), output), likelihood.log_prob(torch.tensor([[0.0, 9.0]]), output)
    torch.testing.assert_close(near, far)


def test__gaussian__samples__have_mean_and_learned_deviation(generator):
    likelihood = Gaussian(1)
    likelihood.raw_deviation.data = torch.tensor([1.0])
    drawn = likelihood.sample(torch.full((20_000, 1), 2.0), generator)
    torch.testing.assert_close(drawn.mean(), torch.tensor(2.0), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.std(), likelihood.deviation[0].detach(), atol=0.05, rtol=0)


def test__gaussian__fixed_deviation__is_taken_from_the_statistics_and_not_learned():
    ones, deviation = torch.ones(3), torch.tensor([0.1, 1.0, 0.0])
    likelihood = Gaussian(3, fixed=True)
    likelihood.start(ColumnStatistics(0 * ones, ones.bool(), ones, ones, ones, ones, deviation=deviation))
    torch.testing.assert_close(likelihood.deviation, torch.tensor([0.1, 1.0, 0.02]))
    assert not likelihood.deviation.requires_grad
    assert Gaussian(3).deviation.requires_grad
