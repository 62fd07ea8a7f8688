"""Checkpoints: what a resumed run is, and what is refused."""

import os
import signal

import numpy as np
import pytest

from sdlgm import SDLGM
from sdlgm.errors import ModelFileError
from sdlgm.train import Trainer
from training import same_parameters


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

    def failing(self, batch):
        if self.iteration == cut:
            raise OSError("power cut")
        return step(self, batch)

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

    def never(self, batch):
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


def test__checkpoint__of_an_earlier_run__is_not_overwritten(digits, small, tmp_path):
    SDLGM(**small, random_state=0, checkpoint_dir=tmp_path).fit(digits)
    with pytest.raises(ModelFileError, match="resume=True"):
        SDLGM(**small, random_state=1, checkpoint_dir=tmp_path).fit(digits)


def test__checkpoint__settings_from_numpy__can_be_written(digits, small, tmp_path):
    settings = {**small, "hidden": (np.int64(8),), "final_temperature": np.float32(0.5), "max_iter": np.int64(5)}
    SDLGM(**settings, random_state=np.int64(0), checkpoint_dir=tmp_path).fit(digits).save(tmp_path / "model")


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
