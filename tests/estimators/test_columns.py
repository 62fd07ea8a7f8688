"""The choice of a likelihood for each column."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from sdlgm.errors import DataError
from sdlgm.estimators._columns import Supports, choose
from sdlgm.estimators._profile import Profile, sample_places
from sdlgm.model.likelihoods import Layout

N = 1000


def chosen(X, likelihood="auto", **known) -> list[str]:
    return list(choose(likelihood, Profile.of(X), **known).likelihoods)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (lambda rng: rng.integers(0, 2, N), "bernoulli"),
        (lambda rng: rng.random(N) < 0.002, "bernoulli"),
        (lambda rng: rng.random(N), "gaussian"),
        (lambda rng: rng.choice([0.0, 0.5, 1.0], N), "gaussian"),
        (lambda rng: rng.integers(-1, 2, N), "gaussian"),
        (lambda rng: rng.normal(size=N), "gaussian"),
        (lambda rng: rng.normal(1e9, 1e-2, N), "gaussian"),
        (lambda rng: rng.integers(0, 2, N) * 5 + rng.normal(size=N), "gaussian"),
        (lambda rng: rng.laplace(size=N), "student_t"),
        (lambda rng: rng.standard_t(2, N), "student_t"),
        (lambda rng: rng.lognormal(size=N), "student_t"),
        (lambda rng: np.where(rng.random(N) < 0.8, 0.0, rng.random(N)), "student_t"),
        (lambda rng: rng.poisson(3, N), "poisson"),
        (lambda rng: rng.poisson(0.1, N), "poisson"),
        (lambda rng: rng.negative_binomial(1, 0.2, N), "negative_binomial"),
        (lambda rng: rng.poisson(rng.choice([0.5, 8.0], N)), "negative_binomial"),
        (lambda rng: np.clip(rng.normal(40, 12, N).round(), 17, 90), "gaussian"),  # ages: no zeros
        (lambda rng: rng.integers(0, 101, N), "gaussian"),  # percentages
        (lambda rng: rng.integers(1, 6, N), "gaussian"),  # answers from 1 to 5
        (lambda rng: rng.binomial(5, 0.7, N), "gaussian"),  # less variance than a count has
        (lambda rng: rng.poisson(3, N) + 0.5, "gaussian"),
        (lambda rng: -rng.poisson(3, N), "gaussian"),
        (lambda rng: rng.integers(1990, 2020, N), "gaussian"),
        (lambda rng: rng.integers(0, 24, N), "gaussian"),  # hours
        (lambda rng: rng.integers(0, 11, N), "gaussian"),  # answers from 0 to 10
        (lambda rng: 5 * rng.poisson(3, N), "gaussian"),  # read in steps of 5
        (lambda rng: np.where(rng.random(N) < 0.3, 1, -1), "gaussian"),  # two values have no tails
        (lambda rng: np.where(rng.random(N) < 0.7, 0, rng.poisson(200, N)), "negative_binomial"),
    ],
)
def test__auto__one_column__is_chosen_by_its_values(rng, draw, expected):
    column = draw(rng).astype(float)
    assert chosen(column[:, None]) == [expected]
    column[rng.random(N) < 0.3] = np.nan
    assert chosen(column[:, None]) == [expected]


def test__auto__columns_of_several_kinds__each_has_its_own(rng):
    columns = (rng.integers(0, 2, N), rng.poisson(2, N), rng.normal(size=N), rng.standard_t(2, N))
    assert chosen(np.column_stack(columns)) == ["bernoulli", "poisson", "gaussian", "student_t"]


@pytest.mark.parametrize("n_rows", [20, 50, 200])
def test__auto__few_rows__chance_does_not_decide(n_rows):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        assert set(chosen(rng.normal(size=(n_rows, 5)))) == {"gaussian"}
        rare = rng.poisson(1.5, (n_rows, 5))
        rare[0] = 0
        assert set(chosen(rare.astype(float))) == {"poisson"}
        measured = rng.normal(180, 40, (n_rows, 5)).round().clip(0)  # tenths of a degree
        assert set(chosen(measured - measured.min(axis=0))) == {"gaussian"}
        percentages = rng.integers(0, 101, (n_rows, 5))
        percentages[0] = 0
        assert set(chosen(percentages.astype(float))) == {"gaussian"}


def test__auto__windows__times_of_a_column_are_alike(rng):
    counts = rng.poisson(4.0, (60, 5))
    counts[:4] = np.eye(4, 5) == 0  # one lag has no zero
    truths = (rng.random((60, 3)) < 0.5).astype(float)
    truths[0, 0] = 2
    X = np.column_stack([counts.clip(min=[0, 0, 0, 0, 1]), truths]).astype(float)
    assert set(chosen(X)[:5]) == {"poisson", "gaussian"}
    names = [*(f"visits[t-{lag}]" for lag in (4, 3, 2, 1)), "visits[t]", "on[t-2]", "on[t-1]", "on[t]"]
    assert chosen(X)[5:] == ["poisson", "bernoulli", "bernoulli"]
    assert chosen(X, names=names) == ["poisson"] * 8  # no truth value is 2
    assert chosen(X, "gaussian", names=names) == ["gaussian"] * 8


def test__auto__steps__need_more_than_a_few_values(rng):
    zeros = np.zeros(N)
    few, many = zeros.copy(), zeros.copy()
    few[:5], many[:50] = 2, rng.choice([2, 4, 6], 50)
    assert chosen(few[:, None])[0] in ("poisson", "negative_binomial")
    assert chosen(many[:, None]) == ["gaussian"]


def test__auto__counts__have_one_family(rng):
    X = np.column_stack([rng.poisson(rng.gamma(0.5, 4, N)), rng.poisson(1.0, N), rng.poisson(2.0, N)]).astype(float)
    assert chosen(X) == ["negative_binomial"] * 3


def test__auto__word_counts__are_counts_also_where_no_word_is_repeated(rng):
    rates = np.concatenate([rng.gamma(1.0, 1.0, 20), np.full(10, 0.01)])
    X = rng.poisson(rng.gamma(0.5, 2.0, (N, 1)) * rates)
    X[:, 20:] = X[:, 20:].clip(max=1)
    X[:, -1] = rng.integers(0, 2, N)  # too frequent for a count that never exceeds 1
    found = chosen(sp.csr_matrix(X.astype(float)))
    assert found == ["negative_binomial"] * 29 + ["bernoulli"]
    assert chosen(X.astype(float)) == found
    assert chosen(X[:, 18:].astype(float))[2:-1] == ["bernoulli"] * 9  # beside two columns of counts


@pytest.mark.parametrize("scale", [1.0, 1 / 16, 255 / 16])
def test__auto__grey_pictures__are_continuous_on_one_scale(scale):
    choice = choose("auto", Profile.of(load_digits().data * scale))
    assert set(choice.likelihoods) == {"gaussian"}
    assert len(choice.common) == 61  # the others are constant


@pytest.mark.parametrize("scale", [1.0, 1 / 255])
def test__auto__eight_bits__are_continuous_also_where_few_pixels_are_white(rng, scale):
    X = np.floor(255 * rng.beta(1, 4, (300, 20)))
    assert "negative_binomial" in chosen(X)
    X[0, :2] = 255
    choice = choose("auto", Profile.of(scale * X))
    assert set(choice.likelihoods) == {"gaussian"}
    assert len(choice.common) == 20
    X[0, 2] = 256
    assert "negative_binomial" in chosen(X)


def test__auto__binary_pictures__are_bernoulli_with_their_constant_columns():
    assert set(chosen((load_digits().data > 8).astype(float))) == {"bernoulli"}


@pytest.mark.parametrize("rates", [5.0, 100.0])
def test__auto__many_counts__are_not_on_a_common_scale(rng, rates):
    choice = choose("auto", Profile.of(rng.poisson(rates, (N, 40)).astype(float)))
    assert choice.common == ()
    assert choose("auto", Profile.of(rng.geometric(0.05, (N, 40)) - 1.0)).common == ()


def test__auto__tables__are_continuous():
    assert set(chosen(load_diabetes().data)) == {"gaussian"}
    assert set(chosen(load_breast_cancer().data)) == {"gaussian", "student_t"}


@pytest.mark.parametrize(
    ("value", "other", "expected"),
    [
        (0.0, "bernoulli", "bernoulli"),
        (3.0, "bernoulli", "gaussian"),
        (3.0, "poisson", "poisson"),
        (0.5, "poisson", "gaussian"),
        (np.nan, "bernoulli", "bernoulli"),
        (1.0, "gaussian", "gaussian"),
    ],
)
def test__auto__constant_column__goes_with_the_others(rng, value, other, expected):
    others = {"bernoulli": rng.integers(0, 2, N), "poisson": rng.poisson(2, N), "gaussian": rng.normal(size=N)}
    assert chosen(np.column_stack([others[other], np.full(N, value)])) == [other, expected]


def test__auto__all_constant__is_what_the_value_can_be():
    assert chosen(np.ones((5, 2))) == ["bernoulli"] * 2
    assert chosen(np.full((5, 2), 0.5)) == ["gaussian"] * 2


def test__choose__names__are_for_all_or_some_columns(rng):
    X = np.column_stack([rng.integers(0, 3, N), rng.normal(size=N), rng.integers(0, 2, N)]).astype(float)
    names = ["colour", "size", "sold"]
    assert chosen(X, "student_t") == ["student_t"] * 3
    expected = ["categorical", "gaussian", "bernoulli"]
    assert chosen(X, {"colour": "categorical"}, names=names) == expected
    assert chosen(X, {0: "categorical"}, names=names) == chosen(X, {"0": "categorical"}) == expected
    assert chosen(X, {np.int64(0): "categorical"}) == expected
    assert chosen(X, {"sold": "categorical", "size": "auto"}, names=names)[1:] == ["gaussian", "categorical"]
    with pytest.raises(ValueError, match="names the column 'price', .*'colour', 'size', 'sold'"):
        chosen(X, {"price": "gaussian"}, names=names)
    with pytest.raises(ValueError, match="names the column 3, .* columns 0 to 2"):
        chosen(X, {3: "gaussian"})


def test__choose__schema__has_categories_and_truth_values(rng):
    X = np.column_stack([rng.integers(0, 3, N), rng.poisson(2, N), rng.integers(0, 2, N)]).astype(float)
    known = {"kinds": ["category", "number", "boolean"], "n_levels": [5, 0, 0]}
    choice = choose("auto", Profile.of(X), **known)
    assert choice.likelihoods == ("categorical", "poisson", "bernoulli")
    assert choice.n_levels == (5,)
    assert choose({1: "gaussian"}, Profile.of(X), **known).likelihoods[1] == "gaussian"
    with pytest.raises(DataError, match="'colour' has the level 2, and its levels are 0 to 1"):
        choose("auto", Profile.of(X), kinds=known["kinds"], n_levels=[2, 0, 0], names=["colour", "b", "c"])


@pytest.mark.parametrize(
    ("likelihood", "message"),
    [
        ({"a": "poisson"}, "'poisson' of column 'a' needs whole numbers, and there are others"),
        ({"b": "negative_binomial"}, "column 'b' needs whole numbers from 0 on, and there is -1"),
        ({"b": "categorical"}, "column 'b' needs whole numbers from 0 on, and there is -1"),
        ({"c": "bernoulli"}, "column 'c' needs zeros and ones, and there is 3"),
        ({"a": "bernoulli"}, "column 'a' needs zeros and ones beside columns of other kinds"),
        ({"d": "categorical"}, "column 'd' needs levels from 0 on, and there is 1e\\+07.*OrdinalEncoder"),
    ],
)
def test__choose__values_that_do_not_fit__are_refused_with_the_column(likelihood, message):
    X = np.column_stack([np.linspace(0, 1, 8), np.arange(-1, 7), np.arange(8) % 4, np.linspace(0, 7e7, 8) // 7])
    with pytest.raises(DataError, match=message):
        choose(likelihood, Profile.of(X), names=list("abcd"))


def test__choice__layout__is_none_where_one_likelihood_says_it_all(rng):
    binary, counts = rng.integers(0, 2, (50, 3)).astype(float), rng.poisson(3, (50, 3)).astype(float)
    assert choose("auto", Profile.of(binary)).layout(()) is None
    assert choose("auto", Profile.of(binary)).layout((1,)) == Layout(("bernoulli",) * 3, (), (1,))
    assert choose("poisson", Profile.of(counts)).layout(()) == Layout(("poisson",) * 3)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [(0, 0.5, "0 or 1"), (1, 1.5, "whole number"), (1, -1, "whole number"), (2, 3, "level"), (2, 0.5, "level")],
)
def test__supports__impossible_value__is_refused_with_its_place(column, value, message):
    layout = Layout(("bernoulli", "poisson", "categorical", "gaussian"), (3,))
    rows = np.array([[1.0, 7, 2, -0.5], [np.nan] * 4])
    Supports.of(layout).check(rows)
    rows[0, column] = value
    with pytest.raises(DataError, match=rf"{value:g} in row 5, column {column}; .*{message}"):
        Supports.of(layout).check(rows, first_row=5)


def test__profile__parts_and_sparse_rows__have_the_same_facts(rng):
    X = rng.poisson(0.5, (300, 4)).astype(float)
    X[:, 3] += 0.5 * (X[:, 3] > 0)
    dense, sparse = Profile.of(X[:200], X[200:]), Profile.of(sp.csr_matrix(X[:200]), sp.csr_matrix(X[200:]))
    np.testing.assert_array_equal(dense.sample, sparse.sample)
    for name in ("smallest", "largest", "whole", "n_missing"):
        np.testing.assert_array_equal(getattr(dense, name), getattr(sparse, name))
    assert dense.n_rows == 300
    assert dense.whole.tolist() == [True, True, True, False]
    assert dense.largest.tolist() == X.max(axis=0).tolist()
    assert len(sample_places(10**7, 1000)) < 10_000
    assert len(sample_places(10**7, 4)) == 10_000


def test__profile__weights__are_repeated_rows(rng):
    X, weights = rng.normal(size=(5_000, 2)), rng.integers(1, 5, 5_000)
    of_weights, repeated = (
        np.quantile(profile.sample, (0.25, 0.5, 0.75), axis=0)
        for profile in (Profile.of(X, weights=weights.astype(float)), Profile.of(np.repeat(X, weights, axis=0)))
    )
    np.testing.assert_allclose(of_weights, repeated, atol=0.1)
    assert len(Profile.of(X, weights=weights.astype(float)).sample) == 5_000
