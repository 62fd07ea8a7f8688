"""What a set of labels is worth, against sums over all that the slots can hold."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from sdlgm.model.labelled import LabelledConfig, LabelledModule, slot_probabilities
from sdlgm.model.members import MemberLayers, dropped
from sdlgm.model.subset import SubsetDistribution
from sdlgm.model.supervised import Step
from torch import Tensor

from sdlgm.model import SlotDistribution, Temperatures
from sdlgm.model import labels as forms

K, L0 = 3, 2


def slots(dtype=torch.float64, n_slots: int = L0) -> SlotDistribution:
    return SlotDistribution(torch.tensor([0.4], dtype=dtype), torch.tensor([[0.5, -1.0, 0.2]], dtype=dtype), n_slots)


def probabilities_of_sets() -> dict[tuple[int, ...], float]:
    """Every set of features that is present, by going through all that two slots can hold."""
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
        log_present, log_absent = forms.log_presence(slots())
        assert log_present[0, k].exp().item() == pytest.approx(expected, rel=1e-10)
        assert log_absent[0, k].exp().item() == pytest.approx(1 - expected, rel=1e-10)


def test__closed_form__all_sets__is_a_distribution_with_these_marginals():
    sets = all_sets()
    probs = forms.closed_form_log_prob(slots(), sets).exp()
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
        log_prob = forms.label_log_prob(slots(), "multinomial", y[None]).item()
        assert math.exp(log_prob) == pytest.approx(sum(held_twice), abs=1e-12)


def test__subset__all_sets__is_a_distribution_within_the_budget():
    posterior = SubsetDistribution(torch.tensor([[0.3, -0.2, 1.0]], dtype=torch.float64), L0)
    log_probs = torch.stack([forms.label_log_prob(posterior, "subset", y[None])[0] for y in all_sets()])
    assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-12)
    assert log_probs[-1].item() == -math.inf  # all three labels


@pytest.mark.parametrize("gate_logit", [-30.0, -3.0, 5.0, 30.0])
def test__closed_form__extreme_slots__has_finite_values_and_gradients(gate_logit):
    gate = torch.tensor([gate_logit], requires_grad=True)
    features = torch.tensor([[40.0, -40.0, 0.0]], requires_grad=True)
    value = forms.closed_form_log_prob(SlotDistribution(gate, features, 10), torch.tensor([[0.0, 1.0, 1.0]]))
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
        lambda g, f: forms.closed_form_log_prob(SlotDistribution(g, f, 5), y), (gate, features)
    )


@pytest.mark.parametrize("presence", [forms.relaxed_presence, forms.repeatable_presence])
def test__relaxed_presence__cold__has_the_mean_of_hard_counts(presence):
    """Of slots held twice, once or not at all; L0 = 2, so a count of one makes 1 - 1/4."""
    cold = Temperatures(torch.tensor(0.01), torch.tensor(0.01))
    n = 5_000
    found = presence(slots(), cold, n, torch.Generator().manual_seed(0))[0]
    probs = slots().probs[0, 1:]
    exact = probs**2 + 2 * probs * (1 - probs) * (1 - (1 - 1 / L0) ** L0)
    assert bool(((found - exact).abs() < 4.5 * (exact / n).sqrt() + 2e-3).all())


def test__relaxed_presence__certain_label__is_certain():
    certain = SlotDistribution(torch.tensor([40.0]), torch.tensor([[40.0, 0.0, 0.0]]), 1)
    cold = Temperatures(torch.tensor(0.1), torch.tensor(0.1))
    presence = forms.relaxed_presence(certain, cold, 3, torch.Generator().manual_seed(0))
    torch.testing.assert_close(presence, torch.tensor([[1.0, 0.0, 0.0]]), atol=1e-4, rtol=0)


def test__relaxed_presence__temperatures__are_not_confused():
    """Cold gates that are shut keep hot features out; hot gates that are shut do not."""
    shut = SlotDistribution(torch.tensor([-20.0]), torch.zeros(1, 3), 2)
    cold, hot = torch.tensor(0.1), torch.tensor(50.0)
    generator = torch.Generator().manual_seed(0)
    assert forms.relaxed_presence(shut, Temperatures(cold, hot), 5, generator).max() < 1e-3
    assert forms.relaxed_presence(shut, Temperatures(hot, cold), 5, generator).max() > 0.1
    assert forms.repeatable_presence(shut, Temperatures(cold, hot), 5, generator).max() < 1e-3
    assert forms.repeatable_presence(shut, Temperatures(hot, cold), 5, generator).max() > 0.1


def test__repeatable_presence__row__does_not_depend_on_its_place():
    warm = Temperatures(torch.tensor(3.0), torch.tensor(3.0))
    one = slots()
    three = SlotDistribution(one.gate_logit.repeat(3), one.feature_logits.repeat(3, 1), L0)
    alone, together = (forms.repeatable_presence(q, warm, 5, torch.Generator().manual_seed(0)) for q in (one, three))
    torch.testing.assert_close(together, alone.expand(3, -1))


def test__number_of_labels__each_form__is_the_distribution_of_its_number():
    binomial = stats.binom(L0, slots().gate_prob.item())
    numbers = forms.number_of_labels(slots(), "multinomial", slots().presence)[0]
    np.testing.assert_allclose(numbers.numpy(), binomial.pmf(range(L0 + 1)), rtol=1e-10)
    presence = slots().presence[0].tolist()
    of_sets = dict.fromkeys(range(K + 1), 0.0)
    for y in itertools.product((0, 1), repeat=K):
        of_sets[sum(y)] += math.prod(p if present else 1 - p for p, present in zip(presence, y, strict=True))
    within = np.array([of_sets[n] for n in range(L0 + 1)])
    found = forms.number_of_labels(slots(), "closed_form", slots().presence)[0]
    np.testing.assert_allclose(found.numpy(), within / within.sum(), rtol=1e-10)
    more_slots_than_labels = forms.number_of_labels(slots(n_slots=7), "multinomial", slots().presence)[0]
    assert more_slots_than_labels[K + 1 :].sum() == 0
    assert more_slots_than_labels.sum().item() == pytest.approx(1.0)


def test__slot_probabilities__frequencies__come_back_as_presence():
    frequencies = torch.tensor([0.1, 0.3, 0.02], dtype=torch.float64)
    symbols = slot_probabilities(frequencies, 5)
    torch.testing.assert_close(1 - (1 - symbols) ** 5, frequencies)


# The module


def config(**changes) -> LabelledConfig:
    base = {
        "n_inputs": 4,
        "n_labels": 2,
        "n_slots": 2,
        "variant": "con",
        "form": "subset",
        "n_latent": 2,
        "hidden": (5,),
        "activation": "silu",
        "dropout": 0.0,
        "input_dropout": 0.0,
        "reconstruction_weight": 0.7,
        "n_members": 1,
        "gate_temperature": 1.0,
        "feature_temperature": 1.0,
    }
    return LabelledConfig(**{**base, **changes})


def module_of(**changes) -> LabelledModule:
    torch.manual_seed(0)
    module = LabelledModule(config(**changes)).double()
    module.adapt_to(torch.tensor([0.4, 0.2], dtype=torch.float64), torch.ones(4, dtype=torch.bool))
    return module


def exact(posterior, function):
    """E_q f(z) by going through all that a posterior over two features within the budget can draw."""
    sets = torch.tensor(list(itertools.product((0.0, 1.0), repeat=2)), dtype=torch.float64)
    values = []
    for y in sets:
        codes = y.expand(1, *posterior.logits.shape)
        values.append(posterior.log_prob(codes)[0].exp() * function(codes)[0])
    return torch.stack(values).sum(0)


def test__objective__enumerated__is_what_its_definition_says():
    """Every term written out for one row with labels and one without."""
    module = module_of()
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    labelled = torch.tensor([1.0, 0.0], dtype=torch.float64)
    objective = module.objective(x, y, labelled, Step(exact, "exact", 0.6, 1, torch.Generator()))
    posterior = module.inference(x)
    sets = [torch.tensor(s, dtype=torch.float64) for s in itertools.product((0.0, 1.0), repeat=2)]

    def log_q(q, s):
        return q.log_prob(s.expand(1, 2, 2))[0]

    def log_p(prior, s):
        return prior.log_prob(s.expand(2, 2))

    def log_x(s, u):
        return module.log_likelihood(x, torch.cat([s, u]).expand(1, 2, 4))[0]

    q_y, q_u = posterior.labels, posterior.unnamed
    p_y, p_u = module.prior.labels(), module.prior.unnamed()
    bound = torch.zeros(2, dtype=torch.float64)
    conditional = torch.zeros(2, dtype=torch.float64)
    for u in sets:
        weight_u = log_q(q_u, u).exp()
        conditional += weight_u * (log_x(y[0], u) - 0.6 * (log_q(q_u, u) - log_p(p_u, u)))
        for s in sets:
            weight = weight_u * log_q(q_y, s).exp()
            cost = log_q(q_u, u) - log_p(p_u, u) + log_q(q_y, s) - log_p(p_y, s)
            bound += weight * (log_x(s, u) - 0.6 * cost)
    expected = 0.7 * bound + labelled * (log_q(q_y, y[0]) + 0.7 * conditional)
    torch.testing.assert_close(objective.value, expected)


def test__objective__dis__is_the_log_probability_of_the_labels():
    module = module_of(variant="dis", form="multinomial")
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    objective = module.objective(x, y, torch.ones(3), Step(exact, "exact", 1.0, 1, torch.Generator()))
    labels = module.inference(x).labels
    total = labels.n_slots
    binomial = torch.distributions.Multinomial(total, probs=labels.probs, validate_args=False)
    counts = torch.cat([total - y.sum(-1, keepdim=True), y], dim=-1)
    torch.testing.assert_close(objective.value, binomial.log_prob(counts))


def test__adapt_to__frequencies__are_the_first_predictions():
    frequencies = torch.tensor([0.4, 0.2], dtype=torch.float64)
    for form in ("subset", "closed_form", "multinomial"):
        module = module_of(form=form, n_slots=5)
        with torch.no_grad():
            for parameter in module.posterior.trunk.parameters():
                parameter.zero_()
            presence = module.presence(torch.zeros(1, 4, dtype=torch.float64), n_samples=1, generator=torch.Generator())
        torch.testing.assert_close(presence[0], frequencies, atol=2e-3, rtol=0)


def test__members__each__is_the_network_that_it_would_be_alone():
    torch.manual_seed(0)
    layers = MemberLayers(3, [4, 5, 2], activation="silu")
    x = torch.randn(7, 4)
    together = layers(x.expand(3, 7, 4), None)
    for member in range(3):
        alone = x
        for layer in layers.layers:
            alone = torch.nn.functional.silu(alone @ layer.weight[member] + layer.bias[member])
        torch.testing.assert_close(together[member], alone)


def test__dropped__share__keeps_the_mean_and_uses_only_the_given_noise():
    x = torch.ones(200, 500)
    before = torch.random.get_rng_state()
    kept = dropped(x, 0.3, torch.Generator().manual_seed(0))
    assert torch.equal(before, torch.random.get_rng_state())
    assert kept.mean().item() == pytest.approx(1.0, abs=0.02)
    assert (kept == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert torch.equal(dropped(x, 0.3, None), x)
