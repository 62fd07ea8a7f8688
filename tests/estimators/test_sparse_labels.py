"""Sparse labels, and rows by rows: nothing of the size of rows times labels is made dense."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import f1_score

from sdlgm import SDLGMClassifier
from sdlgm.estimators import _classifier, _fitted
from sdlgm.estimators._targets import labels_of

SMALL = {"hidden": (8,), "dropout": 0.0, "input_dropout": 0.0, "max_iter": 30, "learning_rate": 0.03, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_multilabel_classification(n_samples=150, n_features=12, n_classes=5, n_labels=2, random_state=0)


def test__labels_of__sparse_and_sets__stay_sparse(data):
    _, Y = data
    names = np.array(["a", "b", "c", "d", "e"])
    sets = [set(names[row > 0]) for row in Y]
    for other in (sp.csr_matrix(Y), sp.csc_array(Y), sp.coo_matrix(Y.astype(float)), sets):
        found = labels_of(other).indicator
        assert isinstance(found, sp.csr_array)
        np.testing.assert_array_equal(found.toarray(), Y)
    other_order = labels_of(sets, names[::-1]).indicator
    np.testing.assert_array_equal(other_order.toarray(), Y[:, ::-1])
    with_zeros = sp.csr_array((np.array([0, 1, 1]), np.array([1, 0, 2]), np.array([0, 2, 3])), shape=(2, 3))
    assert labels_of(with_zeros).indicator.nnz == 2
    assert with_zeros.nnz == 3  # not changed in place
    for value, message in ((2, "row 1, column 2"), (np.nan, "row 1, column 2")):
        wrong = sp.csr_array((np.array([1.0, 1.0, value]), with_zeros.indices, with_zeros.indptr), shape=(2, 3))
        with pytest.raises(ValueError, match=message):
            labels_of(wrong)


@pytest.mark.parametrize(
    "settings",
    [{}, {"variant": "gen"}, {"n_trees": 2}, {"threshold": "cv"}, {"early_stopping": True}],
    ids=str,
)
def test__fit__sparse_labels__give_the_model_of_dense_ones(data, settings):
    X, Y = data
    weights = np.random.default_rng(0).random(150) + 0.5
    further = {"unlabelled": X[:20]} if "variant" in settings else {}
    dense = SDLGMClassifier(**SMALL, **settings).fit(X, Y, weights, **further)
    sparse = SDLGMClassifier(**SMALL, **settings).fit(sp.csr_matrix(X), sp.csr_matrix(Y), weights, **further)
    np.testing.assert_allclose(sparse.predict_proba(X), dense.predict_proba(X), atol=1e-4)
    if not settings:
        plain = SDLGMClassifier(**SMALL).fit(X, Y)
        np.testing.assert_array_equal(SDLGMClassifier(**SMALL).fit(X, sp.csr_array(Y)).predict(X), plain.predict(X))


def test__evaluate_and_score__rows_by_rows__are_those_of_all_rows(data, monkeypatch):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    whole, score, predicted = model.evaluate(X, Y), model.score(X, Y), model.predict(X)
    weights = np.random.default_rng(0).random(150)
    weighted = f1_score(Y, predicted, average="micro", sample_weight=weights)
    monkeypatch.setattr(_fitted, "BATCH", 7)
    monkeypatch.setattr(_fitted, "_MOST_LABELLED_VALUES", 100)
    for labels in (Y, sp.csr_matrix(Y)):
        parts = model.evaluate(sp.csr_matrix(X), labels)
        for name, value in vars(whole).items():
            assert getattr(parts, name) == pytest.approx(value, abs=1e-5), name
        assert model.score(X, labels) == pytest.approx(score)
        assert model.score(X, labels, sample_weight=weights) == pytest.approx(weighted)
    np.testing.assert_array_equal(model.predict(X), predicted)


def test__predict__sparse_output__has_the_same_labels(data, monkeypatch):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    for decision in ("f1", "count", "threshold"):
        dense, sparse = (model.predict(X, decision=decision, sparse_output=wanted) for wanted in (None, True))
        assert isinstance(dense, np.ndarray)
        assert isinstance(sparse, sp.csr_array)
        np.testing.assert_array_equal(sparse.toarray(), dense)
    names = model.predict_labels(X)
    assert [list(row) for row in names] == [np.flatnonzero(row).tolist() for row in model.predict(X)]
    monkeypatch.setattr(_classifier, "_MOST_DENSE_LABELS", 4)
    assert isinstance(model.predict(X), sp.csr_array)
    assert f1_score(sp.csr_matrix(Y), model.predict(X), average="micro") == pytest.approx(model.score(X, Y))
    assert isinstance(model.predict(X, sparse_output=False), np.ndarray)


def test__partial_fit__sparse_labels__is_that_of_dense_ones(data):
    X, Y = data
    dense = SDLGMClassifier(**SMALL, max_active=5).partial_fit(X, Y)
    sparse = SDLGMClassifier(**SMALL, max_active=5).partial_fit(X, sp.csr_matrix(Y))
    np.testing.assert_array_equal(sparse.predict_proba(X), dense.predict_proba(X))
