"""The fit loop: seeds, divergence, interruptions, early stopping."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from sdlgm import SDLGM, _tensorfile
from sdlgm.errors import TrainingDivergedError
from sdlgm.train import Trainer, state_of
from training import poison, same_parameters


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


@pytest.mark.parametrize("place", ["decoder.2.bias", "posterior.encoder.out.weight", "posterior.coupling"])
@pytest.mark.parametrize("iteration", [33, 40, 60])  # between two checkpoints, at one, after the last step
def test__fit__diverging__stops_with_last_good_model_and_checkpoint(
    digits, small, monkeypatch, tmp_path, place, iteration
):
    poison(monkeypatch, place, iteration)
    settings = {**small, "max_iter": 60, "random_state": 0, "checkpoint_dir": tmp_path, "checkpoint_every": 20}
    model = SDLGM(**settings, refine=0)
    with pytest.raises(TrainingDivergedError, match=f"not (finite|a number).* iteration {iteration}") as caught:
        model.fit(digits)
    assert str(tmp_path / "checkpoint.safetensors") in str(caught.value)
    last_point_of_the_curve = (iteration - 1) // 5 * 5
    assert model.n_iter_ == last_point_of_the_curve
    assert np.isfinite(model.score(digits))
    assert model.transform(digits[:1]).shape == (1, 16)
    model.save(tmp_path / "model")
    monkeypatch.undo()
    resumed = SDLGM(**settings, refine=0, resume=True).fit(digits)
    assert np.isfinite(resumed.score(digits))


def test__fit__learning_rate_far_too_large__is_a_named_error(digits, small):
    with pytest.raises(TrainingDivergedError, match="smaller learning_rate"):
        SDLGM(**small, posterior="shared", learning_rate=1e10, random_state=0).fit(digits)


def test__fit__diverging_at_once__leaves_the_estimator_as_it_was(digits, small):
    settings = {**small, "max_iter": 1000, "random_state": 0}
    with pytest.raises(TrainingDivergedError, match="no good parameters"):
        SDLGM(**settings, learning_rate=1e30).fit(digits)
    model = SDLGM(**{**settings, "max_iter": 5}).fit(digits)
    before = state_of(model.module_)
    with pytest.raises(TrainingDivergedError):
        model.set_params(max_iter=1000, learning_rate=1e30).fit(digits)
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(model.module_).items())


def test__warm_up__whole_run__excludes_what_begins_after_it(digits, small):
    for option in ("learn_prior", "early_stopping"):
        with pytest.raises(ValueError, match="kl_warmup below 1"):
            SDLGM(**small, kl_warmup=1.0, **{option: True}).fit(digits)


def test__fit__interrupted_refit__leaves_the_old_model(digits, measurements, small, monkeypatch):
    model = SDLGM(**small, random_state=0).fit(digits)
    before = state_of(model.module_)

    def interrupted(self, batch):
        raise KeyboardInterrupt

    monkeypatch.setattr(Trainer, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits[:200])
    assert all(torch.equal(before[name], tensor) for name, tensor in state_of(model.module_).items())


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
            seen[iteration] = state_of(module)

    settings |= {"early_stopping": True, "n_iter_no_change": 3, "refine": 0}
    model = SDLGM(**settings, random_state=0).fit(digits, callback=note)
    assert model.n_iter_ < 2000
    best = max(model.history_, key=lambda record: record.discrete)
    assert best.iteration == model.n_iter_ - 3 * 40
    for name, tensor in model.module_.state_dict().items():
        assert torch.equal(tensor, seen[best.iteration][name])
    assert any(not torch.equal(tensor, seen[model.n_iter_][name]) for name, tensor in seen[best.iteration].items())


def test__fit__bound_that_is_not_finite__is_a_divergence(digits, small, tmp_path):
    """Parameters can be finite, and what they give not."""
    settings = {**small, "likelihood": "gaussian", "max_iter": 1, "learning_rate": 1e10, "random_state": 0}
    model = SDLGM(**settings, checkpoint_dir=tmp_path)
    with pytest.raises(TrainingDivergedError, match="discrete is not finite on the watched rows"):
        model.fit(digits)
    assert not hasattr(model, "module_")
    assert not (tmp_path / "checkpoint.safetensors").exists()


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
    assert f"continues from the checkpoint, {path}".encode() in message
    content = _tensorfile.read(path, "sdlgm-checkpoint")
    assert content.document["iteration"] > 200
    assert "generator" in content.tensors
