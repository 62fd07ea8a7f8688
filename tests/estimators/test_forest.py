"""Trees beside the networks of a classifier."""

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import ExtraTreesRegressor

from sdlgm import SDLGMClassifier, _tensorfile, load
from sdlgm.errors import ModelFileError
from sdlgm.estimators._forest import Forest

SMALL = {"hidden": (8,), "dropout": 0.0, "input_dropout": 0.0, "max_iter": 30, "learning_rate": 0.03, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(n_samples=200, n_features=12, n_classes=5, n_labels=2, random_state=0)
    X.flags.writeable = Y.flags.writeable = False
    return X, Y


def test__forest__votes__are_those_of_scikit_learn(data):
    X, Y = data
    x = X.astype(np.float32)
    forest = Forest.fit(x[:150], Y[:150], 20, seed=3)
    presence, numbers = forest.votes(x)
    grown = ExtraTreesRegressor(20, max_features=0.3, random_state=3).fit(x[:150], Y[:150])
    np.testing.assert_allclose(presence, grown.predict(x), atol=1e-7)
    np.testing.assert_allclose(numbers.sum(axis=1), 1.0)
    np.testing.assert_allclose(numbers @ np.arange(6), presence.sum(axis=1), atol=1e-6)


def test__trees__beside_networks__have_half_of_the_weight(data, tmp_path):
    X, Y = data
    without = SDLGMClassifier(**SMALL).fit(X, Y)
    model = SDLGMClassifier(**SMALL, n_trees=10).fit(X, Y)
    votes, _ = model._fitted.forest.votes(model._fitted.scaling.apply(X))
    np.testing.assert_allclose(model.predict_proba(X), (without.predict_proba(X) + votes) / 2, atol=1e-6)
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict_proba(X), model.predict_proba(X))
    np.testing.assert_allclose(model.predict_sparsity(X).probs.sum(axis=1), 1.0)


def test__load__trees_that_lead_nowhere__are_refused(data, tmp_path):
    path = tmp_path / "model.sdlgm"
    SDLGMClassifier(**SMALL, n_trees=3).fit(*data).save(path)
    content = _tensorfile.read(path, "sdlgm-model")
    document, tensors = content.document, content.tensors
    changes = {
        "left": lambda t: t * 0,  # a circle
        "right": lambda t: t + 10**6,
        "feature": lambda t: t + 12,
        "order": lambda t: t - 1,
        "last": lambda t: t * 0,
        "roots": lambda t: t + 10**6,
        "targets": lambda t: t[:, :-1].clone(),
        "threshold": lambda t: t[:, None].clone(),
    }
    for name, change in [*changes.items(), ("targets", lambda t: -5 * t)]:
        damaged = {**tensors, f"forest.{name}": change(tensors[f"forest.{name}"])}
        _tensorfile.write(path, "sdlgm-model", document, damaged)
        with pytest.raises(ModelFileError, match="trees"):
            load(path)
    _tensorfile.write(path, "sdlgm-model", document, {n: t for n, t in tensors.items() if not n.startswith("forest.")})
    with pytest.raises(ModelFileError, match="trees"):
        load(path)
