import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scipy.stats
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sdlgm import SDLGMCounter, load
from sdlgm.data import digit_columns
from sdlgm.errors import BudgetError, ModelFileError, TrainingDivergedError
from sdlgm.train import Checkpoint

SMALL = {"hidden": (16,), "dropout": 0.0, "max_iter": 60, "learning_rate": 0.02, "random_state": 0}
PICTURES = {"hidden": (16,), "channels": 4, "max_iter": 30, "batch_size": 20, "random_state": 0}
ENCODERS = ("mlp", "cnn", "patches")


def _not_for_counters(estimator) -> dict[str, str]:
    reason = "takes every estimator with predict_proba for a classifier"
    for_classifiers = dict.fromkeys(("check_estimator_sparse_array", "check_estimator_sparse_matrix"), reason)
    reason = "weighted and repeated rows agree to 1e-6, in single precision; see test_supervised_weights.py"
    names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
    return for_classifiers | dict.fromkeys(names, reason)


@parametrize_with_checks([SDLGMCounter(**SMALL)], expected_failed_checks=_not_for_counters)
def test__scikit_learn__all_checks__pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    counts = rng.integers(3, size=(200, 3))
    X = counts @ rng.normal(size=(3, 6)) + rng.normal(scale=0.1, size=(200, 6))
    X.flags.writeable = counts.flags.writeable = False
    return X, counts


@pytest.fixture(scope="module")
def fitted(data) -> SDLGMCounter:
    return SDLGMCounter(**SMALL).fit(*data)


@pytest.fixture(scope="module")
def pictures():
    return digit_columns("train", 60, n_columns=3, source="digits")


def test__fit__rows__learns_to_count(data):
    X, counts = data
    model = SDLGMCounter(**{**SMALL, "max_iter": 400}).fit(X[:150], counts[:150])
    evaluation = model.evaluate(X[150:], counts[150:])
    assert evaluation.mse_rounded < 0.1 < np.var(counts)
    assert model.score(X[150:], counts[150:]) == evaluation.exact_match > 0.7
    assert model.history_[-1].discrete > model.history_[0].discrete


@pytest.mark.parametrize("encoder", ENCODERS)
def test__fit__pictures__learns_with_every_encoder(encoder):
    train = digit_columns("train", 300, n_columns=2, source="digits")
    model = SDLGMCounter(**{**PICTURES, "max_iter": 200, "channels": 8, "max_shift": 0}, encoder=encoder)
    model.fit(train.X, train.counts)
    assert model.evaluate(train.X, train.counts).mse_expected < 0.5 * train.counts.var(axis=0).mean()
    assert model.encoder_ == encoder
    assert model.shape_in_ == (8, 16, 1)
    assert model.n_features_in_ == 128


def test__encoder__auto__goes_by_the_shape(data, pictures):
    assert SDLGMCounter(**{**SMALL, "max_iter": 1}).fit(*data).encoder_ == "mlp"
    model = SDLGMCounter(**{**PICTURES, "max_iter": 1}).fit(pictures.X, pictures.counts)
    assert model.encoder_ == "patches"
    assert model.module_.config.n_patches == model.max_active_ == 3
    three = SDLGMCounter(**{**PICTURES, "max_iter": 1}).fit(np.repeat(pictures.X[..., None], 3, 3), pictures.counts)
    assert three.shape_in_ == (8, 24, 3)
    dense = SDLGMCounter(**{**PICTURES, "max_iter": 1}, patch_size=(8, 12)).fit(pictures.X, pictures.counts)
    assert (dense.module_.config.patch, dense.module_.config.stride) == ((2, 3), (1, 1))
    odd = SDLGMCounter(**{**PICTURES, "max_iter": 1}).fit(pictures.X[:, 1:, 2:-1], pictures.counts)
    assert odd.predict(pictures.X[:, 1:, 2:-1]).shape == (60, 10)


def test__patches__fewer_than_slots__are_not_taken(pictures):
    many = np.tile(pictures.counts * 20, 1)
    assert SDLGMCounter(**{**PICTURES, "max_iter": 1}).fit(pictures.X, many).encoder_ == "cnn"
    with pytest.raises(ValueError, match=r"patches, each .* max_active=60"):
        SDLGMCounter(**PICTURES, encoder="patches").fit(pictures.X, many)
    with pytest.raises(ValueError, match="gaps"):
        SDLGMCounter(**PICTURES, patch_size=8, patch_stride=12).fit(pictures.X, pictures.counts)


def test__pictures__lists_and_odd_shapes__are_taken_or_refused(pictures):
    model = SDLGMCounter(**PICTURES).fit(pictures.X, pictures.counts)
    np.testing.assert_array_equal(model.predict(list(pictures.X)), model.predict(pictures.X))
    np.testing.assert_array_equal(model.predict(pictures.X.tolist()), model.predict(pictures.X))
    with pytest.raises(ValueError, match="minimum of 1"):
        model.predict(pictures.X[:0])
    with pytest.raises(ValueError, match="channels"):
        SDLGMCounter(**PICTURES).fit(np.zeros((4, 3, 16, 16)), [[1], [0], [2], [0]])
    for rows, options in ((slice(1), {}), (slice(None), {"batch_size": 1})):
        with pytest.raises(ValueError, match="normalises over a batch"):
            SDLGMCounter(**{**PICTURES, **options}).fit(pictures.X[rows], pictures.counts[rows])


def test__evaluate__rows_beyond_the_budget__are_counted(data, fitted):
    X, counts = data
    evaluation = fitted.evaluate(X, counts + 3)
    assert evaluation.log_likelihood is None
    assert evaluation.n_beyond_budget == int((counts.sum(axis=1) + 9 > fitted.max_active_).sum()) > 0
    assert evaluation.mse_expected > 4


def test__counts__repeated_names__are_refused(data):
    X, counts = data
    with pytest.raises(ValueError, match="more than one column of y is called 'a'"):
        SDLGMCounter(**SMALL).fit(X, pd.DataFrame(counts, columns=["a", "a", "b"]))


def test__encoder__pictures_asked_of_rows__is_refused(data):
    with pytest.raises(ValueError, match="needs pictures"):
        SDLGMCounter(**SMALL, encoder="cnn").fit(*data)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(shares=arrays(np.float64, (5, 4), elements=st.floats(0, 1)), total=st.floats(0, 1), budget=st.integers(1, 30))
def test__predict__any_expected_counts__are_rounded_within_the_budget(shares, total, budget):
    mean = budget * total * shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
    model = SDLGMCounter()
    model.max_active_ = budget
    rounded = model._rounded(mean)
    assert (rounded >= 0).all()
    assert (rounded.sum(axis=1) <= budget).all()
    nearest = np.floor(mean + 0.5)
    fits = nearest.sum(axis=1) <= budget
    np.testing.assert_array_equal(rounded[fits], nearest[fits])
    assert (np.abs(rounded - mean) < 1).all()


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(scale=st.floats(1e-3, 1e6), seed=st.integers(0, 1000))
def test__predict__any_rows__keeps_the_budget(fitted, scale, seed):
    X = scale * np.random.default_rng(seed).normal(size=(20, 6))
    assert (fitted.predict(X).sum(axis=1) <= fitted.max_active_).all()
    assert (fitted.predict_mean(X).sum(axis=1) <= fitted.max_active_ * (1 + 1e-6)).all()


def test__predict_proba__marginals__are_binomial_with_the_expected_counts(data, fitted):
    X, _ = data
    mean, probs = fitted.predict_mean(X), fitted.predict_proba(X)
    assert probs.shape == (200, 3, fitted.max_active_ + 1)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0)
    np.testing.assert_allclose(probs @ np.arange(fitted.max_active_ + 1), mean)
    one = scipy.stats.binom(fitted.max_active_, mean[7, 1] / fitted.max_active_)
    np.testing.assert_allclose(probs[7, 1], one.pmf(np.arange(fitted.max_active_ + 1)))


def test__evaluate__numbers__are_what_their_names_say(data, fitted):
    X, counts = data
    evaluation = fitted.evaluate(X, counts)
    mean, predicted = fitted.predict_mean(X), fitted.predict(X)
    assert evaluation.mse_expected == pytest.approx(np.mean((mean - counts) ** 2))
    assert evaluation.mse_rounded == pytest.approx(np.mean((predicted - counts) ** 2))
    assert evaluation.exact_match == pytest.approx(np.mean((predicted == counts).all(axis=1)))
    budget = fitted.max_active_
    filled = np.column_stack([counts, budget - counts.sum(axis=1)])
    shares = np.column_stack([mean, budget - mean.sum(axis=1)]) / budget
    log_probs = [scipy.stats.multinomial(budget, p / p.sum()).logpmf(x) for x, p in zip(filled, shares, strict=True)]
    assert evaluation.log_likelihood == pytest.approx(np.mean(log_probs), rel=1e-5)
    assert evaluation.total_true == pytest.approx(counts.sum(axis=1).mean())


def test__fit__kinds_of_counts__give_the_same_model(data, fitted):
    X, counts = data
    names = ["a", "b", "c"]
    for other in (sp.csr_matrix(counts), counts.astype(float), counts.tolist(), pd.DataFrame(counts, columns=names)):
        model = SDLGMCounter(**SMALL).fit(X, other)
        np.testing.assert_array_equal(model.predict_mean(X), fitted.predict_mean(X))
    assert model.classes_.tolist() == names
    turned = pd.DataFrame(counts[:, [2, 0, 1]], columns=["c", "a", "b"])
    assert model.score(X, turned) == fitted.score(X, counts)
    with pytest.raises(ValueError, match="other columns"):
        model.score(X, turned.set_axis(["c", "d", "b"], axis=1))


def test__fit__sparse_rows__are_the_same_rows(data, fitted):
    X, counts = data
    model = SDLGMCounter(**SMALL).fit(sp.csr_array(X), counts)
    np.testing.assert_allclose(model.predict_mean(sp.csr_matrix(X)), fitted.predict_mean(X), rtol=1e-4, atol=1e-5)


def test__fit__one_number_a_row__predicts_one_number(data, tmp_path):
    X, counts = data
    model = SDLGMCounter(**SMALL).fit(X, counts[:, 0])
    assert model.predict(X).shape == model.predict_mean(X).shape == (200,)
    assert model.predict_proba(X).shape == (200, 3)
    assert model.score(X, counts[:, 0]) == (model.predict(X) == counts[:, 0]).mean()
    model.save(tmp_path / "m.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "m.sdlgm").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("counts", "error", "message"),
    [
        ([[1, 0], [0, -1]], ValueError, "-1 in row 1, column 1.*whole numbers"),
        ([[1, 0], [0.5, 1]], ValueError, "0.5 in row 1, column 0.*whole numbers"),
        ([[1, 0], [np.nan, 1]], ValueError, "NaN"),
        ([["a", "b"], ["c", "d"]], ValueError, "not counts"),
        ([[1, 0], [3, 1]], BudgetError, "row 1 has 4 in all, more than max_active=3.*max_active=4"),
        ([[1, 0]], ValueError, "2 rows"),
        ([[[1]], [[1]]], ValueError, "shape"),
        (None, ValueError, "requires y"),
        ([[20_000, 0], [0, 0]], ValueError, "largest budget"),
        ([[1e19, 0], [0, 0]], ValueError, "row 0, column 0"),
        ([[2**62, 2**62], [0, 0]], ValueError, "row 0, column 0"),
    ],
)
def test__fit__bad_counts__says_what_is_wrong(counts, error, message):
    with pytest.raises(error, match=message):
        SDLGMCounter(**SMALL, max_active=3).fit([[0.0, 1.0], [1.0, 0.0]], counts)


@pytest.mark.parametrize("name", ["patch_size", "patch_stride"])
@pytest.mark.parametrize("value", [(1, 2, 3), (0, 4), ("a", 4)])
def test__patches__wrong_size__is_refused(pictures, name, value):
    with pytest.raises(ValueError, match=name):
        SDLGMCounter(**PICTURES, **{name: value}).fit(pictures.X, pictures.counts)


def test__predict__pictures_of_another_shape__are_refused_and_flat_rows_taken(pictures):
    model = SDLGMCounter(**PICTURES).fit(pictures.X, pictures.counts)
    with pytest.raises(ValueError, match="shape"):
        model.predict(pictures.X.transpose(0, 2, 1))
    flat = model.predict_mean(pictures.X.reshape(60, -1))
    np.testing.assert_array_equal(flat, model.predict_mean(pictures.X))


@pytest.mark.parametrize("encoder", ENCODERS)
def test__save_and_load__give_the_same_predictions(pictures, tmp_path, encoder):
    model = SDLGMCounter(**PICTURES, encoder=encoder).fit(pictures.X, pictures.counts)
    settings = model.get_params()
    model.set_params(hidden=(3,), patch_size=4, max_shift=1)  # what was fitted counts
    model.save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(loaded.predict_mean(pictures.X), model.predict_mean(pictures.X))
    assert loaded.module_.config == model.module_.config
    assert loaded.get_params() == settings
    again = tmp_path / "again.sdlgm"
    loaded.save(again)
    assert load(again).n_iter_ == model.n_iter_


def test__load__shape_that_does_not_fit__is_refused(pictures, tmp_path, monkeypatch):
    model = SDLGMCounter(**PICTURES).fit(pictures.X, pictures.counts)
    for shape in ([8, 25, 1], [8, 24], "wide", [-8, -24, 1], [8, 24, True]):
        monkeypatch.setattr(
            model, "_fitted_document", lambda s=shape: {**SDLGMCounter._fitted_document(model), "shape": s}
        )
        model.save(tmp_path / "model.sdlgm")
        with pytest.raises(ModelFileError):
            load(tmp_path / "model.sdlgm")


@pytest.mark.parametrize("encoder", ENCODERS)
def test__fit__same_seed__gives_the_same_bits(pictures, encoder):
    first, second = (SDLGMCounter(**PICTURES, encoder=encoder).fit(pictures.X, pictures.counts) for _ in range(2))
    np.testing.assert_array_equal(first.predict_mean(pictures.X), second.predict_mean(pictures.X))


@pytest.mark.parametrize("encoder", ENCODERS)
def test__resume__interrupted_run__ends_where_an_uninterrupted_one_does(pictures, tmp_path, monkeypatch, encoder):
    whole = SDLGMCounter(**PICTURES, encoder=encoder).fit(pictures.X, pictures.counts)
    settings = {**PICTURES, "encoder": encoder, "checkpoint_dir": tmp_path, "checkpoint_every": 7}
    save = Checkpoint.save

    def interrupted(checkpoint, trainer, progress):
        save(checkpoint, trainer, progress)
        if trainer.iteration == 14:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Checkpoint, "save", interrupted)
        with pytest.raises(KeyboardInterrupt):
            SDLGMCounter(**settings).fit(pictures.X, pictures.counts)
    resumed = SDLGMCounter(**settings, resume=True).fit(pictures.X, pictures.counts)
    np.testing.assert_array_equal(resumed.predict_mean(pictures.X), whole.predict_mean(pictures.X))


def test__scikit_learn_tools__counts__accept_it(data):
    X, counts = data
    search = GridSearchCV(make_pipeline(StandardScaler(), SDLGMCounter(**SMALL)), {"sdlgmcounter__max_active": [6, 8]})
    assert search.fit(X, counts).best_score_ > 0.1


def test__fit__odd_data__works(data):
    X, counts = data
    constant = np.column_stack([X, np.ones(200)])
    never = np.column_stack([counts, np.zeros(200, dtype=int)])
    model = SDLGMCounter(**SMALL).fit(constant, never)
    assert model.predict_mean(constant)[:, 3].max() < 0.1
    nothing = SDLGMCounter(**SMALL).fit(X, np.zeros_like(counts))
    assert nothing.predict(X).sum() == 0
    assert nothing.max_active_ == 1


def test__fit__divergence__is_an_error_that_says_where(data, pictures):
    with pytest.raises(TrainingDivergedError, match="iteration"):
        SDLGMCounter(**{**SMALL, "learning_rate": 1e30}).fit(*data)
    with pytest.raises(TrainingDivergedError, match="iteration"):
        SDLGMCounter(**{**PICTURES, "learning_rate": 1e30}).fit(pictures.X, pictures.counts)


def test__load__negative_variances__are_refused(pictures, tmp_path):
    model = SDLGMCounter(**PICTURES).fit(pictures.X, pictures.counts)
    model.module_.posterior.norm.running_var.fill_(-1)
    model.save(tmp_path / "model.sdlgm")
    with pytest.raises(ModelFileError, match="negative variances"):
        load(tmp_path / "model.sdlgm")


def test__predict__before_fit__is_refused(data):
    for method in ("predict", "predict_mean", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(SDLGMCounter(), method)(data[0])


def test__fit__fails_on_other_columns__leaves_the_fitted_model_alone(data, tmp_path):
    X, counts = data
    model = SDLGMCounter(**SMALL, max_active=6).fit(X, counts)
    before = model.predict_mean(X)
    with pytest.raises(BudgetError):
        model.fit(X[:, :4], counts + 9)
    np.testing.assert_array_equal(model.predict_mean(X), before)
    model.save(tmp_path / "model.sdlgm")
    np.testing.assert_array_equal(load(tmp_path / "model.sdlgm").predict_mean(X), before)


def test__fit__fails_the_first_time__leaves_nothing(data):
    X, counts = data
    model = SDLGMCounter(**SMALL, max_active=1)
    with pytest.raises(BudgetError):
        model.fit(X, counts)
    assert not hasattr(model, "n_features_in_")
