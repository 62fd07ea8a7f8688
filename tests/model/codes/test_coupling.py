"""Couplings: those of low rank equal their matrix, and all kernels equal torch's operations."""

import pytest
import torch
from torch import Tensor

from sdlgm.model import Noise, arrays
from sdlgm.model.codes.coupling import DenseCoupling, DrawnCodes, HiddenCoupling, LowRankCoupling, PosteriorCoupling
from sdlgm.model.codes.under_chain import ChainUnderChain

N_ROWS, N_FEATURES, N_UNITS, N_SLOTS = 150, 70, 5, 6  # more than one block of rows and of features


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    values = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return (0.5 * values).to(dtype).requires_grad_()


def low_rank(dtype: torch.dtype = torch.float64) -> LowRankCoupling:
    shape = N_FEATURES, N_UNITS
    return LowRankCoupling(normal(*shape, seed=4, dtype=dtype), normal(*shape, seed=5, dtype=dtype))


def hidden(dtype: torch.dtype = torch.float64) -> HiddenCoupling:
    return HiddenCoupling(*low_rank(dtype).tensors, normal(N_UNITS, seed=6, dtype=dtype))


def matrix_of(coupling: LowRankCoupling) -> DenseCoupling:
    return DenseCoupling(torch.triu(coupling.writes @ coupling.reads.T, 1))


@pytest.fixture
def logits() -> Tensor:
    return (normal(N_ROWS, N_FEATURES, seed=1) - 2).detach().requires_grad_()


@pytest.fixture
def counts(logits) -> Tensor:
    drawn = ChainUnderChain(logits, low_rank(), N_SLOTS).sample(3, Noise.seeded(2))
    assert bool((drawn.sum(-1) == N_SLOTS).any())
    return drawn.requires_grad_()


@pytest.mark.parametrize("n_threads", [1, 2])
def test__low_rank__draws__equal_those_of_its_matrix(logits, n_threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    coupling = low_rank()
    uniform = torch.rand(5, N_ROWS, N_FEATURES, generator=torch.Generator().manual_seed(3)).double()
    expected = matrix_of(coupling).draw(logits, uniform, N_SLOTS)
    assert bool((expected.sum(-1) == N_SLOTS).any())
    torch.testing.assert_close(coupling.draw(logits, uniform, N_SLOTS), expected)
    logistic = torch.logit(uniform)
    relaxed = matrix_of(coupling).draw_relaxed(logits, logistic, 0.5, N_SLOTS)
    torch.testing.assert_close(coupling.draw_relaxed(logits, logistic, 0.5, N_SLOTS), relaxed)


@pytest.mark.parametrize("full_rank", [False, True])
@pytest.mark.parametrize("n_threads", [1, 2])
def test__modes__every_coupling__are_draws_with_noise_of_one_half(logits, full_rank, n_threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    coupling: PosteriorCoupling = matrix_of(low_rank()) if full_rank else low_rank()
    rows = logits + 1
    expected = coupling.draw(rows, torch.full((1, *rows.shape), 0.5).double(), N_SLOTS)[0]
    assert bool((expected.sum(-1) == N_SLOTS).any())
    assert bool((expected.sum(-1) < N_SLOTS).any())
    torch.testing.assert_close(coupling.modes(rows, N_SLOTS).double(), expected)


def test__modes__weights_whose_squares_overflow__are_those_of_the_matrix():
    reads, writes = torch.full((6, 2), 2e19), torch.full((6, 2), 1e-19)
    coupling = LowRankCoupling(reads, writes)
    found = coupling.modes(torch.ones(1, 6), 4)
    torch.testing.assert_close(found, matrix_of(coupling).modes(torch.ones(1, 6), 4))
    assert found.sum() == 4


def test__low_rank__single_precision__draws_as_in_double_precision(logits):
    coupling, single = low_rank(), low_rank(torch.float32)
    uniform = torch.rand(5, N_ROWS, N_FEATURES, generator=torch.Generator().manual_seed(3))
    drawn = single.draw(logits.float(), uniform, N_SLOTS)
    equal = (drawn == coupling.draw(logits, uniform.double(), N_SLOTS)).all(-1)
    assert equal.double().mean() > 0.99  # rounding decides the rest


@pytest.mark.parametrize("n_threads", [1, 2])
def test__low_rank__logits_and_gradients__equal_those_of_its_matrix(logits, counts, n_threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    coupling = low_rank()
    inputs = [logits, counts, coupling.reads, coupling.writes]
    outer = normal(*counts.shape, seed=7).detach()

    def results(chosen: DenseCoupling | LowRankCoupling) -> tuple[Tensor, ...]:
        value = chosen.conditional_logits(logits, counts)
        return value, *torch.autograd.grad((outer * value).sum(), inputs)

    torch.testing.assert_close(results(coupling), results(matrix_of(coupling)))


def slow_gradients(matrix: Tensor, slopes: Tensor, to_counts: Tensor, to_logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return d of `PosteriorCoupling.with_slopes`, feature by feature, and the gradient of the drawn features."""
    d, total = torch.zeros_like(slopes), torch.zeros_like(slopes)
    for k in reversed(range(slopes.shape[-1])):
        total[..., k] = to_counts[..., k] + (d * matrix[k]).sum(-1)
        d[..., k] = to_logits[..., k] + slopes[..., k] * total[..., k]
    return d, total


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("full_rank", [False, True])
def test__drawn_codes__gradients__equal_the_recursion(logits, counts, full_rank, n_threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    weights = low_rank()
    coupling: PosteriorCoupling = matrix_of(weights) if full_rank else weights
    drawn = counts.detach()
    conditional = coupling.conditional_logits(logits, drawn).detach()
    slopes = torch.rand(drawn.shape, generator=torch.Generator().manual_seed(8)).double()
    to_counts, to_logits = (normal(*drawn.shape, seed=seed).detach() for seed in (9, 10))
    result = coupling.with_slopes(logits, DrawnCodes(drawn, conditional), slopes)
    torch.testing.assert_close(tuple(result), (drawn, conditional))
    value = (to_counts * result.counts).sum() + (to_logits * result.conditional_logits).sum()
    inputs = [logits, weights.reads, weights.writes]
    found = torch.autograd.grad(value, inputs)
    matrix = matrix_of(weights).matrix
    d, _ = slow_gradients(matrix.detach(), slopes, to_counts, to_logits)
    surrogate = (d * (logits + drawn @ matrix)).sum()
    torch.testing.assert_close(found, torch.autograd.grad(surrogate, inputs))


@pytest.mark.parametrize("make", [low_rank, hidden])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n_threads", [1, 2])
def test__conditional_logits__value_and_gradients__equal_the_plain_version(
    make, hard, dtype, n_threads, logits, counts, monkeypatch
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
    coupling = make(dtype)
    codes = (counts if hard else 0.3 * torch.rand_like(counts)).detach().to(dtype).requires_grad_()
    base = logits.detach()[:1].to(dtype).requires_grad_()  # one row for all codes, as in a prior
    outer = normal(*codes.shape, seed=7, dtype=dtype).detach()

    def results() -> tuple[Tensor, ...]:
        value = coupling.conditional_logits(base, codes)
        return value, *torch.autograd.grad((outer * value).sum(), [base, codes, *coupling.tensors])

    compiled = results()
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-2}
    torch.testing.assert_close(compiled, results(), **tolerance)


def test__hidden__draws__have_the_conditional_log_odds(logits):
    coupling, row = hidden(), logits[:1].expand(N_ROWS, -1)
    uniform = torch.rand(1, N_ROWS, N_FEATURES, generator=torch.Generator().manual_seed(3)).double()
    drawn = coupling.draw(row, uniform, N_FEATURES)
    torch.testing.assert_close(drawn.bool(), uniform < torch.sigmoid(coupling.conditional_logits(row, drawn)))


@pytest.mark.parametrize("full_rank", [False, True])
def test__divided_by__temperature__divides_the_effects(full_rank, logits, counts):
    coupling, temperature = low_rank(), torch.tensor(0.5, dtype=torch.float64)
    chosen: PosteriorCoupling = matrix_of(coupling) if full_rank else coupling
    expected = chosen.conditional_logits(torch.zeros_like(logits), counts) / temperature
    found = chosen.divided_by(temperature).conditional_logits(torch.zeros_like(logits), counts)
    torch.testing.assert_close(found, expected)
