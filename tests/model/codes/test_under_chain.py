"""Sets with a chain as their prior: normalised, drawn as stated, and the divergence by enumeration."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from enumeration import L0, K, all_counts
from oracles import distribution
from sdlgm.model import Noise, arrays
from sdlgm.model.codes.coupling import HiddenCoupling, LowRankCoupling
from sdlgm.model.codes.priors import ChainPrior
from sdlgm.model.codes.under_chain import ChainUnderChain, SubsetUnderChain

POSTERIORS = ["chain", "subset"]


def tiny_chain_prior(*, hidden: bool) -> ChainPrior:
    torch.manual_seed(8)
    prior = ChainPrior(K, L0, 0.4, 2, hidden=hidden).double()
    for parameter in prior.parameters():
        parameter.data.add_(torch.randn_like(parameter))
    return prior


def posterior_of(name: str, copies: int = 1) -> ChainUnderChain | SubsetUnderChain:
    given = distribution(name, copies)
    return ChainUnderChain(given.logits, given.coupling, L0) if name == "chain" else SubsetUnderChain(given.logits, L0)


def all_sets() -> Tensor:
    counts = all_counts()
    return counts[(counts <= 1).all(-1)]


def exact_divergence(posterior, prior) -> float:
    sets = all_sets()[:, None]
    log_q, log_p = posterior.log_prob(sets)[:, 0], prior.log_prob(sets)[:, 0]
    return float((log_q.exp() * (log_q - log_p)).sum().detach())


@pytest.mark.parametrize("hidden", [False, True])
def test__chain_prior__by_hand__is_the_product_of_the_conditionals(hidden):
    module = tiny_chain_prior(hidden=hidden)
    bias, reads, writes = (p.detach().numpy() for p in (module.bias, module.reads, module.writes))
    start = np.zeros(2) if module.start is None else module.start.detach().numpy()
    total = 0.0
    for code in itertools.product((0, 1), repeat=K):
        expected = 1.0
        for k, present in enumerate(code):
            state = start + sum((writes[j] for j in range(k) if code[j]), np.zeros(2))
            logit = bias[0, k] + reads[k] @ (np.maximum(state, 0) if hidden else state)
            share = 0.0 if sum(code[:k]) == L0 else 1 / (1 + math.exp(-logit))
            expected *= share if present else 1 - share
        log_prob = module().log_prob(torch.tensor([[code]], dtype=torch.float64)).item()
        assert math.exp(log_prob) == pytest.approx(expected, rel=1e-12)
        total += expected
    assert total == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("hidden", [False, True])
def test__chain_prior__at_first__has_independent_features_and_the_expected_number(hidden):
    prior = ChainPrior(20, 10, 0.4, 3, hidden=hidden)()
    probs = torch.sigmoid(prior.conditional_logits(torch.ones(1, 1, 20)))
    torch.testing.assert_close(probs, torch.full((1, 1, 20), 0.4 * 10 / 20))


@pytest.mark.parametrize("hidden", [False, True])
def test__chain_prior__many_draws__fit_their_probabilities(hidden, noise):
    prior, n = tiny_chain_prior(hidden=hidden)(), 20_000
    drawn = prior.expand(n).sample(1, noise)[0]
    sets = all_sets()
    expected = n * prior.log_prob(sets[:, None])[:, 0].exp().detach().numpy()
    observed = [int((drawn == code).all(-1).sum()) for code in sets]
    assert sum(observed) == n
    assert stats.chisquare(observed, expected * n / expected.sum()).pvalue > 1e-4


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("name", POSTERIORS)
def test__cost__enumerated__has_the_divergence_as_its_mean(name, hidden):
    prior, posterior = tiny_chain_prior(hidden=hidden)(), posterior_of(name)
    sets = all_sets()[:, None]
    symbols = sets if name == "chain" else torch.stack([1 - sets, sets], dim=-1)
    probs = posterior.log_prob(sets).exp()
    expected = exact_divergence(posterior, prior)
    for values in (
        posterior.cost(sets, prior),
        posterior.terms_given(sets, prior).kl,
        -posterior.log_ratio(symbols, prior),
    ):
        assert (probs * values).sum().item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", POSTERIORS)
def test__kl__fixed_draws__is_close_to_the_divergence(name):
    prior, posterior = tiny_chain_prior(hidden=True)(), posterior_of(name, 2000)
    values = posterior.kl(prior, "exact")
    error = values.std().item() / 2000**0.5
    assert abs(values.mean().item() - exact_divergence(posterior_of(name), prior)) < 4.5 * error


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test__cost__value_and_gradients__equal_the_plain_version(name, dtype, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    n_slots = 3

    def normal(*shape: int) -> Tensor:
        return (2 * torch.randn(shape, generator=generator, dtype=dtype)).requires_grad_()

    logits, bias, reads, writes, start = normal(5, 6), normal(1, 6), normal(6, 2), normal(6, 2), normal(2)
    prior = ChainUnderChain(bias, HiddenCoupling(reads, writes, start), n_slots)
    own = LowRankCoupling(normal(6, 2), normal(6, 2))
    posterior = ChainUnderChain(logits, own, n_slots) if name == "chain" else SubsetUnderChain(logits, n_slots)
    counts = posterior.sample(40, Noise(generator)).detach().requires_grad_()
    assert bool((counts.sum(-1) == n_slots).any())
    outer = torch.randn(40, 5, generator=generator, dtype=dtype)
    inputs = [logits, bias, reads, writes, start, counts] + ([own.reads, own.writes] if name == "chain" else [])

    def results() -> tuple[Tensor, ...]:
        value = posterior.cost(counts, prior)
        return value, *torch.autograd.grad((outer * value).sum(), inputs)

    compiled = results()
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-3, "atol": 1e-3}
    torch.testing.assert_close(compiled, results(), **tolerance)


@given(
    n_features=st.integers(1, 12),
    n_slots=st.integers(1, 6),
    n_units=st.integers(1, 4),
    hidden=st.booleans(),
    scale=st.floats(0, 30),
    seed=st.integers(0, 1000),
)
@settings(max_examples=40, deadline=None)
def test__chain_prior__any_weights__keeps_the_budget(n_features, n_slots, n_units, hidden, scale, seed):
    noise = Noise.seeded(seed)
    prior = ChainPrior(n_features, n_slots, 0.5, n_units, hidden=hidden)
    for parameter in prior.parameters():
        parameter.data.copy_(scale * torch.randn(parameter.shape, generator=noise.generator))
    drawn = prior().expand(8).sample(3, noise)
    assert bool(((drawn == 0) | (drawn == 1)).all())
    assert bool((drawn.sum(-1) <= n_slots).all())
    assert bool(torch.isfinite(prior().log_prob(drawn)).all())
