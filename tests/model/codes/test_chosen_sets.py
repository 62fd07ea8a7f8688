"""Sets chosen by kernels: draws against enumeration, gradients against those of torch's own operations."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from sdlgm._kernels import set_covariance, set_draws, set_sums
from sdlgm.model.codes import chosen_sets
from sdlgm.model.codes._set_moments import set_moments
from sdlgm.model.codes.chosen_sets import MAX_BUDGET, RULES, ChosenSets, choose_sets, has_kernels
from sdlgm.model.codes.conditional import members_with_gradient, most_probable
from sdlgm.nn import set_softmax
from sdlgm.nn._choice import rule_named

LOGITS = torch.tensor(
    [
        [1.5, -0.5, 0.3, -2.0],
        [4.0, 3.0, 2.0, 1.0],
        [-3.0, -1.0, -2.0, -0.5],
        [-2.0, -2.0, -2.5, -1.8],
        [90, 95, 9, -90],
    ],
    dtype=torch.float64,
)
SHAPES = [(1.0, -4.0, 8, 256), (5.0, -4.0, 8, 256), (1.0, 0.0, 4, 5), (60.0, 0.0, 12, 500), (0.01, -1.0, 40, 200)]
"""Spread and mean of logits, budget, and number of elements."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def zeros(scores: Tensor) -> Tensor:
    return scores.new_zeros(len(scores))


def drawn(scores: Tensor, budget: int, *, seed: int = 0, **options) -> ChosenSets:
    options = {"draw": True, "divergent": True, "soft": False, "gradient": "reinmax"} | options
    generator = torch.Generator().manual_seed(seed)
    return choose_sets(scores, zeros(scores), zeros(scores), budget, generator=generator, **options)


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test__draws__all_sets_of_four__have_the_enumerated_probabilities(budget, dtype):
    sets = torch.tensor([row for row in product([0.0, 1.0], repeat=4) if sum(row) <= budget], dtype=torch.float64)
    n_draws, powers = 20_000, 2.0 ** torch.arange(4, dtype=torch.float64)
    members = drawn(LOGITS.to(dtype).repeat(n_draws, 1), budget).weights.double()
    found = (members @ powers).long().view(n_draws, len(LOGITS))
    for row, logits in enumerate(LOGITS):
        probs = (sets @ logits).softmax(0)
        share = (found[:, row, None] == (sets @ powers).long()).double().mean(0)
        assert ((share - probs).abs() <= 4.5 * torch.sqrt(probs * (1 - probs) / n_draws) + 1e-6).all()
        assert share.sum() == pytest.approx(1)


@pytest.mark.parametrize("shift", [-3.0, 0.0])
def test__draws__of_many_elements__have_their_presence_also_in_pairs(shift):
    logits = normal(40, seed=3) + shift
    members = drawn(logits.repeat(40_000, 1), 5).weights
    (presence,) = set_moments(logits[None], 5)[1]
    error = torch.sqrt(presence * (1 - presence) / len(members))
    assert ((members.mean(0) - presence).abs() <= 4.5 * error + 1e-6).all()
    # P(j and k) is the presence of j times that of k once j is certain.
    j = int(presence.argmax())
    given = logits.clone()
    given[j] = 200.0
    pair = presence[j] * set_moments(given[None], 5)[1][0]
    error = torch.sqrt(pair * (1 - pair) / len(members))
    assert ((members * members[:, j, None]).mean(0) - pair).abs().le(4.5 * error + 1e-6).all()


def test__draw_in_turn__sets_of_one_size__have_their_probabilities():
    """The way that is taken where draws without regard to each other would seldom differ."""
    weights, number = np.array([0.2, 0.0, 0.1, 0.05, 0.2, 0.15]), 4
    sets = [row for row in product([0, 1], repeat=6) if sum(row) == number]
    probs = np.array([np.prod(weights[np.array(row) == 1]) for row in sets])
    probs /= probs.sum()
    state, elements, counts = np.array([5], np.uint64), np.empty(number, np.int32), dict.fromkeys(sets, 0)
    for _ in range(20_000):
        assert set_draws._draw_in_turn(weights, number, state, elements, 0) == number
        counts[tuple(int(k in elements) for k in range(6))] += 1
    share = np.array(list(counts.values())) / 20_000
    assert (abs(share - probs) <= 4.5 * np.sqrt(probs * (1 - probs) / 20_000)).all()
    assert set_draws._draw_in_turn(np.array([0.1, 0.0, 0.2]), 3, state, elements, 0) == 2


@pytest.mark.parametrize(("spread", "shift", "budget", "n_elements"), SHAPES)
@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("soft", [True, False])
def test__gradients__of_drawn_sets__are_those_of_torch(spread, shift, budget, n_elements, rule, soft):
    scores = (spread * normal(6, n_elements)).requires_grad_()
    bias, prior = (normal(6, seed=1)).requires_grad_(), (normal(6, seed=2) + shift).requires_grad_()
    value = normal(2, n_elements, 3, seed=3).requires_grad_()
    to_output, to_weights, to_kl = normal(6, 3, seed=4), normal(6, n_elements, seed=5), normal(6, seed=6)
    generator = torch.Generator().manual_seed(0)
    found = choose_sets(
        scores,
        bias,
        prior,
        budget,
        draw=True,
        divergent=True,
        soft=soft,
        gradient=rule,
        value=value,
        generator=generator,
    )
    log_normaliser, presence = set_moments(scores + (bias + prior)[:, None], budget)
    sets = (found.weights.detach() != 0).double()
    members = members_with_gradient(presence, sets.unsqueeze(0), rule_named(rule))[0]
    weights = set_softmax(scores, members) if soft else members
    output = (weights.view(2, 3, n_elements) @ value).view(6, 3)
    kl = (presence * (scores + bias[:, None])).sum(-1) - log_normaliser
    assert (found.n_active == sets.sum(-1)).all()
    inputs, gradients = (scores, bias, prior, value), []
    for results in ((found.output, found.weights, found.kl), (output, weights, kl)):
        total = sum((x * g).sum() for x, g in zip(results, (to_output, to_weights, to_kl), strict=True))
        assert isinstance(total, Tensor)
        gradients.append(torch.autograd.grad(total, inputs))
    torch.testing.assert_close((found.output, found.weights), (output, weights))
    torch.testing.assert_close(found.kl, kl, atol=1e-7, rtol=1e-8)
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, atol=1e-8 * float(other.abs().max()) + 1e-10, rtol=1e-7)


@pytest.mark.parametrize(("spread", "shift", "budget", "n_elements"), SHAPES)
def test__single_precision__agrees_with_double(spread, shift, budget, n_elements):
    scores = spread * normal(20, n_elements) + shift
    single, double = (x.detach().requires_grad_() for x in (scores.float(), scores.float().double()))
    results = []
    for x in (single, double):
        found = drawn(x, budget, draw=False)
        (gradient,) = torch.autograd.grad(found.kl.sum(), x)
        results.append((found.kl.double(), gradient.double()))
    (kl, gradient), (expected, slope) = results
    torch.testing.assert_close(kl, expected, rtol=1e-5, atol=1e-5 * max(1.0, spread))
    torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=1e-5 * float(slope.abs().max()))


@pytest.mark.parametrize("budget", [1, 2, 7])
@pytest.mark.parametrize("n_elements", [1, 5])
def test__divergence__double_precision__has_the_gradient_of_finite_differences(budget, n_elements):
    scores = (2 * normal(3, n_elements)).requires_grad_()
    bias, prior = normal(3, seed=1).requires_grad_(), normal(3, seed=2).requires_grad_()

    def kl(scores: Tensor, bias: Tensor, prior: Tensor) -> Tensor:
        options = {"draw": False, "divergent": True, "soft": True, "gradient": "reinmax"}
        return choose_sets(scores, bias, prior, budget, **options).kl

    assert torch.autograd.gradcheck(kl, (scores, bias, prior))


def test__modes__are_the_most_probable_sets_and_have_the_gradient_of_a_softmax():
    scores, value = normal(8, 100).requires_grad_(), normal(2, 100, 4, seed=1).requires_grad_()
    for budget in (1, 5, 100):
        found = drawn(scores, min(budget, MAX_BUDGET), draw=False, divergent=False, soft=True, value=value)
        members = most_probable(scores.detach(), min(budget, MAX_BUDGET)).double()
        weights = set_softmax(scores, members)
        output = (weights.view(2, 4, 100) @ value).view(8, 4)
        torch.testing.assert_close(found.weights, weights)
        torch.testing.assert_close(found.output, output)
        slope = normal(8, 4, seed=2)
        for one, other in zip(
            torch.autograd.grad((found.output * slope).sum(), (scores, value)),
            torch.autograd.grad((output * slope).sum(), (scores, value)),
            strict=True,
        ):
            torch.testing.assert_close(one, other)


def test__choose_sets__several_threads_and_groups__change_nothing():
    scores, value = normal(12, 50).float().requires_grad_(), normal(4, 50, 3, seed=1).float().requires_grad_()

    def results() -> list[Tensor]:
        found = drawn(scores, 5, soft=True, value=value)
        gradients = torch.autograd.grad(found.output.sum() + found.kl.sum(), (scores, value))
        return [found.output, found.weights, found.kl, *gradients]

    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results()
        torch.set_num_threads(3)
        together = results()
    finally:
        torch.set_num_threads(n_threads)
    for one, other in zip(alone, together, strict=True):
        assert one.equal(other)


def test__choose_sets__nothing_possible_or_no_rows__is_empty():
    closed = torch.full((3, 6), -1e9, requires_grad=True)
    found = drawn(closed, 2, soft=True, value=torch.ones(1, 6, 2))
    assert (found.elements == -1).all()
    assert not found.output.any()
    assert not found.weights.any()
    assert not found.kl.any()
    (found.output.sum() + found.kl.sum()).backward()
    assert closed.grad is not None
    assert not closed.grad.any()
    assert drawn(torch.zeros(0, 6), 2).weights.shape == (0, 6)


def test__choose_sets__not_a_number__is_reported_and_ends():
    scores = torch.zeros(2, 20)
    scores[0, 3] = torch.nan
    kl = drawn(scores, 3).kl
    assert kl[0].isnan()
    assert kl[1].isfinite()


def test__has_kernels__only_for_what_they_can_do():
    scores = torch.zeros(2, 100)
    assert has_kernels(scores, MAX_BUDGET, "reinmax")
    assert has_kernels(scores[:, :5], 1000, "darn")
    assert not has_kernels(scores, MAX_BUDGET + 1, "reinmax")
    assert not has_kernels(scores.half(), 4, "reinmax")
    assert not has_kernels(scores.to("meta"), 4, "reinmax")
    assert not has_kernels(scores, 4, "gumbel")


@pytest.mark.parametrize("separate", [True, False])
def test__operation__checked_by_torch__is_fit_for_compilation(separate):
    scores, value = torch.randn(6, 9, requires_grad=True), torch.randn(2, 9, 4, requires_grad=True)
    evidence = torch.randn(6, 9, requires_grad=True) if separate else None
    bias, prior = torch.randn(6, requires_grad=True), torch.randn(6, requires_grad=True)
    keys = torch.arange(6)
    inputs = (scores, evidence, bias, prior, value, keys, 3, True, True, RULES["reinmax"])
    torch.library.opcheck(chosen_sets._choose_operation, inputs)


def test__choose_sets__fake_tensors__have_the_shapes():
    with FakeTensorMode():
        scores = torch.empty(6, 9, requires_grad=True)
        found = choose_sets(
            scores,
            torch.empty(6),
            torch.empty(6),
            3,
            draw=True,
            divergent=True,
            soft=True,
            gradient="reinmax",
            value=torch.empty(2, 9, 4),
        )
        found.output.sum().backward()
        assert found.output.shape == (6, 4)
        assert scores.grad is not None
        assert scores.grad.shape == (6, 9)


def test__choose_sets__twice_differentiated__is_an_error():
    scores = torch.randn(2, 5, requires_grad=True)
    (gradient,) = torch.autograd.grad(drawn(scores, 2).kl.square().sum(), scores, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test__kernels__numbers_of_rules__are_those_of_the_binding():
    assert set_covariance.FIXED == chosen_sets._FIXED
    assert RULES["straight_through"] == set_covariance.STRAIGHT
    assert RULES["reinmax"] == RULES["darn"] == set_covariance.HALF
    assert MAX_BUDGET == set_sums.MAX_BUDGET


@pytest.mark.parametrize("budget", [2, 8, 32, 64])
@pytest.mark.parametrize(("heavy", "light", "shift"), [(0, 5, 0.0), (0, 5, 6.0), (-1, 40, 6.0), (64, 200, 3.0)])
def test__sums__light_elements_that_are_hardly_light__keep_their_digits(budget, heavy, light, shift):
    """Sums with alternating signs lose most where light elements are as heavy as they may be, beside a full budget."""
    logits = torch.zeros(budget + heavy + light, dtype=torch.float64)
    logits[budget + heavy :] = float(np.log(0.95 * min(0.5, set_sums.LIGHT / (budget + 1))))
    logits = (logits + 0.01 * normal(len(logits)) + shift)[None].float().double().requires_grad_()
    log_normaliser, presence = set_moments(logits, budget)
    kl = (presence * logits).sum(-1) - log_normaliser
    (expected,) = torch.autograd.grad(kl.sum(), logits)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-11)):
        scores = logits.detach().to(dtype).requires_grad_()
        found = drawn(scores, budget, draw=False)
        (gradient,) = torch.autograd.grad(found.kl.sum(), scores)
        torch.testing.assert_close(found.kl.double(), kl.detach(), rtol=tolerance, atol=tolerance)
        largest = float(expected.abs().max())
        torch.testing.assert_close(gradient.double(), expected, rtol=0, atol=tolerance * largest)
