"""The peers on small made data: one interface, whatever the labels."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from reproduction.multilabel_peers import GRIDS, PEERS, QUICK


@pytest.fixture(scope="module")
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """Five labels, of which the third is never and the fourth always present; read-only as memory maps are."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * np.array([1, 10, 100, 1, 1, 0])
    Y = np.column_stack([X[:, 0] > 0, X[:, 1] > 5, np.zeros(60), np.ones(60), X[:, 2] < 0]).astype(int)
    X.flags.writeable = Y.flags.writeable = False
    return X, Y


def test__grids__every_peer__has_settings_that_it_knows():
    assert GRIDS.keys() == PEERS.keys() == QUICK.keys()
    for name, settings in GRIDS.items():
        assert 2 <= len(settings) <= 4
        assert len({str(PEERS[name](**setting)) for setting in settings}) == len(settings), name
        PEERS[name](**{**settings[0], **QUICK[name]})


@pytest.mark.parametrize("name", PEERS)
def test__predict_proba__constant_labels__are_known_and_others_learned(labelled, name):
    X, Y = labelled
    scores = PEERS[name]().fit(X, Y).predict_proba(X)
    assert scores.shape == Y.shape
    assert scores.min() >= 0
    assert scores.max() <= 1
    np.testing.assert_array_equal(scores[:, 2], 0)
    np.testing.assert_array_equal(scores[:, 3], 1)
    for k in (0, 1, 4):
        assert roc_auc_score(Y[:, k], scores[:, k]) > 0.8


@pytest.mark.parametrize("name", PEERS)
def test__predict_proba__one_label_that_varies__is_a_column(labelled, name):
    X, Y = labelled
    for columns in ([0], [2, 0]):
        scores = PEERS[name]().fit(X, Y[:, columns]).predict_proba(X[:7])
        assert scores.shape == (7, len(columns))
        assert scores[:, -1].min() < 0.5 < scores[:, -1].max()


@pytest.mark.parametrize("name", PEERS)
def test__predict_proba__same_seed__is_the_same(labelled, name):
    X, Y = labelled
    first, again, other = (PEERS[name](random_state=seed).fit(X, Y).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert other.shape == first.shape


@pytest.mark.parametrize("name", PEERS)
def test__predict_proba__nothing_varies__needs_no_estimator(labelled, name):
    X, Y = labelled
    scores = PEERS[name]().fit(X, Y[:, 2:4]).predict_proba(X[:3])
    np.testing.assert_array_equal(scores, [[0, 1]] * 3)


def test__peer__scikit_learn_tools__accept_it(labelled):
    X, Y = labelled
    model = PEERS["classifier_chain"]()
    scores = cross_val_predict(clone(model), X, Y[:, [0, 1, 4]], cv=3, method="predict_proba")
    assert scores.shape == (60, 3)
    np.testing.assert_array_equal(model.fit(X, Y).predict(X), model.predict_proba(X) > 0.5)
    with pytest.raises(ValueError, match="features"):
        model.predict_proba(X[:, :2])


def test__fit__no_indicators__is_refused(labelled):
    with pytest.raises(ValueError, match="not a dense 0/1 matrix"):
        PEERS["random_forest"]().fit(labelled[0], labelled[1] + 1)
