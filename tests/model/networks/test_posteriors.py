"""Every registered posterior: the network, and the contract of the distribution that it returns."""

import math
from collections import Counter

import pytest
import torch
from scipy import stats
from torch import Tensor

from enumeration import L0, K
from oracles import FAMILIES
from sdlgm.gradients import GRADIENTS
from sdlgm.model import CodeDistribution, ModelConfig, Noise, SDLGMModule, Temperatures
from sdlgm.model.codes.independent import IndependentSymbols
from sdlgm.model.networks.posteriors import POSTERIORS, PosteriorNetwork

ALPHA = 1e-4  # level of the goodness-of-fit tests, whose seeds are fixed
BATCH, N_INPUTS, N_FEATURES, N_SLOTS = 6, 4, 7, 3
WARM = Temperatures(torch.tensor(0.7), torch.tensor(0.7))
NAMES = sorted(POSTERIORS)


def network_of(name: str, n_features: int = N_FEATURES, n_slots: int = N_SLOTS) -> tuple[SDLGMModule, PosteriorNetwork]:
    """Return a module with parameters away from their start, and its posterior."""
    torch.manual_seed(1)
    config = ModelConfig(n_inputs=N_INPUTS, n_features=n_features, n_slots=n_slots, hidden=(8,), posterior=name)
    module = SDLGMModule(config).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    return module, module.posterior


def observations(n_rows: int = BATCH) -> Tensor:
    return torch.randn(n_rows, N_INPUTS, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["chain", "subset"])
def test__logits__in_inference_mode__are_the_same(name):
    _, network = network_of(name)
    network.train()
    for _ in range(3):  # running averages away from their start
        network(observations())
    network.eval()
    with torch.no_grad():
        expected = network(observations()).summary
    with torch.inference_mode():
        torch.testing.assert_close(network(observations()).summary, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test__posterior__any_batch__has_the_shapes_of_the_contract(name, noise, loops):
    module, network = network_of(name)
    posterior, prior = network(observations()), module.prior()
    assert isinstance(posterior, CodeDistribution)
    assert posterior.n_slots == N_SLOTS
    assert posterior.n_draws == (N_SLOTS if network.kind == "slots" else 1)
    assert posterior.summary.shape == (BATCH, network.n_logits)
    symbols = posterior.sample_symbols(5, noise)
    assert symbols.shape[:2] == (5, BATCH)
    for codes in (
        posterior.counts(symbols),
        posterior.sample(5, noise),
        posterior.relaxed_sample(5, WARM, noise),
        posterior.counts(posterior.with_gradient(symbols, GRADIENTS["reinmax"])),
    ):
        assert codes.shape == (5, BATCH, N_FEATURES)
    assert posterior.mode().shape == (BATCH, N_FEATURES)
    assert posterior.log_prob_of(symbols).shape == (5, BATCH)
    assert posterior.log_ratio(symbols, prior).shape == (5, BATCH)
    assert posterior.gate_prob.shape == (BATCH,)
    assert posterior.feature_probs.shape == posterior.presence.shape == (BATCH, N_FEATURES)
    for kl in ("exact", "paper"):
        assert posterior.kl(prior, kl).shape == posterior.prior_terms(prior, kl).kl.shape == (BATCH,)
    if not posterior.has_closed_kl:
        assert posterior.cost(posterior.counts(symbols), prior).shape == (5, BATCH)


@pytest.mark.parametrize("name", NAMES)
def test__posterior__any_batch__keeps_the_budget(name, noise, loops):
    _, network = network_of(name)
    for temperature in (0.1, 1.0, 10.0):
        posterior = network(observations(200)).with_temperature(torch.tensor(temperature))
        assert posterior.n_slots == N_SLOTS
        for codes in (posterior.sample(20, noise), posterior.mode()):
            assert bool((codes == codes.round()).all())
            assert bool((codes >= 0).all())
            assert bool((codes.sum(-1) <= N_SLOTS).all())
            if network.draws_sets:
                assert bool((codes <= 1).all())
        relaxed = posterior.relaxed_sample(5, WARM, noise)
        assert bool((relaxed >= 0).all())
        assert bool((relaxed.sum(-1) <= N_SLOTS * (1 + 1e-4)).all())


@pytest.mark.parametrize("name", NAMES)
def test__posterior__probabilities__are_probabilities(name):
    _, network = network_of(name)
    posterior = network(observations())
    for probs in (posterior.feature_probs, posterior.presence):
        assert bool(((probs >= 0) & (probs <= 1 + 1e-6)).all())
    # The gates of a chain are estimates, the sum of estimated presences, and may be slightly above 1.
    largest = 1.1 if name == "chain" else 1 + 1e-6
    assert bool(((posterior.gate_prob >= 0) & (posterior.gate_prob <= largest)).all())
    torch.testing.assert_close(posterior.feature_probs.sum(-1), torch.ones(BATCH))
    if isinstance(posterior, IndependentSymbols):
        torch.testing.assert_close(posterior.probs, posterior.log_probs.exp())
        torch.testing.assert_close(posterior.probs.sum(-1), torch.ones(posterior.probs.shape[:-1]))


@pytest.mark.parametrize("name", NAMES)
def test__posterior__drawn_symbols__have_the_frequencies_of_log_prob_of(name, noise, loops):
    """Symbols that make the same code count together: the budget of a subset is applied afterwards."""
    _, network = network_of(name, K, L0)
    posterior = network(observations(1))
    symbols = FAMILIES["slots" if name == "shared" else name].symbols.float().unsqueeze(1)
    expected: Counter[tuple[int, ...]] = Counter()
    for code, log_prob in zip(posterior.counts(symbols)[:, 0].tolist(), posterior.log_prob_of(symbols), strict=True):
        expected[tuple(map(int, code))] += math.exp(log_prob.item())
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-5)
    n = 20_000
    drawn = Counter(tuple(map(int, code)) for code in posterior.sample(n, noise)[:, 0].tolist())
    possible = [code for code, prob in expected.items() if prob > 0]
    assert set(drawn) <= set(possible)
    total = sum(expected[code] for code in possible)
    result = stats.chisquare([drawn[code] for code in possible], [n * expected[code] / total for code in possible])
    assert result.pvalue > ALPHA


@pytest.mark.parametrize("name", NAMES)
def test__posterior__presence_and_gates__are_the_means_of_draws(name, noise):
    _, network = network_of(name)
    with torch.no_grad():
        posterior = network(observations(1).expand(400, -1))  # some presences are estimates, so many rows
        codes = posterior.sample(50, noise).flatten(0, 1)
    torch.testing.assert_close(posterior.presence.mean(0), (codes > 0).float().mean(0), atol=0.02, rtol=0)
    assert float(posterior.gate_prob.mean()) == pytest.approx(float(codes.sum(-1).mean()) / N_SLOTS, abs=0.02)


@pytest.mark.parametrize("name", NAMES)
def test__posterior__temperature__divides_all_logits(name):
    _, network = network_of(name)
    posterior = network(observations())
    tempered = posterior.with_temperature(torch.tensor(0.5))
    assert type(tempered) is type(posterior)
    logits = {field: value for field, value in vars(posterior).items() if isinstance(value, Tensor)}
    fields = {field for field in type(posterior).__dataclass_fields__ if field in logits}
    assert fields
    for field in fields:
        torch.testing.assert_close(getattr(tempered, field), 2 * logits[field])


@pytest.mark.parametrize("name", NAMES)
def test__posterior__same_noise__gives_the_same_draws(name):
    _, network = network_of(name)
    posterior = network(observations())
    first, second = (posterior.sample(3, Noise.seeded(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first, posterior.sample(3, Noise.seeded(6)))


def test__ordered_posterior__in_training__cuts_every_second_list():
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=8, posterior="ordered", hidden=(8,))
    network = SDLGMModule(config).posterior
    x = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    learning, after = network.train()(x), network.eval()(x)
    assert (after.length_log_probs > -1e6).all()
    longest = (learning.length_log_probs > -1e6).sum(-1) - 1
    assert longest[::2].tolist() == [8] * 5
    assert all(1 <= n <= 8 for n in longest[1::2])
    assert len(set(longest[1::2].tolist())) > 1
