"""Ordered lists of features: divergence, reach, shards, cutting, mode."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from enumeration import L0, K, tiny_prior
from oracles import all_outcomes, distribution, probabilities_of_counts
from sdlgm.model import Noise, SlotDistribution, arrays
from sdlgm.model.codes.ordered import OrderedDistribution
from sdlgm.model.shards import WHOLE_BATCH, Shard


def test__ordered_kl__enumerated__equals_divergence_of_the_lists(loops):
    prior, posterior = tiny_prior(), distribution("ordered")
    symbols, probs = all_outcomes("ordered")
    mean = -(probs * posterior.log_ratio(symbols, prior)[:, 0]).sum().item()
    assert posterior.kl(prior, "exact").item() == pytest.approx(mean, rel=1e-10)
    # The decoder gets the counts only, and of their divergence it is an upper bound.
    of_counts = sum(
        q * (math.log(q) - prior.log_prob(torch.tensor([counts], dtype=torch.float64)).item())
        for counts, q in probabilities_of_counts("ordered").items()
    )
    assert of_counts < mean


def test__ordered_kl__lengths_and_features_of_the_prior__is_zero():
    prior = tiny_prior()
    lengths = torch.tensor([math.comb(L0, n) for n in range(L0 + 1)], dtype=torch.float64).log()
    lengths = lengths + prior.gate_logit * torch.arange(L0 + 1)
    posterior = OrderedDistribution(lengths[None], prior.feature_log_probs.expand(1, L0, K))
    assert posterior.kl(prior, "exact").item() == pytest.approx(0.0, abs=1e-12)


def test__ordered_kl__gradients__equal_the_plain_version(monkeypatch):
    """Compare the kernels, which have derivatives of their own, with torch's operations and autograd."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 7), (5, 6, K), (), (K,))
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    weights = torch.randn(5, generator=generator, dtype=torch.float64)

    def divergence() -> tuple[Tensor, ...]:
        lengths, features, gate_logit, prior_features = inputs
        kl = OrderedDistribution(lengths, features).kl(SlotDistribution(gate_logit, prior_features, 6), "exact")
        return kl, *torch.autograd.grad((weights * kl).sum(), inputs)

    compiled = divergence()
    monkeypatch.setattr(arrays, "has_kernels", lambda tensor: False)
    torch.testing.assert_close(compiled, divergence())


def test__ordered_reach__positions_that_no_list_fills__change_nothing(generator):
    lengths = torch.randn(5, 9, generator=generator)
    lengths[:, 5:] = -200.0
    features = torch.randn(5, 8, K, generator=generator)
    whole, short = OrderedDistribution(lengths, features), OrderedDistribution(lengths[:, :5], features[:, :4])
    assert whole.reach == 4
    assert whole.log_probs.shape[-2] == 5
    prior = SlotDistribution(torch.tensor(0.3), torch.zeros(K), 8)
    # Lists of up to 4 features, in 8 slots or in 4: their lengths have another prior, their features the same.
    terms, others = whole.prior_terms(prior, "exact"), short.prior_terms(replace(prior, n_slots=4), "exact")
    torch.testing.assert_close(terms.log_prior_features, others.log_prior_features)
    torch.testing.assert_close(terms.entropy_features, others.entropy_features)
    torch.testing.assert_close(terms.entropy_gates, others.entropy_gates)
    torch.testing.assert_close(whole.kl(prior, "exact"), terms.kl)
    symbols = whole.sample_symbols(50, Noise(generator))
    ratio = whole.log_ratio(symbols, prior).mean()
    assert torch.isfinite(ratio)
    assert float(whole.counts(symbols).sum(-1).max()) <= 4


def test__ordered_draws__parts_of_a_batch_with_other_reaches__are_those_of_the_whole():
    lengths = torch.zeros(4, 9)
    lengths[:2, 3:] = -200.0
    features = torch.randn(4, 8, K, generator=torch.Generator().manual_seed(0))

    def drawn(rows: slice, shard: Shard) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        counts = OrderedDistribution(lengths[rows], features[rows]).sample(3, Noise(generator, shard))
        return counts, generator.get_state()

    whole, state = drawn(slice(4), WHOLE_BATCH)
    for rank, rows in enumerate((slice(2), slice(2, 4))):
        part, state_of_part = drawn(rows, Shard(rank, 2))
        torch.testing.assert_close(part, whole[:, rows])
        assert torch.equal(state_of_part, state)


def test__ordered_cut__any_limit__keeps_the_lists_up_to_there():
    posterior = distribution("ordered")
    for limit in range(L0 + 1):
        cut = posterior.cut(torch.full((1,), limit))
        before, after = posterior.length_log_probs.exp()[0], cut.length_log_probs.exp()[0]
        torch.testing.assert_close(after[:limit], before[:limit])
        torch.testing.assert_close(after[limit], before[limit:].sum())
        assert after[limit + 1 :].tolist() == [0.0] * (L0 - limit)
        torch.testing.assert_close(cut.open[0, :limit], posterior.open[0, :limit])
        assert torch.isfinite(cut.kl(tiny_prior(), "exact")).all()
        assert torch.isfinite(cut.summary).all()
        assert float(cut.sample(50, Noise.seeded(0)).sum(-1).max()) <= limit


def test__ordered_mode__budget__is_a_prefix():
    length = torch.tensor([[0.0, 0.0, 0.0, 5.0]])
    features = torch.eye(5)[[3, 1, 3]].unsqueeze(0) * 4
    posterior = OrderedDistribution(length, features)
    assert posterior.mode()[0].tolist() == [0, 1, 0, 2, 0]
    assert posterior.mode(2)[0].tolist() == [0, 1, 0, 1, 0]
    assert posterior.mode(1)[0].tolist() == [0, 0, 0, 1, 0]
    assert posterior.mode(0)[0].tolist() == [0] * 5
