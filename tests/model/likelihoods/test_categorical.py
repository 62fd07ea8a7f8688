"""The likelihood of categories."""

import torch
from scipy import stats
from torch.distributions import Categorical as Reference

from sdlgm.model.likelihoods import Categorical, ColumnStatistics

LEVELS = (3, 2, 3, 1)


def reference(output: torch.Tensor) -> list[Reference]:
    return [Reference(logits=part) for part in output.split(LEVELS, dim=-1)]


def test__categorical__log_prob__is_that_of_torch(generator):
    likelihood = Categorical(4, LEVELS)
    x = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 2.0, 0.0]])
    output = torch.randn(5, 2, sum(LEVELS), generator=generator)
    expected = torch.stack([own.log_prob(x[:, entry]) for entry, own in enumerate(reference(output))], dim=-1)
    torch.testing.assert_close(likelihood.log_probs(x, output), expected)
    shares = torch.cat([own.probs for own in reference(output)], dim=-1)
    torch.testing.assert_close(likelihood.probs(output), shares)
    assert likelihood.n_outputs == 9


def test__categorical__gradients__are_finite_differences(generator):
    likelihood = Categorical(4, LEVELS)
    output = torch.randn(2, sum(LEVELS), generator=generator, dtype=torch.float64).requires_grad_()
    x = torch.tensor([[2.0, 0.0, 1.0, 0.0], [0.0, 1.0, 2.0, 0.0]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda beta: likelihood.log_prob(x, beta), output)


def test__categorical__sample__has_the_probabilities_of_the_levels(generator):
    likelihood = Categorical(4, LEVELS)
    output = torch.randn(sum(LEVELS), generator=generator)
    drawn = likelihood.sample(output.expand(3, 4000, -1), generator).flatten(0, 1)
    for entry, own in enumerate(reference(output)[:3]):
        seen = torch.bincount(drawn[:, entry].long(), minlength=LEVELS[entry])
        assert stats.chisquare(seen.numpy(), (len(drawn) * own.probs).numpy(), sum_check=False).pvalue > 1e-4
    assert bool((drawn[:, 3] == 0).all())


def test__categorical__mean__is_the_most_probable_level():
    output = torch.tensor([[0.0, 3.0, 1.0, 2.0, 1.0, 0.0, 0.0, 5.0, 0.0]])
    assert Categorical(4, LEVELS).mean(output).tolist() == [[1.0, 0.0, 2.0, 0.0]]


def test__categorical__start__has_the_shares_of_the_levels():
    shares = (torch.tensor([0.2, 0.3, 0.5]), torch.tensor([0.9, 0.1]), torch.tensor([1 / 3] * 3), torch.ones(1))
    ones = torch.ones(4)
    statistics = ColumnStatistics(ones, ones.bool(), ones, ones, ones, ones, shares)
    likelihood = Categorical(4, LEVELS)
    torch.testing.assert_close(likelihood.probs(likelihood.start(statistics)), torch.cat(shares))
