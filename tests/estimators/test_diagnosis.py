"""Codes that say next to nothing about the data are reported with the remedy that fits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sdlgm import SDLGM, load
from sdlgm.estimators._diagnosis import Causes, is_independent, no_gain, same_codes
from training import CONFIG

LONG = {"n_components": 16, "max_active": 4, "hidden": (32,), "batch_size": 50, "max_iter": 250, "random_state": 0}


def drifting(n: int = 400) -> np.ndarray:
    """Metrics in [0, 1] that change little and depend on one load."""
    rng = np.random.default_rng(0)
    load_ = 0.2 + 0.05 * rng.normal(size=(n, 1))
    return np.clip(load_ @ np.ones((1, 10)) + 0.01 * rng.normal(size=(n, 10)), 0, 1)


def test__fit__measurements_as_coins__warns_and_names_the_likelihood(tmp_path):
    with pytest.warns(ConvergenceWarning, match="likelihood='gaussian'") as record:
        model = SDLGM(**LONG, likelihood="bernoulli").fit(drifting())
    assert record[0].filename == __file__
    assert model.problem_ == str(record[0].message)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").problem_ == model.problem_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good = SDLGM(**LONG, likelihood="gaussian").fit(drifting())
    assert good.problem_ is None
    assert good.evaluate(drifting()).problem is None
    assert model.evaluate(drifting()).problem is not None
    assert model.set_params(likelihood="auto").partial_fit(drifting()).problem_ is None


@pytest.mark.parametrize("kind", ["normal", "binary"])
def test__fit__independent_columns__says_that_there_is_nothing_to_learn(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 8)) if kind == "normal" else (rng.random((500, 8)) < 0.3).astype(float)
    with pytest.warns(ConvergenceWarning, match="no two columns depend on each other"):
        SDLGM(**{**LONG, "max_iter": 400}).fit(X)


def test__fit__budget_above_the_number_of_features__states_the_effective_one(digits, small):
    for method in ("fit", "partial_fit"):
        with pytest.warns(UserWarning, match="max_active=17 is above n_components=16.*more than 16") as record:
            model = getattr(SDLGM(**{**small, "max_active": 17}, random_state=0), method)(digits)
        assert record[0].filename == __file__
        assert model.transform(digits).sum(axis=1).max() <= 16
    model.partial_fit(digits)  # said once
    SDLGM(**{**small, "max_active": 17}, posterior="shared", random_state=0).fit(digits)  # has counts


def test__fit__rows_that_are_all_the_same__says_so():
    with pytest.warns(ConvergenceWarning, match="the rows are all the same"):
        SDLGM(**{**LONG, "max_iter": 60}).fit(np.ones((50, 3)))


def test__fit__setting_that_prevents_learning__is_named(digits):
    with pytest.warns(ConvergenceWarning, match="raise learning_rate, which is 1e-06"):
        SDLGM(**{**LONG, "max_iter": 100}, learning_rate=1e-6).fit(digits)


def causes(**changes) -> Causes:
    facts = {"likelihood": "gaussian", "is_grey": False, "n_rows": 1000, "is_constant": False, "is_independent": False}
    return Causes(**{**facts, "n_features": 32, "config": CONFIG, **changes})


@pytest.mark.parametrize(
    ("changes", "config", "expected"),
    [
        ({"is_constant": True}, {}, "all the same"),
        ({"n_rows": 5}, {}, "5 rows are few"),
        ({"is_independent": True, "is_grey": True}, {}, "no two columns"),
        ({"is_grey": True}, {}, "likelihood='gaussian'"),
        ({}, {"max_iter": 300}, "train longer, max_iter is 300"),
        ({}, {"kl_warmup": 0.0}, "raise kl_warmup"),
        ({}, {"rate": 20.0}, "lower rate, which is 20"),
        ({}, {"learning_rate": 1e-6}, "raise learning_rate"),
        ({}, {"learning_rate": 1.0}, "lower learning_rate"),
        ({"n_features": 2000}, {}, "lower n_components"),
        ({}, {}, "train longer, raise kl_warmup, or set rate below 1"),
    ],
)
def test__remedy__cause__is_named(changes, config, expected):
    settings = {"max_iter": 10_000, "kl_warmup": 0.3, "learning_rate": 3e-3, **config}
    found = causes(**changes, n_iter=settings["max_iter"], config=replace(CONFIG, **settings))
    assert expected in found.remedy


def test__remedy__few_iterations_in_the_time__names_the_time():
    config = replace(CONFIG, max_iter=None, max_time=1.0, kl_warmup=0.3, learning_rate=3e-3)
    assert "max_time is 1" in causes(n_iter=20, config=config).remedy


def test__no_gain__bounds__compares_them():
    assert no_gain(-10.0, -11.0) is None
    assert no_gain(-10.0, float("-inf")) is None
    message = no_gain(-10.9, -11.0)
    assert message is not None
    assert "next to nothing" in message


def test__same_codes__shares__are_compared_with_those_of_the_rows():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(100, 3)), np.zeros((100, 4), int)
    message = same_codes(sp.csr_matrix(codes), X)
    assert message is not None
    assert "100% of the rows have an empty code" in message
    codes[:, 1] = 1
    assert "the same code" in str(same_codes(sp.csr_matrix(codes), X))
    codes[:6, 2] = 1  # 94 % have the same code
    assert same_codes(sp.csr_matrix(codes), X) is None
    equal = np.where(np.arange(100)[:, None] < 8, X, 0.0)  # 92 % of the rows are the same
    assert same_codes(sp.csr_matrix(np.zeros((100, 4), int)), equal) is None
    assert same_codes(sp.csr_matrix(np.zeros((1, 4), int)), X[:1]) is None


@pytest.mark.parametrize(("n_rows", "n_columns"), [(40, 3), (50, 8), (300, 10), (100, 150)])
def test__is_independent__random_columns__are_and_dependent_ones_are_not(n_rows, n_columns):
    rng, shape = np.random.default_rng(1), (n_rows, n_columns)
    for draw in (rng.normal, rng.standard_cauchy, lambda size: rng.lognormal(0, 3, size)):
        assert np.mean([is_independent(draw(size=shape)) for _ in range(8)]) > 0.7
    cause = rng.normal(size=(n_rows, 1))
    assert not is_independent(cause + rng.normal(size=shape) * 0.5)
    assert not is_independent(np.exp(5 * cause) + rng.standard_cauchy(shape) * 0.1)


def test__is_independent__rare_values__do_not_look_dependent():
    rng = np.random.default_rng(1)
    tables = [(rng.random((60, 10)) < 0.05).astype(float) for _ in range(10)]
    assert np.mean([is_independent(table[:, table.any(axis=0)]) for table in tables]) > 0.7


def test__is_independent__common_spread_or_square__is_a_dependence():
    rng = np.random.default_rng(1)
    cause = rng.normal(size=(500, 1))
    assert not is_independent(np.exp(cause) * rng.normal(size=(500, 6)))
    assert not is_independent(np.hstack([cause, cause**2]))
