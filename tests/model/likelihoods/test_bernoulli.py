"""Binary entries, compared with torch.distributions."""

import torch
from torch.distributions import Bernoulli as TorchBernoulli

from sdlgm.model.likelihoods import Bernoulli


def test__bernoulli__binary_data__equals_torch_distributions():
    output, x = torch.randn(2, 5, 3), torch.randint(0, 2, (5, 3)).float()
    expected = TorchBernoulli(logits=output).log_prob(x.expand(2, 5, 3)).sum(-1)
    torch.testing.assert_close(Bernoulli(3).log_prob(x, output), expected)


def test__bernoulli__grey_level__is_the_expectation_over_binary_draws():
    output, grey = torch.randn(1, 3), torch.tensor([[0.25, 0.5, 0.9]])
    likelihood = Bernoulli(3)
    ones, zeros = (TorchBernoulli(logits=output).log_prob(torch.full((1, 3), v)) for v in (1.0, 0.0))
    torch.testing.assert_close(likelihood.log_prob(grey, output), (grey * ones + (1 - grey) * zeros).sum(-1))


def test__bernoulli__initial_output__has_the_mean_of_the_data():
    likelihood, mean = Bernoulli(3), torch.tensor([0.1, 0.5, 0.7])
    torch.testing.assert_close(likelihood.mean(likelihood.initial_output(mean)), mean)
