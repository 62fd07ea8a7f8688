import copy
import json
import os
import struct

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import sdlgm
from sdlgm import SDLGM, _tensorfile
from sdlgm.errors import ModelFileError
from sdlgm.gradients.score_function import ScoreFunction


@pytest.fixture
def path(fitted, tmp_path):
    fitted.save(tmp_path / "model.sdlgm")
    return tmp_path / "model.sdlgm"


def header_of(path) -> tuple[dict, bytes]:
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def rewrite(path, change, tensors=None) -> None:
    """Change what the file says about itself, and write it with the right checksum."""
    tensors = load_file(path) if tensors is None else tensors
    content = json.loads(header_of(path)[0]["__metadata__"]["sdlgm"])
    change(content, content["document"])
    content["sha256"] = _tensorfile.checksum(content, tensors)
    save_file(tensors, path, {"sdlgm": json.dumps(content)})


def replace_tensors(path, tensors) -> None:
    """Write other tensors with the right checksum."""
    rewrite(path, lambda content, document: None, tensors)


def test__save_and_load__fitted_model__is_bit_exact(fitted, digits, path):
    loaded = sdlgm.load(path)
    assert loaded.get_params() == fitted.get_params()
    assert (loaded.transform(digits) != fitted.transform(digits)).nnz == 0
    np.testing.assert_array_equal(loaded.elbo(digits, random_state=0), fitted.elbo(digits, random_state=0))
    np.testing.assert_array_equal(loaded.sample(5, random_state=0), fitted.sample(5, random_state=0))
    np.testing.assert_array_equal(loaded.feature_prior_, fitted.feature_prior_)
    assert loaded.history_ == fitted.history_
    assert (loaded.n_iter_, loaded.gate_prior_, loaded.likelihood_) == (60, fitted.gate_prior_, "bernoulli")
    for name, tensor in fitted.module_.state_dict().items():
        assert torch.equal(loaded.module_.state_dict()[name], tensor)


def test__save__twice__gives_the_same_bytes(fitted, tmp_path):
    fitted.save(tmp_path / "a")
    fitted.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test__save_and_load__gaussian_with_column_names__keeps_scaling_and_names(measurements, small, tmp_path):
    frame = pd.DataFrame(measurements, columns=list("abcdef"))
    model = SDLGM(**small, random_state=0).fit(frame)
    model.save(tmp_path / "model")
    loaded = sdlgm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.elbo(frame, random_state=0), model.elbo(frame, random_state=0))
    assert list(loaded.feature_names_in_) == list("abcdef")


def test__load__partial_fit__goes_on(digits, path):
    loaded = sdlgm.load(path)
    loaded.partial_fit(digits)
    assert loaded.n_iter_ == 68


def test__load__gradient_that_learns__takes_no_memory_before_it_trains(digits, small, tmp_path, monkeypatch):
    """A small file can describe a large baseline: its width is a product of two settings."""
    settings = {**small, "posterior": "ordered", "gradient": "score_function", "random_state": 0}
    SDLGM(**settings).fit(digits).save(tmp_path / "model")

    def refuse(*_):
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(ScoreFunction, "__init__", refuse)
        loaded = sdlgm.load(tmp_path / "model")
        loaded.transform(digits)
        loaded.evaluate(digits)
        loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert loaded.partial_fit(digits).n_iter_ > small["max_iter"]


def test__save__random_state_object__is_left_out(digits, small, tmp_path):
    model = SDLGM(**small, random_state=np.random.RandomState(0)).fit(digits)
    model.save(tmp_path / "model")
    assert sdlgm.load(tmp_path / "model").random_state is None


def test__save__settings_changed_after_the_fit__saves_what_was_fitted(digits, small, tmp_path):
    model = SDLGM(**small, random_state=0).fit(digits)
    codes = model.transform(digits)
    bound = model.elbo(digits, random_state=0)
    model.set_params(n_components=99, max_active=1, hidden=(3,), kl="paper", binarize="threshold", n_samples=3)
    np.testing.assert_array_equal(model.elbo(digits, random_state=0), bound)
    model.save(tmp_path / "model")
    loaded = sdlgm.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.elbo(digits, random_state=0), bound)
    assert (loaded.n_components, loaded.max_active, loaded.hidden) == (16, 5, (32,))
    assert (loaded.transform(digits) != codes).nnz == 0


def test__save__settings_that_could_not_be_read__are_refused(digits, small, tmp_path):
    model = SDLGM(**small, random_state=0).fit(digits)
    for changed in ({"batch_size": 1}, {"learn_temperature": True, "final_temperature": 0.1}):
        with pytest.raises(ValueError, match="settings have changed since the fit"):
            copy.deepcopy(model).set_params(**changed).save(tmp_path / "model.sdlgm")
    assert not list(tmp_path.iterdir())


def test__load__weights_that_are_not_finite__are_refused(path):
    tensors = load_file(path)
    tensors["module.decoder.0.weight"][0, 0] = float("nan")
    replace_tensors(path, tensors)
    with pytest.raises(ModelFileError, match=r"decoder\.0\.weight has entries that are not finite"):
        sdlgm.load(path)


def test__load__device_that_is_not_there__says_so(path):
    with pytest.raises(ValueError, match="cannot be used here"):
        sdlgm.load(path, device="nonsense")


def test__write__link_and_device__are_followed_and_refused(fitted, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    fitted.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").is_file()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        fitted.save(tmp_path / "pipe")


def test__load__missing_file_or_folder__says_so(tmp_path):
    with pytest.raises(ModelFileError, match="no such file"):
        sdlgm.load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="is a folder"):
        sdlgm.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"PK\x03\x04", b"\xff" * 64, b"{}" * 100])
def test__load__foreign_bytes__are_a_named_error(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ModelFileError, match="file"):
        sdlgm.load(tmp_path / "file")


@pytest.mark.parametrize("keep", [4, 100, 0.5, -1])
def test__load__truncated__is_a_named_error(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep) if isinstance(keep, float) else keep])
    with pytest.raises(ModelFileError):
        sdlgm.load(path)


def test__load__safetensors_of_another_program__says_so(tmp_path):
    save_file({"weight": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(ModelFileError, match="another program"):
        sdlgm.load(tmp_path / "other.safetensors")


def test__load__unknown_version__says_which(path):
    rewrite(path, lambda content, document: content.update(version=99))
    with pytest.raises(ModelFileError, match="version 99"):
        sdlgm.load(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["params"].pop("max_active"), "max_active"),
        (lambda d: d["params"].update(sabotage=1), "sabotage"),
        (lambda d: d["params"].update(max_active=-3), "max_active"),
        (lambda d: d["params"].update(hidden=[33]), "expected"),
        (lambda d: d["params"].update(hidden=[10**9]), "expected"),
        (lambda d: d["params"].update(n_components="many"), "n_components"),
        (lambda d: d.update(likelihood="magic"), "magic"),
        (lambda d: d.update(estimator="Intruder"), "Intruder"),
        (lambda d: d.pop("history"), "history"),
        (lambda d: d["history"][0].update(discrete="oops"), "oops"),
        (lambda d: d.update(feature_names_in=["a"]), "column names"),
        (lambda d: d.update(n_iter=-5), "n_iter=-5"),
        (lambda d: d.update(n_features_in=65), "expected"),
    ],
)
def test__load__settings_that_do_not_fit__are_named(path, change, message):
    rewrite(path, lambda content, document: change(document))
    with pytest.raises(ModelFileError, match=message):
        sdlgm.load(path)


def test__load__missing_or_misshapen_tensor__is_named(path):
    tensors = load_file(path)
    del tensors["module.decoder.0.weight"]
    replace_tensors(path, tensors)
    with pytest.raises(ModelFileError, match=r"decoder\.0\.weight is missing"):
        sdlgm.load(path)


@given(position=st.floats(0, 1), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__load__any_byte_changed__loads_or_is_a_named_error(path, position, byte):
    original = path.read_bytes()
    content = bytearray(original)
    content[int(position * (min(len(content), 6000) - 1))] = byte
    path.write_bytes(bytes(content))
    try:
        sdlgm.load(path)
    except ModelFileError:
        pass
    finally:
        path.write_bytes(original)


def test__save__failing_disk__keeps_the_old_file_and_leaves_no_other(fitted, path, monkeypatch):
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        fitted.save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]
