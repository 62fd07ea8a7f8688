"""Sets of at most L0 elements: sums, draws and gradients against enumeration."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sdlgm.gradients import GRADIENTS
from sdlgm.gradients.hard_draws import HardDraws
from sdlgm.model import Noise
from sdlgm.model.codes import _set_moments
from sdlgm.model.codes._set_moments import set_moments
from sdlgm.model.codes.conditional import ConditionalSets, SetPrior

N = 4
LOGITS = torch.tensor([[1.5, -0.5, 0.3, -2.0], [4.0, 3.0, 2.0, 1.0], [-3.0, -1.0, -2.0, -0.5]], dtype=torch.float64)
RULES = sorted(name for name, rule in GRADIENTS.items() if issubclass(rule, HardDraws))


def all_sets(budget: int, n: int = N) -> Tensor:
    """All sets within the budget, one a row."""
    rows = [row for row in product([0.0, 1.0], repeat=n) if sum(row) <= budget]
    return torch.tensor(rows, dtype=torch.float64)


def probabilities(logits: Tensor, budget: int) -> tuple[Tensor, Tensor]:
    """Return log Z and the probability of each set."""
    weights = logits @ all_sets(budget, logits.shape[-1]).T
    log_normaliser = weights.logsumexp(-1)
    return log_normaliser, torch.exp(weights - log_normaliser.unsqueeze(-1))


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 7])
def test__set_moments__enumerated__are_log_normaliser_and_presence(budget):
    log_normaliser, probs = probabilities(LOGITS, budget)
    found = set_moments(LOGITS, budget)
    torch.testing.assert_close(found[0], log_normaliser)
    torch.testing.assert_close(found[1], probs @ all_sets(budget))


@pytest.mark.parametrize("budget", [1, 2, 7])
def test__log_prob__enumerated__is_that_of_each_set(budget):
    sets = all_sets(budget)
    found = ConditionalSets(LOGITS, budget).log_prob(sets.unsqueeze(1).expand(-1, 3, -1))
    torch.testing.assert_close(found.exp(), probabilities(LOGITS, budget)[1].T)


def test__log_prob__beyond_the_budget_or_twice__is_minus_infinity():
    posterior = ConditionalSets(LOGITS[:1], 2)
    codes = torch.tensor([[[1.0, 1, 1, 0]], [[2.0, 0, 0, 0]]], dtype=torch.float64)
    assert posterior.log_prob(codes).tolist() == [[-torch.inf], [-torch.inf]]


@pytest.mark.parametrize("budget", [1, 2, 7])
@pytest.mark.parametrize("n_elements", [1, 5])
def test__gradients__double_precision__are_those_of_finite_differences(budget, n_elements):
    generator = torch.Generator().manual_seed(n_elements)
    logits = 2 * torch.randn(2, n_elements, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    number = torch.tensor(0.7 * min(budget, n_elements), dtype=torch.float64, requires_grad=True)
    members = torch.zeros(1, 2, n_elements, dtype=torch.float64)
    members[..., 0] = 1.0

    def kl(logits: Tensor, number: Tensor) -> Tensor:
        prior = SetPrior.expecting(number, torch.full((2,), n_elements), budget)
        return ConditionalSets(logits, budget).kl(prior)

    assert torch.autograd.gradcheck(lambda x: set_moments(x, budget), (logits,))
    assert torch.autograd.gradcheck(lambda x: ConditionalSets(x, budget).log_prob(members), (logits,))
    assert torch.autograd.gradcheck(kl, (logits, number))


@pytest.mark.parametrize("budget", [1, 2, 7])
def test__kl__enumerated__is_the_divergence_from_the_prior(budget):
    prior = SetPrior.expecting(torch.tensor([0.5, 0.9, 3.0], dtype=torch.float64), torch.full((3,), N), budget)
    q = probabilities(LOGITS, budget)[1]
    p = probabilities(prior.logit.unsqueeze(-1).expand(3, N), budget)[1]
    expected = (q * (q.log() - p.log())).sum(-1)
    posterior = ConditionalSets(LOGITS, budget)
    torch.testing.assert_close(posterior.kl(prior), expected)
    torch.testing.assert_close(posterior.prior_terms(prior, "exact").kl, expected)
    drawn = all_sets(budget).unsqueeze(1).expand(-1, 3, -1)
    torch.testing.assert_close(-(q.T * posterior.log_ratio(drawn, prior)).sum(0), expected)


def test__kl__of_the_prior_itself__is_zero():
    prior = SetPrior.expecting(torch.tensor([2.0, 2.0], dtype=torch.float64), torch.tensor([300, 300]), 5)
    posterior = ConditionalSets(prior.logit.unsqueeze(-1).expand(2, 300), 5)
    torch.testing.assert_close(posterior.kl(prior), torch.zeros(2, dtype=torch.float64), atol=1e-10, rtol=0)


def test__set_prior__few_elements__expects_no_more_than_half_of_them():
    prior = SetPrior.expecting(torch.tensor(3.0), torch.tensor([4, 300, 0]), 8)
    assert prior.logit[0] == 0
    assert torch.sigmoid(prior.logit[1]) * 300 == pytest.approx(3.0)
    assert prior.log_normaliser[2] == 0


@pytest.mark.parametrize("budget", [1, 2, 7])
def test__draws__many__have_the_probabilities(budget):
    n_draws = 20_000
    drawn = ConditionalSets(LOGITS.repeat(n_draws, 1), budget).sample(1, Noise.seeded(0))[0]
    powers = 2.0 ** torch.arange(N, dtype=torch.float64)
    found = (drawn @ powers).long().view(n_draws, 3)
    for row, probs in enumerate(probabilities(LOGITS, budget)[1]):
        share = (found[:, row, None] == (all_sets(budget) @ powers).long()).double().mean(0)
        error = torch.sqrt(probs * (1 - probs) / n_draws)
        assert ((share - probs).abs() <= 4.5 * error + 1e-12).all()
        assert share.sum() == pytest.approx(1)


def test__draws__of_many_elements__have_their_presence():
    """The tree has several levels here, and the number of elements is not a power of two."""
    logits = 1.5 * torch.randn(37, generator=torch.Generator().manual_seed(3))
    posterior = ConditionalSets(logits.repeat(20_000, 1), 5)
    share, probs = posterior.sample(1, Noise.seeded(1))[0].mean(0), posterior.presence[0]
    assert ((share - probs).abs() <= 4.5 * torch.sqrt(probs * (1 - probs) / 20_000) + 1e-6).all()


def test__mode__enumerated__is_the_most_probable():
    for seed in range(30):
        logits = 2 * torch.randn(1, N, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        sets = all_sets(2)
        best = sets[probabilities(logits, 2)[1][0].argmax()]
        assert ConditionalSets(logits, 2).mode()[0].tolist() == best.int().tolist()


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(
        st.floats(-300, 300, width=32) | st.sampled_from([-torch.inf, -1e9, -1e30, 1e4]), min_size=1, max_size=20
    ),
    budget=st.integers(1, 25),
    seed=st.integers(0, 99),
)
def test__sets__any_logits__keep_the_budget_and_stay_finite(values, budget, seed):
    logits = torch.tensor([values], requires_grad=True)
    posterior = ConditionalSets(logits, budget)
    drawn = posterior.with_gradient(posterior.sample(3, Noise.seeded(seed)), GRADIENTS["reinmax"])
    prior = SetPrior.expecting(torch.tensor([0.5]), torch.tensor([max(1, len(values))]), budget)
    assert drawn.sum(-1).max() <= budget
    assert posterior.mode().sum() <= budget
    assert set(drawn.unique().tolist()) <= {0.0, 1.0}
    impossible = logits[0] <= -1e9
    assert not drawn[..., impossible].any()
    assert not posterior.mode()[:, impossible].any()
    kl = posterior.kl(prior)
    assert torch.isfinite(kl).all()
    (kl.sum() + drawn.sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert (posterior.presence.sum(-1) <= budget * (1 + 1e-4)).all()


@pytest.mark.parametrize("spread", [1.0, 10.0, 60.0])
def test__single_precision__many_elements__agrees_with_double(spread):
    logits = spread * torch.randn(20, 500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    single, double = set_moments(logits.float(), 12), set_moments(logits, 12)
    torch.testing.assert_close(single[0].double(), double[0], rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(single[1].double(), double[1], rtol=1e-3, atol=1e-4)


def test__blocks__of_few_rows__change_nothing(monkeypatch):
    logits = torch.randn(13, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weights = torch.randn(13, 6, generator=torch.Generator().manual_seed(1))

    def results() -> list[Tensor]:
        posterior = ConditionalSets(logits, 3)
        total = (posterior.presence * weights).sum() + posterior.log_normaliser.sum()
        (gradient,) = torch.autograd.grad(total, logits)
        return [posterior.presence, gradient, posterior.sample(2, Noise.seeded(0))]

    whole = results()
    monkeypatch.setattr(_set_moments, "BLOCK", 12)
    for one, other in zip(whole, results(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("rule", RULES)
def test__drawn_sets__linear_function__have_the_exact_gradient_on_average(rule):
    """Every rule is exact for a linear function, if averaged over all sets."""
    logits = LOGITS[:1].clone().requires_grad_()
    sets, slopes = all_sets(2), torch.tensor([0.7, -1.0, 2.0, 0.4], dtype=torch.float64)
    probs = probabilities(logits, 2)[1][0]
    (exact,) = torch.autograd.grad(probs @ (sets @ slopes), logits)
    drawn = ConditionalSets(logits, 2).with_gradient(sets.unsqueeze(1), GRADIENTS[rule])
    (found,) = torch.autograd.grad(probs.detach() @ (drawn[:, 0] @ slopes), logits)
    torch.testing.assert_close(found, exact)


def test__reinmax__function_of_pairs__is_nearer_to_the_exact_gradient():
    """For binary members that the budget hardly touches, reinmax is second-order, straight-through is not."""
    logits = (LOGITS[:1] - 2).clone().requires_grad_()
    matrix = torch.randn(N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sets = all_sets(3)
    probs = probabilities(logits, 3)[1][0]
    (exact,) = torch.autograd.grad(probs @ ((sets @ matrix) * sets).sum(-1), logits)
    errors = {}
    for rule in ("straight_through", "reinmax"):
        drawn = ConditionalSets(logits, 3).with_gradient(sets.unsqueeze(1), GRADIENTS[rule])[:, 0]
        (found,) = torch.autograd.grad(probs.detach() @ ((drawn @ matrix) * drawn).sum(-1), logits)
        errors[rule] = float((found - exact).norm() / exact.norm())
    assert errors["reinmax"] < 0.05
    assert errors["straight_through"] > 3 * errors["reinmax"]


def test__drawn_sets__certain_members__have_a_bounded_gradient():
    """Rounding leads probabilities to one and above, where there is no variance to divide by."""
    logits = (60 * torch.randn(50, 100, generator=torch.Generator().manual_seed(0))).requires_grad_()
    sets = ConditionalSets(logits, 8)
    for rule in RULES:
        drawn = sets.with_gradient(sets.sample(1, Noise.seeded(0)), GRADIENTS[rule])
        (gradient,) = torch.autograd.grad(drawn.sin().sum(), logits, retain_graph=True)
        assert gradient.abs().max() < 10
