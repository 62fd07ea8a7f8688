"""Faults of a run: full disks, missing folders, damaged checkpoints. Kills are in tests/robustness."""

import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from robustness.kills import EVERY, SETTINGS, checkpointed_iteration, same_state
from sdlgm import SDLGM, CheckpointError, SDLGMClassifier, SDLGMCounter, SDLGMError
from sdlgm._tensorfile import METADATA_KEY, checksum
from sdlgm.errors import ModelFileError
from sdlgm.train import Trainer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="POSIX signals and limits")


def assert_resumes_to_the_same(folder, X) -> None:
    resumed = SDLGM(**SETTINGS, checkpoint_dir=folder, checkpoint_every=EVERY, resume=True).fit(X)
    whole = SDLGM(**SETTINGS).fit(X)
    assert same_state(resumed, whole)


def failing(folder, X, at: int, fault, errors) -> None:
    """Train in another process, cause the fault after an iteration, and send the error message back."""

    def callback(_module, iteration: int) -> None:
        if iteration == at:
            fault(folder)

    try:
        SDLGM(**SETTINGS, checkpoint_dir=folder, checkpoint_every=EVERY).fit(X, callback=callback)
    except CheckpointError as error:
        errors.put(str(error))
    except BaseException as error:
        errors.put(f"unexpected: {error!r}")
    else:
        errors.put("no error")


def no_space(folder) -> None:
    """Limit the files of this process to a few bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def no_folder(folder) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize("fault", [no_space, no_folder])
def test__checkpoint__disk_full_or_folder_gone__is_a_clear_error(digits, tmp_path, fault):
    context = multiprocessing.get_context("fork")
    errors = context.SimpleQueue()
    folder = tmp_path / "checkpoints"
    process = context.Process(target=failing, args=(folder, digits, EVERY + 1, fault, errors))
    process.start()
    message = errors.get()
    process.join()
    assert f"the checkpoint of iteration {2 * EVERY} cannot be written" in message
    if fault is no_space:
        assert f"that of iteration {EVERY} is intact" in message
        assert checkpointed_iteration(folder) == EVERY
        assert [path.name for path in folder.iterdir()] == ["checkpoint.safetensors"]
        assert_resumes_to_the_same(folder, digits)
    else:
        assert "there is no earlier one" in message


def test__checkpoint__folder_that_cannot_be_made__is_refused_before_training(digits, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    calls = []
    for folder in (tmp_path / "file" / "inside", tmp_path / "file"):
        with pytest.raises(CheckpointError, match="choose another checkpoint_dir"):
            SDLGM(**SETTINGS, checkpoint_dir=folder).fit(digits, callback=lambda *_: calls.append(1))

    def read_only(*_args, **_kwargs):
        raise PermissionError(13, "Read-only file system")

    monkeypatch.setattr("sdlgm._files.tempfile.mkstemp", read_only)
    with pytest.raises(CheckpointError, match="Read-only file system"):
        SDLGM(**SETTINGS, checkpoint_dir=tmp_path).fit(digits, callback=lambda *_: calls.append(1))
    assert not calls


@pytest.fixture(scope="module")
def checkpoint(digits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    SDLGM(**{**SETTINGS, "max_iter": 10}, early_stopping=True, checkpoint_dir=folder).fit(digits)
    return folder / "checkpoint.safetensors"


def resume(digits, folder) -> SDLGM:
    return SDLGM(**{**SETTINGS, "max_iter": 10}, early_stopping=True, checkpoint_dir=folder, resume=True).fit(digits)


def changed(checkpoint, folder, change, part: str | None = "document") -> None:
    """Copy a checkpoint with its tensors and a part of its header, or all of it, changed; its checksum fits."""
    tensors = load_file(checkpoint)
    with safe_open(checkpoint, framework="pt") as file:
        content = json.loads(file.metadata()[METADATA_KEY])
    change(content if part is None else content[part], tensors)
    content["sha256"] = checksum(content, tensors)
    save_file(tensors, folder / checkpoint.name, {METADATA_KEY: json.dumps(content)})


def _set(part: str, key: str, value):
    def change(document, tensors) -> None:
        target = document if part == "document" else tensors
        target[key] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _set("document", "iteration", "three"),
        _set("document", "iteration", -1),
        _set("document", "iteration", 1.5),
        _set("document", "history", [{"iteration": 1}]),
        _set("document", "history", 7),
        _set("document", "identity", []),
        _set("document", "n_without_improvement", None),
        _set("document", "training", None),
        _set("document", "training", [1.0]),
        _set("document", "training", ["much", 3]),
        _set("document", "training", [1.0, -3]),
        lambda document, _: document.pop("training"),
        _set("tensors", "optimizer.0.exp_avg", torch.zeros(3)),
        _set("tensors", "optimizer.999.exp_avg", torch.zeros(3)),
        _set("tensors", "optimizer.zero.exp_avg", torch.zeros(3)),
        _set("tensors", "generator", torch.zeros(3, dtype=torch.uint8)),
        _set("tensors", "generator", torch.zeros(3)),
        _set("tensors", "module.decoder.0.weight", torch.zeros(2, 2)),
        _set("tensors", "best.decoder.0.weight", torch.zeros(2, 2)),
        lambda _, tensors: tensors["module.decoder.0.bias"].fill_(float("nan")),
        lambda _, tensors: tensors.pop("module.decoder.0.bias"),
        lambda _, tensors: tensors.pop("generator"),
    ],
)
def test__resume__tampered_checkpoint__is_a_named_error(digits, checkpoint, tmp_path, change):
    changed(checkpoint, tmp_path, lambda *_: None)
    resume(digits, tmp_path)
    changed(checkpoint, tmp_path, change)
    with pytest.raises(ModelFileError):
        resume(digits, tmp_path)


def test__resume__checkpoint_of_another_version__is_refused_by_name(digits, checkpoint, tmp_path):
    def written_before(content, _tensors) -> None:
        content["written_by"] = "0.0.1"

    changed(checkpoint, tmp_path, written_before, part=None)
    with pytest.raises(ModelFileError, match="written by sdlgm 0.0.1"):
        resume(digits, tmp_path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(position=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255), keep=st.sampled_from([None, 0.2, 0.9]))
def test__resume__any_byte_changed__resumes_or_is_a_named_error(digits, checkpoint, tmp_path, position, byte, keep):
    content = bytearray(checkpoint.read_bytes())
    # The header is what is read with care; the rest are numbers.
    header = 8 + int.from_bytes(content[:8], "little")
    content[int(position * header)] = byte
    (tmp_path / checkpoint.name).write_bytes(content if keep is None else content[: int(keep * len(content))])
    try:
        resume(digits, tmp_path)
    except SDLGMError:
        pass
    finally:
        (tmp_path / checkpoint.name).unlink(missing_ok=True)


@pytest.mark.parametrize("estimator", [SDLGMClassifier, SDLGMCounter])
def test__resume__every_estimator__ends_where_an_uninterrupted_run_does(tmp_path, estimator):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 4)), rng.integers(2, size=(60, 3))
    options = {"hidden": (8,), "max_iter": 12, "batch_size": 20, "random_state": 0}
    whole = estimator(**options).fit(X, Y)
    context = multiprocessing.get_context("fork")

    def run() -> None:
        step = Trainer.step

        def killed(trainer, batch):
            if trainer.iteration == 8:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(trainer, batch)

        Trainer.step = killed  # in this process only
        estimator(**options, checkpoint_dir=tmp_path, checkpoint_every=5).fit(X, Y)

    process = context.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert checkpointed_iteration(tmp_path) == 5
    resumed = estimator(**options, checkpoint_dir=tmp_path, checkpoint_every=5, resume=True).fit(X, Y)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
