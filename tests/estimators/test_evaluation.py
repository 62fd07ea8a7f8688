"""Bounds, probabilities, decoded rows and new observations of a fitted model."""

import numpy as np
import pytest
from scipy.stats import multinomial
from sklearn.base import clone

from sdlgm import SDLGM


def n_active(codes) -> np.ndarray:
    return np.asarray(codes.sum(axis=1)).ravel()


@pytest.mark.parametrize("posterior", ["ordered", "subset", "chain"])
def test__posterior_probs__row_far_away__has_probabilities(measurements, small, posterior):
    model = SDLGM(**small, posterior=posterior, random_state=0).fit(measurements)
    np.testing.assert_allclose(model.posterior_probs(measurements[:9] * 1e9).feature_probs.sum(1), 1, rtol=1e-4)


def test__elbo__bounds__are_ordered_and_score_is_the_mean(fitted, digits):
    discrete = fitted.elbo(digits, random_state=0)
    assert discrete.shape == (len(digits),)
    assert fitted.score(digits) == pytest.approx(fitted.elbo(digits).mean())
    importance = fitted.elbo(digits, n_importance=50, random_state=0)
    assert importance.mean() > discrete.mean()
    assert fitted.elbo(digits, bound="relaxed", random_state=0).mean() != discrete.mean()


def test__elbo__paper_kl__is_the_looser_bound(digits, small):
    exact = SDLGM(**small, posterior="shared", random_state=0, binarize="threshold").fit(digits)
    loose = clone(exact).set_params(kl="paper").fit(digits)
    loose.module_.load_state_dict(exact.module_.state_dict())
    assert (loose.elbo(digits, random_state=1) < exact.elbo(digits, random_state=1)).all()


@pytest.mark.parametrize(
    "arguments", [{"bound": "tight"}, {"n_importance": 0}, {"bound": "relaxed", "n_importance": 5}]
)
def test__elbo__bad_arguments__are_refused(fitted, digits, arguments):
    with pytest.raises(ValueError, match="bound|n_importance"):
        fitted.elbo(digits, **arguments)


def test__sample__new_observations__are_like_the_data(fitted, fitted_gaussian, digits, measurements):
    binary = fitted.sample(50, random_state=0)
    assert binary.shape == (50, digits.shape[1])
    assert set(np.unique(binary)) <= {0.0, 1.0}
    drawn = fitted_gaussian.sample(500, random_state=0)
    spread = measurements.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - measurements.mean(axis=0)) < 1.5 * spread).all()
    np.testing.assert_array_equal(drawn, fitted_gaussian.sample(500, random_state=0))


def test__evaluate__numbers__agree_with_the_methods(digits, small):
    fitted = SDLGM(**small, binarize="threshold", random_state=0).fit(digits)  # the same x for bounds and for codes
    evaluation = fitted.evaluate(digits, random_state=0)
    codes = fitted.transform(digits)
    assert evaluation.discrete == pytest.approx(fitted.elbo(digits, random_state=0).mean())
    assert evaluation.relaxed == pytest.approx(fitted.elbo(digits, bound="relaxed", random_state=0).mean())
    assert evaluation.n_active_mean == pytest.approx(n_active(codes).mean())
    drawn = [n_active(fitted.sample_codes(digits, random_state=i)).mean() for i in range(30)]
    assert evaluation.n_active_expected == pytest.approx(np.mean(drawn), abs=0.05)
    assert evaluation.n_active_max == n_active(codes).max()
    assert evaluation.features_used == np.count_nonzero(codes.toarray().sum(axis=0))
    assert evaluation.kl == pytest.approx(evaluation.kl_gates + evaluation.kl_features)
    error = np.square(fitted.inverse_transform(codes) - digits).mean()
    assert evaluation.reconstruction_error == pytest.approx(error, rel=1e-5)
    assert evaluation.discrete_bits == pytest.approx(evaluation.discrete / np.log(2))


def test__evaluate__code_bits__are_those_of_the_prior(digits, small):
    """With the shared posterior codes are counts of slots, under the prior a multinomial."""
    fitted = SDLGM(**{**small, "posterior": "shared"}, random_state=0).fit(digits)
    codes = fitted.transform(digits).toarray()
    off = 1 - fitted.gate_prior_
    probs = np.append(fitted.gate_prior_ * fitted.feature_prior_, off)
    counts = np.column_stack([codes, fitted.max_active - codes.sum(axis=1)])
    bits = -multinomial(fitted.max_active, probs / probs.sum()).logpmf(counts) / np.log(2)
    assert fitted.evaluate(digits, random_state=0).code_bits == pytest.approx(bits.mean(), rel=1e-4)


def test__posterior_probs__of_a_row__does_not_depend_on_its_place(fitted, digits):
    whole = fitted.posterior_probs(digits[:60])
    turned = fitted.posterior_probs(digits[59::-1])
    np.testing.assert_allclose(turned.gate_prob[::-1], whole.gate_prob, rtol=1e-5)
    np.testing.assert_allclose(turned.feature_probs[::-1], whole.feature_probs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("posterior", ["chain", "subset"])
def test__sample__posterior_over_sets__decodes_sets(digits, small, posterior, monkeypatch):
    settings = {**small, "n_components": 3, "max_active": 3, "max_iter": 5}
    model = SDLGM(**settings, posterior=posterior, random_state=0).fit(digits)
    seen = []
    generative = model.module_.generative
    monkeypatch.setattr(model.module_, "generative", lambda counts: (seen.append(counts), generative(counts))[1])
    assert model.sample(200, random_state=0).shape == (200, 64)
    assert float(seen[0].max()) == 1
    once = np.array([[1, 0, 1]])
    np.testing.assert_array_equal(model.inverse_transform(once * [[1, 1, 2]]), model.inverse_transform(once))
