"""The probability of a set of labels, compared with sums over everything that the slots can hold."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from sdlgm.model import Noise, SlotDistribution, Temperatures
from sdlgm.model.codes import SubsetDistribution, label_sets

K, L0 = 3, 2


def slots(dtype=torch.float64, n_slots: int = L0) -> SlotDistribution:
    return SlotDistribution(torch.tensor([0.4], dtype=dtype), torch.tensor([[0.5, -1.0, 0.2]], dtype=dtype), n_slots)


def probabilities_of_sets() -> dict[tuple[int, ...], float]:
    """Return the probability of each set of features, a sum over everything that two slots can hold."""
    probs = slots().probs[0].tolist()
    found: dict[tuple[int, ...], float] = {}
    for held in itertools.product(range(K + 1), repeat=L0):
        present = tuple(int(k + 1 in held) for k in range(K))
        found[present] = found.get(present, 0.0) + math.prod(probs[symbol] for symbol in held)
    return found


def all_sets() -> Tensor:
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=K)), dtype=torch.float64)


def test__closed_form__each_label__equals_enumeration():
    found = probabilities_of_sets()
    for k in range(K):
        expected = sum(prob for present, prob in found.items() if present[k])
        log_present, log_absent = label_sets.log_presence(slots())
        assert log_present[0, k].exp().item() == pytest.approx(expected, rel=1e-10)
        assert log_absent[0, k].exp().item() == pytest.approx(1 - expected, rel=1e-10)


def test__closed_form__all_sets__is_a_distribution_with_these_marginals():
    sets = all_sets()
    probs = label_sets.closed_form_log_prob(slots(), sets).exp()
    assert probs.sum().item() == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close((probs @ sets)[None], slots().presence)


def test__multinomial__sets__equal_enumeration_of_slots_without_repetition():
    probs = slots().probs[0].tolist()
    for y in all_sets():
        held_twice = [
            math.prod(probs[symbol] for symbol in held)
            for held in itertools.product(range(K + 1), repeat=L0)
            if all(held.count(k + 1) == int(y[k]) for k in range(K))
        ]
        log_prob = label_sets.label_log_prob(slots(), "multinomial", y[None]).item()
        assert math.exp(log_prob) == pytest.approx(sum(held_twice), abs=1e-12)


def test__subset__all_sets__is_a_distribution_within_the_budget():
    posterior = SubsetDistribution(torch.tensor([[0.3, -0.2, 1.0]], dtype=torch.float64), L0)
    log_probs = torch.stack([label_sets.label_log_prob(posterior, "subset", y[None])[0] for y in all_sets()])
    assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    assert log_probs[-1].item() == -math.inf  # all three labels


@pytest.mark.parametrize("gate_logit", [-30.0, -3.0, 5.0, 30.0])
def test__closed_form__extreme_slots__has_finite_values_and_gradients(gate_logit):
    gate = torch.tensor([gate_logit], requires_grad=True)
    features = torch.tensor([[40.0, -40.0, 0.0]], requires_grad=True)
    value = label_sets.closed_form_log_prob(SlotDistribution(gate, features, 10), torch.tensor([[0.0, 1.0, 1.0]]))
    gradients = torch.autograd.grad(value.sum(), [gate, features])
    assert torch.isfinite(value).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("scale", [1.0, 6.0])
def test__closed_form__double_precision__passes_gradcheck(scale):
    generator = torch.Generator().manual_seed(0)
    gate = (scale * torch.randn(4, generator=generator, dtype=torch.float64)).requires_grad_()
    features = (scale * torch.randn(4, K, generator=generator, dtype=torch.float64)).requires_grad_()
    y = torch.randint(2, (4, K), generator=generator).double()
    assert torch.autograd.gradcheck(
        lambda g, f: label_sets.closed_form_log_prob(SlotDistribution(g, f, 5), y), (gate, features)
    )


@pytest.mark.parametrize("presence", [label_sets.relaxed_presence, label_sets.repeatable_presence])
def test__relaxed_presence__cold__has_the_mean_of_hard_counts(presence):
    """A feature has the count 2, 1 or 0. With L0 = 2, a count of 1 gives 1 - 1/4."""
    cold = Temperatures(torch.tensor(0.01), torch.tensor(0.01))
    n = 5_000
    found = presence(slots(), cold, n, Noise.seeded(0))[0]
    probs = slots().probs[0, 1:]
    exact = probs**2 + 2 * probs * (1 - probs) * (1 - (1 - 1 / L0) ** L0)
    assert bool(((found - exact).abs() < 4.5 * (exact / n).sqrt() + 2e-3).all())


def test__relaxed_presence__certain_label__is_certain():
    certain = SlotDistribution(torch.tensor([40.0]), torch.tensor([[40.0, 0.0, 0.0]]), 1)
    cold = Temperatures(torch.tensor(0.1), torch.tensor(0.1))
    presence = label_sets.relaxed_presence(certain, cold, 3, Noise.seeded(0))
    torch.testing.assert_close(presence, torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-4, rtol=0)


def test__relaxed_presence__gates_off__depends_on_the_temperature_of_the_gates():
    """Gates that are off keep features out at a low temperature, and do not at a high one."""
    shut = SlotDistribution(torch.tensor([-20.0]), torch.zeros(1, 3), 2)
    cold, hot = torch.tensor(0.1), torch.tensor(50.0)
    noise = Noise.seeded(0)
    assert label_sets.relaxed_presence(shut, Temperatures(cold, hot), 5, noise).max() < 1e-3
    assert label_sets.relaxed_presence(shut, Temperatures(hot, cold), 5, noise).max() > 0.1
    assert label_sets.repeatable_presence(shut, Temperatures(cold, hot), 5, noise).max() < 1e-3
    assert label_sets.repeatable_presence(shut, Temperatures(hot, cold), 5, noise).max() > 0.1


def test__repeatable_presence__row__does_not_depend_on_its_place():
    warm = Temperatures(torch.tensor(3.0), torch.tensor(3.0))
    one = slots()
    three = SlotDistribution(one.gate_logit.repeat(3), one.feature_logits.repeat(3, 1), L0)
    alone, together = (label_sets.repeatable_presence(q, warm, 5, Noise.seeded(0)) for q in (one, three))
    torch.testing.assert_close(together, alone.expand(3, -1))


def test__number_of_labels__each_form__is_the_distribution_of_its_number():
    binomial = stats.binom(L0, slots().gate_prob.item())
    numbers = label_sets.number_of_labels(slots(), "multinomial", slots().presence)[0]
    np.testing.assert_allclose(numbers.numpy(), binomial.pmf(range(L0 + 1)), rtol=1e-10)
    presence = slots().presence[0].tolist()
    of_sets = dict.fromkeys(range(K + 1), 0.0)
    for y in itertools.product((0, 1), repeat=K):
        of_sets[sum(y)] += math.prod(p if present else 1 - p for p, present in zip(presence, y, strict=True))
    within = np.array([of_sets[n] for n in range(L0 + 1)])
    found = label_sets.number_of_labels(slots(), "closed_form", slots().presence)[0]
    np.testing.assert_allclose(found.numpy(), within / within.sum(), rtol=1e-10)
    more_slots_than_labels = label_sets.number_of_labels(slots(n_slots=7), "multinomial", slots().presence)[0]
    assert more_slots_than_labels[K + 1 :].sum() == 0
    assert more_slots_than_labels.sum().item() == pytest.approx(1.0)
