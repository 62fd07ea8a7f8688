"""Compare every estimator, with the families of the baselines, with the exact gradient by enumeration."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import oracles
from reproduction.gradients import (
    FAMILIES,
    N_SLOTS,
    estimated_gradients,
    exact_gradient,
    likelihood,
    n_features_of,
    new_estimator,
)
from sdlgm.gradients import GRADIENTS
from sdlgm.model import CodeDistribution, Noise, Temperatures

WARM = Temperatures(torch.tensor(1.0), torch.tensor(1.0))
BASELINES = [family for family in FAMILIES.values() if family.name not in ("slots", "subset", "chain", "ordered")]
PAIRS = [
    (name, family) for name in sorted(GRADIENTS) for family in BASELINES if family.kind in GRADIENTS[name].defined_for
]
each_pair = pytest.mark.parametrize(
    ("name", "family"), [pytest.param(*pair, id=f"{pair[0]}-{pair[1].name}") for pair in PAIRS]
)


def test__families__of_the_library__are_those_of_the_oracle():
    for name in set(FAMILIES) & set(oracles.FAMILIES):
        ours, theirs = FAMILIES[name], oracles.FAMILIES[name]
        function = likelihood(n_features_of(ours))
        for tempered in (False, True):
            expected = oracles.exact_gradient(theirs, oracles.likelihood(theirs.n_features), tempered=tempered)
            torch.testing.assert_close(exact_gradient(ours, function, steep=tempered), expected)


@each_pair
def test__estimator__family_of_a_baseline__has_the_exact_gradient_as_its_mean_or_points_its_way(name, family):
    function = likelihood(n_features_of(family))
    draws = estimated_gradients(family, new_estimator(name, family), function, copies=300, repeats=60)
    exact = exact_gradient(family, function, steep=GRADIENTS[name].tempers_posterior)
    assert float(F.cosine_similarity(draws.mean(0), exact, dim=0)) > 0.75
    if GRADIENTS[name].unbiased:
        error = draws.std(0) / len(draws) ** 0.5
        assert float(((draws.mean(0) - exact).abs() / (error + 1e-9)).max()) < 4.5


@each_pair
def test__estimator__family_of_a_baseline__evaluates_hard_codes_if_discrete(name, family):
    evaluated = []
    weight = torch.arange(1.0, n_features_of(family) + 1, dtype=torch.float64).requires_grad_()
    parameters = [parameter.clone().requires_grad_() for parameter in family.parameters]
    posterior = family.posterior(parameters, 50)
    assert isinstance(posterior, CodeDistribution)

    def function(counts: Tensor) -> Tensor:
        evaluated.append(counts.detach())
        return (counts * counts) @ weight

    estimate = new_estimator(name, family)(posterior, function, n_samples=2, temperatures=WARM, noise=Noise.seeded(0))
    counts = evaluated[0]  # MuProp evaluates the mean as well, afterwards
    assert counts.shape[1:] == (50, n_features_of(family))
    assert bool((counts == counts.round()).all()) == GRADIENTS[name].discrete
    if not family.name.endswith("bernoulli"):  # which have no budget
        assert bool((counts.sum(-1) <= N_SLOTS + 1e-9).all())
    estimate.sum().backward()
    for tensor in (weight, *parameters):
        assert tensor.grad is not None
        assert bool(tensor.grad.abs().sum() > 0)


@pytest.mark.parametrize("name", ["coupled_bernoulli"])
def test__reinmax__two_symbols__is_darn(name):
    family = FAMILIES[name]
    function = likelihood(n_features_of(family))
    one, other = (
        estimated_gradients(family, new_estimator(gradient, family), function, copies=50, repeats=3)
        for gradient in ("reinmax", "darn")
    )
    torch.testing.assert_close(one, other)
