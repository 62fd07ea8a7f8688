"""Subsets within a budget: divergence, repetitions, mode."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from enumeration import L0, K, all_counts, tiny_prior
from oracles import distribution, probabilities_of_counts, probabilities_of_sets
from sdlgm.model import SlotDistribution, arrays
from sdlgm.model.codes.subset import SubsetDistribution, log_repetitions


def test__subset_kl__enumerated__equals_divergence_of_the_counts(loops):
    prior = tiny_prior()
    expected = sum(
        q * (math.log(q) - prior.log_prob(torch.tensor([counts], dtype=torch.float64)).item())
        for counts, q in probabilities_of_counts("subset").items()
    )
    posterior = distribution("subset")
    assert posterior.kl(prior, "exact").item() == pytest.approx(expected, rel=1e-10)
    assert posterior.prior_terms(prior, "exact").kl.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("n_slots", [1, L0, 6])
def test__log_repetitions__enumerated__is_what_repeated_features_add(n_slots):
    prior = replace(tiny_prior(), n_slots=n_slots)
    found = probabilities_of_sets(prior)
    assert sum(found.values()) == pytest.approx(1.0)
    for code, probability in found.items():
        counts = torch.tensor(code, dtype=torch.float64)
        once = prior.log_prob(counts)
        added = log_repetitions(counts, prior).item()
        exact = math.log(probability) - once.item()
        if n_slots - sum(code) <= 1:
            assert added == pytest.approx(exact, abs=1e-12)
        else:  # a lower bound that is nearly tight
            assert 0.85 * exact - 1e-12 <= added <= exact + 1e-12


def test__subset_mode__enumerated__is_the_most_probable():
    for seed in range(30):
        logits = 2 * torch.randn(1, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        posterior = SubsetDistribution(logits, L0)
        best = max(all_counts(), key=lambda counts: posterior.log_prob(counts[None, None]).item())
        assert posterior.mode()[0].tolist() == best.int().tolist()


def test__subset_kl__gradients__equal_the_plain_version(monkeypatch):
    """Compare the kernels, which have derivatives of their own, with torch's operations and autograd."""
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in ((5, K), (), (K,))
    ]
    weights = torch.randn(5, generator=generator, dtype=torch.float64)

    def gradients(divergence, n_slots: int) -> tuple[Tensor, ...]:
        logits, gate_logit, feature_logits = inputs
        kl = divergence(SubsetDistribution(logits, n_slots), SlotDistribution(gate_logit, feature_logits, n_slots))
        return torch.autograd.grad((weights * kl).sum(), inputs)

    for n_slots in (L0, K + 2):  # a budget that binds, and one with numbers that cannot occur
        compiled = gradients(lambda posterior, prior: posterior.kl(prior, "exact"), n_slots)
        monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
        plain = gradients(lambda posterior, prior: posterior.kl(prior, "exact"), n_slots)
        monkeypatch.undo()
        for one, other in zip(compiled, plain, strict=True):
            torch.testing.assert_close(one, other)
