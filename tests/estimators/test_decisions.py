"""Decisions under the joint distribution over sets of labels, compared with all sets."""

import itertools
import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification

from sdlgm import SDLGMClassifier, _tensorfile, load
from sdlgm.errors import ModelFileError
from sdlgm.estimators import _decisions
from sdlgm.estimators._decisions import DECISIONS, Mixture, candidates, likeliest
from sdlgm.model.codes.label_sets import LABEL_FORMS
from sdlgm.model.codes.set_distribution import SetDistribution

SMALL = {"hidden": (8,), "dropout": 0.0, "input_dropout": 0.0, "max_iter": 30, "learning_rate": 0.03, "random_state": 0}
SETTINGS = [
    *({"likelihood": form} for form in LABEL_FORMS),
    {"variant": "gen"},
    {"variant": "con", "n_latent": 3},
    {"n_members": 3},
    {"n_trees": 5},
    {"n_members": 2, "n_trees": 5, "likelihood": "closed_form"},
]


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(n_samples=120, n_features=12, n_classes=5, n_labels=2, random_state=0)
    few = Y.sum(axis=1) <= 3
    return X[few], Y[few]


@pytest.fixture(scope="module")
def fitted(data) -> SDLGMClassifier:
    return SDLGMClassifier(**SMALL).fit(*data)


def all_sets(n_labels: int) -> np.ndarray:
    return np.array(list(itertools.product((0, 1), repeat=n_labels)))


def probabilities(mixture: Mixture, every: np.ndarray) -> np.ndarray:
    """Return the probability of each set for each row, from the definition of the mixture."""
    n_rows = len(mixture.members[0].logits)
    probs = np.zeros((n_rows, len(every)))
    for number, one in enumerate(every):
        sets = np.tile(one, (n_rows, 1))
        probs[:, number] = np.mean([np.exp(member.log_prob(sets)) for member in mixture.members], axis=0)
    if mixture.leaves is not None:
        forest = mixture.leaves.forest
        same = (forest.indicator[:, None] == every).all(axis=2)  # training rows by sets
        probs = (probs + forest.row_shares(mixture.leaves.x) @ same) / 2
    return probs


def expected_f1(predicted: np.ndarray, every: np.ndarray, probs: np.ndarray) -> np.ndarray:
    hits, sizes = predicted @ every.T, predicted.sum(axis=1)[:, None] + every.sum(axis=1)
    return (probs * np.where(sizes > 0, 2 * hits / np.maximum(sizes, 1), 1.0)).sum(axis=1)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test__decisions__all_sets__f1_and_mode_are_the_best(data, settings):
    X, Y = data
    model = SDLGMClassifier(**SMALL, **settings).fit(X, Y)
    assert model.decision_ == "f1"
    every = all_sets(5)
    (part,) = model._answers(X)
    mixture = part._mixture()
    probs = probabilities(mixture, every)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(probs @ every.sum(axis=1), model.predict_sparsity(X).mean, atol=1e-5)
    within = every[every.sum(axis=1) <= model.max_active_]
    best = np.max([expected_f1(np.tile(one, (len(X), 1)), every, probs) for one in within], axis=0)
    predicted = model.predict(X)
    assert predicted.sum(axis=1).max() <= model.max_active_
    np.testing.assert_allclose(expected_f1(predicted, every, probs), best, atol=1e-9)
    found = (model.predict(X, decision="mode")[:, None] == every).all(axis=2)
    if mixture.leaves is None and len(mixture.members) == 1:
        np.testing.assert_allclose((probs * found).sum(axis=1), probs.max(axis=1), rtol=1e-9)
    else:  # the best of the modes of the parts
        for member in mixture.members:
            of_member = (member.mode()[:, None] == every).all(axis=2)
            assert ((probs * found).sum(axis=1) >= (probs * of_member).sum(axis=1) - 1e-12).all()


def test__decisions__f1__is_better_than_other_decisions_for_rare_labels():
    X, Y = make_multilabel_classification(n_samples=600, n_classes=12, n_labels=3, random_state=1)
    model = SDLGMClassifier(**SMALL).fit(X[:300], Y[:300])
    scores = {decision: model.evaluate(X[300:], Y[300:], decision=decision).micro_f1 for decision in DECISIONS}
    assert scores["f1"] > max(scores["threshold"], scores["mode"])
    assert model.score(X[300:], Y[300:]) == pytest.approx(scores["f1"])
    assert model.evaluate(X[300:], Y[300:]).micro_f1 == scores["f1"]


def test__candidates__any_rows__hold_every_label_that_can_matter(monkeypatch):
    rng = np.random.default_rng(0)
    for budget in (1, 3, 8):
        members = tuple(SetDistribution.absorbing(rng.normal(-2, 2.0, (20, 40)), budget) for _ in range(2))
        pruned = Mixture(members, None).largest_f1()
        considered = candidates(np.mean([member.presence for member in members], axis=0), budget)
        assert considered.mean() < 0.9
        with monkeypatch.context() as patch:
            patch.setattr(_decisions, "candidates", lambda presence, budget: np.ones(presence.shape, bool))
            patch.setattr(_decisions, "_MOST_AT_ONCE", 1)  # row by row
            np.testing.assert_array_equal(pruned, Mixture(members, None).largest_f1())


def test__likeliest__expected_number__is_rounded():
    probs = np.array([[0.1, 0.9, 0.5], [0.3, 0.2, 0.4], [0.0, 0.1, 0.2]])
    assert likeliest(probs, np.array([1.5, 1.4, 0.3])).tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert likeliest(probs, np.array([0.0, 0.4, 0.3])).sum() == 0


def test__count__every_row__has_the_expected_number(data, fitted):
    X, _ = data
    expected = np.floor(fitted.predict_sparsity(X).mean + 0.5)
    np.testing.assert_array_equal(fitted.predict(X, decision="count").sum(axis=1), expected)


def test__decision__threshold_is_given__is_the_threshold(data, fitted):
    X, Y = data
    model = SDLGMClassifier(**SMALL, threshold=0.3).fit(X, Y)
    assert (model.decision_, model.threshold_) == ("threshold", 0.3)
    probs = model.predict_proba(X)
    rank = np.argsort(np.argsort(-probs, axis=1, kind="stable"), axis=1)
    np.testing.assert_array_equal(model.predict(X), (probs >= 0.3) & (rank < model.max_active_))
    half = SDLGMClassifier(**SMALL, decision="threshold").fit(X, Y)
    assert (half.decision_, half.threshold_) == ("threshold", 0.5)
    np.testing.assert_array_equal(half.predict(X), fitted.predict(X, decision="threshold"))
    assert SDLGMClassifier(**SMALL, threshold="cv").fit(X, Y).decision_ == "threshold"


@pytest.mark.parametrize("decision", ["f1", "mode", "count"])
def test__decision__beside_a_threshold__is_refused(data, decision):
    with pytest.raises(ValueError, match=f"decision='{decision}' has no threshold, and threshold=0.4"):
        SDLGMClassifier(**SMALL, decision=decision, threshold=0.4).fit(*data)


def test__predict__unknown_decision__names_those_that_there_are(data, fitted):
    with pytest.raises(ValueError, match="decision='best'; it is one of f1, mode, count, threshold"):
        fitted.predict(data[0], decision="best")


def test__decision__classes__are_the_most_probable_ones():
    X, y = load_iris(return_X_y=True)
    model = SDLGMClassifier(**SMALL).fit(X, y)
    for decision in DECISIONS:
        np.testing.assert_array_equal(model.predict(X, decision=decision), model.predict_proba(X).argmax(axis=1))


def test__save_and_load__decision_of_the_fit__comes_back(data, tmp_path):
    X, Y = data
    model = SDLGMClassifier(**SMALL, decision="count").fit(X, Y).set_params(decision="mode")
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.decision_ == "count"
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert clone(loaded).decision == "mode"


def test__load__file_without_a_decision__has_its_threshold(data, tmp_path, fitted, monkeypatch):
    X, _ = data
    monkeypatch.setattr(_tensorfile, "__version__", "0.3.0")
    fitted.save(tmp_path / "model")
    content = _tensorfile.read(tmp_path / "model", "sdlgm-model")
    document = json.loads(json.dumps(content.document))
    del document["decision"], document["params"]["decision"]
    document["params"]["threshold"] = 0.5
    _tensorfile.write(tmp_path / "old", "sdlgm-model", document, content.tensors)
    old = load(tmp_path / "old")
    assert (old.decision, old.decision_) == ("auto", "threshold")
    np.testing.assert_array_equal(old.predict(X), fitted.predict(X, decision="threshold"))
    np.testing.assert_array_equal(old.predict(X, decision="f1"), fitted.predict(X))
    document["decision"] = "best"
    _tensorfile.write(tmp_path / "bad", "sdlgm-model", document, content.tensors)
    with pytest.raises(ModelFileError, match="decision='best'"):
        load(tmp_path / "bad")


def test__partial_fit__decision__may_change(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL, max_active=3).partial_fit(X, Y)
    assert model.decision_ == "f1"
    model.set_params(threshold=0.3).partial_fit(X, Y)
    assert (model.decision_, model.threshold_) == ("threshold", 0.3)
    model.set_params(threshold=None).partial_fit(X, Y)
    assert model.decision_ == "f1"


def test__predict__saturated_logits__are_still_sets(data):
    X, _ = data
    for form in LABEL_FORMS:
        model = SDLGMClassifier(**SMALL, likelihood=form).fit(*data)
        for decision in DECISIONS:
            predicted = model.predict(1e5 * X[:10], decision=decision)
            assert predicted.sum(axis=1).max() <= model.max_active_
