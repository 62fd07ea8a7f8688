"""The likelihood of continuous columns with heavy tails."""

import torch
from scipy import stats
from torch.distributions import StudentT as Reference

from sdlgm.model.likelihoods import StudentT


def heavy() -> StudentT:
    likelihood = StudentT(3).double()
    likelihood.raw_scale.data = torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)
    likelihood.raw_degrees.data = torch.tensor([-3.0, 1.0, 4.0], dtype=torch.float64)
    return likelihood


def test__student_t__log_prob__is_that_of_torch(generator):
    likelihood = heavy()
    x = 3 * torch.randn(4, 3, generator=generator, dtype=torch.float64)
    output = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    expected = Reference(likelihood.degrees, output, likelihood.scale).log_prob(x)
    torch.testing.assert_close(likelihood.log_probs(x, output), expected)


def test__student_t__gradients__are_finite_differences(generator):
    likelihood = heavy()
    x, output = torch.randn(2, 4, 3, generator=generator, dtype=torch.float64)
    parameters = [parameter.detach().clone().requires_grad_() for parameter in likelihood.parameters()]
    names = [name for name, _ in likelihood.named_parameters()]
    likelihood.forward = likelihood.log_prob

    def value(output, *own):
        return torch.func.functional_call(likelihood, dict(zip(names, own, strict=True)), (x, output))

    assert torch.autograd.gradcheck(value, (output.requires_grad_(), *parameters))


def test__student_t__sample__has_the_distribution_of_log_prob(generator):
    likelihood = heavy()
    drawn = likelihood.sample(torch.full((20_000, 3), 2.0, dtype=torch.float64), generator).detach().numpy()
    parameters = zip(drawn.T, likelihood.degrees.tolist(), likelihood.scale.tolist(), strict=True)
    for column, degrees, scale in parameters:
        assert stats.kstest(column, stats.t(degrees, 2.0, scale).cdf).pvalue > 1e-3


def test__student_t__value_far_away__costs_tens_of_nats_and_has_a_finite_gradient():
    likelihood, output = StudentT(1), torch.zeros(1, 1, requires_grad=True)
    for far in (1e3, 1e15, -1e15):
        value = likelihood.log_prob(torch.tensor([[far]]), output).sum()
        value.backward()
        assert -300 < value.item() < -20
        assert output.grad is not None
        assert bool(torch.isfinite(output.grad).all())


def test__student_t__constant_entry__is_left_out():
    likelihood = StudentT(2)
    likelihood.adapt_to(torch.tensor([True, False]))
    near, far = (likelihood.log_prob(torch.tensor([[0.0, value]]), torch.zeros(1, 2)) for value in (0.0, 9.0))
    torch.testing.assert_close(near, far)


def test__student_t__degrees__leave_a_mean():
    likelihood = StudentT(1)
    likelihood.raw_degrees.data.fill_(-100.0)
    assert likelihood.degrees.item() > 1
