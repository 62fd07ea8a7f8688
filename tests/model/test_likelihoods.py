import torch
from torch.distributions import Bernoulli as TorchBernoulli
from torch.distributions import Normal

from sdlgm.model.likelihoods import Bernoulli, Gaussian


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
