import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sdlgm import SDLGM
from sdlgm.errors import ModelFileError, TrainingDivergedError
from sdlgm.train import ShuffledBatches, TrainConfig, Trainer, binarize, parameters_of, schedules

CONFIG = TrainConfig(
    max_iter=100,
    batch_size=10,
    learning_rate=0.1,
    lr_decay=0.5,
    kl_warmup=0.2,
    final_temperature=0.25,
    learn_temperature=False,
    gradient="reinmax",
    n_samples=1,
    kl="exact",
    binarize=None,
    n_iter_no_change=None,
)


def same_parameters(first: SDLGM, second: SDLGM) -> bool:
    left, right = parameters_of(first.module_), parameters_of(second.module_)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def test__kl_weight__warm_up__rises_linearly_to_one():
    weights = [schedules.kl_weight(CONFIG, i) for i in (0, 10, 20, 99)]
    assert weights == [0.0, 0.5, 1.0, 1.0]
    assert schedules.kl_weight(replace(CONFIG, kl_warmup=0.0), 0) == 1.0


def test__learning_rate__decay__falls_linearly_to_zero():
    rates = [schedules.learning_rate(CONFIG, i) for i in (0, 50, 75, 100, 200)]
    assert rates == pytest.approx([0.1, 0.1, 0.05, 0.0, 0.0])
    assert schedules.learning_rate(replace(CONFIG, lr_decay=0.0), 1000) == 0.1


def test__temperature__schedule__is_geometric():
    assert schedules.temperature(1.0, CONFIG, 50) == pytest.approx(0.5)
    assert schedules.temperature(1.0, CONFIG, 100) == pytest.approx(0.25)
    assert schedules.temperature(1.0, replace(CONFIG, final_temperature=None), 50) == 1.0


def test__batches__an_epoch__has_every_row_once_and_epochs_differ():
    rows = np.arange(30.0).reshape(30, 1)
    batches = ShuffledBatches(rows, 10, seed=1)
    first = np.concatenate([batches[i] for i in range(3)]).ravel()
    second = np.concatenate([batches[i] for i in range(3, 6)]).ravel()
    assert sorted(first) == sorted(second) == list(range(30))
    assert not np.array_equal(first, second)
    again = ShuffledBatches(rows, 10, seed=1)
    assert np.array_equal(again[4], batches[4])


def test__batches__fingerprint__tells_data_apart():
    rows = np.arange(30.0).reshape(10, 3)
    prints = {ShuffledBatches(data, 5, 0).fingerprint() for data in (rows, rows + 1, rows[:9], sp.csr_matrix(rows))}
    assert len(prints) == 4


def test__binarize__each_way__does_what_it_says(generator):
    grey = torch.full((2000, 1), 0.3)
    drawn = binarize(grey, "dynamic", generator)
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert drawn.mean().item() == pytest.approx(0.3, abs=0.05)
    assert not torch.equal(drawn, binarize(grey, "dynamic", generator))
    assert binarize(torch.tensor([0.49, 0.5]), "threshold", generator).tolist() == [0.0, 1.0]
    assert binarize(grey, "probability", generator) is grey


def test__fit__same_seed__is_the_same_model_bit_for_bit(digits, small):
    models = [SDLGM(**small, random_state=3).fit(digits) for _ in range(2)]
    assert same_parameters(*models)
    assert not same_parameters(models[0], SDLGM(**small, random_state=4).fit(digits))


def test__fit__any_seed__leaves_the_global_generators_alone(digits, small):
    torch.manual_seed(5)
    np.random.seed(5)
    expected = torch.rand(3), np.random.rand(3)
    torch.manual_seed(5)
    np.random.seed(5)
    SDLGM(**small, random_state=3).fit(digits)
    assert torch.equal(torch.rand(3), expected[0])
    assert np.array_equal(np.random.rand(3), expected[1])


@pytest.mark.parametrize(
    ("options", "cut"),
    [
        ({}, 15),  # in the warm-up, which ends at 18
        ({"learn_prior": True}, 33),  # the prior has moved
        ({"posterior": "shared", "gradient": "gumbel_softmax", "learn_temperature": True}, 33),
        ({"gradient": "score_function"}, 33),  # a baseline that learns, and running averages
        ({"early_stopping": True, "n_iter_no_change": 100}, 33),
    ],
)
def test__resume__interrupted_run__ends_where_the_uninterrupted_ends(
    digits, small, tmp_path, monkeypatch, options, cut
):
    settings = {**small, "random_state": 0, **options}
    whole = SDLGM(**settings).fit(digits)
    checkpointed = {**settings, "checkpoint_dir": tmp_path, "checkpoint_every": 10}
    step = Trainer.step

    def failing(self, rows):
        if self.iteration == cut:
            raise OSError("power cut")
        return step(self, rows)

    monkeypatch.setattr(Trainer, "step", failing)
    with pytest.raises(OSError, match="power cut"):
        SDLGM(**checkpointed).fit(digits)
    monkeypatch.undo()
    resumed = SDLGM(**checkpointed, resume=True).fit(digits)
    assert same_parameters(whole, resumed)
    assert resumed.history_ == whole.history_
    assert resumed.n_iter_ == whole.n_iter_


def test__resume__finished_run__is_done_at_once(digits, small, tmp_path, monkeypatch):
    settings = {**small, "random_state": 0, "checkpoint_dir": tmp_path}
    first = SDLGM(**settings).fit(digits)

    def never(self, rows):
        raise AssertionError("trained again")

    monkeypatch.setattr("sdlgm.train.trainer.Trainer.step", never)
    assert same_parameters(first, SDLGM(**settings, resume=True).fit(digits))


def test__resume__no_checkpoint_yet__starts_afresh(digits, small, tmp_path):
    model = SDLGM(**small, random_state=0, checkpoint_dir=tmp_path / "new", resume=True).fit(digits)
    assert model.n_iter_ == small["max_iter"]


@pytest.mark.parametrize("change", [{"max_active": 4}, {"learning_rate": 0.01}, {"random_state": 1}])
def test__resume__other_settings__are_refused_by_name(digits, small, tmp_path, change):
    settings = {**small, "random_state": 0, "checkpoint_dir": tmp_path}
    SDLGM(**settings).fit(digits)
    with pytest.raises(ModelFileError, match="was made with"):
        SDLGM(**{**settings, **change}, resume=True).fit(digits)


def test__resume__other_data__are_refused(digits, small, tmp_path):
    settings = {**small, "random_state": 0, "checkpoint_dir": tmp_path}
    SDLGM(**settings).fit(digits)
    with pytest.raises(ModelFileError, match="data="):
        SDLGM(**settings, resume=True).fit(digits[:300])


def test__resume__damaged_checkpoint__is_a_named_error(digits, small, tmp_path):
    settings = {**small, "random_state": 0, "checkpoint_dir": tmp_path}
    SDLGM(**settings).fit(digits)
    path = tmp_path / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match=r"checkpoint\.safetensors"):
        SDLGM(**settings, resume=True).fit(digits)


def test__resume__without_a_folder__says_so(digits, small):
    with pytest.raises(ValueError, match="checkpoint_dir"):
        SDLGM(**small, resume=True, random_state=0).fit(digits)


def test__resume__without_integer_seed__says_so(digits, small, tmp_path):
    with pytest.raises(ValueError, match="integer random_state"):
        SDLGM(**small, checkpoint_dir=tmp_path, resume=True).fit(digits)


def poison(monkeypatch, place: str, iteration: int) -> None:
    """Let one parameter become NaN in the update of an iteration."""
    step = Trainer.step

    def poisoned(self, rows):
        elbo = step(self, rows)
        if self.iteration == iteration:
            dict(self.module.named_parameters())[place].data.fill_(float("nan"))
        return elbo

    monkeypatch.setattr(Trainer, "step", poisoned)


@pytest.mark.parametrize("place", ["decoder.2.bias", "posterior.encoder.out.weight", "posterior.coupling"])
@pytest.mark.parametrize("iteration", [33, 40, 60])  # between two checkpoints, at one, after the last step
def test__fit__diverging__stops_with_last_good_model_and_checkpoint(
    digits, small, monkeypatch, tmp_path, place, iteration
):
    poison(monkeypatch, place, iteration)
    settings = {**small, "max_iter": 60, "random_state": 0, "checkpoint_dir": tmp_path, "checkpoint_every": 20}
    model = SDLGM(**settings)
    with pytest.raises(TrainingDivergedError, match=f"not (finite|a number).* iteration {iteration}") as caught:
        model.fit(digits)
    assert str(tmp_path / "checkpoint.safetensors") in str(caught.value)
    last_point_of_the_curve = (iteration - 1) // 5 * 5
    assert model.n_iter_ == last_point_of_the_curve
    assert np.isfinite(model.score(digits))
    assert model.transform(digits[:1]).shape == (1, 16)
    model.save(tmp_path / "model")
    monkeypatch.undo()
    resumed = SDLGM(**settings, resume=True).fit(digits)
    assert np.isfinite(resumed.score(digits))


def test__fit__learning_rate_far_too_large__is_a_named_error(digits, small):
    with pytest.raises(TrainingDivergedError, match="smaller learning_rate"):
        SDLGM(**small, posterior="shared", learning_rate=1e10, random_state=0).fit(digits)


def test__fit__diverging_at_once__leaves_the_estimator_as_it_was(digits, small):
    settings = {**small, "max_iter": 1000, "random_state": 0}
    with pytest.raises(TrainingDivergedError, match="no good parameters"):
        SDLGM(**settings, learning_rate=1e30).fit(digits)
    model = SDLGM(**{**settings, "max_iter": 5}).fit(digits)
    before = parameters_of(model.module_)
    with pytest.raises(TrainingDivergedError):
        model.set_params(max_iter=1000, learning_rate=1e30).fit(digits)
    assert all(torch.equal(before[name], tensor) for name, tensor in parameters_of(model.module_).items())


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


def test__warm_up__whole_run__excludes_what_begins_after_it(digits, small):
    for option in ("learn_prior", "early_stopping"):
        with pytest.raises(ValueError, match="kl_warmup below 1"):
            SDLGM(**small, kl_warmup=1.0, **{option: True}).fit(digits)


def test__partial_fit__diverging__keeps_the_parameters_before(digits, small, monkeypatch):
    model = SDLGM(**small, random_state=0).fit(digits)
    before = parameters_of(model.module_)
    poison(monkeypatch, "decoder.2.bias", 63)
    with pytest.raises(TrainingDivergedError):
        model.partial_fit(digits)
    after = parameters_of(model.module_)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert model.n_iter_ == small["max_iter"]
    monkeypatch.undo()
    assert np.isfinite(model.partial_fit(digits).score(digits))


def test__fit__interrupted_refit__leaves_the_old_model(digits, measurements, small, monkeypatch):
    model = SDLGM(**small, random_state=0).fit(digits)
    before = parameters_of(model.module_)

    def interrupted(self, rows):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits[:200])
    assert all(torch.equal(before[name], tensor) for name, tensor in parameters_of(model.module_).items())


def test__checkpoint__of_an_earlier_run__is_not_overwritten(digits, small, tmp_path):
    SDLGM(**small, random_state=0, checkpoint_dir=tmp_path).fit(digits)
    with pytest.raises(ModelFileError, match="resume=True"):
        SDLGM(**small, random_state=1, checkpoint_dir=tmp_path).fit(digits)


def test__checkpoint__settings_from_numpy__can_be_written(digits, small, tmp_path):
    settings = {**small, "hidden": (np.int64(8),), "final_temperature": np.float32(0.5), "max_iter": np.int64(5)}
    SDLGM(**settings, random_state=np.int64(0), checkpoint_dir=tmp_path).fit(digits).save(tmp_path / "model")


def test__fit__in_threads__is_the_same_model(digits, small):
    alone = SDLGM(**small, random_state=0).fit(digits)
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: SDLGM(**small, random_state=0).fit(digits), range(8)))
    assert all(same_parameters(alone, model) for model in models)


def test__early_stopping__no_improvement__stops_and_keeps_the_best(digits, small):
    settings = {**small, "max_iter": 2000, "kl_warmup": 0.0, "learning_rate": 0.02, "lr_decay": 0.0}
    seen = {}

    def note(module, iteration):
        if iteration % 40 == 0:
            seen[iteration] = parameters_of(module)

    model = SDLGM(**settings, early_stopping=True, n_iter_no_change=3, random_state=0).fit(digits, callback=note)
    assert model.n_iter_ < 2000
    best = max(model.history_, key=lambda record: record.discrete)
    assert best.iteration == model.n_iter_ - 3 * 40
    for name, tensor in model.module_.state_dict().items():
        assert torch.equal(tensor, seen[best.iteration][name])
    assert any(not torch.equal(tensor, seen[model.n_iter_][name]) for name, tensor in seen[best.iteration].items())


def test__learn_prior__during_warm_up__stays_and_moves_afterwards(digits, small):
    settings = {**small, "learn_prior": True, "gate_prior": 0.5, "random_state": 0}
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


SCRIPT = """
import sys
from sklearn.datasets import load_digits
from sdlgm import SDLGM
SDLGM(n_components=16, max_active=5, hidden=(32,), gate_hidden=(8,), max_iter=10**6, checkpoint_dir=sys.argv[1],
      checkpoint_every=200, random_state=0).fit(load_digits().data / 16)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test__signal__during_training__leaves_a_whole_checkpoint(tmp_path, number):
    from sdlgm import _tensorfile

    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stderr=subprocess.PIPE)
    try:
        path = tmp_path / "checkpoint.safetensors"
        deadline = time.monotonic() + 120
        while not path.exists() and time.monotonic() < deadline:  # the first regular one: training is under way
            time.sleep(0.05)
        path.unlink()
        process.send_signal(number)
        _, message = process.communicate(timeout=60)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in message
    document, tensors = _tensorfile.read(path, "sdlgm-checkpoint")
    assert document["iteration"] > 200
    assert "generator" in tensors


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test__resume__after_a_signal__ends_where_the_uninterrupted_ends(digits, small, tmp_path, number):
    settings = {**small, "random_state": 0}
    whole = SDLGM(**settings).fit(digits)
    settings |= {"checkpoint_dir": tmp_path, "checkpoint_every": 10}

    def signalled(_module, iteration):
        if iteration == 23:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        SDLGM(**settings).fit(digits, callback=signalled)
    begun: list[int] = []
    resumed = SDLGM(**settings, resume=True).fit(digits, callback=lambda _module, iteration: begun.append(iteration))
    assert begun[0] == 25  # the signal was answered after the next iteration
    assert same_parameters(resumed, whole)


def test__early_stopping__finished_run_resumed__does_nothing_again(digits, small, tmp_path):
    settings = {**small, "max_iter": 400, "early_stopping": True, "n_iter_no_change": 1, "kl_warmup": 0.0}
    settings |= {"learning_rate": 0.05, "checkpoint_dir": tmp_path, "checkpoint_every": 1000, "random_state": 0}
    whole = SDLGM(**settings).fit(digits)
    assert whole.n_iter_ < 400
    done: list[int] = []
    resumed = SDLGM(**settings, resume=True).fit(digits, callback=lambda _module, iteration: done.append(iteration))
    assert not done
    assert resumed.n_iter_ == whole.n_iter_
    np.testing.assert_array_equal(resumed.transform(digits).toarray(), whole.transform(digits).toarray())


def test__fit__bound_that_is_not_finite__is_a_divergence(digits, small, tmp_path):
    """Parameters can be finite, and what they give not."""
    settings = {**small, "likelihood": "gaussian", "max_iter": 1, "learning_rate": 1e10, "random_state": 0}
    model = SDLGM(**settings, checkpoint_dir=tmp_path)
    with pytest.raises(TrainingDivergedError, match="discrete is not finite on the watched rows"):
        model.fit(digits)
    assert not hasattr(model, "module_")
    assert not (tmp_path / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(
    ("gradient", "tried_gradient"),
    [("reinmax", "reinmax"), ("reinmax", "score_function"), ("score_function", "reinmax")],
)
def test__partial_fit__interrupted__leaves_no_trace(digits, small, monkeypatch, gradient, tried_gradient):
    settings = {**small, "gradient": gradient, "random_state": 0}
    never, tried = (SDLGM(**settings).partial_fit(digits) for _ in range(2))
    step = Trainer.step

    def interrupted(self, rows):
        if self.iteration == never.n_iter_ + 2:
            raise KeyboardInterrupt
        return step(self, rows)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tried.set_params(gradient=tried_gradient).partial_fit(digits)
    assert not tried.module_.training
    for model in (never, tried):
        model.set_params(gradient=gradient).partial_fit(digits)
    for name, tensor in never.module_.state_dict().items():
        np.testing.assert_array_equal(tried.module_.state_dict()[name].numpy(), tensor.numpy(), err_msg=name)
