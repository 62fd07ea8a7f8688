"""The anomaly detector: scikit-learn's conventions, the threshold, the decomposition, files."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sdlgm import SDLGM, SDLGMDetector, _tensorfile, load
from sdlgm.data import Schema, encode_table, windows
from sdlgm.errors import DataError, ModelFileError
from sdlgm.model.networks.posteriors import POSTERIORS

TINY = {"n_components": 8, "max_active": 3, "hidden": (8,), "gate_hidden": (4,), "max_iter": 5, "random_state": 0}
SMALL = {**TINY, "n_components": 16, "max_active": 6, "hidden": (32,), "max_iter": 300, "learning_rate": 0.01}


@parametrize_with_checks([SDLGMDetector(SDLGM(**TINY), contamination=0.1, validation_fraction=None)])
def test__scikit_learn__all_checks__pass(estimator, check):
    check(estimator)


def rows(n: int, seed: int) -> np.ndarray:
    """Rows in which eight sensors depend on two causes."""
    rng, loadings = np.random.default_rng(seed), np.random.default_rng(9).normal(size=(2, 8))
    X = rng.normal(size=(n, 2)) @ loadings + 0.1 * rng.normal(size=(n, 8))
    X.flags.writeable = False
    return X


def broken(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of which every second one has a sensor that does not go with the others, and which sensor that is."""
    X, rng = rows(n, seed).copy(), np.random.default_rng(seed)
    sensor = np.where(np.arange(n) % 2 == 0, rng.integers(0, 8, n), -1)
    for row in range(0, n, 2):
        X[row, sensor[row]] += 2.0 * rng.choice([-1, 1])
    return X, sensor


@pytest.fixture(scope="module")
def detector() -> SDLGMDetector:
    return SDLGMDetector(SDLGM(**SMALL), contamination=0.05, random_state=0).fit(rows(2000, 0))


def test__detector__broken_sensors__are_found_and_named(detector):
    X, sensor = broken(400, 1)
    assert roc_auc_score(sensor < 0, detector.score_samples(X)) > 0.9
    flagged = (detector.predict(X) == -1) & (sensor >= 0)
    assert flagged[sensor >= 0].mean() > 0.6
    named = detector.contributions(X).columns.argmax(axis=1)
    assert (named == sensor)[flagged].mean() > 0.7


def test__detector__new_normal_rows__are_flagged_as_often_as_stated(detector):
    share = (detector.predict(rows(4000, 2)) == -1).mean()
    assert share == pytest.approx(0.05, abs=0.03)


def test__decision_function__is_the_score_above_the_threshold(detector):
    X = broken(50, 3)[0]
    scores = detector.score_samples(X)
    np.testing.assert_array_equal(detector.decision_function(X), scores - detector.offset_)
    np.testing.assert_array_equal(detector.predict(X), np.where(scores < detector.offset_, -1, 1))


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("posterior", sorted(POSTERIORS))
def test__contributions__every_model__add_up_to_the_score(digits, small, posterior, likelihood):
    model = SDLGM(**small, posterior=posterior, likelihood=likelihood, random_state=0).fit(digits[:300])
    detector = SDLGMDetector(model, prefit=True).fit(digits[300:])
    parts = detector.contributions(digits)
    assert parts.columns.shape == digits.shape
    np.testing.assert_allclose(parts.scores, detector.score_samples(digits), rtol=1e-12)
    normal = detector.contributions(digits[300:])
    np.testing.assert_allclose(normal.columns.mean(axis=0), 0, atol=1e-9)
    assert normal.code.mean() == pytest.approx(0, abs=1e-9)
    assert normal.normal == pytest.approx(detector.score_samples(digits[300:]).mean())


def test__contributions__gaussian__are_the_densities_given_the_code(measurements, small):
    """With a code that is empty, the log-density of a column is that of a normal distribution in its own units."""
    from scipy.stats import norm

    model = SDLGM(**{**small, "max_iter": 20}, random_state=0).fit(measurements)
    with_torch = model.module_
    with_torch.posterior.encoder.out.bias.data.fill_(-50.0)  # no feature is ever present
    detector = SDLGMDetector(model, prefit=True).fit(measurements)
    assert model.transform(measurements).nnz == 0
    scale, deviation = model._fitted.scaling.scale, with_torch.likelihood.deviation.detach().numpy()
    mean = model.inverse_transform(np.zeros((1, 16)))
    log_density = norm.logpdf(measurements, mean, scale * deviation)
    expected = -log_density + log_density.mean(axis=0)
    np.testing.assert_allclose(detector.contributions(measurements).columns, expected, atol=2e-4)


@pytest.mark.parametrize("posterior", sorted(POSTERIORS))
def test__score_samples__row_alone__has_the_score_that_it_has_among_others(digits, small, posterior):
    model = SDLGM(**small, posterior=posterior, random_state=None).fit(digits)
    scores = model.score_samples(digits)
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, model.score_samples(digits))
    np.testing.assert_allclose(scores[7:9], model.score_samples(digits[7:9]), rtol=1e-12)
    # An estimate of the bound without bias; the error of the draws is common to the rows.
    bounds = np.mean([model.elbo(digits, random_state=seed) for seed in range(8)], axis=0)
    assert scores.mean() == pytest.approx(bounds.mean(), abs=1.0)
    assert np.corrcoef(scores, bounds)[0, 1] > 0.9


def test__contamination__auto__flags_what_is_far_out():
    X = rows(1500, 0)
    detector = SDLGMDetector(SDLGM(**SMALL), random_state=0).fit(X)
    assert (detector.predict(rows(1000, 5)) == -1).mean() < 0.05
    far = rows(10, 6) + 30.0
    assert (detector.predict(far) == -1).all()


def test__threshold__training_rows__is_higher_than_that_of_held_out_rows():
    """The reason for the default: a model that has few rows is better on those."""
    X, new = rows(60, 0), rows(2000, 1)
    model = SDLGM(**{**SMALL, "max_iter": 600, "batch_size": 30, "learning_rate": 3e-3})
    on_training = SDLGMDetector(model, contamination=0.1, validation_fraction=None).fit(X)
    held_out = SDLGMDetector(model, contamination=0.1, validation_fraction=0.4, random_state=0).fit(X)
    false_alarms = [(detector.predict(new) == -1).mean() for detector in (on_training, held_out)]
    assert false_alarms[0] > 0.13
    assert false_alarms[0] > false_alarms[1] > 0.07


def test__fit_predict__pipeline__has_the_labels_of_scikit_learn():
    X = rows(300, 0)
    pipeline = make_pipeline(StandardScaler(), SDLGMDetector(SDLGM(**TINY), contamination=0.1, random_state=0))
    labels = pipeline.fit_predict(X)
    assert set(labels.tolist()) == {-1, 1}
    np.testing.assert_array_equal(labels, pipeline.predict(X))


def test__column_names__data_frame__are_kept():
    frame = pd.DataFrame(rows(100, 0), columns=[f"s{i}" for i in range(8)])
    detector = SDLGMDetector(SDLGM(**TINY), random_state=0).fit(frame)
    assert detector.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        detector.predict(frame.rename(columns={"s0": "other"}))
    assert not hasattr(detector.fit(frame.to_numpy()), "feature_names_in_")


def test__save__loaded__answers_the_same(detector, tmp_path):
    X = broken(40, 7)[0]
    detector.save(tmp_path / "detector.sdlgm")
    loaded = load(tmp_path / "detector.sdlgm")
    assert isinstance(loaded, SDLGMDetector)
    assert loaded.offset_ == detector.offset_
    assert loaded.contamination == 0.05
    np.testing.assert_array_equal(loaded.score_samples(X), detector.score_samples(X))
    for found, expected in zip(loaded.contributions(X), detector.contributions(X), strict=True):
        np.testing.assert_array_equal(found, expected)
    loaded.fit(rows(60, 0))  # the settings of the model are there


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": float("nan")}, "finite"),
        ({"offset": "low"}, "finite number"),
        ({"contamination": 0.7}, "contamination"),
        ({"normal_code": None}, "finite number"),
    ],
)
def test__load__damaged_section__is_a_named_error(detector, tmp_path, change, message):
    detector.save(tmp_path / "whole")
    content = _tensorfile.read(tmp_path / "whole", "sdlgm-model")
    document = {**content.document, "wrapper": {**content.document["wrapper"], **change}}
    try:
        _tensorfile.write(tmp_path / "damaged", "sdlgm-model", document, content.tensors)
    except ValueError:  # not JSON
        return
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "damaged")


def test__load__means_of_other_columns__is_a_named_error(detector, tmp_path):
    detector.save(tmp_path / "whole")
    content = _tensorfile.read(tmp_path / "whole", "sdlgm-model")
    tensors = {**content.tensors, "normal_columns": content.tensors["normal_columns"][:3].clone()}
    _tensorfile.write(tmp_path / "damaged", "sdlgm-model", content.document, tensors)
    with pytest.raises(ModelFileError, match="means of the columns"):
        load(tmp_path / "damaged")
    document = {name: value for name, value in content.document.items() if name != "wrapper"}
    _tensorfile.write(tmp_path / "damaged", "sdlgm-model", document, content.tensors)
    with pytest.raises(ModelFileError, match="wrapper"):
        load(tmp_path / "damaged")


def test__fit__settings_that_exclude_each_other__are_refused(tmp_path):
    with pytest.raises(ValueError, match="prefit=True needs a fitted model"):
        SDLGMDetector(prefit=True).fit(rows(50, 0))
    np.save(tmp_path / "rows.npy", rows(60, 0))
    with pytest.raises(DataError, match="validation_fraction=None"):
        SDLGMDetector(SDLGM(**TINY)).fit(tmp_path / "rows.npy")
    detector = SDLGMDetector(SDLGM(**TINY), validation_fraction=None).fit(tmp_path / "rows.npy")
    assert detector.predict(tmp_path / "rows.npy").shape == (60,)


def series(n: int, seed: int) -> pd.DataFrame:
    """Two series of one sensor, in any order of the rows."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "time": np.tile(pd.date_range("2026-01-01", periods=n, freq="min", tz="Europe/Berlin"), 2),
            "machine": np.repeat(["a", "b"], n),
            "load": np.sin(np.arange(2 * n) / 5) + 0.1 * rng.normal(size=2 * n),
        }
    )
    return table.sample(frac=1, random_state=seed)


def test__split__windows__are_held_out_at_the_end_of_each_series_without_common_rows():
    with pytest.warns(UserWarning, match="not in the order"):
        made = windows(series(60, 0), length=5, time_column="time", group="machine")
    training, held_out = SDLGMDetector(validation_fraction=0.25)._split(made)
    found, after = training.timeline, held_out.timeline
    assert len(held_out) == 2 * 14
    assert len(training) == len(made) - 2 * 14 - 2 * 4
    for number in (0, 1):
        assert found.last[found.series == number].max() < after.first[after.series == number].min()
    expected = made.matrix[np.isin(made.origins.starts, after.first)]
    np.testing.assert_array_equal(held_out.matrix, expected)
    detector = SDLGMDetector(SDLGM(**TINY), validation_fraction=0.25).fit(made)
    again = SDLGMDetector(detector.model_, prefit=True).fit(held_out)
    assert detector.offset_ == again.offset_


def test__split__rows_with_times__are_held_out_at_the_end_of_each_series():
    table = series(20, 1)
    schema = Schema.of(table, time_column="time", group="machine")
    training, held_out = SDLGMDetector(validation_fraction=0.1)._split(encode_table(schema, table))
    late = table.time.sort_values().iloc[-4:].min()
    assert sorted(held_out.matrix.ravel()) == sorted(table.load[table.time >= late])
    assert len(training) == 36
    alone = Schema.of(table, drop=["machine"], time_column="time")
    assert len(SDLGMDetector(validation_fraction=0.1)._split(encode_table(alone, table))[1]) == 4


def test__split__series_too_short__is_an_error_with_the_remedy():
    made = windows(np.random.default_rng(0).normal(size=(20, 1)), length=10)
    with pytest.raises(DataError, match="give longer series"):
        SDLGMDetector(SDLGM(**TINY)).fit(made)


def test__streams__with_missing_values__are_scored_and_fitted_as_rows_in_memory():
    X = rows(300, 0).copy()
    X[::7, 2] = np.nan
    X[0, 0] = np.nan
    batches = [X[:100], X[100:150], X[150:]]
    settings = {"contamination": 0.1, "validation_fraction": None}
    detector = SDLGMDetector(SDLGM(**TINY), **settings).fit(X)
    np.testing.assert_allclose(detector.score_samples(iter(batches)), detector.score_samples(X), rtol=1e-6)
    chunks = np.concatenate([detector.predict(batch) for batch in batches])
    np.testing.assert_array_equal(detector.predict(iter(batches)), chunks)
    frames = (pd.DataFrame(batch).rename(columns=str).astype("Float64") for batch in batches)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_allclose(detector.score_samples(frames), detector.score_samples(X), rtol=1e-6)
    streamed = SDLGMDetector(SDLGM(**TINY), **settings).fit(iter(batches))
    np.testing.assert_allclose(streamed.model_._fitted.scaling.scale, detector.model_._fitted.scaling.scale)
    assert streamed.model_.module_.config.layout == detector.model_.module_.config.layout
    with pytest.raises(DataError, match="batch 1.*row 0"):
        detector.predict(iter([X, np.full((1, 8), np.inf)]))
