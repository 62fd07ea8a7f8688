"""Tests of the kernels: distributions of draws, derivatives, accuracy, threads and memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats
from sdlgm.model.divergence import slot_divergence
from sdlgm.model.relaxation import _RelaxedCounts, relaxed_counts
from sdlgm.model.symbols import symbols
from torch.autograd import gradcheck

from sdlgm import _kernels
from sdlgm.estimators._codes import sparse_rows, stacked
from sdlgm.gradients import GumbelSoftmax
from sdlgm.model import SlotDistribution, Temperatures
from sdlgm.model.noise import bernoulli, block_keys

ALPHA = 1e-4  # level of the goodness-of-fit tests, whose seeds are fixed
TEMPERATURES = [(1.0, 1.0), (0.5, 3.0), (2.0, 0.2), (0.3, 0.1)]


def keys(n_rows: int, seed: int = 0) -> np.ndarray:
    return block_keys(n_rows, torch.Generator().manual_seed(seed))


def parameters(batch: int, n_features: int, dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    gate_logit = torch.randn(batch, generator=generator, dtype=dtype)
    feature_logits = torch.randn(batch, n_features, generator=generator, dtype=dtype)
    return gate_logit.requires_grad_(), feature_logits.requires_grad_()


def relaxed(dtype=np.float32, *, n_rows=60, n_slots=7, n_features=11, temperature=0.7, keep=True, n_threads=1):
    rng = np.random.default_rng(0)
    return _kernels.relaxed_counts(
        keys(2 * n_rows),
        rng.normal(size=n_rows).astype(dtype),
        rng.normal(size=(n_rows, n_features)).astype(dtype),
        n_slots=n_slots,
        n_samples=2,
        gate_temperature=temperature,
        feature_temperature=temperature,
        keep=keep,
        n_threads=n_threads,
    )


# Noise


def test__bernoulli__many_draws__fit_their_probabilities(generator, loops):
    probs = torch.tensor([[0.0, 1e-3, 0.3, 0.5, 0.999, 1.0]]).expand(40_000, -1)
    ones = bernoulli(probs, generator).sum(0).numpy()
    assert ones[0] == 0
    assert ones[-1] == 40_000
    for n, p in zip(ones[1:-1], probs[0, 1:-1].tolist(), strict=True):
        assert stats.binomtest(int(n), 40_000, p).pvalue > ALPHA


def test__bernoulli__rows_and_columns__are_uncorrelated(generator):
    drawn = bernoulli(torch.full((4000, 12), 0.5), generator).numpy()
    for matrix in (drawn, np.column_stack([drawn[:-1, 0], drawn[1:, 0]])):
        correlation = np.corrcoef(matrix.T) - np.eye(matrix.shape[1])
        assert np.abs(correlation).max() < 4.5 / np.sqrt(len(drawn))


def test__block_keys__same_generator__give_fresh_numbers(generator):
    probs = torch.full((30, 50), 0.5)
    first, second = bernoulli(probs, generator), bernoulli(probs, generator)
    assert not torch.equal(first, second)
    assert not torch.equal(first[:5], first[25:])  # another block has another key
    torch.testing.assert_close(first, bernoulli(probs, torch.Generator().manual_seed(0)))


# Relaxed counts


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test__relaxed_counts__many_draws__have_the_distribution_of_the_plain_slots(temperature, generator):
    distribution = SlotDistribution(torch.tensor([0.4]), torch.tensor([[1.0, 0.0, -1.0]]), 2)
    temperatures = Temperatures(*map(torch.tensor, temperature))
    ours = distribution.relaxed_sample(30_000, temperatures, generator)[:, 0]
    gates, features = distribution.relaxed_parts(30_000, temperatures, generator)
    plain = torch.einsum("sbl,sblk->sbk", gates[..., 0], features)[:, 0]
    for weights in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, -2.0, 0.5]):
        projection = torch.tensor(weights)
        assert stats.ks_2samp((ours @ projection).numpy(), (plain @ projection).numpy()).pvalue > ALPHA


def test__relaxed_counts__kept_slots__are_distributions_that_add_up_to_the_counts():
    draw = relaxed()
    np.testing.assert_allclose(draw.slots.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(np.einsum("rl,rlk->rk", draw.gates, draw.slots), draw.counts, rtol=1e-5)
    np.testing.assert_allclose(1 / (1 + np.exp(-draw.gate_logits)), draw.gates, rtol=1e-5)


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("n_samples", [1, 2])
def test__relaxed_counts__double_precision__pass_gradcheck(temperature, n_samples):
    inputs = (*parameters(3, 4), *(torch.tensor(t, dtype=torch.float64, requires_grad=True) for t in temperature))
    key = keys(3 * n_samples)
    assert gradcheck(lambda *values: _RelaxedCounts.apply(*values, 5, n_samples, key, True), inputs)


@pytest.mark.parametrize("temperature", [0.05, 0.7, 8.0])
def test__relaxed_counts__single_precision__agrees_with_double(temperature):
    single, double = relaxed(np.float32, temperature=temperature), relaxed(np.float64, temperature=temperature)
    for name in ("counts", "gates", "slots"):
        ours, exact = getattr(single, name), getattr(double, name)
        np.testing.assert_allclose(ours, exact, rtol=1e-4, atol=3e-5, err_msg=name)


def test__relaxed_counts__two_threads__give_the_same_bits():
    one, two = relaxed(), relaxed(n_threads=2)
    for name, values in vars(one).items():
        np.testing.assert_array_equal(values, getattr(two, name), err_msg=name)
    options = {"n_samples": 2, "gate_temperature": 0.7, "feature_temperature": 0.7}
    gradients = [_kernels.relaxed_gradients(one.counts, one, **options, n_threads=n) for n in (1, 2)]
    for name, values in vars(gradients[0]).items():
        np.testing.assert_array_equal(values, getattr(gradients[1], name), err_msg=name)


def test__relaxed_counts__nothing_kept__are_the_same_counts():
    np.testing.assert_array_equal(relaxed().counts, relaxed(keep=False).counts)
    assert relaxed(keep=False).slots.size == 0


def peak_bytes(distribution: SlotDistribution) -> int:
    temperatures = Temperatures(torch.tensor(1.0), torch.tensor(1.0))
    arguments = {"n_samples": 1, "temperatures": temperatures, "generator": torch.Generator().manual_seed(0)}
    tracemalloc.start()
    value = GumbelSoftmax(1)(distribution, lambda counts: counts.sum(-1), **arguments).sum()
    if value.requires_grad:
        value.backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test__relaxed_counts__memory__is_one_large_array_in_training_and_none_otherwise():
    batch, n_slots, n_features = 20, 64, 100
    gate_logit, feature_logits = parameters(batch, n_features, torch.float32)
    one = 4 * batch * n_slots * n_features
    peak_bytes(SlotDistribution(gate_logit, feature_logits, n_slots))  # compile first
    assert one < peak_bytes(SlotDistribution(gate_logit, feature_logits, n_slots)) < 1.3 * one
    with torch.no_grad():
        assert peak_bytes(SlotDistribution(gate_logit, feature_logits, n_slots)) < 0.3 * one


def test__relaxed_counts__temperature_zero__does_not_divide_by_zero(generator):
    zero = torch.tensor(0.0)
    counts = relaxed_counts(*parameters(2, 5, torch.float32), zero, zero, n_slots=3, n_samples=1, generator=generator)
    assert counts.shape == (1, 2, 5)


def test__relaxed_counts__nan_logit__gives_nan_counts(generator):
    gate_logit, feature_logits = parameters(2, 5, torch.float32)
    broken = feature_logits.detach().clone()
    broken[1, 2] = torch.nan
    one = torch.tensor(1.0)
    counts = relaxed_counts(gate_logit, broken, one, one, n_slots=3, n_samples=1, generator=generator)
    assert bool(torch.isfinite(counts[0, 0]).all())
    assert bool(torch.isnan(counts[0, 1]).any())


# Symbols and divergence


def test__symbols__double_precision__pass_gradcheck_and_equal_the_plain_ones(monkeypatch):
    inputs = parameters(3, 4)
    assert gradcheck(symbols, inputs)
    compiled = symbols(*inputs)
    monkeypatch.setattr("sdlgm.model.symbols.has_kernels", lambda tensor: False)
    for ours, plain in zip(compiled, symbols(*inputs), strict=True):
        torch.testing.assert_close(ours, plain)


@pytest.mark.parametrize("gate_logit", [-1e4, -90.0, -20.0, 0.0, 20.0, 90.0, 1e4])
def test__symbols__extreme_gates__stay_probabilities(gate_logit):
    log_probs, probs = symbols(torch.tensor([gate_logit]), torch.tensor([[1e4, 0.0, -1e4]]))
    assert not bool(torch.isnan(log_probs).any())
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-6)
    assert float(probs[0, 0]) == pytest.approx(1 / (1 + np.exp(np.clip(gate_logit, -700, 700))), rel=1e-5)
    exact = -np.logaddexp(0, gate_logit)
    assert float(log_probs[0, 0]) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("exact", [True, False])
def test__divergence__double_precision__passes_gradcheck(exact):
    prior_gate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    prior = torch.tensor([0.5, -0.2, 0.1, 0.9], dtype=torch.float64, requires_grad=True)

    def divergence(gate, features, prior_gate, prior):
        return slot_divergence(gate, features, prior_gate, prior.log_softmax(-1), n_slots=7, exact=exact)

    assert gradcheck(divergence, (*parameters(3, 4), prior_gate, prior))


# Hard draws, modes, sparse rows


def test__draw_counts__many_symbols__fit_their_probabilities():
    probs = np.random.default_rng(0).dirichlet(np.ones(300))[None].astype(np.float32)
    counts = _kernels.draw_counts(keys(2000), probs, n_slots=50, n_samples=2000)
    assert (counts.sum(-1) == 50).all()
    assert stats.chisquare(counts.sum((0, 1)), 2000 * 50 * probs[0] / probs.sum()).pvalue > ALPHA


def test__draw_counts__impossible_symbols__are_never_drawn():
    probs = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]])
    counts = _kernels.draw_counts(keys(100), probs, n_slots=20, n_samples=100)
    assert not counts[..., [0, 2, 4]].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test__draw_one_hot__many_symbols__fit_their_probabilities(dtype):
    random = np.random.default_rng(0)
    probs = random.dirichlet(np.ones(30), size=2).astype(dtype)
    drawn = _kernels.draw_one_hot(probs, random.random((5000, 2, 1)).astype(dtype))
    assert drawn.shape == (5000, 2, 30)
    assert drawn.dtype == dtype
    assert (drawn.sum(-1) == 1).all()
    for observed, expected in zip(drawn.sum(0), probs, strict=True):
        assert stats.chisquare(observed, 5000 * expected / expected.sum()).pvalue > ALPHA


def test__draw_one_hot__impossible_symbols__are_never_drawn():
    probs = np.array([[0.0, 0.5, 0.0, 0.5, 0.0]], np.float32)
    noise = np.array([0.0, 0.5, 1 - 2.0**-24, 1.0], np.float32).reshape(4, 1, 1)
    drawn = _kernels.draw_one_hot(probs, noise)
    assert drawn[:, 0].argmax(-1).tolist() == [1, 3, 3, 3]
    assert (drawn.sum(-1) == 1).all()


@given(
    weights=arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 40)), elements=st.floats(0, 1, width=32)),
    n=st.integers(1, 60),
)
@settings(deadline=None)
def test__multinomial_modes__any_weights__are_filled_by_the_largest_ratios(weights, n):
    weights = weights + np.float32(1e-3)
    counts = _kernels.multinomial_modes(weights, n, n_threads=2)
    assert (counts.sum(1) == n).all()
    # The mode is optimal if no slot can move to a symbol with a larger ratio. The tolerance is for rounding.
    with np.errstate(divide="ignore"):
        smallest_in = np.where(counts > 0, weights / counts, np.inf).min(1)
    largest_out = (weights / (counts + 1)).max(1)
    assert (largest_out <= smallest_in * (1 + 1e-5)).all()


@pytest.mark.parametrize(("n_symbols", "n"), [(3001, 3000999), (201, 40), (60001, 60000)])
def test__multinomial_modes__equal_weights__keep_the_budget(n_symbols, n):
    weights = np.full((1, n_symbols), 1 / n_symbols, np.float32)
    counts = _kernels.multinomial_modes(weights, n, n_threads=1)
    assert counts.sum() == n
    assert counts.max() - counts.min() <= 1


def test__slot_modes__logits__are_the_modes_of_their_probabilities():
    gate_logit, feature_logits = (value.detach() for value in parameters(50, 30))
    distribution = SlotDistribution(gate_logit, 4 * feature_logits, 12)
    expected = _kernels.multinomial_modes(distribution.probs.numpy(), 12, n_threads=1)[:, 1:]
    np.testing.assert_array_equal(distribution.mode().numpy(), expected)
    with pytest.raises(ValueError, match="not finite"):
        SlotDistribution(torch.tensor([0.0]), torch.tensor([[1.0, torch.nan]]), 3).mode()


def test__sparse_rows__batches__stack_to_the_same_matrix():
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (7, 9))
    dense[3] = 0
    parts = [sparse_rows(torch.from_numpy(part)) for part in (dense[:4], dense[4:])]
    matrix = stacked(parts, 9)
    matrix.check_format(full_check=True)
    assert matrix.dtype == np.int32
    assert matrix.indptr.dtype == matrix.indices.dtype == np.int32
    assert (matrix != sp.csr_matrix(dense)).nnz == 0
