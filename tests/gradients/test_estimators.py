"""Compare every estimator, with every family that it is defined for, with the exact gradient by enumeration."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from enumeration import L0, K
from oracles import FAMILIES, estimated_gradients, exact_gradient, likelihood, new_estimator
from sdlgm.gradients import GRADIENTS
from sdlgm.gradients.hard_draws import HardDraws
from sdlgm.model import CodeDistribution, Noise, Temperatures

WARM = Temperatures(torch.tensor(1.0), torch.tensor(1.0))
PAIRS = [
    (name, kind)
    for name in sorted(GRADIENTS)
    for kind in FAMILIES
    if FAMILIES[kind].kind in GRADIENTS[name].defined_for
]
UNBIASED = [(name, kind) for name, kind in PAIRS if GRADIENTS[name].unbiased]


def function_of_degree(degree: int, n_features: int):
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(n_features, generator=generator, dtype=torch.float64)
    matrix = torch.randn(n_features, n_features, generator=generator, dtype=torch.float64)

    def function(counts: Tensor) -> Tensor:
        linear = counts @ weights
        return linear if degree == 1 else linear + ((counts @ matrix) * counts).sum(-1)

    return function


def largest_z_score(name: str, kind: str, function, *, copies: int = 300, repeats: int = 60) -> float:
    """Return by how many standard errors the mean of the estimator misses the exact gradient."""
    family = FAMILIES[kind]
    draws = estimated_gradients(family, new_estimator(name, family), function, copies=copies, repeats=repeats)
    error = draws.std(0) / repeats**0.5
    return float(((draws.mean(0) - exact_gradient(family, function)).abs() / (error + 1e-9)).max())


@pytest.mark.parametrize(("name", "kind"), UNBIASED)
def test__unbiased_estimator__nonlinear_likelihood__has_the_exact_gradient_as_its_mean(name, kind):
    assert largest_z_score(name, kind, likelihood(FAMILIES[kind].n_features)) < 4.5


@pytest.mark.parametrize("kind", ["slots", "bernoulli", "categorical"])
def test__reinmax__quadratic_function__is_unbiased(kind):
    assert largest_z_score("reinmax", kind, function_of_degree(2, FAMILIES[kind].n_features)) < 4.5


@pytest.mark.parametrize("kind", ["slots", "bernoulli", "categorical"])
def test__straight_through__quadratic_function__is_biased(kind):
    """The first-order estimator fails the test above, so that test can detect a bias."""
    assert largest_z_score("straight_through", kind, function_of_degree(2, FAMILIES[kind].n_features)) > 10


@pytest.mark.parametrize("kind", ["slots", "bernoulli", "categorical"])
@pytest.mark.parametrize("name", ["straight_through", "annealed_straight_through"])
def test__straight_through__linear_function__is_exact(name, kind):
    family = FAMILIES[kind]
    function = function_of_degree(1, family.n_features)
    draws = estimated_gradients(family, new_estimator(name, family), function, copies=3, repeats=2)
    exact = exact_gradient(family, function, tempered=name.startswith("annealed"))
    torch.testing.assert_close(draws, exact.expand_as(draws))


def test__tempered_posterior__its_gradient__is_not_that_of_the_posterior_itself():
    family = FAMILIES["categorical"]
    function = likelihood(family.n_features)
    plain, tempered = (exact_gradient(family, function, tempered=value) for value in (False, True))
    assert float((plain - tempered).norm()) > 0.1 * float(plain.norm())


def test__muprop__linear_function__is_exact():
    """The baseline is then the function itself, and the signal is zero."""
    family = FAMILIES["categorical"]
    function = function_of_degree(1, family.n_features)
    draws = estimated_gradients(family, new_estimator("muprop", family), function, copies=3, repeats=2)
    torch.testing.assert_close(draws, exact_gradient(family, function).expand_as(draws))


@pytest.mark.parametrize("kind", ["bernoulli", "subset", "chain"])
def test__reinmax__two_symbols__is_darn(kind):
    family = FAMILIES[kind]
    function = likelihood(family.n_features)
    one, other = (
        estimated_gradients(family, new_estimator(name, family), function, copies=50, repeats=3)
        for name in ("reinmax", "darn")
    )
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test__estimator__nonlinear_likelihood__points_the_right_way(name, kind):
    family = FAMILIES[kind]
    function = likelihood(family.n_features)
    draws = estimated_gradients(family, new_estimator(name, family), function, copies=300, repeats=30)
    exact = exact_gradient(family, function, tempered=GRADIENTS[name].tempers_posterior)
    assert float(F.cosine_similarity(draws.mean(0), exact, dim=0)) > 0.75


@pytest.mark.parametrize("kind", sorted(FAMILIES))
def test__families__every_one__is_a_code_distribution(kind):
    family = FAMILIES[kind]
    assert isinstance(family.posterior(family.parameters, 2), CodeDistribution)


@pytest.mark.parametrize("kind", ["bernoulli", "categorical"])
def test__gumbel_rao__variance__is_below_that_of_straight_through_gumbel(kind):
    family = FAMILIES[kind]
    function = likelihood(family.n_features)
    spread = {
        name: float(
            estimated_gradients(family, new_estimator(name, family), function, copies=200, repeats=60).std(0).norm()
        )
        for name in ("gumbel_rao", "straight_through_gumbel")
    }
    assert spread["gumbel_rao"] < 0.85 * spread["straight_through_gumbel"]


@pytest.mark.parametrize("kind", ["bernoulli", "categorical"])
def test__gumbel_rao__many_averaged__has_the_mean_of_straight_through_gumbel(kind):
    family = FAMILIES[kind]
    function = likelihood(family.n_features)
    means, errors = [], []
    for name in ("gumbel_rao", "straight_through_gumbel"):
        draws = estimated_gradients(family, new_estimator(name, family), function, copies=500, repeats=60)
        means.append(draws.mean(0))
        errors.append(draws.std(0) / 60**0.5)
    assert float(((means[0] - means[1]).abs() / (errors[0] ** 2 + errors[1] ** 2).sqrt()).max()) < 4.5


def test__reinmax__closed_form__equals_the_sum_over_slots():
    """Compare with the definition of ReinMax for one categorical (Liu et al., NeurIPS 2023), slot by slot."""
    n_symbols = K + 1
    log_probs = torch.tensor([0.4, 0.5, -0.3, 0.1], dtype=torch.float64).log_softmax(-1)
    probs, symbols = log_probs.exp(), torch.tensor([0, 2])

    def jacobian(p: Tensor) -> Tensor:
        return torch.diag(p) - torch.outer(p, p)

    expected = torch.zeros(n_symbols, n_symbols, dtype=torch.float64)
    for symbol in symbols:
        one_hot = F.one_hot(symbol, n_symbols).double()
        expected += 2 * jacobian((probs + one_hot) / 2) - jacobian(probs) / 2
    counts = F.one_hot(symbols, n_symbols).sum(0).double()
    for k in range(n_symbols):
        to_log_probs = GRADIENTS["reinmax"].to_log_probs(F.one_hot(torch.tensor(k), n_symbols), counts, probs, L0)
        # Through log p = a - logsumexp(a) to the logits a.
        to_logits = to_log_probs - probs * to_log_probs.sum()
        torch.testing.assert_close(to_logits, expected[k])


def test__reinmax__binary_slopes__equal_those_of_its_rule_for_two_symbols():
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(2, 3, 5, generator=generator, dtype=torch.float64)
    drawn = (torch.rand(probs.shape, generator=generator) < probs).double()
    expected = HardDraws.binary_slopes.__func__(GRADIENTS["reinmax"], drawn, probs)
    torch.testing.assert_close(GRADIENTS["reinmax"].binary_slopes(drawn, probs), expected)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test__estimator__forward__evaluates_hard_codes_if_discrete(name, kind):
    family = FAMILIES[kind]
    evaluated = []

    def log_likelihood(counts: Tensor) -> Tensor:
        evaluated.append(counts.detach())
        return counts.sum(-1)

    new_estimator(name, family)(
        family.posterior(family.parameters, 50),
        log_likelihood,
        n_samples=2,
        temperatures=WARM,
        noise=Noise.seeded(0),
    )
    counts = evaluated[0]  # MuProp evaluates the mean as well, afterwards
    assert counts.shape[1:] == (50, family.n_features)
    assert bool((counts == counts.round()).all()) == GRADIENTS[name].discrete
    if kind != "bernoulli":  # which has no budget
        assert bool((counts.sum(-1) <= L0 + 1e-9).all())


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test__estimator__decoder_weights__get_a_gradient(name, kind):
    family = FAMILIES[kind]
    weight = torch.arange(1.0, family.n_features + 1, dtype=torch.float64).requires_grad_()
    parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
    estimate = new_estimator(name, family)(
        family.posterior(parameters, 20),
        lambda counts: (counts * counts) @ weight,
        n_samples=1,
        temperatures=WARM,
        noise=Noise.seeded(0),
    )
    estimate.sum().backward()
    for tensor in (weight, *parameters):
        assert tensor.grad is not None
        assert bool(tensor.grad.abs().sum() > 0)


def test__score_function__baseline__learns_to_predict_the_signal():
    """Two kinds of observations have very different values, which the network can predict and a mean cannot."""
    family = FAMILIES["categorical"]
    sure = 8 * family.symbols[[0, -1]].flatten(1).repeat(25, 1)
    estimator = new_estimator("score_function", family)
    optimizer = torch.optim.Adam(estimator.parameters(), lr=0.01)
    noise = Noise.seeded(0)
    scales = []
    for _ in range(300):
        value = estimator(
            family.make(sure),
            lambda counts: 20 * counts[..., 0],
            n_samples=1,
            temperatures=WARM,
            noise=noise,
        )
        optimizer.zero_grad()
        (-value.mean()).backward()
        optimizer.step()
        scales.append(estimator.encoder_divisor)
    assert scales[0] > 9
    assert scales[-1] < 2
