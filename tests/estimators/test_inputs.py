"""What the networks of the classifier see: ranks, principal components, and the choice between them."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm
from sklearn.decomposition import PCA

from sdlgm import SDLGMClassifier, _kernels, load
from sdlgm._fileheader import MODEL
from sdlgm._tensorfile import read, write
from sdlgm.errors import DataError, ModelFileError
from sdlgm.estimators import _inputs
from sdlgm.estimators._inputs import PrincipalScaling, RankScaling, choose_inputs, is_sparse_table
from sdlgm.estimators._preparation import Columns

SMALL = {"hidden": (16,), "max_iter": 40, "random_state": 0}


def texts(n_rows: int = 120, n_words: int = 200, n_labels: int = 4) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows of few words each, some of which name the labels."""
    rng = np.random.default_rng(0)
    Y = (rng.random((n_rows, n_labels)) < 0.3).astype(int)
    words = (rng.random((n_rows, n_words)) < 0.04).astype(float)
    words[:, :n_labels] = Y
    return sp.csr_matrix(words), Y


def heavy_tails(n_rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = np.exp(rng.normal(size=(n_rows, 5)) * np.array([1, 2, 3, 4, 5]))
    return X, (np.log(X[:, :3]) > 0).astype(int)


def test__interpolate__values__are_those_of_numpy():
    rng = np.random.default_rng(0)
    knots = np.sort(rng.normal(size=(4, 7)), axis=1)
    knots[2, 4:] = knots[2, 4]  # padded
    heights = rng.normal(size=(4, 7))
    heights[2, 4:] = heights[2, 4]
    values = np.concatenate([rng.normal(size=(50, 4)) * 2, knots.T])
    expected = np.column_stack([np.interp(values[:, k], knots[k], heights[k]) for k in range(4)])
    np.testing.assert_allclose(_kernels.interpolate(values, knots, heights), expected, rtol=1e-12, atol=1e-12)


def test__rank_scaling__few_values__are_quantiles_at_the_middle_of_their_ranks():
    X = np.array([[0.0], [0.0], [0.0], [5.0], [1e9]])
    scaled = RankScaling.of_rows(X, None).apply(X)[:, 0]
    np.testing.assert_allclose(scaled, norm.ppf([0.3, 0.3, 0.3, 0.7, 0.9]), atol=1e-6)


def test__rank_scaling__monotone_transformation__changes_nothing():
    X, _ = heavy_tails()
    one, other = RankScaling.of_rows(X, None).apply(X), RankScaling.of_rows(np.log(X), None).apply(np.log(X))
    np.testing.assert_allclose(one, other, atol=1e-5)
    assert np.abs(RankScaling.of_rows(X, None).apply(1e6 * X)).max() <= 3


def test__rank_scaling__weights__are_those_of_repeated_rows():
    X, _ = heavy_tails(60)
    repeats = np.random.default_rng(0).integers(1, 4, 60)
    weighted, repeated = RankScaling.of_rows(X, repeats.astype(float)), RankScaling.of_rows(X.repeat(repeats, 0), None)
    np.testing.assert_allclose(weighted.apply(X), repeated.apply(X), atol=1e-6)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test__principal_scaling__rows__are_principal_components(shape):
    X = np.where(np.random.default_rng(0).random(shape) < 0.2, 1.0, 0.0)
    X = X[:, np.ptp(X, axis=0) > 0]
    scaling = PrincipalScaling.of_rows(sp.csr_matrix(X), Columns.of(X), None, 0)
    found = scaling.apply(sp.csr_matrix(X))
    expected = PCA(min(len(X) - 1, X.shape[1])).fit_transform(X)
    expected /= np.sqrt(np.mean(expected**2))
    found = found[:, : expected.shape[1]]
    np.testing.assert_allclose(np.abs(found[:, :5]), np.abs(expected[:, :5]), atol=2e-2)
    np.testing.assert_allclose(scaling.apply(X), scaling.apply(sp.csr_matrix(X)), atol=1e-5)


def test__principal_scaling__many_rows_and_columns__keeps_nearly_all_of_a_low_rank(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.kron((rng.random((60, 4)) < 0.5).astype(float), np.ones((2, 20)))
    monkeypatch.setattr(_inputs, "_LARGEST_EXACT", 10)
    monkeypatch.setattr(_inputs, "_MOST_APPROXIMATE", 6)
    scaled = PrincipalScaling.of_rows(sp.csr_matrix(X), Columns.of(X), None, 0).apply(X)
    assert scaled.shape == (120, 4)
    assert np.linalg.matrix_rank(scaled, tol=1e-3) == 4


def test__principal_scaling__column_of_large_values__is_not_all_that_is_seen():
    X, _ = texts()
    ages = np.random.default_rng(0).integers(1000, 90_000, (X.shape[0], 1)).astype(float)
    both = sp.csr_matrix(sp.hstack([X, sp.csr_matrix(ages)]))
    scaled = PrincipalScaling.of_rows(both, Columns.of(both), None, 0).apply(both)
    variances = np.sort(scaled.var(axis=0))[::-1]
    assert variances[1:].sum() > 3 * variances[0]


def test__fit__texts__sees_components_and_sparse_rows_are_those_of_dense_ones(tmp_path):
    X, Y = texts()
    model = SDLGMClassifier(**SMALL, inputs="sparse").fit(X, Y)
    assert model.inputs_ == "sparse"
    assert model.module_.config.n_inputs < X.shape[1]
    assert model.module_.posterior.linear is not None
    assert model.module_.posterior.linear.detach().abs().max() > 0
    other = SDLGMClassifier(**SMALL, inputs="sparse").fit(X.toarray(), Y)
    np.testing.assert_allclose(model.predict_proba(X), other.predict_proba(X.toarray()), atol=1e-4)
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict_proba(X), model.predict_proba(X))


def test__fit__heavy_tails__sees_ranks_and_files_too(tmp_path):
    X, Y = heavy_tails()
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    assert model.inputs_ == "ranks"
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict_proba(X), model.predict_proba(X))
    assert model.score(X, Y) > SDLGMClassifier(**SMALL, inputs="standard").fit(X, Y).score(X, Y)


@pytest.mark.parametrize("inputs", ["ranks", "sparse"])
def test__load__inputs_that_do_not_fit__names_the_file(tmp_path, inputs):
    X, Y = texts()
    path = tmp_path / "model.sdlgm"
    SDLGMClassifier(**SMALL, inputs=inputs).fit(X, Y).save(path)
    content = read(path, MODEL)
    name = "inputs.directions" if inputs == "sparse" else "inputs.knots"
    for document, tensors in (
        ({"inputs": "other"}, {}),
        ({"n_inputs": 0}, {}),
        ({"n_inputs": X.shape[1] + 1}, {}),
        ({}, {name: content.tensors[name][:-1].clone()}),
        ({}, {name: content.tensors[name] * float("nan")}),
    ):
        write(path, MODEL, {**content.document, **document}, {**content.tensors, **tensors})
        with pytest.raises(ModelFileError):
            load(path)


def test__choose_inputs__table__is_ranked_or_the_better_of_two():
    X, _ = texts()
    calls = []

    def loss(inputs, fitted, held_out):
        calls.append((inputs, len(fitted), len(held_out)))
        assert not set(fitted) & set(held_out)
        return {"sparse": 2.0, "standard": 1.0}[inputs]

    assert is_sparse_table(X)
    assert is_sparse_table(X.toarray())
    assert choose_inputs(X, loss, 0, may_try=True) == "standard"
    assert calls == [("sparse", 96, 24), ("standard", 96, 24)]
    assert choose_inputs(X, loss, 0, may_try=False) == "sparse"
    assert choose_inputs(heavy_tails()[0], loss, 0, may_try=True) == "ranks"
    assert len(calls) == 2


@pytest.mark.parametrize(("settings", "inputs"), [({}, None), ({"variant": "gen"}, "standard")])
def test__fit__auto__chooses_by_variant_and_table(settings, inputs):
    X, Y = texts()
    model = SDLGMClassifier(**SMALL, **settings).fit(X, Y)
    assert model.inputs_ in ({"sparse", "standard"} if inputs is None else {inputs})
    again = SDLGMClassifier(**SMALL, **settings, inputs=model.inputs_).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), again.predict_proba(X))


def test__fit__inputs_that_have_no_way_back__need_a_model_without_rows():
    X, Y = texts()
    with pytest.raises(ValueError, match="inputs='standard'"):
        SDLGMClassifier(**SMALL, inputs="sparse", variant="gen").fit(X, Y)


def test__predict__value_far_beyond_the_training_data__is_named():
    X, Y = texts()
    model = SDLGMClassifier(**SMALL, inputs="sparse").fit(X, Y)
    far = X[:3].toarray()
    far[2, 7] = 1e30
    with pytest.raises(DataError, match="row 2, column 7"):
        model.predict(far)


@pytest.mark.parametrize(("n_rows", "expected"), [(100, 3.0), (3000, 3.0), (6000, 1.5), (10**6, 0.1), (None, 0.1)])
def test__weight_decay__auto__falls_with_the_rows(n_rows, expected):
    assert SDLGMClassifier()._weight_decay(n_rows) == pytest.approx(expected)
    assert SDLGMClassifier(weight_decay=0.7)._weight_decay(n_rows) == 0.7
    assert SDLGMClassifier(variant="gen")._weight_decay(n_rows) == 0.1


def test__linear_path__before_training__adds_nothing_and_leaves_the_network_as_it_is():
    X, Y = texts(60)
    one = SDLGMClassifier(**{**SMALL, "max_iter": 1}, learning_rate=1e-12, inputs="sparse").fit(X, Y)
    assert one.module_.posterior.linear is not None
    assert one.module_.posterior.linear.detach().abs().max() < 1e-11
