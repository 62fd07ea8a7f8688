"""Early stopping, decision functions and the order of classes of the classifier."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_multilabel_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import MultiLabelBinarizer

from sdlgm import SDLGMClassifier, load

SMALL = {
    "hidden": (16,),
    "dropout": 0.0,
    "input_dropout": 0.0,
    "max_iter": 30,
    "learning_rate": 0.03,
    "random_state": 0,
}
STOPPING = {**SMALL, "max_iter": 400, "weight_decay": 0.0, "early_stopping": True, "validation_fraction": 0.3}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return make_multilabel_classification(n_samples=120, n_features=12, n_classes=5, n_labels=2, random_state=0)


def test__early_stopping__rows_that_can_be_learned_by_heart__keeps_the_best_parameters(data, tmp_path):
    X, Y = data
    model = SDLGMClassifier(**STOPPING, n_iter_no_change=5).fit(X, Y)
    assert model.n_iter_ < 400
    curve = [record.discrete for record in model.history_]
    assert len(curve) - 1 - int(np.argmax(curve)) >= 5
    watched = np.random.default_rng(model._seed_of(0)).permutation(120)[:36]
    probs = np.clip(model.predict_proba(X[watched]), 1e-9, 1 - 1e-9)
    own = np.where(Y[watched] > 0, np.log(probs), np.log1p(-probs)).sum(axis=1).mean()
    assert own == pytest.approx(max(curve), abs=0.05)  # labels are independent but for the budget
    whole = SDLGMClassifier(**{**STOPPING, "early_stopping": False}).fit(X, Y)
    assert whole.n_iter_ == 400
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.early_stopping is True
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test__early_stopping__weights__held_out_rows_are_in_proportion(data):
    X, Y = data
    weights = np.where(np.arange(120) % 2, 1.0, 0.0)
    model = SDLGMClassifier(**STOPPING).fit(X, Y, sample_weight=weights)
    odd = SDLGMClassifier(**STOPPING).fit(X[1::2], Y[1::2])
    assert model.max_active_ == odd.max_active_
    np.testing.assert_allclose(model.predict_proba(X), odd.predict_proba(X))  # rows of weight 0 are as if left out
    heavy = SDLGMClassifier(**STOPPING).fit(X, Y, sample_weight=1 + 100 * weights)
    assert not np.allclose(heavy.predict_proba(X), model.predict_proba(X))


def test__early_stopping__what_cannot_be__is_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match="early_stopping=True needs all rows at once"):
        SDLGMClassifier(**STOPPING).partial_fit(X, Y)
    with pytest.raises(ValueError, match="early_stopping=True holds out validation_fraction=0.3 of 1 rows"):
        SDLGMClassifier(**STOPPING).fit(X[:1], Y[:1])


def test__early_stopping__rows_without_labels_and_trees__work(data):
    X, Y = data
    model = SDLGMClassifier(**{**STOPPING, "max_iter": 20}, variant="gen", n_trees=2)
    assert model.fit(X, Y, unlabelled=X[:30]).predict(X).shape == Y.shape


def test__decision_function__labels__are_log_odds(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    log_odds = model.decision_function(X)
    np.testing.assert_allclose(1 / (1 + np.exp(-log_odds)), model.predict_proba(X), atol=1e-9)
    assert np.isfinite(model.decision_function(1e6 * X)).all()
    assert cross_val_score(SDLGMClassifier(**SMALL), X, Y, scoring="roc_auc_ovr", cv=3).min() > 0.5
    assert roc_auc_score(Y, log_odds) == pytest.approx(roc_auc_score(Y, model.predict_proba(X)))


def test__answers__of_single_rows__are_those_of_all(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    for method in (model.predict_proba, model.decision_function, model.predict):
        rows = np.concatenate([method(X[row : row + 1]) for row in range(len(X))])
        np.testing.assert_allclose(rows, method(X), rtol=2e-4, atol=1e-5)  # ranks amplify rounding


def test__decision_function__classes__has_the_shapes_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    two = SDLGMClassifier(**SMALL).fit(X, y)
    log_odds = two.decision_function(X)
    assert log_odds.shape == (len(X),)
    np.testing.assert_array_equal(two.classes_[(log_odds > 0).astype(int)], two.predict(X))
    X, y = load_iris(return_X_y=True)
    three = SDLGMClassifier(**SMALL).fit(X, y)
    np.testing.assert_array_equal(three.decision_function(X).argmax(axis=1), three.predict(X))


def test__classes__order__is_that_of_scikit_learn(data):
    X, Y = data
    names = np.array(["b", "a", "e", "c", "d"])
    sets = [set(names[row > 0]) for row in Y]
    binarizer = MultiLabelBinarizer().fit(sets)
    model = SDLGMClassifier(**SMALL).fit(X, sets)
    assert model.classes_.tolist() == binarizer.classes_.tolist() == sorted(names)
    first = SDLGMClassifier(**SMALL, max_active=5).partial_fit(X, sets, classes=names)
    assert first.classes_.tolist() == model.classes_.tolist()
    one_of_three = SDLGMClassifier(**SMALL).fit(X, np.array(["z", "x", "y"])[np.arange(120) % 3])
    assert one_of_three.classes_.tolist() == ["x", "y", "z"]
