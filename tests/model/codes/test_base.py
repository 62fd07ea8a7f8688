"""The contract of a distribution over codes: subset, chain and ordered, compared with sums over their outcomes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from enumeration import L0, K, all_counts, tiny_prior
from oracles import codes_of_model, distribution, probabilities_of_counts, probabilities_of_sets
from sdlgm.model import Noise, Temperatures
from sdlgm.model.codes import ChainDistribution, OrderedDistribution, SubsetDistribution
from sdlgm.model.codes.coupling import DenseCoupling

FAMILY_NAMES = ["subset", "chain", "ordered"]
COLD = Temperatures(torch.tensor(0.1), torch.tensor(0.1))


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__log_prob_of__all_outcomes__sums_to_one_within_the_budget(name):
    found = probabilities_of_counts(name)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert max(sum(counts) for counts in found) == L0


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__log_prob__all_counts__equals_enumeration(name):
    found = probabilities_of_counts(name)
    for counts in all_counts():
        log_prob = distribution(name).log_prob(counts[None, None]).item()
        assert math.exp(log_prob) == pytest.approx(found.get(tuple(counts.int().tolist()), 0.0), abs=1e-12)


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__cost_of_codes__enumerated__has_the_divergence_of_the_sets_as_its_mean(name):
    prior, posterior = tiny_prior(), codes_of_model(name)
    sets = probabilities_of_sets(prior)
    expected, mean, ratio = 0.0, 0.0, 0.0
    for counts, q in probabilities_of_counts(name).items():
        code = torch.tensor([[counts]], dtype=torch.float64)
        symbols = code if name == "chain" else torch.stack([1 - code, code], dim=-1)
        expected += q * (math.log(q) - math.log(sets[counts]))
        mean += q * posterior.cost(code, prior).item()
        ratio -= q * posterior.log_ratio(symbols, prior).item()
    assert mean == pytest.approx(expected, rel=1e-10)
    assert ratio == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__kl_of_codes__fixed_draws__is_close_to_the_divergence(name):
    """The KL is an estimate, so it is close only. Many copies give many draws."""
    prior, posterior = tiny_prior(), codes_of_model(name, 2000)
    sets = probabilities_of_sets(prior)
    expected = sum(q * (math.log(q) - math.log(sets[counts])) for counts, q in probabilities_of_counts(name).items())
    values = posterior.kl(prior, "exact")
    assert abs(values.mean().item() - expected) < 4.5 * values.std().item() / 2000**0.5


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__marginals__enumerated__are_equal(name):
    found = probabilities_of_counts(name)
    copies = 4000 if name == "chain" else 1  # those of the chain are estimates
    posterior = distribution(name, copies)
    presence = [sum(q for counts, q in found.items() if counts[k] > 0) for k in range(K)]
    n_active = sum(q * sum(counts) for counts, q in found.items())
    tolerance = 0.01 if name == "chain" else 1e-6
    np.testing.assert_allclose(posterior.presence.mean(0), presence, atol=tolerance)
    assert posterior.gate_prob.mean().item() * L0 == pytest.approx(n_active, abs=tolerance)
    assert posterior.feature_probs.sum(-1)[0].item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__sample__many_draws__fit_their_probabilities(name, noise):
    found = probabilities_of_counts(name)
    n = 20_000
    drawn = distribution(name, n).sample(1, noise)[0]
    keys, observed = np.unique(drawn.int().numpy(), axis=0, return_counts=True)
    table = {tuple(key.tolist()): count for key, count in zip(keys, observed, strict=True)}
    assert set(table) <= set(found)
    expected = np.array([q * n for q in found.values()])
    result = stats.chisquare([table.get(counts, 0) for counts in found], expected * n / expected.sum())
    assert result.pvalue > 1e-4


@given(
    n_features=st.integers(1, 12),
    n_slots=st.integers(1, 6),
    scale=st.floats(0, 30),
    seed=st.integers(0, 1000),
    name=st.sampled_from(FAMILY_NAMES),
)
@settings(max_examples=60, deadline=None)
def test__codes__any_parameters__keep_the_budget(n_features, n_slots, scale, seed, name):
    noise = Noise.seeded(seed)

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(shape, generator=noise.generator)

    posterior = {
        "subset": lambda: SubsetDistribution(normal(4, n_features), n_slots),
        "chain": lambda: ChainDistribution(
            normal(4, n_features), DenseCoupling(torch.triu(normal(n_features, n_features), 1)), n_slots
        ),
        "ordered": lambda: OrderedDistribution(normal(4, n_slots + 1), normal(4, n_slots, n_features)),
    }[name]()
    for counts in (posterior.sample(3, noise), posterior.mode()[None].float()):
        assert bool((counts == counts.round()).all())
        assert bool((counts >= 0).all())
        assert bool((counts.sum(-1) <= n_slots).all())
    relaxed = posterior.relaxed_sample(2, COLD, noise)
    assert bool((relaxed.sum(-1) <= n_slots * (1 + 1e-5)).all())


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__fixed_draws__large_codes__are_fewer_but_at_least_one(name, monkeypatch):
    """Memory of the estimates does not grow with the number of draws."""
    monkeypatch.setattr("sdlgm.model.codes.subset.MOST_DRAWN", 4 * K)
    assert len(distribution(name)._fixed_draws) == 4
    assert len(distribution(name, 100)._fixed_draws) == 1
