"""Weights of rows, and training on batches as they arrive, for the classifier and the counter."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdlgm import SDLGMClassifier, SDLGMCounter, load
from sdlgm.data import digit_columns
from sdlgm.errors import BudgetError, TrainingDivergedError
from sdlgm.estimators._forest import Forest
from sdlgm.estimators._thresholds import best_threshold, f1
from sdlgm.gradients import GRADIENTS
from sdlgm.model.modules.base import Step
from sdlgm.model.noise import Noise
from sdlgm.train import ShuffledBatches, Targets, frequency_log_prob
from sdlgm.train.trainer import weighted

N_REPEATS = np.array([1, 3, 2, 0, 1, 4, 1, 0, 2, 1])
CLASSIFIER = {"hidden": (8,), "dropout": 0.0, "input_dropout": 0.0, "max_iter": 30, "learning_rate": 0.03}
COUNTER = {"hidden": (8,), "dropout": 0.0, "max_iter": 30, "learning_rate": 0.03}


def tables(n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Rows that tell how often, and so whether, each of three things is there."""
    rng = np.random.default_rng(0)
    counts = rng.integers(3, size=(n, 3))
    X = counts @ np.random.default_rng(1).normal(size=(3, 6)) + rng.normal(scale=0.1, size=(n, 6))
    X.flags.writeable = counts.flags.writeable = False
    return X, counts


def classifier(**changed) -> SDLGMClassifier:
    return SDLGMClassifier(**{**CLASSIFIER, "random_state": 0, **changed})


def counter(**changed) -> SDLGMCounter:
    return SDLGMCounter(**{**COUNTER, "random_state": 0, **changed})


def labels(counts: np.ndarray) -> np.ndarray:
    return (counts > 0).astype(int)


CASES = [
    pytest.param(classifier(), labels, id="classifier"),
    pytest.param(classifier(n_members=3), labels, id="members"),
    pytest.param(classifier(likelihood="multinomial"), labels, id="multinomial"),
    pytest.param(counter(batch_size=1000), lambda counts: counts, id="counter"),
]


def loss_and_gradients(model, X, y, weights) -> tuple[float, list[torch.Tensor]]:
    """Return the loss over one batch of all rows, and its gradients, of a model that has not been trained."""
    module, config = model.module_, model._train_config()
    batches = ShuffledBatches(X, 1000, 0, model._fitted.scaling.apply, Targets.all_known(y), weights)
    batch = batches.batch(0, torch.device("cpu"))
    noise = Noise(torch.Generator().manual_seed(0))
    objective = module.loss(batch, Step(GRADIENTS[config.gradient](module.n_logits), "exact", 1.0, 1, noise))
    loss = -weighted(objective.value, batch.weight).mean()
    module.zero_grad()
    loss.backward()
    gradients = [own.grad.clone() for own in module.parameters() if own.grad is not None]
    return loss.item(), gradients


@pytest.mark.parametrize(("model", "targets"), CASES)
def test__loss__integer_weights__is_that_of_repeated_rows(model, targets):
    X, counts = tables(len(N_REPEATS))
    y = targets(counts)
    repeated = np.repeat(X, N_REPEATS, axis=0), np.repeat(y, N_REPEATS, axis=0)
    fitted = pickle.loads(pickle.dumps(model)).fit(*repeated)
    kept = N_REPEATS > 0
    own = N_REPEATS[kept] / N_REPEATS[kept].mean()
    expected = loss_and_gradients(fitted, *repeated, None)
    found = loss_and_gradients(fitted, X[kept], y[kept], own)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    assert len(expected[1]) >= 4
    for one, other in zip(expected[1], found[1], strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("model", "targets"), CASES)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test__training__integer_weights__gives_the_model_of_repeated_rows(model, targets, method):
    """A batch is all rows, and nothing is drawn, so that only the order of sums differs."""
    X, counts = tables(len(N_REPEATS))
    y = targets(counts)
    model = model.set_params(max_iter=5)
    first, second = (pickle.loads(pickle.dumps(model)) for _ in range(2))
    getattr(first, method)(np.repeat(X, N_REPEATS, axis=0), np.repeat(y, N_REPEATS, axis=0))
    getattr(second, method)(X, y, sample_weight=N_REPEATS)
    np.testing.assert_allclose(first._fitted.scaling.location, second._fitted.scaling.location, rtol=1e-9)
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), atol=2e-3)
    assert first.max_active_ == second.max_active_
    kept = N_REPEATS > 0
    unweighted = getattr(pickle.loads(pickle.dumps(model)), method)(X[kept], y[kept])
    assert np.abs(unweighted.predict_proba(X) - first.predict_proba(X)).max() > 5e-3


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[3]])
def test__training__weights_of_zero__are_rows_that_are_not_there(model, targets, method):
    X, counts = tables(60)
    X, counts = X.copy(), counts.copy()
    weights = np.ones(60)
    X[::3], counts[::3], weights[::3] = 1e6, 50, 0  # would ruin the scaling and the budget
    y = targets(counts)
    kept = weights > 0
    alone = getattr(pickle.loads(pickle.dumps(model)), method)(X[kept], y[kept])
    for form in (np.asarray, sp.coo_array, pd.DataFrame):
        found = getattr(pickle.loads(pickle.dumps(model)), method)(X, form(y), sample_weight=weights)
        np.testing.assert_allclose(found.predict_proba(X[kept]), alone.predict_proba(X[kept]), atol=1e-5)
        assert found.max_active_ == alone.max_active_


def test__fit__class_of_rows_without_weight__is_not_there():
    X, counts = tables(60)
    y = np.array(["none", "one", "two"])[counts[:, 0]]
    assert classifier().fit(X, y, sample_weight=np.where(y == "one", 0.0, 1.0)).classes_.tolist() == ["none", "two"]
    sets = [{name} for name in y]
    assert classifier().fit(X, sets, sample_weight=np.where(y == "one", 0.0, 1.0)).classes_.tolist() == ["none", "two"]


def test__fit__weights__shift_the_predictions_to_heavy_rows():
    """Rows that contradict each other: the heavier half decides."""
    X, counts = tables(100)
    both, y = np.vstack([X, X]), np.vstack([labels(counts), 1 - labels(counts)])
    for heavy in (0, 1):
        weights = np.where(np.arange(200) < 100, 1.0 - heavy, float(heavy)) + 0.1
        model = classifier(max_iter=60, max_active=3).fit(both, y, sample_weight=weights)
        assert model.score(X, labels(counts) if heavy == 0 else 1 - labels(counts)) > 0.7


def test__fit__weights_with_rows_without_labels__those_have_the_weight_one(monkeypatch):
    X, counts = tables(60)
    seen = {}
    init = ShuffledBatches.__init__

    def noted(self, *args):
        init(self, *args)
        seen["weights"] = self.weights

    monkeypatch.setattr(ShuffledBatches, "__init__", noted)
    model = classifier(variant="gen", max_iter=2)
    model.fit(X[:40], labels(counts)[:40], sample_weight=np.full(40, 3.0), unlabelled=X[40:])
    assert seen["weights"][0] == pytest.approx(3 * seen["weights"][-1])
    assert seen["weights"].mean() == pytest.approx(1.0)


def test__forest__integer_weights__votes_as_with_repeated_rows():
    x = np.array([[0.0], [0.0], [1.0]], np.float32)  # one leaf has two rows
    indicator = np.array([[1, 0], [0, 1], [1, 1]])
    model = Forest.fit(x, indicator, 5, seed=0, weights=np.array([3.0, 1.0, 2.0]))
    np.testing.assert_allclose(model.votes(x)[0], [[0.75, 0.25], [0.75, 0.25], [1.0, 1.0]])
    again = Forest.from_tensors(model.tensors(), 5, 1, 2)
    np.testing.assert_array_equal(again.votes(x)[0], model.votes(x)[0])
    with pytest.raises(ValueError, match="trees"):
        Forest.from_tensors({**model.tensors(), "weights": torch.tensor([1.0, -1.0, 1.0]).double()}, 5, 1, 2)
    assert "weights" not in Forest.fit(x, indicator, 5, seed=0).tensors()


def test__save_and_load__weighted_trees__give_the_same_predictions(tmp_path):
    X, counts = tables(60)
    model = classifier(n_trees=3).fit(X, labels(counts), sample_weight=np.linspace(0.5, 2, 60))
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("average", ["micro", "macro"])
def test__f1__weights__is_that_of_scikit_learn(average):
    rng = np.random.default_rng(0)
    true, predicted, weights = rng.integers(2, size=(50, 4)), rng.random((50, 4)) > 0.4, rng.random(50)
    expected = f1_score(true, predicted, average=average, sample_weight=weights)
    assert f1(true, predicted, average, weights) == pytest.approx(expected)
    n_times = rng.integers(1, 4, 50)
    probs = rng.random((50, 4))
    repeated = best_threshold(np.repeat(true, n_times, axis=0), np.repeat(probs, n_times, axis=0))
    assert best_threshold(true, probs, weights=n_times) == repeated


def test__fit__threshold_by_folds__uses_the_weights():
    X, counts = tables(100)
    y, noise = labels(counts), np.random.default_rng(2).normal(size=X.shape)
    weights = np.where(y.sum(axis=1) == 1, 50.0, 1.0)
    model = classifier(threshold="cv", max_iter=10)
    plain = pickle.loads(pickle.dumps(model)).fit(X + noise, y).threshold_
    assert model.fit(X + noise, y, sample_weight=weights).threshold_ != plain


def test__frequency_log_prob__weights__are_those_of_repeated_rows():
    y, n_times = np.array([[0, 1], [1, 1], [2, 0]]), np.array([1, 4, 2])
    expected = frequency_log_prob(np.repeat(y, n_times, axis=0), y)
    assert frequency_log_prob(y, y, n_times) == pytest.approx(expected)


@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[3]])
def test__fit__not_weights_of_the_rows__are_refused(model, targets):
    X, counts = tables(20)
    y = targets(counts)
    for weights, message in ((-np.ones(20), "negative"), (np.ones(19), "inconsistent"), (np.zeros(20), "all weights")):
        for method in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=message):
                method(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="X has 20 rows, and y has 19"):
        model.fit(X, y[:19], sample_weight=np.ones(20))
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[3]])
def test__metadata_routing__weights__arrive(model, targets):
    X, counts = tables(60)
    y = targets(counts)
    weights = np.linspace(0.1, 3, 60)
    with config_context(enable_metadata_routing=True):
        routed = pickle.loads(pickle.dumps(model)).set_fit_request(sample_weight=True)
        routed.set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, routed).fit(X, y, sample_weight=weights)
        scores = cross_validate(routed, X, y, params={"sample_weight": weights}, cv=2)["test_score"]
    expected = pickle.loads(pickle.dumps(model)).fit(StandardScaler().fit_transform(X), y, sample_weight=weights)
    given = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(pipeline[-1].predict_proba(given), expected.predict_proba(given))
    assert np.isfinite(scores).all()


def test__score__weights_of_the_counter__is_the_weighted_share():
    X, counts = tables()
    model = counter().fit(X, counts)
    right = (model.predict(X) == counts).all(axis=1)
    weights = np.where(right, 3.0, 1.0)
    assert 0 < right.mean() < 1
    assert model.score(X, counts, sample_weight=weights) == pytest.approx(np.average(right, weights=weights))


# partial_fit


@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[1], CASES[3]])
def test__partial_fit__batches_of_a_stream__learn_and_count(model, targets):
    X, counts = tables()
    y = targets(counts)
    model = pickle.loads(pickle.dumps(model)).set_params(batch_size=25, max_active=6 if y.max() > 1 else 3)
    before = model.partial_fit(X[:100], y[:100]).score(X, y)
    module = model.module_
    for _ in range(10):
        model.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert model.module_ is module
    assert model.n_iter_ == 21 * 4
    assert len(model.history_) == 21
    assert model.score(X, y) > max(before, 0.5)


@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[3]])
def test__partial_fit__saved_and_loaded__goes_on_as_after_fit(model, targets, tmp_path):
    X, counts = tables(60)
    y = targets(counts)
    for method in ("fit", "partial_fit"):
        one = getattr(pickle.loads(pickle.dumps(model)), method)(X, y)
        one.save(tmp_path / "model.sdlgm")
        other, copied = load(tmp_path / "model.sdlgm"), pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))
        assert other.n_iter_ == one.n_iter_
        assert other.history_ == one.history_
        copied.partial_fit(X, y)
        other.set_params(random_state=0, batch_size=one.batch_size, learning_rate=one.learning_rate).partial_fit(X, y)
        assert other.n_iter_ == copied.n_iter_ == one.n_iter_ + 1
        np.testing.assert_allclose(other.predict_proba(X), copied.predict_proba(X), atol=1e-6)


def test__partial_fit__classes__are_all_known_from_the_first_call():
    X, counts = tables(60)
    y = np.array(["none", "one", "two"])[counts[:, 0]]
    order = np.argsort(y, kind="stable")
    model = classifier().partial_fit(X[order[:30]], y[order[:30]], classes=["two", "none", "one"])
    assert model.classes_.tolist() == LogisticRegression().fit(X, y).classes_.tolist()
    model.partial_fit(X, y).partial_fit(X, y, ["none", "one", "two"])
    assert model.predict_proba(X).shape == (60, 3)
    with pytest.raises(ValueError, match="not the same as on the last call"):
        model.partial_fit(X, y, classes=["none", "one"])
    with pytest.raises(ValueError, match="the class 'three', which the model was not fitted with"):
        model.partial_fit(X[:1], ["three"])
    with pytest.raises(ValueError, match="one class for each row"):
        model.partial_fit(X, np.eye(3, dtype=int)[counts[:, 0]])
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        classifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="more than once"):
        classifier().partial_fit(X, y, classes=["none", "none", "one", "two"])
    sets = [{name} for name in y]
    assert classifier().partial_fit(X, sets, ["two", "one", "none"]).classes_.tolist() == ["none", "one", "two"]


def test__partial_fit__names_of_columns__are_found_in_any_order():
    X, counts = tables(60)
    table = pd.DataFrame(labels(counts), columns=["a", "b", "c"])
    expected = classifier().partial_fit(X, table).partial_fit(X, table)
    found = classifier().partial_fit(X, table).partial_fit(X, table[["c", "a", "b"]])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize(("model", "targets"), [CASES[0], CASES[3]])
def test__partial_fit__rows_beyond_the_first_budget__leave_the_model_as_it_was(model, targets):
    X, counts = tables(60)
    y = targets(counts)
    few = y.sum(axis=1) <= 2
    model = pickle.loads(pickle.dumps(model)).partial_fit(X[few], y[few])
    before = model.predict_proba(X)
    with pytest.raises(BudgetError, match="max_active=2"):
        model.partial_fit(X, y)
    with pytest.raises(TrainingDivergedError):
        model.set_params(learning_rate=1e30).partial_fit(X[few], y[few])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    model.set_params(learning_rate=0.01).partial_fit(X[few], y[few])


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        (classifier(), {"hidden": (9,)}),
        (classifier(), {"likelihood": "multinomial"}),
        (classifier(), {"max_active": 2}),
        (counter(), {"hidden": [9]}),
        (counter(), {"max_active": 9}),
    ],
)
def test__partial_fit__another_model__is_refused(model, changed):
    X, counts = tables(60)
    y = labels(counts) if isinstance(model, SDLGMClassifier) else counts
    model = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
    with pytest.raises(ValueError, match=f"the model has {next(iter(changed))}=.*partial_fit cannot change"):
        model.set_params(**changed).partial_fit(X, y)
    name = next(iter(changed))
    model.set_params(**{name: [8] if name == "hidden" else None if name == "max_active" else "subset"})
    model.partial_fit(X, y)


def test__partial_fit__what_needs_all_rows__is_refused():
    X, counts = tables(60)
    with pytest.raises(ValueError, match="n_trees=3 trees need all rows"):
        classifier(n_trees=3).partial_fit(X, labels(counts))
    with pytest.raises(ValueError, match="threshold='cv' needs all rows"):
        classifier(threshold="cv").partial_fit(X, labels(counts))
    model = classifier(threshold="cv", max_iter=2).fit(X, labels(counts))
    chosen = model.threshold_
    assert model.partial_fit(X, labels(counts)).threshold_ == chosen
    assert model.set_params(threshold=0.25).partial_fit(X, labels(counts)).threshold_ == 0.25


def test__partial_fit__pictures__have_one_shape_and_no_batch_of_one():
    pictures = digit_columns("train", 40, n_columns=2, source="digits")
    model = SDLGMCounter(hidden=(8,), channels=4, batch_size=10, random_state=0)
    model.partial_fit(pictures.X, pictures.counts)
    model.partial_fit(pictures.X[:11], pictures.counts[:11], sample_weight=np.arange(1, 12))
    assert model.n_iter_ == 5
    with pytest.raises(ValueError, match="the model was fitted with"):
        model.partial_fit(pictures.X[:, :, :12], pictures.counts)
    with pytest.raises(ValueError, match="two rows"):
        model.partial_fit(pictures.X[:1], pictures.counts[:1])
