"""The distribution of slots, compared with torch.distributions and with sums over all codes."""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch.distributions import Bernoulli, Categorical, Multinomial, RelaxedOneHotCategorical, kl_divergence
from torch.utils._python_dispatch import TorchDispatchMode

from enumeration import L0, K, all_counts, all_slots, tiny, tiny_prior
from sdlgm import _kernels
from sdlgm.model import Noise, SlotDistribution, Temperatures

ALPHA = 1e-4  # level of the goodness-of-fit tests, whose seeds are fixed


def temperatures(gate: float, feature: float) -> Temperatures:
    return Temperatures(torch.tensor(gate), torch.tensor(feature))


def _parts(distribution: SlotDistribution, n_samples: int, at: Temperatures, noise: Noise):
    gates, features = distribution.relaxed_parts(n_samples, at, noise)
    return gates.unbind(-1), features


def test__log_prob__all_counts__sums_to_one():
    log_prob = tiny().log_prob(all_counts()[:, None, :])
    assert log_prob.exp().sum().item() == pytest.approx(1.0, abs=1e-12)


def test__log_prob__counts__equals_sum_over_ordered_slots():
    distribution = tiny()
    symbol_probs = distribution.log_probs[0].detach().exp()
    summed: dict[tuple[int, ...], float] = {}
    for slots in all_slots():
        counts = tuple(sum(symbol == k + 1 for symbol in slots) for k in range(K))
        summed[counts] = summed.get(counts, 0.0) + math.prod(float(symbol_probs[s]) for s in slots)
    for counts, probability in summed.items():
        found = distribution.log_prob(torch.tensor([counts], dtype=torch.float64)).exp().item()
        assert found == pytest.approx(probability, rel=1e-12)


def test__log_prob__counts__equals_torch_multinomial():
    distribution = tiny()
    for counts in all_counts():
        symbols = torch.cat([L0 - counts.sum(0, keepdim=True), counts])
        expected = Multinomial(L0, logits=distribution.log_probs[0]).log_prob(symbols)
        torch.testing.assert_close(distribution.log_prob(counts[None])[0], expected)


def test__log_prob__beyond_budget__is_minus_infinity():
    assert tiny().log_prob(torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)).item() == -math.inf


def test__log_prob__impossible_feature_with_count_zero__is_finite():
    log_probs = torch.tensor([[0.0, -math.inf, -math.inf]])
    distribution = SlotDistribution(torch.zeros(1), log_probs, L0)
    assert math.isfinite(distribution.log_prob(torch.tensor([[1.0, 0.0, 0.0]])).item())


def test__kl_exact__enumerated__equals_divergence_of_the_counts():
    posterior, prior = tiny(), tiny_prior()
    log_q = posterior.log_prob(all_counts()[:, None, :])[:, 0]
    log_p = prior.log_prob(all_counts())
    expected = (log_q.exp() * (log_q - log_p)).sum()
    torch.testing.assert_close(posterior.prior_terms(prior, "exact").kl[0], expected)


def test__kl_paper__torch_distributions__equals_sum_over_slots():
    posterior, prior = tiny(), tiny_prior()
    gates = kl_divergence(Bernoulli(logits=posterior.gate_logit), Bernoulli(logits=prior.gate_logit))
    features = kl_divergence(
        Categorical(logits=posterior.feature_log_probs), Categorical(logits=prior.feature_log_probs)
    )
    terms = posterior.prior_terms(prior, "paper")
    torch.testing.assert_close(terms.kl_gates, L0 * gates)
    torch.testing.assert_close(terms.kl_features, L0 * features)


@pytest.mark.parametrize("kl", ["exact", "paper"])
def test__kl__at_once__equals_the_sum_of_the_terms(kl, loops):
    posterior, prior = tiny(4), tiny_prior()
    torch.testing.assert_close(posterior.kl(prior, kl), posterior.prior_terms(prior, kl).kl)


def test__kl__exact_and_paper__differ_by_the_closed_slots():
    posterior, prior = tiny(4), tiny_prior()
    exact, paper = posterior.prior_terms(prior, "exact"), posterior.prior_terms(prior, "paper")
    torch.testing.assert_close(exact.kl_features, posterior.gate_prob * paper.kl_features)
    assert bool((exact.kl < paper.kl).all())


def test__kl_gates__gradient__has_the_closed_form_without_plus_two():
    gate_prob = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    posterior = SlotDistribution(torch.logit(gate_prob), tiny().feature_log_probs.detach(), L0)
    prior = tiny_prior()
    posterior.prior_terms(prior, "paper").kl_gates.sum().backward()
    prior_prob = prior.gate_prob
    expected = torch.log(gate_prob / prior_prob) - torch.log((1 - gate_prob) / (1 - prior_prob))
    assert gate_prob.grad is not None
    torch.testing.assert_close(gate_prob.grad, L0 * expected.detach())


def test__presence__enumerated__equals_probability_of_a_positive_count():
    distribution = tiny()
    probabilities = distribution.log_prob(all_counts()[:, None, :])[:, 0].exp()
    for k in range(K):
        expected = probabilities[all_counts()[:, k] > 0].sum()
        torch.testing.assert_close(distribution.presence[0, k], expected)


def test__sample__many_draws__fit_the_multinomial(noise, loops):
    distribution = tiny()
    drawn = distribution.sample(20_000, noise)[:, 0]
    observed = np.array([int((drawn == counts).all(-1).sum()) for counts in all_counts()])
    expected = distribution.log_prob(all_counts()[:, None, :])[:, 0].exp().detach().numpy() * len(drawn)
    assert observed.sum() == len(drawn)
    assert stats.chisquare(observed, expected).pvalue > ALPHA


def test__relaxed_parts__rounded__fit_gate_and_features(noise):
    """Rounding a relaxed draw gives a draw of the discrete variable, at any temperature."""
    distribution = SlotDistribution(torch.tensor([0.7]), torch.tensor([[0.6, 0.3, 0.1]]).log(), L0)
    (gates, _), features = _parts(distribution, 10_000, temperatures(2.0, 0.7), noise)
    n = gates.numel()
    on = int((gates > 0.5).sum())
    assert stats.binomtest(on, n, float(distribution.gate_prob)).pvalue > ALPHA
    winners = np.bincount(features.argmax(-1).flatten().numpy(), minlength=K)
    assert stats.chisquare(winners, np.array([0.6, 0.3, 0.1]) * n).pvalue > ALPHA


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test__relaxed_parts__same_temperature__has_the_law_of_torch_distributions(temperature, noise):
    distribution = SlotDistribution(torch.tensor([0.7]), torch.tensor([[0.6, 0.3, 0.1]]).log(), 1)
    (gates, _), features = _parts(distribution, 4000, temperatures(temperature, temperature), noise)
    torch.manual_seed(1)
    reference = RelaxedOneHotCategorical(torch.tensor(temperature), logits=distribution.feature_log_probs[0])
    theirs = reference.sample(torch.Size([4000]))
    for k in range(K):
        assert stats.ks_2samp(features[:, 0, 0, k].numpy(), theirs[:, k].numpy()).pvalue > ALPHA
    gate = RelaxedOneHotCategorical(torch.tensor(temperature), logits=torch.tensor([0.7, 0.0]))
    theirs = gate.sample(torch.Size([4000]))[:, 0]
    assert stats.ks_2samp(gates[:, 0, 0].numpy(), theirs.numpy()).pvalue > ALPHA


class LargestTensor(TorchDispatchMode):
    """Record the number of elements of the largest tensor that an operation made."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor.numel())
        return result


@pytest.mark.parametrize("what", ["sample", "mode"])
def test__hard_codes__large_budget__make_no_batch_by_slots_by_features_tensor(what, noise):
    batch, n_slots, n_features = 8, 64, 100
    logits = torch.randn(batch, n_features, generator=noise.generator)
    distribution = SlotDistribution(torch.zeros(batch), logits.log_softmax(-1), n_slots)

    def code() -> None:
        distribution.sample(1, noise) if what == "sample" else distribution.mode()

    with LargestTensor():
        code()  # compile and import first
    tracemalloc.start()  # the arrays of the kernels
    with LargestTensor() as largest:
        code()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest.numel <= batch * (n_features + 1)
    assert peak < 4 * batch * n_slots * n_features / 2
    with LargestTensor() as largest:
        distribution.relaxed_parts(1, temperatures(1.0, 1.0), noise)
    assert largest.numel == batch * n_slots * n_features  # so the measurement detects such a tensor


@given(
    probs=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=4),
    n=st.integers(1, 6),
)
@settings(deadline=None)
def test__multinomial_mode__small_cases__is_the_most_probable_outcome(probs, n):
    probabilities = torch.tensor([probs], dtype=torch.float64)
    probabilities /= probabilities.sum()
    mode = torch.from_numpy(_kernels.multinomial_modes(probabilities.numpy(), n, n_threads=1))
    law = Multinomial(n, probs=probabilities[0])
    outcomes = all_counts(len(probs), n)
    outcomes = outcomes[outcomes.sum(1) == n]
    best = max(float(law.log_prob(outcome)) for outcome in outcomes)
    assert int(mode.sum()) == n
    assert float(law.log_prob(mode[0].double())) == pytest.approx(best, abs=1e-9)


@given(
    gate_logit=st.floats(-1e4, 1e4),
    scale=st.sampled_from([0.0, 1.0, 100.0, 1e4]),
    n_slots=st.integers(1, 50),
    n_features=st.integers(1, 30),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    temperature=st.floats(1e-2, 1e2),
    seed=st.integers(0, 1000),
)
@settings(deadline=None)
def test__budget__any_parameters__is_never_exceeded(gate_logit, scale, n_slots, n_features, dtype, temperature, seed):
    noise = Noise.seeded(seed)
    logits = scale * torch.randn(3, n_features, generator=noise.generator, dtype=dtype)
    distribution = SlotDistribution(torch.full((3,), gate_logit, dtype=dtype), logits.log_softmax(-1), n_slots)
    for counts in (distribution.sample(2, noise), distribution.mode()):
        assert bool((counts >= 0).all())
        assert bool((counts.sum(-1) <= n_slots).all())
        assert bool(((counts > 0).sum(-1) <= n_slots).all())
    relaxed = distribution.relaxed_sample(1, temperatures(temperature, temperature), noise)
    assert bool(torch.isfinite(relaxed).all())
    assert bool((relaxed.sum(-1) <= n_slots * (1 + 1e-4)).all())
