"""Subset, chain and ordered posteriors against sums over everything that they can draw."""

import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sdlgm.model.chain import ChainDistribution
from sdlgm.model.ordered import OrderedDistribution
from sdlgm.model.posteriors import POSTERIORS
from sdlgm.model.subset import SubsetCodes, SubsetDistribution
from torch import Tensor

from enumeration import L0, K, all_counts, tiny_prior
from reproduction.gradients import FAMILIES
from sdlgm.gradients import GRADIENTS
from sdlgm.model import (
    ModelConfig,
    SDLGMModule,
    SlotDistribution,
    Temperatures,
    chain,
    discrete_expectation,
    ordered,
    subset,
)
from sdlgm.model.shards import WHOLE, Shard, working_on

FAMILY_NAMES = ["subset", "chain", "ordered"]
COLD = Temperatures(torch.tensor(0.1), torch.tensor(0.1))


def distribution(name: str, copies: int = 1):
    family = FAMILIES[name]
    return family.posterior(family.parameters, copies)


def codes(name: str, copies: int = 1):
    """The same as the posterior of an `SDLGM` has it."""
    posterior = distribution(name, copies)
    return SubsetCodes(posterior.logits, posterior.n_slots) if name == "subset" else posterior


def all_drawn(name: str) -> tuple[Tensor, Tensor]:
    """Everything that a family can draw, as symbols (n, 1, ...), and its probability."""
    symbols = FAMILIES[name].symbols.unsqueeze(1)
    return symbols, distribution(name).log_prob_of(symbols).exp()[:, 0]


def probabilities_of_counts(name: str) -> dict[tuple[int, ...], float]:
    symbols, probs = all_drawn(name)
    found: dict[tuple[int, ...], float] = {}
    for counts, prob in zip(distribution(name).counts(symbols)[:, 0], probs, strict=True):
        key = tuple(int(count) for count in counts)
        found[key] = found.get(key, 0.0) + float(prob)
    return {counts: prob for counts, prob in found.items() if prob > 0}


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__everything_drawn__probabilities__sum_to_one_within_the_budget(name):
    found = probabilities_of_counts(name)
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)
    assert max(sum(counts) for counts in found) == L0


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__log_prob__all_counts__equals_enumeration(name):
    found = probabilities_of_counts(name)
    for counts in all_counts():
        log_prob = distribution(name).log_prob(counts[None, None]).item()
        assert math.exp(log_prob) == pytest.approx(found.get(tuple(counts.int().tolist()), 0.0), abs=1e-12)


def test__subset_kl__enumerated__equals_divergence_of_the_counts(loops):
    prior = tiny_prior()
    expected = sum(
        q * (math.log(q) - prior.log_prob(torch.tensor([counts], dtype=torch.float64)).item())
        for counts, q in probabilities_of_counts("subset").items()
    )
    posterior = distribution("subset")
    assert posterior.kl(prior, "exact").item() == pytest.approx(expected, rel=1e-10)
    assert posterior.prior_terms(prior, "exact").kl.item() == pytest.approx(expected, rel=1e-10)


def probabilities_of_sets(prior: SlotDistribution) -> dict[tuple[int, ...], float]:
    """Of the features that are present, whatever their counts: a sum over all counts."""
    found: dict[tuple[int, ...], float] = {}
    for counts in all_counts(n_slots=prior.n_slots):
        key = tuple(counts.clamp(max=1).int().tolist())
        found[key] = found.get(key, 0.0) + prior.log_prob(counts).exp().item()
    return found


@pytest.mark.parametrize("n_slots", [1, L0, 6])
def test__log_repetitions__enumerated__is_what_repeated_features_add(n_slots):
    prior = replace(tiny_prior(), n_slots=n_slots)
    found = probabilities_of_sets(prior)
    assert sum(found.values()) == pytest.approx(1.0)
    for code, probability in found.items():
        counts = torch.tensor(code, dtype=torch.float64)
        once = prior.log_prob(counts)
        added = subset.log_repetitions(counts, prior).item()
        exact = math.log(probability) - once.item()
        if n_slots - sum(code) <= 1:
            assert added == pytest.approx(exact, abs=1e-12)
        else:  # never too much, and most of it
            assert 0.85 * exact - 1e-12 <= added <= exact + 1e-12


@pytest.mark.parametrize("name", ["subset", "chain"])
def test__cost_of_codes__enumerated__has_the_divergence_of_the_sets_as_its_mean(name):
    prior, posterior = tiny_prior(), codes(name)
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
    """An estimate, so only close; many copies bring many draws."""
    prior, posterior = tiny_prior(), codes(name, 2000)
    sets = probabilities_of_sets(prior)
    expected = sum(q * (math.log(q) - math.log(sets[counts])) for counts, q in probabilities_of_counts(name).items())
    values = posterior.kl(prior, "exact")
    assert abs(values.mean().item() - expected) < 4.5 * values.std().item() / 2000**0.5


def test__ordered_kl__enumerated__equals_divergence_of_the_lists(loops):
    prior, posterior = tiny_prior(), distribution("ordered")
    symbols, probs = all_drawn("ordered")
    mean = -(probs * posterior.log_ratio(symbols, prior)[:, 0]).sum().item()
    assert posterior.kl(prior, "exact").item() == pytest.approx(mean, rel=1e-10)
    # Of the counts, which are all that is seen, it is an upper bound.
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


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__marginals__enumerated__are_equal(name):
    found = probabilities_of_counts(name)
    copies = 4000 if name == "chain" else 1  # the chain's are estimates
    posterior = distribution(name, copies)
    presence = [sum(q for counts, q in found.items() if counts[k] > 0) for k in range(K)]
    n_active = sum(q * sum(counts) for counts, q in found.items())
    tolerance = 0.01 if name == "chain" else 1e-6
    np.testing.assert_allclose(posterior.presence.mean(0), presence, atol=tolerance)
    assert posterior.gate_prob.mean().item() * L0 == pytest.approx(n_active, abs=tolerance)
    assert posterior.feature_probs.sum(-1)[0].item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", FAMILY_NAMES)
def test__sample__goodness_of_fit__passes(name, generator):
    found = probabilities_of_counts(name)
    n = 20_000
    drawn = distribution(name, n).sample(1, generator)[0]
    keys, observed = np.unique(drawn.int().numpy(), axis=0, return_counts=True)
    table = {tuple(key.tolist()): count for key, count in zip(keys, observed, strict=True)}
    assert set(table) <= set(found)
    expected = np.array([q * n for q in found.values()])
    result = stats.chisquare([table.get(counts, 0) for counts in found], expected * n / expected.sum())
    assert result.pvalue > 1e-4


def test__subset_mode__enumerated__is_the_most_probable():
    for seed in range(30):
        logits = 2 * torch.randn(1, K, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        posterior = SubsetDistribution(logits, L0)
        best = max(all_counts(), key=lambda counts: posterior.log_prob(counts[None, None]).item())
        assert posterior.mode()[0].tolist() == best.int().tolist()


def test__ordered_kl__gradients__equal_the_plain_version(monkeypatch):
    """The compiled loops with their own derivatives, against torch's operations and autograd."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 7), (5, 6, K), (), (K,))
    inputs = [torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes]
    weights = torch.randn(5, generator=generator, dtype=torch.float64)

    def divergence() -> tuple[Tensor, ...]:
        lengths, features, gate_logit, prior_features = inputs
        kl = OrderedDistribution(lengths, features).kl(SlotDistribution(gate_logit, prior_features, 6), "exact")
        return kl, *torch.autograd.grad((weights * kl).sum(), inputs)

    compiled = divergence()
    monkeypatch.setattr(ordered, "has_kernels", lambda tensor: False)
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
    symbols = whole.sample_symbols(50, generator)
    ratio = whole.log_ratio(symbols, prior).mean()
    assert torch.isfinite(ratio)
    assert float(whole.counts(symbols).sum(-1).max()) <= 4


def test__ordered_draws__parts_of_a_batch_with_other_reaches__are_those_of_the_whole():
    lengths = torch.zeros(4, 9)
    lengths[:2, 3:] = -200.0
    features = torch.randn(4, 8, K, generator=torch.Generator().manual_seed(0))

    def drawn(rows: slice, shard: Shard) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(1)
        with working_on(shard):
            counts = OrderedDistribution(lengths[rows], features[rows]).sample(3, generator)
        return counts, generator.get_state()

    whole, state = drawn(slice(4), WHOLE)
    for rank, rows in enumerate((slice(2), slice(2, 4))):
        part, state_of_part = drawn(rows, Shard(rank, 2))
        torch.testing.assert_close(part, whole[:, rows])
        assert torch.equal(state_of_part, state)


@pytest.mark.parametrize("name", ["shared", *FAMILY_NAMES])
def test__objective__enumerated__weighs_the_divergence(name, generator):
    """What training maximises, with everything that can be drawn in the place of draws."""
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=L0, hidden=(6,), posterior=name)
    module = SDLGMModule(config).double().eval()
    x = torch.bernoulli(torch.full((2, 4), 0.5, dtype=torch.float64), generator=generator)
    posterior, prior = module.inference(x), module.prior()
    symbols = FAMILIES["slots" if name == "shared" else name].symbols.unsqueeze(1)
    symbols = symbols.expand(-1, len(x), *symbols.shape[2:])
    symbols = symbols[torch.isfinite(posterior.log_prob_of(symbols)).all(-1)]  # within the budget
    weights = posterior.log_prob_of(symbols).exp()
    torch.testing.assert_close(weights.sum(0), torch.ones(2, dtype=torch.float64))
    log_likelihood = (weights * module.log_likelihood(x, posterior.counts(symbols))).sum(0)
    divergence = -(weights * posterior.log_ratio(symbols, prior)).sum(0)

    def exact(posterior, function):
        return (posterior.log_prob_of(symbols).exp() * function(posterior.counts(symbols))).sum(0)

    for weight in (0.0, 0.6, 1.0):
        value = module.objective(x, exact, kl_weight=weight).value
        torch.testing.assert_close(value, log_likelihood - weight * divergence)


def test__chain_log_prob__by_hand__is_the_product_of_the_conditionals():
    posterior = distribution("chain")
    logits, coupling = posterior.logits[0].tolist(), posterior.coupling.tolist()
    for code in itertools.product((0, 1), repeat=K):
        expected = 1.0
        for k, present in enumerate(code):
            logit = logits[k] + sum(coupling[j][k] * code[j] for j in range(k))
            share = 0.0 if sum(code[:k]) == L0 else 1 / (1 + math.exp(-logit))
            expected *= share if present else 1 - share
        log_prob = posterior.log_prob(torch.tensor([[code]], dtype=torch.float64)).item()
        assert math.exp(log_prob) == pytest.approx(expected, rel=1e-12)


def test__muprop__sets__reports_the_divergence_of_the_drawn_codes(generator):
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=L0, hidden=(6,), posterior="subset")
    module = SDLGMModule(config).eval()
    x = torch.bernoulli(torch.full((200, 4), 0.5), generator=generator)
    expectation = partial(
        GRADIENTS["muprop"](module.posterior.n_logits), n_samples=1, temperatures=COLD, generator=generator
    )
    objective = module.objective(x, expectation)
    expected = module.inference(x).kl(module.prior(), "exact")
    assert objective.kl.mean().item() == pytest.approx(expected.mean().item(), abs=0.02)


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
        assert float(cut.sample(50, torch.Generator().manual_seed(0)).sum(-1).max()) <= limit


def test__ordered_posterior__while_it_learns__cuts_every_second_list():
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=8, posterior="ordered", hidden=(8,))
    network = SDLGMModule(config).posterior
    x = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
    learning, after = network.train()(x), network.eval()(x)
    assert (after.length_log_probs > -1e6).all()
    longest = (learning.length_log_probs > -1e6).sum(-1) - 1
    assert longest[::2].tolist() == [8] * 5
    assert all(1 <= n <= 8 for n in longest[1::2])
    assert len(set(longest[1::2].tolist())) > 1


def test__ordered_mode__budget__is_a_prefix():
    length = torch.tensor([[0.0, 0.0, 0.0, 5.0]])
    features = torch.eye(5)[[3, 1, 3]].unsqueeze(0) * 4
    posterior = OrderedDistribution(length, features)
    assert posterior.mode()[0].tolist() == [0, 1, 0, 2, 0]
    assert posterior.mode(2)[0].tolist() == [0, 1, 0, 1, 0]
    assert posterior.mode(1)[0].tolist() == [0, 0, 0, 1, 0]
    assert posterior.mode(0)[0].tolist() == [0] * 5


@given(
    n_features=st.integers(1, 12),
    n_slots=st.integers(1, 6),
    scale=st.floats(0, 30),
    seed=st.integers(0, 1000),
    name=st.sampled_from(FAMILY_NAMES),
)
@settings(max_examples=60, deadline=None)
def test__codes__any_parameters__keep_the_budget(n_features, n_slots, scale, seed, name):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return scale * torch.randn(shape, generator=generator)

    posterior = {
        "subset": lambda: SubsetDistribution(normal(4, n_features), n_slots),
        "chain": lambda: ChainDistribution(
            normal(4, n_features), torch.triu(normal(n_features, n_features), 1), n_slots
        ),
        "ordered": lambda: OrderedDistribution(normal(4, n_slots + 1), normal(4, n_slots, n_features)),
    }[name]()
    for counts in (posterior.sample(3, generator), posterior.mode()[None].float()):
        assert bool((counts == counts.round()).all())
        assert bool((counts >= 0).all())
        assert bool((counts.sum(-1) <= n_slots).all())
    relaxed = posterior.relaxed_sample(2, COLD, generator)
    assert bool((relaxed.sum(-1) <= n_slots * (1 + 1e-5)).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test__chain_cost__value_and_gradients__equal_the_plain_version(dtype, monkeypatch):
    """The compiled loops with their own derivatives, against torch's operations and autograd."""
    generator = torch.Generator().manual_seed(0)
    n_features, n_slots = 6, 3
    shapes = ((5, n_features), (n_features, n_features), (), (n_features,))
    inputs = [torch.randn(shape, generator=generator, dtype=dtype).mul(3).requires_grad_() for shape in shapes]
    logits, coupling, gate_logit, feature_logits = inputs
    posterior = ChainDistribution(logits, torch.triu(coupling, 1), n_slots)
    counts = posterior.sample(40, generator).requires_grad_()
    assert bool((counts.sum(-1) == n_slots).any())
    weights = torch.randn(40, 5, generator=generator, dtype=dtype)

    def cost() -> tuple[Tensor, ...]:
        value = posterior.cost(counts, SlotDistribution(gate_logit, feature_logits, n_slots))
        return value, *torch.autograd.grad((weights * value).sum(), [*inputs, counts], retain_graph=True)

    compiled = cost()
    monkeypatch.setattr(chain, "has_kernels", lambda tensor: False)
    torch.testing.assert_close(compiled, cost())


def test__subset_kl__gradients__equal_the_plain_version(monkeypatch):
    """The compiled loops with their own derivatives, against torch's operations and autograd."""
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
        monkeypatch.setattr(subset, "has_kernels", lambda tensor: False)
        plain = gradients(lambda posterior, prior: posterior.kl(prior, "exact"), n_slots)
        monkeypatch.undo()
        for one, other in zip(compiled, plain, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", sorted(POSTERIORS))
def test__bounds__tiny_model__are_below_the_evidence_and_meet_it(name, generator):
    """E log p(x, z) / q(z) with hard draws is below log p(x), which many importance samples reach."""
    torch.manual_seed(3)
    config = ModelConfig(
        n_inputs=4, n_features=K, n_slots=L0, gate_prior=0.4, hidden=(6,), gate_hidden=(5,), posterior=name
    )
    module = SDLGMModule(config).double().eval()
    for parameter in module.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    x = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        counts = all_counts()
        log_likelihood = module.log_likelihood(x, module.seen(counts)[:, None, :].expand(-1, len(x), -1))
        evidence = (module.prior().log_prob(counts)[:, None] + log_likelihood).logsumexp(0)
        one = module.importance_weighted_bound(x.repeat(20_000, 1), 1, generator).unflatten(0, (-1, 2))
        bound = module.elbo(x.repeat(5000, 1), discrete_expectation(8, generator)).value.unflatten(0, (-1, 2))
        many = module.importance_weighted_bound(x, 40_000, generator)
    error = (one.var(0) / len(one) + bound.var(0) / len(bound)).sqrt()
    assert bool(((one.mean(0) - bound.mean(0)).abs() < 4.5 * error + 0.01).all())
    assert bool((bound.mean(0) < evidence).all())
    torch.testing.assert_close(many, evidence, atol=0.03, rtol=0)
