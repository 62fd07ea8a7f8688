"""Couplings through a state: equal to a matrix where the state is linear, and to torch's operations everywhere."""

import pytest
import torch
from torch import Tensor

from sdlgm.model import Noise, arrays
from sdlgm.model.codes.coupling import DenseCoupling, StateCoupling
from sdlgm.model.codes.under_chain import ChainUnderChain

N_FEATURES, N_UNITS, N_SLOTS = 70, 5, 6  # more than one block of features


def weights(*, rectified: bool, dtype: torch.dtype = torch.float64) -> StateCoupling:
    generator = torch.Generator().manual_seed(4)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype).requires_grad_()

    start = normal(N_UNITS) if rectified else torch.zeros(N_UNITS, dtype=dtype, requires_grad=True)
    return StateCoupling(normal(N_FEATURES, N_UNITS), normal(N_FEATURES, N_UNITS), start, rectified)


def matrix_of(coupling: StateCoupling) -> Tensor:
    return torch.triu(coupling.writes @ coupling.reads.T, 1)


@pytest.fixture
def logits() -> Tensor:
    return (torch.randn(4, N_FEATURES, generator=torch.Generator().manual_seed(1)).double() - 2).requires_grad_()


@pytest.fixture
def counts(logits) -> Tensor:
    drawn = ChainUnderChain(logits, weights(rectified=False), N_SLOTS).sample(3, Noise.seeded(2))
    assert bool((drawn.sum(-1) == N_SLOTS).any())
    return drawn.requires_grad_()


def test__linear_state__draws__equal_those_of_its_matrix(logits):
    coupling = weights(rectified=False)
    uniform = torch.rand(50, 4, N_FEATURES, generator=torch.Generator().manual_seed(3)).double()
    expected = DenseCoupling(matrix_of(coupling)).draw(logits, uniform, N_SLOTS)
    torch.testing.assert_close(coupling.draw(logits, uniform, N_SLOTS), expected)
    logistic = torch.logit(uniform)
    relaxed = DenseCoupling(matrix_of(coupling)).draw_relaxed(logits, logistic, 0.5, N_SLOTS)
    torch.testing.assert_close(coupling.draw_relaxed(logits, logistic, 0.5, N_SLOTS), relaxed)


def test__linear_state__logits_and_gradients__equal_those_of_its_matrix(logits, counts):
    coupling = weights(rectified=False)
    inputs = [logits, counts, coupling.reads, coupling.writes]
    outer = torch.randn(counts.shape, generator=torch.Generator().manual_seed(5)).double()

    def results(chosen: DenseCoupling | StateCoupling) -> tuple[Tensor, ...]:
        value = chosen.conditional_logits(logits, counts)
        return value, *torch.autograd.grad((outer * value).sum(), inputs)

    torch.testing.assert_close(results(coupling), results(DenseCoupling(matrix_of(coupling))))


def test__linear_state__gradients_of_drawn_codes__equal_those_of_its_matrix(logits, counts):
    coupling = weights(rectified=False)
    drawn = counts.detach()
    slopes = torch.rand(drawn.shape, generator=torch.Generator().manual_seed(6)).double()
    outer = torch.randn(drawn.shape, generator=torch.Generator().manual_seed(5)).double()

    def gradients(chosen: DenseCoupling | StateCoupling) -> tuple[Tensor, ...]:
        value = chosen.with_slopes(logits, drawn, slopes)
        return torch.autograd.grad((outer * value).sum(), [logits, coupling.reads, coupling.writes])

    torch.testing.assert_close(gradients(coupling), gradients(DenseCoupling(matrix_of(coupling))))


@pytest.mark.parametrize("rectified", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test__conditional_logits__value_and_gradients__equal_the_plain_version(
    rectified, hard, dtype, logits, counts, monkeypatch
):
    coupling = weights(rectified=rectified, dtype=dtype)
    codes = (counts if hard else 0.3 * torch.rand_like(counts)).detach().to(dtype).requires_grad_()
    base = logits.detach()[:1].to(dtype).requires_grad_()  # one row for all codes, as in a prior
    outer = torch.randn(codes.shape, generator=torch.Generator().manual_seed(5), dtype=dtype)

    def results() -> tuple[Tensor, ...]:
        value = coupling.conditional_logits(base, codes)
        return value, *torch.autograd.grad((outer * value).sum(), [base, codes, *coupling.tensors])

    compiled = results()
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(compiled, results(), **tolerance)


@pytest.mark.parametrize("rectified", [False, True])
def test__divided_by__temperature__divides_the_effects(rectified, logits, counts):
    coupling, temperature = weights(rectified=rectified), torch.tensor(0.5, dtype=torch.float64)
    expected = coupling.conditional_logits(torch.zeros_like(logits), counts) / temperature
    found = coupling.divided_by(temperature).conditional_logits(torch.zeros_like(logits), counts)
    torch.testing.assert_close(found, expected)
