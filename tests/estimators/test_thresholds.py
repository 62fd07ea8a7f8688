import numpy as np
import pytest
from sklearn.metrics import f1_score

from sdlgm.estimators._thresholds import best_threshold, best_thresholds, f1, label_folds, labels_at, out_of_fold


@pytest.fixture
def labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    indicator = (rng.random((120, 6)) < [0.5, 0.3, 0.2, 0.1, 0.05, 0.0]).astype(int)
    probs = np.clip(0.5 * indicator.mean(axis=0) + 0.3 * indicator + 0.1 * rng.normal(size=(120, 6)), 0, 1)
    return indicator, probs


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("level", [0.0, 0.2, 0.5, 1.1])
def test__f1__any_prediction__is_that_of_scikit_learn(labels, average, level):
    indicator, probs = labels
    expected = f1_score(indicator, probs >= level, average=average, zero_division=0)
    assert f1(indicator, probs >= level, average) == pytest.approx(expected)


def test__best_threshold__all_others__are_not_better(labels):
    indicator, probs = labels
    best = f1(indicator, probs >= best_threshold(indicator, probs), "micro")
    assert best >= max(f1(indicator, probs >= level, "micro") for level in np.arange(0.02, 0.96, 0.01)) - 1e-9


def test__best_thresholds__rare_labels__have_lower_ones_if_that_helps(labels):
    indicator, _ = labels
    frequency = np.maximum(indicator.mean(axis=0), 0.004)
    probs = np.clip(frequency**0.5 * (0.3 + 0.4 * indicator), 0, 1)  # well apart, at a level that the frequency sets
    chosen = best_thresholds(indicator, probs)
    assert chosen[0] > chosen[4]
    one = best_threshold(indicator, probs)
    assert f1(indicator, probs >= chosen, "macro") > f1(indicator, probs >= one, "macro") + 0.1


def test__thresholds__well_apart__are_in_the_middle():
    indicator = np.random.default_rng(0).integers(0, 2, (50, 3))
    probs = np.where(indicator > 0, 0.9, 0.1)
    assert best_threshold(indicator, probs) == pytest.approx(0.505, abs=0.01)
    np.testing.assert_allclose(best_thresholds(indicator, probs), 0.505, atol=0.01)
    assert np.isfinite(best_thresholds(np.zeros_like(indicator), probs)).all()


def test__labels_at__budget__keeps_the_likeliest():
    probs = np.array([[0.9, 0.8, 0.7], [0.1, 0.6, 0.2]])
    np.testing.assert_array_equal(labels_at(probs, 0.5, None), [[1, 1, 1], [0, 1, 0]])
    np.testing.assert_array_equal(labels_at(probs, 0.5, 2), [[1, 1, 0], [0, 1, 0]])


def test__label_folds__every_row__is_held_out_once(labels):
    indicator, _ = labels
    held_out = np.concatenate([held for _, held in label_folds(indicator, 5, 0)])
    assert sorted(held_out) == list(range(120))
    shares = [indicator[held].mean(axis=0) for _, held in label_folds(indicator, 5, 0)]
    assert np.ptp([share[0] for share in shares]) < 0.15


def test__out_of_fold__rows__come_from_models_that_have_not_seen_them(labels):
    indicator, _ = labels

    def fit_predict(train, held_out):
        assert not set(train) & set(held_out)
        return np.tile(held_out[:, None], (1, 6)).astype(float)

    np.testing.assert_array_equal(out_of_fold(fit_predict, indicator, 5, 0)[:, 0], np.arange(120))
