"""A fixed deviation of Gaussian columns."""

import numpy as np
import pytest

from sdlgm import SDLGM, load

SETTINGS = {"n_components": 32, "max_active": 8, "hidden": (32,), "max_iter": 150, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    """Rows that depend on six switches, in columns of different scales."""
    rng = np.random.default_rng(0)
    switches = rng.random((600, 6)) < 0.5
    return (switches @ rng.normal(size=(6, 12)) + 0.1 * rng.normal(size=(600, 12))) * np.geomspace(1, 10, 12)


def deviations(model):
    """Return the deviation of each column in units of the data."""
    return model.module_.likelihood.deviation.detach().numpy() * model._fitted.scaling.scale


def test__deviation__fit_save_and_partial_fit__stays(rows, tmp_path):
    model = SDLGM(**SETTINGS, likelihood="gaussian", deviation=0.7).fit(rows)
    np.testing.assert_allclose(deviations(model), 0.7, rtol=1e-5)
    model.save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert loaded.deviation == 0.7
    np.testing.assert_array_equal(loaded.score_samples(rows), model.score_samples(rows))
    np.testing.assert_allclose(deviations(loaded.partial_fit(rows)), 0.7, rtol=1e-5)
    with pytest.raises(ValueError, match="deviation=0.7, which partial_fit cannot change"):
        loaded.set_params(deviation=None).partial_fit(rows)


def test__deviation__smaller__has_longer_codes_and_smaller_errors(rows):
    found = []
    for deviation in (0.3, 8.0):
        model = SDLGM(**SETTINGS, likelihood="gaussian", deviation=deviation).fit(rows)
        found.append(
            (np.square(model.inverse_transform(model.transform(rows)) - rows).sum(), len(model.compress(rows)))
        )
    (fine, fine_bytes), (coarse, coarse_bytes) = found
    assert fine < coarse
    assert fine_bytes > coarse_bytes


def test__deviation__no_gaussian_column__is_refused():
    with pytest.raises(ValueError, match="set likelihood='gaussian'"):
        SDLGM(**SETTINGS, likelihood="bernoulli", deviation=0.5).fit(np.eye(8))
