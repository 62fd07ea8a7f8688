"""Training on batches as they arrive."""

import numpy as np
import pytest
import torch

from sdlgm import SDLGM
from sdlgm.errors import TrainingDivergedError


def test__partial_fit__batches_of_a_stream__learn_and_count(measurements, small):
    model = SDLGM(**{**small, "max_iter": 200}, learning_rate=0.01, random_state=0)
    before = model.partial_fit(measurements).score(measurements)
    for _ in range(20):
        model.partial_fit(measurements)
    assert model.score(measurements) > before + 1
    assert model.n_iter_ == 21 * 6
    assert len(model.history_) == 21


@pytest.mark.parametrize("n", [2, 3, 7])
def test__partial_fit__few_rows__never_makes_a_batch_of_one(measurements, small, n):
    SDLGM(**{**small, "batch_size": 2}, random_state=0).partial_fit(measurements[:n])


def test__partial_fit__after_fit__goes_on(digits, small):
    model = SDLGM(**small, random_state=0).fit(digits)
    before = {name: tensor.clone() for name, tensor in model.module_.state_dict().items()}
    model.partial_fit(digits)
    assert model.n_iter_ == small["max_iter"] + 8
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.module_.state_dict().items())


def test__partial_fit__diverged_with_a_learning_baseline__can_go_on(measurements, small):
    model = SDLGM(**small, gradient="score_function", random_state=0).partial_fit(measurements)
    state = {name: tensor.clone() for name, tensor in model._trainer.estimator.state_dict().items()}
    with pytest.raises(TrainingDivergedError):
        model.set_params(learning_rate=1e30).partial_fit(measurements)
    for name, tensor in model._trainer.estimator.state_dict().items():
        torch.testing.assert_close(tensor, state[name])
    assert np.isfinite(model.set_params(learning_rate=1e-3).partial_fit(measurements).score(measurements))


def test__partial_fit__diverged__leaves_the_model_as_it_was(measurements, small):
    model = SDLGM(**small, random_state=0).partial_fit(measurements)
    before = model.score(measurements)
    with pytest.raises(TrainingDivergedError):
        model.set_params(learning_rate=1e30).partial_fit(measurements)
    assert model.score(measurements) == before
    with pytest.raises(TrainingDivergedError):
        SDLGM(**{**small, "learning_rate": 1e30}, random_state=0).partial_fit(measurements)


def test__partial_fit__from_a_tempered_posterior__stays_with_it(digits, small):
    model = SDLGM(**small, gradient="annealed_straight_through", random_state=0).partial_fit(digits)
    model.partial_fit(digits)
    with pytest.raises(ValueError, match="divides the logits of the posterior"):
        model.set_params(gradient="reinmax").partial_fit(digits)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"posterior": "subset", "gradient": "gumbel_softmax"}, "posterior='chain'"),
        ({"max_active": 4}, "max_active=5"),
        ({"n_components": 17}, "n_components=16"),
        ({"hidden": [33]}, r"hidden=\(32,\)"),
        ({"likelihood": "gaussian"}, "likelihood='bernoulli'"),
        ({"learn_temperature": True}, "learn_temperature=False"),
    ],
)
def test__partial_fit__another_model__is_refused(digits, small, changed, message):
    small = {**small, "likelihood": "bernoulli"}
    model = SDLGM(**small, random_state=0).partial_fit(digits)
    with pytest.raises(ValueError, match=f"the model has {message}"):
        model.set_params(**changed).partial_fit(digits)
    same = {"likelihood": "auto", "hidden": [32], "learning_rate": 0.01}
    SDLGM(**small, random_state=0).partial_fit(digits).set_params(**same).partial_fit(digits)


def test__partial_fit__another_gradient__does_not_touch_global_noise(digits, small):
    model = SDLGM(**small, random_state=0).partial_fit(digits)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    model.set_params(gradient="score_function").partial_fit(digits)
    model.set_params(gradient="reinmax").partial_fit(digits)
    assert torch.equal(torch.rand(3), expected)
    assert len(model._trainer.optimizer.groups) == 1
    model.partial_fit(digits)  # nothing is left of what the other one learned


def test__partial_fit__after_a_new_model__trains_that_one(digits, small):
    """The trainer of an earlier model is gone when another one is published."""
    model = SDLGM(**small, random_state=0).partial_fit(digits)
    other = SDLGM(**small, random_state=1).fit(digits)
    model._publish(other._fitted)
    before = {name: tensor.clone() for name, tensor in model.module_.state_dict().items()}
    model.set_params(random_state=1).partial_fit(digits)
    assert model.n_iter_ == other.n_iter_ + len(digits) // small["batch_size"]
    assert any(not torch.equal(tensor, before[name]) for name, tensor in model.module_.state_dict().items())


def test__partial_fit__first_call_fails__leaves_nothing_behind(digits, small):
    model = SDLGM(**small, device="nonsense", random_state=0)
    with pytest.raises(ValueError, match="device"):
        model.partial_fit(digits)
    assert not hasattr(model, "n_features_in_")
