"""Weights of rows equal repeated rows."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sdlgm import SDLGM
from sdlgm.errors import DataError
from sdlgm.estimators._preparation import Columns, in_proportion, prepare_training
from sdlgm.estimators._weights import checked_weights
from sdlgm.model.modules.base import Batch, Objective, Step
from sdlgm.train import ShuffledBatches

N_REPEATS = np.array([1, 3, 2, 1, 1, 4])


@pytest.fixture
def rows(measurements) -> np.ndarray:
    return measurements[: len(N_REPEATS)]


def test__columns__integer_weights__are_those_of_repeated_rows(rows):
    expected = Columns.of(np.repeat(rows, N_REPEATS, axis=0))
    for table in (rows, sp.csr_matrix(rows)):
        found = Columns.of(table, N_REPEATS / N_REPEATS.mean())
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-9)
        np.testing.assert_allclose(found.deviation, expected.deviation, rtol=1e-6)


def loss_without_draws(module):
    """Return a loss in which the mean code stands for the draw, so that the value of a row depends on the row alone."""

    def loss(batch: Batch, step: Step) -> Objective:
        posterior = module.inference(batch.x)
        log_likelihood = module.log_likelihood(batch.x, posterior.probs[None, :, 1:])[0]
        kl = posterior.kl(module.prior(), step.kl)
        return Objective(log_likelihood - kl, kl, log_likelihood)

    return loss


def test__step__integer_weights__has_the_loss_and_gradient_of_repeated_rows(rows, monkeypatch):
    """Over one batch of all rows, without draws and without statistics of the batch."""
    settings = {"n_components": 4, "max_active": 2, "hidden": (8,), "gate_hidden": (4,), "posterior": "shared"}
    settings |= {"batch_size": 1000, "normalize_logits": False, "kl_warmup": 0.0, "random_state": 0}
    repeated, losses, gradients = np.repeat(rows, N_REPEATS, axis=0), [], []
    for x, weights in ((repeated, None), (rows, N_REPEATS / N_REPEATS.mean())):
        model = SDLGM(**settings).partial_fit(repeated)
        trainer = model._trainer
        monkeypatch.setattr(trainer.module, "loss", loss_without_draws(trainer.module))
        monkeypatch.setattr(trainer.optimizer, "step", lambda: None)
        batches = ShuffledBatches(x, 1000, 0, model._fitted.scaling.apply, weights=weights)
        batch = batches.batch(0, trainer.device)
        objective = trainer.step(batch)
        value = objective.value if batch.weight is None else batch.weight * objective.value
        losses.append(value.mean().item())
        gradients.append([parameter.grad.clone() for parameter in trainer.trained() if parameter.grad is not None])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert len(gradients[0]) > 8
    for expected, found in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test__in_proportion__weights__are_met_up_to_rounding():
    rng, weights = np.random.default_rng(0), np.array([1.0, 0.5, 3.0, 0.25, 2.25])
    chosen = np.bincount(in_proportion(weights, 70, rng), minlength=5)
    assert (np.abs(chosen - 10 * weights) < 1).all()


@pytest.mark.parametrize("fraction", [None, 0.3])
def test__prepare_training__weights__choose_the_watched_rows(fraction):
    X = np.arange(200.0)[:, None]
    weights = np.where(X.ravel() < 100, 9.0, 1.0)
    data = prepare_training(X, fraction, 0, weights)
    assert np.mean(data.watched < 100) == pytest.approx(0.9, abs=0.1)
    assert data.weights.mean() == pytest.approx(1.0)
    if fraction is not None:
        assert not set(data.watched.ravel()) & set(data.rows.ravel())


def test__fit__weights_of_zero__leave_rows_out(measurements, small):
    X, weights = measurements.copy(), np.ones(len(measurements))
    X[::3] = 1e6  # would ruin the scaling
    weights[::3] = 0
    model = SDLGM(**small, random_state=0).fit(X, sample_weight=weights)
    alone = SDLGM(**small, random_state=0).fit(X[weights > 0])
    np.testing.assert_allclose(model._fitted.scaling.location, alone._fitted.scaling.location)
    partly = SDLGM(**small, random_state=0).partial_fit(X, sample_weight=weights)
    np.testing.assert_allclose(partly._fitted.scaling.scale, alone._fitted.scaling.scale)


def test__fit__weights__shift_the_model_to_heavy_rows(measurements, small):
    groups = measurements[:, 0] > np.median(measurements[:, 0])
    settings = {**small, "max_iter": 100, "learning_rate": 0.02, "random_state": 0}
    heavy = SDLGM(**settings).fit(measurements, sample_weight=np.where(groups, 20.0, 1.0))
    light = SDLGM(**settings).fit(measurements, sample_weight=np.where(groups, 1.0, 20.0))
    assert heavy.score(measurements[groups]) > light.score(measurements[groups])
    assert heavy.score(measurements[~groups]) < light.score(measurements[~groups])


def test__score__weights__is_the_weighted_mean(fitted, digits):
    weights = np.arange(len(digits), dtype=float)
    expected = np.average(fitted.elbo(digits), weights=weights)
    assert fitted.score(digits, sample_weight=weights) == pytest.approx(expected)
    assert fitted.score(digits, sample_weight=np.full(len(digits), 3.0)) == pytest.approx(fitted.score(digits))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), "inconsistent numbers of samples"),
        (-np.ones(6), "may not be negative"),
        (np.zeros(6), "weights in sample_weight are zero"),
        (np.ones((6, 1)), "1D array"),
        ([np.nan, *np.ones(5)], "NaN"),
        (2.0, "one for each row"),
    ],
)
def test__checked_weights__not_weights_of_the_rows__are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 6)


def test__fit__weights_where_there_can_be_none__are_refused(measurements, small, tmp_path):
    np.save(tmp_path / "rows.npy", measurements)
    with pytest.raises(DataError, match="for rows in memory"):
        SDLGM(**small, random_state=0).fit(tmp_path / "rows.npy", sample_weight=np.ones(len(measurements)))
    with pytest.raises(ValueError, match="devices=1"):
        SDLGM(**small, devices=2, random_state=0).fit(measurements, sample_weight=np.ones(len(measurements)))
