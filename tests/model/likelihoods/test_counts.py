"""The likelihoods of counts, compared with torch and by sums over all counts."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch.distributions import NegativeBinomial as Reference
from torch.distributions import Poisson as PoissonReference

from sdlgm.model.likelihoods import ColumnStatistics, NegativeBinomial, Poisson

COUNTS = torch.tensor([[0.0, 1.0, 7.0], [3.0, 0.0, 250.0]], dtype=torch.float64)
OUTPUT = torch.tensor([[[-2.0, 0.3, 2.0], [1.0, -5.0, 5.4]], [[0.0, 0.0, 0.0], [3.0, 1.0, -1.0]]], dtype=torch.float64)


def negative_binomial() -> NegativeBinomial:
    likelihood = NegativeBinomial(3).double()
    likelihood.log_size.data = torch.tensor([0.5, 4.0, -1.0], dtype=torch.float64)
    return likelihood


def reference(likelihood: NegativeBinomial, output: torch.Tensor) -> Reference:
    return Reference(likelihood.size, logits=output - likelihood.size.log())


def test__poisson__log_prob__is_that_of_torch():
    expected = PoissonReference(OUTPUT.exp()).log_prob(COUNTS)
    torch.testing.assert_close(Poisson(3).log_probs(COUNTS, OUTPUT), expected)
    torch.testing.assert_close(Poisson(3).log_prob(COUNTS, OUTPUT), expected.sum(-1))


def test__negative_binomial__log_prob__is_that_of_torch():
    likelihood = negative_binomial()
    torch.testing.assert_close(likelihood.log_probs(COUNTS, OUTPUT), reference(likelihood, OUTPUT).log_prob(COUNTS))
    mean, variance = OUTPUT[0, 0].exp(), reference(likelihood, OUTPUT[0, 0]).variance
    torch.testing.assert_close(likelihood.mean(OUTPUT[0, 0]), mean)
    torch.testing.assert_close(variance, mean + mean.square() / likelihood.size)


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
def test__counts__large__keep_their_digits_in_single_precision(kind):
    x, output = torch.tensor([[1e6, 2e4, 300.0]]), torch.log(torch.tensor([[1.001e6, 2.1e4, 310.0]]))
    wide = kind(3).double()
    exact, found = wide.log_probs(x.double(), output.double()), kind(3).log_probs(x, output)
    torch.testing.assert_close(found, exact.float(), atol=2e-2, rtol=2e-4)


@pytest.mark.parametrize("likelihood", [Poisson(3).double(), negative_binomial()], ids=["poisson", "negative_binomial"])
def test__counts__gradients__are_finite_differences(likelihood):
    output = OUTPUT[0].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda beta: likelihood.log_prob(COUNTS, beta), output)
    for parameter in likelihood.parameters():
        own = parameter.detach().clone().requires_grad_()

        def value(own, likelihood=likelihood):
            return torch.func.functional_call(likelihood, {"log_size": own}, (COUNTS, OUTPUT))

        likelihood.forward = likelihood.log_prob
        assert torch.autograd.gradcheck(value, own)


@pytest.mark.parametrize("likelihood", [Poisson(3).double(), negative_binomial()], ids=["poisson", "negative_binomial"])
def test__counts__sample__has_the_probabilities_of_log_prob(likelihood, generator):
    output = torch.tensor([0.5, -0.7, 1.2], dtype=torch.float64)
    drawn = likelihood.sample(output.expand(20_000, 3), generator)
    values = torch.arange(400.0, dtype=torch.float64)[:, None].expand(-1, 3)
    probs = likelihood.log_probs(values, output).exp().detach()
    torch.testing.assert_close(probs.sum(0), torch.ones(3, dtype=torch.float64), atol=1e-6, rtol=0)
    for column in range(3):
        top = int(drawn[:, column].max()) + 1
        often = [value for value in range(top) if probs[value, column] * 20_000 >= 10]
        seen = np.array([int((drawn[:, column] == value).sum()) for value in often])
        wanted = 20_000 * probs[often, column].numpy()
        seen, wanted = np.append(seen, 20_000 - seen.sum()), np.append(wanted, 20_000 - wanted.sum())
        assert stats.chisquare(seen, wanted).pvalue > 1e-4


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
def test__counts__initial_output__has_the_mean_of_the_data(kind):
    mean = torch.tensor([0.1, 2.0, 300.0])
    torch.testing.assert_close(kind(3).mean(kind(3).initial_output(mean)), mean)
    never = kind(3).initial_output(torch.zeros(3))
    assert bool(torch.isfinite(never).all())


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
def test__counts__extreme_output__is_finite(kind):
    likelihood, output = kind(2), torch.tensor([[200.0, -200.0]], requires_grad=True)
    value = likelihood.log_prob(torch.tensor([[3.0, 0.0]]), output)
    value.sum().backward()
    assert bool(torch.isfinite(value).all())
    assert output.grad is not None
    assert bool(torch.isfinite(output.grad).all())


def test__negative_binomial__start__takes_the_dispersion_of_the_moments():
    ones = torch.ones(2)
    mean, size = torch.tensor([4.0, 4.0]), torch.tensor([2.0, 100.0])  # the second one is a Poisson, as far as it goes
    statistics = ColumnStatistics(mean, ones.bool(), mean + torch.tensor([8.0, 0.0]), ones, ones, ones)
    likelihood = NegativeBinomial(2)
    torch.testing.assert_close(likelihood.start(statistics), mean.log())
    torch.testing.assert_close(likelihood.size.detach(), size)
