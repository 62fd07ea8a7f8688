"""One step of training: state, schedules of parameters, and steps that fail."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sdlgm import SDLGM
from sdlgm.errors import TrainingDivergedError
from sdlgm.model import Batch, ModelConfig, SDLGMModule
from sdlgm.train import Checkpoint, Progress, Trainer, seeded, state_of
from training import CONFIG, poison


def new_trainer() -> Trainer:
    config = ModelConfig(n_inputs=4, n_features=6, n_slots=3, hidden=(8,))
    return Trainer(seeded(lambda: SDLGMModule(config), 0), CONFIG, seed=0)


def batch_of(iteration: int) -> Batch:
    return Batch(torch.rand(10, 4, generator=torch.Generator().manual_seed(iteration)).round())


def run(trainer: Trainer, n_steps: int) -> list[float]:
    """Return the mean objective of each step."""
    return [trainer.step(batch_of(trainer.iteration)).value.mean().item() for _ in range(n_steps)]


def test__take_training_mean__some_steps__is_the_mean_of_their_objectives():
    trainer = new_trainer()
    objectives = run(trainer, 4)
    assert len(set(objectives)) == 4
    assert trainer.take_training_mean() == sum(objectives) / 4
    objectives = run(trainer, 3)
    assert trainer.take_training_mean(log_jacobian=2.5) == sum(objectives) / 3 + 2.5


def test__step__number_of_rows__sets_the_penalty_of_the_weights():
    config = ModelConfig(n_inputs=4, n_features=6, n_slots=3, hidden=(8,), prior="chain", prior_hidden=5)
    gradients, objectives = [], []
    for n_rows in (None, 50):
        trainer = Trainer(seeded(lambda: SDLGMModule(config), 0), CONFIG, seed=0, n_rows=n_rows)
        prior = trainer.module.prior
        torch.nn.init.ones_(prior.reads)
        writes = prior.writes.detach().clone()
        trainer.iteration = CONFIG.max_iter - 1  # after the warm-up of the KL
        objectives += run(trainer, 1)
        gradients.append({name: parameter.grad for name, parameter in prior.named_parameters()})
    without, penalised = gradients
    share = 30 / 6 / 50**2
    torch.testing.assert_close(penalised["reads"], without["reads"] + share * writes.square().sum())
    torch.testing.assert_close(penalised["writes"], without["writes"] + share * 30 * writes)
    assert all(torch.equal(penalised[name], without[name]) for name in ("bias", "start"))
    assert objectives[0] == objectives[1]  # the bound is without the penalty


def test__step__few_rows__keep_the_weights_of_the_prior_small():
    rows = np.random.default_rng(0).normal(size=(20, 6))
    options = {"prior": "chain", "prior_hidden": 16, "n_components": 8, "max_active": 4, "hidden": (16,)}
    model = SDLGM(**options, max_iter=300, batch_size=10, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few, many = model.fit(rows).module_.prior, clone(model).fit(np.tile(rows, (50, 1))).module_.prior
    assert few.reads.norm() < 0.5 * many.reads.norm()


def test__take_training_mean__no_steps__is_none():
    trainer = new_trainer()
    assert trainer.take_training_mean() is None
    run(trainer, 1)
    trainer.take_training_mean()
    assert trainer.take_training_mean(1.0) is None


def test__take_training_mean__restored_from_a_checkpoint__is_that_of_one_run(tmp_path):
    whole, first, second = new_trainer(), new_trainer(), new_trainer()
    run(whole, 7)
    run(first, 3)
    checkpoint = Checkpoint(tmp_path, every=1, identity={})
    checkpoint.save(first, Progress())
    checkpoint.restore(second, Progress())
    assert second.iteration == 3
    assert (second.training_sum, second.n_training_steps) == (first.training_sum, 3)
    run(second, 4)
    assert second.take_training_mean() == whole.take_training_mean()


def test__take_training_mean__after_going_back__forgets_the_steps_since():
    trainer = new_trainer()
    objectives = run(trainer, 3)
    snapshot = trainer.snapshot()
    run(trainer, 2)
    trainer.go_back(snapshot)
    assert trainer.take_training_mean() == sum(objectives) / 3


def test__history__resumed_between_two_points__has_the_training_means_of_one_run(digits, small, tmp_path):
    settings = {**small, "max_iter": 30, "random_state": 0}
    whole = SDLGM(**settings).fit(digits)
    checkpointed = {**settings, "checkpoint_dir": tmp_path, "checkpoint_every": 7}  # and a point every 5 iterations

    class StopError(Exception):
        pass

    def stop(_module, iteration: int) -> None:
        if iteration == 9:
            raise StopError

    with pytest.raises(StopError):
        SDLGM(**checkpointed).fit(digits, callback=stop)
    resumed = SDLGM(**checkpointed, resume=True).fit(digits)
    assert [record.training for record in resumed.history_] == [record.training for record in whole.history_]
    assert None not in [record.training for record in resumed.history_]


def test__partial_fit__bad_row_at_the_end__changes_nothing(measurements, small):
    model = SDLGM(**small, random_state=0).fit(measurements)
    codes = model.transform(measurements)
    X = measurements.copy()
    X[-1, 0] = 1e300
    with pytest.raises(ValueError, match="row 299, column 0"):
        model.partial_fit(X)
    assert (model.transform(measurements) != codes).nnz == 0
    assert not model.module_.training


def test__partial_fit__refused_call__leaves_the_next_one_as_it_would_have_been(measurements, small):
    undisturbed, refused = (SDLGM(**small, random_state=0).partial_fit(measurements) for _ in range(2))
    X = measurements.copy()
    X[5, 0] = 1e300
    with pytest.raises(ValueError, match="row 5, column 0"):
        refused.partial_fit(X)
    for model in (undisturbed, refused):
        model.partial_fit(measurements)
    for ours, theirs in zip(undisturbed.module_.parameters(), refused.module_.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test__partial_fit__diverging__keeps_the_parameters_before(digits, small, monkeypatch):
    model = SDLGM(**small, random_state=0).fit(digits)
    before = state_of(model.module_)
    poison(monkeypatch, "decoder.2.bias", 63)
    with pytest.raises(TrainingDivergedError):
        model.partial_fit(digits)
    after = state_of(model.module_)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.n_iter_ == small["max_iter"]
    monkeypatch.undo()
    assert np.isfinite(model.partial_fit(digits).score(digits))


def test__learn_prior__during_warm_up__stays_and_moves_afterwards(digits, small):
    settings = {**small, "prior": "slots", "gate_prior": 0.5, "random_state": 0}
    warming = SDLGM(**{**settings, "kl_warmup": 0.99}).fit(digits)
    assert warming.gate_prior_ == pytest.approx(0.5)
    moved = SDLGM(**{**settings, "kl_warmup": 0.0}).fit(digits)
    assert moved.gate_prior_ != pytest.approx(0.5, abs=1e-4)
    assert moved.feature_prior_.sum() == pytest.approx(1.0, abs=1e-5)


def test__temperatures__learned_scheduled_and_fixed__end_where_they_should(digits, small):
    settings = {**small, "posterior": "subset", "gradient": "gumbel_softmax", "random_state": 0}
    learned = SDLGM(**settings, learn_temperature=True).fit(digits).history_[-1]
    assert learned.feature_temperature != pytest.approx(1.0, abs=1e-4)
    scheduled = SDLGM(**settings, final_temperature=0.5).fit(digits).history_[-1]
    assert scheduled.gate_temperature == pytest.approx(0.5, rel=0.05)
    fixed = SDLGM(**settings, gate_temperature=2.0).fit(digits).history_[-1]
    assert fixed.gate_temperature == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("gradient", "tried_gradient"),
    [("reinmax", "reinmax"), ("reinmax", "score_function"), ("score_function", "reinmax")],
)
def test__partial_fit__interrupted__leaves_no_trace(digits, small, monkeypatch, gradient, tried_gradient):
    settings = {**small, "gradient": gradient, "random_state": 0}
    never, tried = (SDLGM(**settings).partial_fit(digits) for _ in range(2))
    step = Trainer.step

    def interrupted(self, batch):
        if self.iteration == never.n_iter_ + 2:
            raise KeyboardInterrupt
        return step(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tried.set_params(gradient=tried_gradient).partial_fit(digits)
    assert not tried.module_.training
    for model in (never, tried):
        model.set_params(gradient=gradient).partial_fit(digits)
    for name, tensor in never.module_.state_dict().items():
        np.testing.assert_array_equal(tried.module_.state_dict()[name].numpy(), tensor.numpy(), err_msg=name)
