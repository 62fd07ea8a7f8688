"""Widths of hidden layers by the number of rows."""

import numpy as np
import pytest
from sklearn.base import clone

from sdlgm import SDLGM, SDLGMClassifier, load
from sdlgm.estimators._widths import prior_width_for, widths_for

SMALL = {"n_components": 6, "max_active": 2, "max_iter": 5, "likelihood": "gaussian", "random_state": 0}


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("n_rows", "widths"), [(2, ()), (999, ()), (1_000, (128,)), (4_999, (128,)), (5_000, (512,)), (10**9, (512,))]
)
def test__widths__by_the_number_of_rows__grow(n_rows, widths):
    assert widths_for(n_rows) == widths


@pytest.mark.parametrize(("n_features", "width"), [(1, 256), (1_024, 256), (2_048, 128), (4_096, 64), (65_536, 64)])
def test__prior_width__by_the_number_of_features__decreases(n_features, width):
    assert prior_width_for(n_features) == width


def test__fit__auto__has_the_widths_of_the_training_rows(rows):
    many = np.tile(rows, (19, 1))  # 1,140 rows, of which 1,026 or 570 are trained on
    assert SDLGM(**SMALL).fit(rows).module_.config.hidden == ()
    assert SDLGM(**SMALL, early_stopping=True).fit(many).module_.config.hidden == (128,)
    assert SDLGM(**SMALL, early_stopping=True, validation_fraction=0.5).fit(many).module_.config.hidden == ()


def test__fit__auto__leaves_the_parameter_as_it_was(rows):
    model = SDLGM(**SMALL).fit(rows)
    assert model.get_params()["hidden"] == "auto"
    assert clone(model).hidden == "auto"


def test__file__auto__has_the_widths_in_use(rows, tmp_path):
    model = SDLGM(**SMALL).fit(rows)
    model.save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert loaded.hidden == ()
    np.testing.assert_array_equal(loaded.elbo(rows, random_state=0), model.elbo(rows, random_state=0))


def test__partial_fit__auto__keeps_the_widths_of_the_first_call(rows):
    model = SDLGM(**SMALL).partial_fit(rows)
    model.partial_fit(np.tile(rows, (20, 1)))
    assert model.module_.config.hidden == ()
    with pytest.raises(ValueError, match="hidden"):
        model.set_params(hidden=(8,)).partial_fit(rows)


def test__other_words__are_refused(rows):
    with pytest.raises(ValueError, match="'hidden' parameter of SDLGM"):
        SDLGM(**SMALL, hidden="wide").fit(rows)
    with pytest.raises(ValueError, match="'hidden' parameter of SDLGMClassifier"):
        SDLGMClassifier(hidden="auto").fit(rows, (rows > 0).astype(int))
