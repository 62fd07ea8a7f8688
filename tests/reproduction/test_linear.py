"""The linear baselines against their definitions and against other people's code."""

import itertools

import numpy as np
import pytest
import torch
from entmax import SparsemaxLoss
from entmax import sparsemax as entmax_sparsemax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.multiclass import OneVsRestClassifier

from reproduction.linear import LinearMultiLabel, logistic_loss, softmax_loss, sparsemax, sparsemax_loss

LOSSES = ["logistic", "softmax", "sparsemax"]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def labelled() -> tuple[np.ndarray, np.ndarray]:
    """Noisy linear labels, at least one a row; read-only as memory maps are."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 5))
    logits = X @ rng.normal(size=(5, 4)) + rng.normal(size=(80, 4))
    Y = (logits > np.minimum(0.5, logits.max(1, keepdims=True) - 1e-9)).astype(int)
    X.flags.writeable = Y.flags.writeable = False
    return X, Y


def distributions(rng: np.random.Generator, n_rows: int, n_labels: int) -> np.ndarray:
    """Uniform over random non-empty sets of labels."""
    Y = rng.integers(0, 2, (n_rows, n_labels))
    Y[np.arange(n_rows), rng.integers(0, n_labels, n_rows)] = 1
    return Y / Y.sum(1, keepdims=True)


# The functions


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 1e8])
def test__sparsemax__any_scale__equals_entmax(rng, scale):
    z = scale * rng.normal(size=(3, 50, 7))
    np.testing.assert_allclose(sparsemax(z), entmax_sparsemax(torch.from_numpy(z), dim=-1).numpy(), atol=1e-12)


def test__sparsemax__every_support__is_the_nearest_point_of_the_simplex(rng):
    """With the support given, the projection adds the same number to all entries on it."""
    for z in rng.normal(size=(50, 4)):
        candidates = []
        for support in itertools.product([False, True], repeat=4):
            if any(support):
                on = np.array(support)
                p = np.where(on, z + (1 - z[on].sum()) / on.sum(), 0.0)
                if (p >= 0).all():
                    candidates.append(p)
        nearest = min(candidates, key=lambda p: np.square(p - z).sum())
        np.testing.assert_allclose(sparsemax(z), nearest, atol=1e-12)


def test__sparsemax__ties_and_single_labels__are_distributions():
    np.testing.assert_allclose(sparsemax(np.zeros((2, 5))), 0.2)
    np.testing.assert_array_equal(sparsemax(np.array([[-3.0], [7.0]])), 1.0)
    np.testing.assert_array_equal(sparsemax(np.array([1e300, 0.0])), [1.0, 0.0])


def test__sparsemax_loss__equals_its_definition(rng):
    z, q = rng.normal(size=(200, 6)), distributions(rng, 200, 6)
    expected = []
    for logits, target in zip(z, q, strict=True):
        on = sparsemax(logits) > 0
        tau = (logits[on].sum() - 1) / on.sum()
        expected.append(-target @ logits + 0.5 * (logits[on] ** 2 - tau**2).sum() + 0.5 * target @ target)
    np.testing.assert_allclose(sparsemax_loss(z, q), expected, atol=1e-12)


def test__sparsemax_loss__one_label__equals_entmax(rng):
    z, labels = 2 * rng.normal(size=(100, 6)), rng.integers(0, 6, 100)
    expected = SparsemaxLoss(reduction="none")(torch.from_numpy(z), torch.from_numpy(labels)).numpy()
    np.testing.assert_allclose(sparsemax_loss(z, np.eye(6)[labels]), expected, atol=1e-12)


def test__sparsemax_loss__separated_logits__is_zero_from_the_margin_on():
    """With m labels the sparsemax is q as soon as they are equally far, at least 1 / m, above all others."""
    q = np.array([0.5, 0.5, 0.0, 0.0])
    for gap in (0.5, 0.6, 40.0):
        z = np.array([gap, gap, 0.0, -1.0])
        np.testing.assert_allclose(sparsemax(z), q, atol=1e-15)
        assert sparsemax_loss(z, q) == pytest.approx(0.0, abs=1e-14)
    assert sparsemax_loss(np.array([0.4, 0.4, 0.0, -1.0]), q) > 1e-3
    assert sparsemax_loss(np.array([0.7, 0.6, 0.0, -1.0]), q) > 1e-3


def test__sparsemax_loss__other_logits__is_positive(rng):
    z, q = rng.normal(size=(500, 4)), distributions(rng, 500, 4)
    differs = np.abs(sparsemax(z) - q).max(1) > 1e-6
    assert differs.any()
    assert (sparsemax_loss(z, q)[differs] > 0).all()


def test__softmax_loss__equals_torch(rng):
    z, q = rng.normal(size=(50, 4)), distributions(rng, 50, 4)
    log_probs = torch.from_numpy(z).log_softmax(-1)
    expected = torch.nn.functional.kl_div(log_probs, torch.from_numpy(q), reduction="none").sum(-1)
    np.testing.assert_allclose(softmax_loss(z, q), expected.numpy(), atol=1e-12)


def test__logistic_loss__equals_torch(rng):
    z, y = 50 * rng.normal(size=(50, 4)), rng.integers(0, 2, (50, 4)).astype(float)
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    expected = loss(torch.from_numpy(z), torch.from_numpy(y), reduction="none").sum(-1)
    np.testing.assert_allclose(logistic_loss(z, y), expected.numpy(), atol=1e-12)


# The estimator


@pytest.mark.parametrize("loss", LOSSES)
def test__objective__gradient__equals_finite_differences(rng, labelled, loss):
    X, targets = LinearMultiLabel(loss=loss)._with_targets(*(each.astype(float) for each in labelled))
    model, parameters = LinearMultiLabel(loss=loss, l2=3.0), rng.normal(size=(4, 6))
    _, gradient = model._objective(parameters, X, targets)
    step = 1e-6
    for index in np.ndindex(4, 6):
        change = np.zeros((4, 6))
        change[index] = step
        above, below = (model._objective(parameters + sign * change, X, targets)[0] for sign in (1, -1))
        assert gradient[index] == pytest.approx((above - below) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("l2", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test__fit__optimum__has_no_gradient_and_nothing_near_is_lower(rng, labelled, loss, l2):
    model = LinearMultiLabel(loss=loss, l2=l2).fit(*labelled)
    rows, targets = model._with_targets(*(each.astype(float) for each in labelled))
    fitted = np.column_stack([model.coef_, model.intercept_])
    lowest, gradient = model._objective(fitted, rows, targets)
    assert np.abs(gradient).max() < 1e-5
    for _ in range(20):
        assert model._objective(fitted + 0.01 * rng.normal(size=fitted.shape), rows, targets)[0] > lowest


@pytest.mark.parametrize("l2", [0.1, 10.0])
def test__logistic__equals_logistic_regression_for_each_label(labelled, l2):
    X, Y = labelled
    peer = OneVsRestClassifier(LogisticRegression(C=1 / l2, tol=1e-9, max_iter=10_000)).fit(X, Y)
    model = LinearMultiLabel(loss="logistic", l2=l2).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("l2", [0.1, 10.0])
def test__softmax__one_label_a_row__equals_multinomial_regression(rng, labelled, l2):
    X, classes = labelled[0], rng.integers(0, 4, 80)
    peer = LogisticRegression(C=1 / l2, tol=1e-9, max_iter=10_000).fit(X, classes)
    model = LinearMultiLabel(loss="softmax", l2=l2).fit(X, np.eye(4)[classes])
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("loss", LOSSES)
def test__predict__threshold__is_what_scores_are_above(labelled, loss):
    X, Y = labelled
    model = LinearMultiLabel(loss=loss, threshold=0.2).fit(X, Y)
    scores = model.predict_proba(X)
    assert scores.min() >= 0
    assert scores.max() <= 1 + 1e-12
    if loss != "logistic":
        np.testing.assert_allclose(scores.sum(1), 1)
    np.testing.assert_array_equal(model.predict(X), scores > 0.2)
    assert model.score(X, Y) > model.set_params(threshold=0.99).score(X, Y)


def test__sparsemax__fitted__leaves_labels_out_entirely(labelled):
    scores = LinearMultiLabel(loss="sparsemax").fit(*labelled).predict_proba(labelled[0])
    assert (scores == 0).mean() > 0.1


@pytest.mark.parametrize("loss", LOSSES)
def test__fit__degenerate_data__has_finite_scores(labelled, loss):
    X, Y = labelled
    never, always = np.zeros((80, 1), int), np.ones((80, 1), int)
    cases = {
        "label never seen": (X, np.hstack([Y, never])),
        "label always seen": (X, np.hstack([Y, always])),
        "constant features": (np.hstack([X, np.ones((80, 1)), np.zeros((80, 1))]), Y),
        "only constant features": (np.ones((80, 2)), Y),
        "one label": (X, Y[:, :1]),
        "one row": (X[:1], Y[:1]),
    }
    for name, (features, labels) in cases.items():
        scores = LinearMultiLabel(loss=loss).fit(features, labels).predict_proba(features)
        assert scores.shape == labels.shape, name
        assert np.isfinite(scores).all(), name
    scores = LinearMultiLabel(loss=loss).fit(*cases["label never seen"]).predict_proba(X)
    assert scores[:, -1].max() < 0.02


@pytest.mark.parametrize("loss", ["softmax", "sparsemax"])
def test__fit__rows_without_labels__are_left_out(labelled, loss):
    X, Y = labelled
    more = np.vstack([X, X[:10] + 1]), np.vstack([Y, np.zeros((10, 4), int)])
    np.testing.assert_array_equal(
        LinearMultiLabel(loss=loss).fit(*more).coef_, LinearMultiLabel(loss=loss).fit(X, Y).coef_
    )
    with pytest.raises(ValueError, match="no row has a label"):
        LinearMultiLabel(loss=loss).fit(X, np.zeros_like(Y))


@pytest.mark.parametrize("bad", [[0, 1] * 40, np.full((80, 2), 2), np.full((80, 2), "a")], ids=["1d", "2", "text"])
def test__fit__no_indicators__is_refused(labelled, bad):
    with pytest.raises(ValueError, match="not a dense 0/1 matrix"):
        LinearMultiLabel().fit(labelled[0], bad)


@pytest.mark.parametrize("setting", [{"loss": "hinge"}, {"l2": 0.0}, {"threshold": 1.5}, {"max_iter": 0}])
def test__fit__impossible_setting__is_refused(labelled, setting):
    with pytest.raises(ValueError, match=next(iter(setting))):
        LinearMultiLabel(**setting).fit(*labelled)


def test__fit__too_few_iterations__warns(labelled):
    with pytest.warns(ConvergenceWarning, match="no convergence after 2 iterations"):
        LinearMultiLabel(max_iter=2).fit(*labelled)


def test__estimator__scikit_learn_tools__accept_it(labelled):
    X, Y = labelled
    model = clone(LinearMultiLabel(loss="sparsemax", threshold=0.1))
    scores = cross_val_predict(model, X, Y, cv=3, method="predict_proba")
    assert scores.shape == Y.shape
