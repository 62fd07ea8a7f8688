import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, hamming_loss, log_loss
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_classifier_multioutput, parametrize_with_checks

from sdlgm import SDLGMClassifier, load
from sdlgm.errors import BudgetError, ModelFileError, TrainingDivergedError
from sdlgm.model.codes.label_sets import LABEL_FORMS
from sdlgm.model.noise import Noise

VARIANTS = ("dis", "gen", "con")
# All forms with one variant and all variants with one form; the other pairs are among the slow tests.
PAIRS = [
    pytest.param(variant, form, marks=[] if variant == "dis" or form == "subset" else [pytest.mark.slow])
    for variant in VARIANTS
    for form in LABEL_FORMS
]
SMALL = {
    "hidden": (8,),
    "dropout": 0.0,
    "input_dropout": 0.0,
    "max_iter": 30,
    "learning_rate": 0.03,
    "n_latent": 3,
    "random_state": 0,
}


def _in_single_precision(estimator) -> dict[str, str]:
    reason = "weighted and repeated rows agree to 1e-6, in single precision; see test_supervised_weights.py"
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    of_a_half = "predictions are those of a threshold of 0.5; see the test below"
    rounding = "log-odds of a row agree to 1e-6, in single precision; see test_classifier_training.py"
    return {
        **dict.fromkeys(names, reason),
        "check_classifier_multioutput": of_a_half,
        "check_methods_subset_invariance": rounding,
    }


@parametrize_with_checks([SDLGMClassifier(**SMALL)], expected_failed_checks=_in_single_precision)
def test__scikit_learn__all_checks__pass(estimator, check):
    check(estimator)


def test__scikit_learn__check_of_predictions_at_a_half__passes_with_a_threshold():
    check_classifier_multioutput("SDLGMClassifier", SDLGMClassifier(**SMALL, decision="threshold"))


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    X, Y = make_multilabel_classification(n_samples=200, n_features=12, n_classes=5, n_labels=2, random_state=0)
    X.flags.writeable = Y.flags.writeable = False
    return X, Y


@pytest.fixture(scope="module")
def fitted(data) -> SDLGMClassifier:
    return SDLGMClassifier(**SMALL).fit(*data)


@pytest.mark.parametrize(("variant", "likelihood"), PAIRS)
def test__fit__every_variant_and_form__learns(data, variant, likelihood):
    X, Y = data
    model = SDLGMClassifier(**{**SMALL, "max_iter": 60}, variant=variant, likelihood=likelihood, threshold=0.4)
    model.fit(X[:150], Y[:150])
    guess = np.tile(Y[:150].mean(axis=0) > 0.4, (50, 1))
    assert model.score(X[150:], Y[150:]) > f1_score(Y[150:], guess, average="micro") + 0.1
    probs = model.predict_proba(X)
    assert probs.shape == Y.shape
    assert probs.min() >= 0
    assert probs.max() <= 1
    numbers = model.predict_sparsity(X)
    assert numbers.probs.shape == (200, Y.sum(axis=1).max() + 1)
    np.testing.assert_allclose(numbers.probs.sum(axis=1), 1.0)
    assert np.corrcoef(numbers.mean[:150], Y[:150].sum(axis=1))[0, 1] > 0.5
    assert model.history_[-1].discrete > model.history_[0].discrete


def test__predict__low_threshold__keeps_the_budget_with_the_likeliest(data, fitted):
    X, Y = data
    few = Y.sum(axis=1) <= 3
    model = clone(fitted).set_params(threshold=0.0).fit(X[few], Y[few])
    predicted, probs = model.predict(X), model.predict_proba(X)
    assert (predicted.sum(axis=1) == 3).all()
    kept = np.where(predicted > 0, probs, np.inf).min(axis=1)
    left = np.where(predicted > 0, -np.inf, probs).max(axis=1)
    assert (kept >= left).all()


@given(scale=st.floats(0.0, 1e6), seed=st.integers(0, 100))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__predict__any_rows__keeps_the_budget(fitted, scale, seed):
    X = scale * np.random.default_rng(seed).normal(size=(5, 12))
    model = fitted
    assert model.predict(X).sum(axis=1).max() <= model.max_active_
    assert np.isfinite(model.predict_proba(X)).all()


def test__fit__too_many_labels__names_row_and_budget(data):
    X, Y = data
    row = int(np.argmax(Y.sum(axis=1) > 2))
    with pytest.raises(BudgetError, match=rf"row {row} has {Y[row].sum()} labels.*max_active={Y.sum(axis=1).max()} or"):
        SDLGMClassifier(**SMALL, max_active=2).fit(X, Y)


def test__fit__kinds_of_labels__give_the_same_model(data):
    X, Y = data
    names = np.array(["a", "b", "c", "d", "e"])
    sets = [set(names[row > 0]) for row in Y]
    expected = SDLGMClassifier(**SMALL).fit(X, Y).predict_proba(X)
    for other in (sp.csr_matrix(Y), sp.coo_array(Y), Y.astype(bool), Y.tolist(), pd.DataFrame(Y, columns=names), sets):
        model = SDLGMClassifier(**SMALL).fit(X, other)
        np.testing.assert_array_equal(model.predict_proba(X), expected)
        assert model.score(X, other) == pytest.approx(f1_score(Y, model.predict(X), average="micro"))
        indicator = model.to_indicator(other)
        np.testing.assert_array_equal(indicator.toarray() if sp.issparse(indicator) else indicator, Y)
    assert model.classes_.tolist() == names.tolist()
    assert model.predict_labels(X)[0] == tuple(names[model.predict(X)[0] > 0])


@pytest.mark.parametrize(
    ("Y", "message"),
    [
        (np.array([[0, 2], [1, 0]]), "row 0, column 1"),
        (np.array([[0, np.nan], [1, 0]]), "row 0, column 1"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((2, 0)), "no columns"),
        ([set(), set()], "no row has a label"),
        (np.array([["x", "y"], ["y", "x"]]), "not 0 and 1"),
        (np.zeros((3, 2)), "X has 2 rows, and y has 3"),
    ],
)
def test__fit__bad_labels__says_what_is_wrong(Y, message):
    with pytest.raises(ValueError, match=message):
        SDLGMClassifier(**SMALL).fit(np.zeros((2, 3)), Y)


@pytest.mark.parametrize(("variant", "likelihood"), PAIRS)
def test__fit__odd_data__works(variant, likelihood):
    """A label that is never seen, one that always is, a constant feature, rows without labels."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(40, 2)), np.full(40, 7.0)])
    Y = np.column_stack([X[:, 0] > 0, np.zeros(40), np.ones(40)]).astype(int)
    Y[:3] = 0
    model = SDLGMClassifier(**SMALL, variant=variant, likelihood=likelihood).fit(X, Y)
    probs = model.predict_proba(X)
    assert np.isfinite(probs).all()
    assert probs[:, 1].max() < 0.2
    assert probs[5:, 2].mean() > 0.5


def test__fit__one_label__is_a_column(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y[:, :1])
    assert model.predict(X).shape == (200, 1)
    assert model.score(X, Y[:, :1]) > 0.5


def test__fit__classes__is_an_ordinary_classifier():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = SDLGMClassifier(**{**SMALL, "max_iter": 100}).fit(X, names)
    assert model.max_active_ == 1
    assert model.score(X, names) > 0.93
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert (model.predict(X) == names).mean() == pytest.approx(model.score(X, names))


def test__scikit_learn_tools__multi_label__accept_it(data):
    X, Y = data
    search = GridSearchCV(
        make_pipeline(QuantileTransformer(n_quantiles=50), SDLGMClassifier(**SMALL)),
        {"sdlgmclassifier__likelihood": ["subset", "closed_form"]},
        cv=2,
    )
    assert search.fit(X, Y).best_score_ > 0.5
    probs = cross_val_predict(SDLGMClassifier(**SMALL), X, Y, cv=2, method="predict_proba")
    assert probs.shape == Y.shape
    chain = ClassifierChain(make_pipeline(StandardScaler(), SDLGMClassifier(**SMALL))).fit(X, Y)
    assert chain.predict_proba(X).shape == Y.shape


@pytest.mark.parametrize("threshold", ["cv", "cv_per_label"])
def test__threshold__by_folds__is_better_than_one_half_for_rare_labels(threshold):
    X, Y = make_multilabel_classification(n_samples=300, n_classes=8, n_labels=1, random_state=1)
    X = X + 8 * np.random.default_rng(0).normal(size=X.shape)  # so that few labels are likelier than not
    plain = SDLGMClassifier(**SMALL).fit(X, Y)
    tuned = SDLGMClassifier(**SMALL, threshold=threshold).fit(X, Y)
    np.testing.assert_array_equal(plain.predict_proba(X), tuned.predict_proba(X))
    average = "micro" if threshold == "cv" else "macro"
    scores = [f1_score(Y, model.predict(X), average=average, zero_division=0) for model in (plain, tuned)]
    assert scores[1] > scores[0]
    assert np.ndim(tuned.threshold_) == (0 if threshold == "cv" else 1)
    with pytest.raises(ValueError, match="at least 5 rows"):
        SDLGMClassifier(**SMALL, threshold="cv").fit(X[:4], Y[:4])


def test__members__several__are_the_mean_of_different_networks(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL, n_members=3).fit(X, Y)
    presence = model.module_.presence(
        torch.tensor(model._fitted.scaling.apply(X)), n_samples=1, noise=Noise(torch.Generator())
    ).detach()
    members = presence.unflatten(0, (3, -1)).numpy()
    assert np.abs(members[0] - members[1]).max() > 0.01
    np.testing.assert_allclose(model.predict_proba(X), members.mean(axis=0), atol=1e-6)


def test__unlabelled__rows__change_gen_and_con_and_are_refused_by_dis(data):
    X, Y = data
    for variant in ("gen", "con"):
        settings_ = {**SMALL, "variant": variant, "reconstruction_weight": 0.1}
        without = SDLGMClassifier(**settings_).fit(X[:60], Y[:60]).predict_proba(X)
        with_them = SDLGMClassifier(**settings_).fit(X[:60], Y[:60], unlabelled=X[60:]).predict_proba(X)
        assert np.abs(without - with_them).max() > 1e-3
    with pytest.raises(ValueError, match="variant='dis' cannot use rows without labels"):
        SDLGMClassifier(**SMALL).fit(X[:60], Y[:60], unlabelled=X[60:])


@pytest.mark.parametrize("variant", ["gen", "con"])
def test__sample__labels__have_the_means_of_their_rows(variant):
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (600, 2))
    X = 100 + 10 * Y @ np.array([[1.0, 0.0, -1.0], [0.0, 2.0, 0.0]]) + rng.normal(size=(600, 3))
    options = {**SMALL, "max_iter": 150, "reconstruction_weight": 1.0, "variant": variant}
    model = SDLGMClassifier(**options).fit(X, Y)
    asked = np.repeat([[0, 0], [1, 0], [0, 1], [1, 1]], 400, axis=0)
    drawn = model.sample(asked, random_state=0)
    assert drawn.shape == (1600, 3)
    for labels in np.unique(asked, axis=0):
        true = X[(labels == Y).all(axis=1)].mean(axis=0)
        found = drawn[(asked == labels).all(axis=1)].mean(axis=0)
        np.testing.assert_allclose(found, true, atol=3.0)
    np.testing.assert_array_equal(drawn, model.sample(asked, random_state=0))
    with pytest.raises(ValueError, match="no model of x"):
        SDLGMClassifier(**SMALL).fit(X, Y).sample(Y)


def test__evaluate__scores__equal_those_of_scikit_learn(data, fitted):
    X, Y = data
    X, Y = X[:30], Y[:30].copy()
    Y[:, 2] = 0  # a label that does not occur
    evaluation, predicted, probs = fitted.evaluate(X, Y), fitted.predict(X), fitted.predict_proba(X)
    others = [0, 1, 3, 4]
    present = f1_score(Y[:, others], predicted[:, others], average="macro", zero_division=0)
    assert evaluation.macro_f1_present == pytest.approx(present)
    assert evaluation.hamming_loss == pytest.approx(hamming_loss(Y, predicted))
    each = [log_loss(Y[:, k], probs[:, k], labels=[0, 1]) for k in range(5)]
    assert evaluation.log_loss == pytest.approx(sum(each), rel=1e-6)
    assert evaluation.n_labels_true == Y.sum(axis=1).mean()
    assert evaluation.n_labels_predicted == predicted.sum(axis=1).mean()
    assert evaluation.micro_f1 == pytest.approx(f1_score(Y, predicted, average="micro"))
    assert evaluation.macro_f1 == pytest.approx(f1_score(Y, predicted, average="macro", zero_division=0))
    assert evaluation.exact_match == pytest.approx((predicted == Y).all(axis=1).mean())


# Reproducibility and files


@pytest.mark.parametrize("variant", VARIANTS)
def test__fit__same_seed__gives_the_same_bits(data, variant):
    first, second = (SDLGMClassifier(**SMALL, variant=variant, n_members=2).fit(*data) for _ in range(2))
    for name, tensor in first.module_.state_dict().items():
        assert torch.equal(tensor, second.module_.state_dict()[name])


@pytest.mark.parametrize(("variant", "likelihood"), PAIRS)
def test__save_and_load__give_the_same_predictions(data, tmp_path, variant, likelihood):
    X, Y = data
    Y = pd.DataFrame(Y, columns=list("abcde"))
    model = SDLGMClassifier(**SMALL, variant=variant, likelihood=likelihood, n_members=2, threshold=0.3).fit(X, Y)
    model.save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert isinstance(loaded, SDLGMClassifier)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.predict_labels(X) == model.predict_labels(X)
    np.testing.assert_array_equal(loaded.predict_sparsity(X).probs, model.predict_sparsity(X).probs)
    if variant != "dis":
        np.testing.assert_array_equal(loaded.sample(Y, random_state=0), model.sample(Y, random_state=0))


def test__save__thresholds_of_labels_and_classes__come_back(data, tmp_path):
    X, Y = data
    model = SDLGMClassifier(**SMALL, threshold="cv_per_label").fit(X, Y)
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").threshold_, model.threshold_)
    classes = SDLGMClassifier(**SMALL).fit(X, Y[:, 0] + 5)
    classes.save(tmp_path / "classes.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "classes.sdlgm").predict(X), classes.predict(X))


def test__load__other_number_of_labels__is_refused(data, tmp_path, fitted):
    from sdlgm import _tensorfile

    path = tmp_path / "model.sdlgm"
    fitted.save(path)
    content = _tensorfile.read(path, "sdlgm-model")
    document, tensors = content.document, content.tensors
    for change in (
        {"classes": [0, 1]},
        {"classes": [None] * 5},
        {"classes": [0] * 5},
        {"classes": "abcde"},
        {"budget": 0},
        {"budget": 2.9},
        {"threshold": [0.5, 0.5]},
        {"threshold": 7},
        {"threshold": [[0.5] * 5]},
        {"single_label": "false"},
    ):
        _tensorfile.write(path, "sdlgm-model", {**document, **change}, tensors)
        with pytest.raises(ModelFileError):
            load(path)


def test__resume__interrupted_run__ends_where_an_uninterrupted_one_does(data, tmp_path):
    options = {**SMALL, "variant": "con", "checkpoint_every": 10}
    whole = SDLGMClassifier(**options).fit(*data)
    first = SDLGMClassifier(**options, checkpoint_dir=tmp_path)
    from sdlgm.train import loop

    save = loop.Checkpoint.save

    def save_and_stop(self, trainer, progress):
        save(self, trainer, progress)
        raise KeyboardInterrupt

    loop.Checkpoint.save = save_and_stop
    try:
        with pytest.raises(KeyboardInterrupt):
            first.fit(*data)
    finally:
        loop.Checkpoint.save = save
    resumed = SDLGMClassifier(**options, checkpoint_dir=tmp_path, resume=True).fit(*data)
    for name, tensor in whole.module_.state_dict().items():
        assert torch.equal(tensor, resumed.module_.state_dict()[name])
    assert resumed.history_ == whole.history_


@pytest.mark.parametrize("threshold", ["cv", "cv_per_label"])
def test__threshold__by_folds__works_with_one_label(data, threshold):
    X, Y = data
    model = SDLGMClassifier(**SMALL, threshold=threshold, n_trees=2).fit(X, Y[:, :1])
    assert model.predict(X).shape == (200, 1)


@pytest.mark.parametrize("names", [list("abcde"), [2, 3, 5, 7, 11], [0, 1, 2, 3, 4]])
@pytest.mark.parametrize("as_sets", [False, True])
def test__labels__by_name__are_found_in_any_order_and_others_refused(data, names, as_sets):
    X, Y = data
    frame = pd.DataFrame(Y, columns=names)
    sets = [{names[k] for k in np.flatnonzero(row)} for row in Y]
    model = SDLGMClassifier(**SMALL, variant="gen").fit(X, sets if as_sets else frame)
    assert model.score(X, frame[names[::-1]]) == model.score(X, frame) == model.score(X, Y)
    np.testing.assert_array_equal(model.sample(frame[names[::-1]], random_state=0), model.sample(frame, random_state=0))
    if as_sets and names == [0, 1, 2, 3, 4]:  # as good as no names
        assert model.score(X, frame.rename(columns={4: "z"})) == model.score(X, Y)
    else:
        with pytest.raises(ValueError, match="other columns"):
            model.score(X, frame.rename(columns={names[0]: "z"}))


def test__fit__pandas_series_of_sets__is_a_list_of_sets(data):
    X, Y = data
    sets = [{"abcde"[k] for k in np.flatnonzero(row)} for row in Y]
    expected = SDLGMClassifier(**SMALL).fit(X, sets).predict_proba(X)
    np.testing.assert_array_equal(SDLGMClassifier(**SMALL).fit(X, pd.Series(sets)).predict_proba(X), expected)
    for bad in (None, "ab"):
        with pytest.raises(ValueError, match="row 3 is"):
            SDLGMClassifier(**SMALL).fit(X, [*sets[:3], bad, *sets[4:]])


@pytest.mark.parametrize("likelihood", LABEL_FORMS)
def test__predict_proba__classes_far_away__stay_probabilities(likelihood):
    X, y = load_iris(return_X_y=True)
    model = SDLGMClassifier(**SMALL, likelihood=likelihood).fit(X, y)
    for scale in (1, 1e2, 1e4, 1e8):
        probs = model.predict_proba(scale * X)
        np.testing.assert_allclose(probs.sum(axis=1), 1.0)


@pytest.mark.parametrize("likelihood", ["subset", "closed_form", "monte_carlo"])
def test__predict_sparsity__mean__is_the_sum_of_the_probabilities(data, likelihood):
    """Not of the multinomial, whose number counts repetitions, and only while the budget does not matter."""
    X, Y = data
    few = Y.sum(axis=1) <= 3
    options = {**SMALL, "likelihood": likelihood, "max_active": 5, "temperature": 3.0}
    model = SDLGMClassifier(**options).fit(X[few], Y[few])
    np.testing.assert_allclose(model.predict_sparsity(X).mean, model.predict_proba(X).sum(axis=1), rtol=1e-4)


def test__fit__divergence_later__keeps_the_last_good_parameters(data, monkeypatch):
    from sdlgm.train import Trainer

    check = Trainer.check_finite

    def fails_at_20(self):
        if self.iteration == 20:
            raise TrainingDivergedError("made up")
        check(self)

    monkeypatch.setattr(Trainer, "check_finite", fails_at_20)
    model = SDLGMClassifier(**SMALL)
    with pytest.raises(TrainingDivergedError, match="keeps the parameters of iteration 15"):
        model.fit(*data)
    assert model.n_iter_ == 15
    assert model.predict(data[0]).shape == data[1].shape


def test__save__float_classes__come_back(data, tmp_path):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, Y[:, 0].astype(float))
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict(X), model.predict(X))


def test__fit__divergence__is_an_error_that_says_where(data):
    with pytest.raises(TrainingDivergedError, match="iteration"):
        SDLGMClassifier(**{**SMALL, "learning_rate": 1e30}, variant="con", reconstruction_weight=1.0).fit(*data)


def test__predict__before_fit__is_refused(data):
    model = SDLGMClassifier()
    for method in (lambda: model.predict(data[0]), lambda: model.score(*data), lambda: model.evaluate(*data)):
        with pytest.raises(NotFittedError):
            method()


def test__score__labels_that_do_not_fit__are_refused(data, fitted):
    X, Y = data
    for rows, labels, message in (
        (X[:1], Y, f"X has 1 rows, and y has {len(Y)}"),
        (X, Y[:1], f"X has {len(X)} rows, and y has 1"),
        (X, Y[:, :-1].tolist(), f"y has {Y.shape[1] - 1} columns, the model has {Y.shape[1]} labels"),
        (X, Y[:, 0] + 5, "y has one value for each row"),
    ):
        for method in (fitted.score, fitted.evaluate):
            with pytest.raises(ValueError, match=message):
                method(rows, labels)


def test__fit__classes_that_no_file_could_hold__are_refused(data):
    X, Y = data
    with pytest.raises(ValueError, match="classes are text or numbers"):
        SDLGMClassifier(**SMALL).fit(X, np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")[Y[:, 0]])


def test__resume__threshold_by_folds__folds_have_checkpoints_too(data, tmp_path, monkeypatch):
    from sdlgm.train import Trainer

    settings = {**SMALL, "threshold": "cv", "random_state": 0, "checkpoint_dir": tmp_path, "checkpoint_every": 10}
    steps: list[int] = []
    step = Trainer.step

    def counted(self, rows):
        steps.append(self.iteration)
        return step(self, rows)

    monkeypatch.setattr(Trainer, "step", counted)
    whole = SDLGMClassifier(**settings).fit(*data)
    assert len(steps) == 6 * whole.n_iter_
    steps.clear()
    with pytest.raises(ModelFileError, match="earlier run"):
        SDLGMClassifier(**settings).fit(*data)
    resumed = SDLGMClassifier(**settings, resume=True).fit(*data)
    assert not steps
    assert resumed.threshold_ == whole.threshold_
    np.testing.assert_array_equal(resumed.predict_proba(data[0]), whole.predict_proba(data[0]))


def test__score__one_rare_label__is_the_f1_of_that_label_and_not_the_accuracy(data):
    X, _ = data
    rare = (np.arange(len(X)) % 10 == 0).astype(int)[:, None]
    model = SDLGMClassifier(**SMALL).fit(X, rare)
    assert model.score(X, rare) == pytest.approx(model.evaluate(X, rare).micro_f1)
    predicted = model.predict(X)
    expected = f1_score(rare[:, 0], predicted[:, 0], zero_division=0.0)
    assert model.score(X, rare) == pytest.approx(expected)


def test__fit__sets_of_numpy_numbers__can_be_saved(data, tmp_path):
    X, Y = data
    model = SDLGMClassifier(**SMALL).fit(X, [set(np.flatnonzero(row)) for row in Y])
    model.save(tmp_path / "model.sdlgm")
    assert load(tmp_path / "model.sdlgm").classes_.tolist() == list(range(Y.shape[1]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [([{1}, {"a"}], "some labels are text"), ([{np.datetime64("2020-01-01", "D")}, {1}], "text or numbers")],
)
def test__fit__sets_of_labels_that_no_file_could_hold__are_refused(data, rows, message):
    with pytest.raises(ValueError, match=message):
        SDLGMClassifier(**SMALL).fit(data[0], rows * (len(data[0]) // 2))


def test__score__lists_of_numbers__are_sets_where_they_cannot_be_rows_of_a_matrix(data):
    X, _ = data
    model = SDLGMClassifier(**SMALL).fit(X, [[0, 1], [0], [1], []] * (len(X) // 4))
    for lists in ([[0], [1]], [[], []]):
        assert model.score(X[:2], lists) == model.score(X[:2], [set(labels) for labels in lists])


def test__score__labels_that_were_not_seen__count_as_missed(data):
    X, Y = data
    sets = [set(np.flatnonzero(row).tolist()) for row in Y]
    model = SDLGMClassifier(**SMALL).fit(X, sets)
    more = [labels | {9} for labels in sets]
    predicted = model.predict(X)
    expected = f1_score(
        np.pad(Y, ((0, 0), (0, 1)), constant_values=1), np.pad(predicted, ((0, 0), (0, 1))), average="micro"
    )
    assert model.score(X, more) == pytest.approx(expected)
    assert model.evaluate(X, more).micro_f1 == pytest.approx(expected)
    assert model.evaluate(X, more).exact_match == 0
    with pytest.raises(ValueError, match="row 0 has the label 9, which the model was not fitted with"):
        SDLGMClassifier(**SMALL, variant="gen").fit(X, sets).sample(more)


def test__cross_validation__class_in_one_fold_only__gives_numbers(data):
    X, _ = data
    y = np.array([0, 1] * (len(X) // 2 - 1) + [2, 0])
    assert np.isfinite(cross_val_score(SDLGMClassifier(**SMALL), X, y, cv=KFold(3))).all()


def test__predict_sparsity__more_slots_than_labels__is_a_distribution_far_away(data):
    X, Y = data
    model = SDLGMClassifier(**SMALL, likelihood="multinomial", max_active=3 * Y.shape[1]).fit(X, Y)
    found = model.predict_sparsity(100 * X)
    np.testing.assert_allclose(found.probs.sum(axis=1), 1, rtol=1e-6)
    assert (found.mean <= Y.shape[1]).all()
