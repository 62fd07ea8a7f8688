"""Ctrl-C during a fit keeps what was learned."""

import signal
import sys
import warnings

import numpy as np
import pytest
import torch

from sdlgm import SDLGM, FitInterruptedWarning, SDLGMClassifier, SDLGMCounter
from sdlgm.train import Trainer, state_of

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def interrupt_in(monkeypatch, *iterations: int) -> None:
    """Press Ctrl-C in the middle of these iterations, counted from 0."""
    step = Trainer.step

    def interrupted(self, batch):
        if self.iteration in iterations:
            signal.raise_signal(signal.SIGINT)
        return step(self, batch)

    monkeypatch.setattr(Trainer, "step", interrupted)


def test__fit__ctrl_c__returns_the_model_so_far_with_a_warning(digits, small, monkeypatch, tmp_path):
    seen = {}
    settings = {**small, "max_iter": 1000, "random_state": 0}
    interrupt_in(monkeypatch, 17)
    with pytest.warns(FitInterruptedWarning, match="after 18 of 1000 iterations.*checkpoint_dir") as record:
        model = SDLGM(**settings).fit(digits, callback=lambda module, n: seen.update({n: state_of(module)}))
    assert record[0].filename == __file__
    assert len(record) == 1  # nothing is said about convergence
    assert model.interrupted_
    assert model.n_iter_ == 18 == max(seen) == model.history_[-1].iteration
    assert all(torch.equal(tensor, seen[18][name]) for name, tensor in model.module_.state_dict().items())
    assert not model.module_.training
    model.save(tmp_path / "model")
    monkeypatch.undo()
    assert not model.set_params(max_iter=20).fit(digits).interrupted_
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test__fit__ctrl_c_in_the_first_iteration__is_a_keyboard_interrupt(digits, small, monkeypatch):
    interrupt_in(monkeypatch, 0)
    model = SDLGM(**small, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    assert not hasattr(model, "module_")
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("with_checkpoint", [False, True])
def test__fit__second_ctrl_c__stops_at_once(digits, small, monkeypatch, tmp_path, with_checkpoint):
    step = Trainer.step

    def interrupted(self, batch):
        if self.iteration == 9:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")
        return step(self, batch)

    monkeypatch.setattr(Trainer, "step", interrupted)
    model = SDLGM(**small, random_state=0, checkpoint_dir=tmp_path / "c" if with_checkpoint else None)
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(digits)
    assert type(raised.value) is KeyboardInterrupt
    assert not hasattr(model, "module_")


def test__fit__ctrl_c_with_early_stopping__keeps_the_best_parameters(digits, small, monkeypatch):
    settings = {**small, "max_iter": 1000, "early_stopping": True, "kl_warmup": 0.0, "random_state": 0}
    seen = {}
    interrupt_in(monkeypatch, 104)
    with pytest.warns(FitInterruptedWarning):
        model = SDLGM(**settings).fit(digits, callback=lambda module, n: seen.update({n: state_of(module)}))
    best = max(model.history_, key=lambda record: record.discrete).iteration
    assert all(torch.equal(tensor, seen[best][name]) for name, tensor in model.module_.state_dict().items())


@pytest.mark.parametrize("estimator", [SDLGMClassifier, SDLGMCounter])
def test__fit__estimators_with_targets__keep_what_was_learned(estimator, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    interrupt_in(monkeypatch, 12)
    with pytest.warns(FitInterruptedWarning, match="after 13 of 200") as record:
        model = estimator(hidden=(8,), max_iter=200, random_state=0).fit(X, (X > 0).astype(int))
    assert record[0].filename == __file__
    assert model.interrupted_
    assert model.predict(X).shape == (60, 4)


def test__fit__ctrl_c_while_a_threshold_is_chosen__stops_the_whole_fit(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    interrupt_in(monkeypatch, 12)
    model = SDLGMClassifier(hidden=(8,), max_iter=50, threshold="cv", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, (X > 0).astype(int))
    assert not hasattr(model, "module_")
