import copy
import json
import os
import struct
import subprocess
import sys

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
from sdlgm.estimators import _migrations
from sdlgm.estimators._migrations import MIGRATIONS, Migration
from sdlgm.estimators._modelfile import LOADABLE
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
    # By "auto"; a file keeps what was chosen.
    chosen = {"prior": "chain", "prior_hidden": 256, "posterior_rank": None, "refine": 0.0}
    assert loaded.get_params() == fitted.get_params() | chosen
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


# Checksums and versions


def flip(path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(bytes(content))


def start_of_tensors(path) -> int:
    (size,) = struct.unpack("<Q", path.read_bytes()[:8])
    return 8 + size


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__load__flipped_bit_in_a_weight__is_an_error(path, position, bit):
    original = path.read_bytes()
    start = start_of_tensors(path)
    flip(path, start + int(position * (len(original) - start)), bit)
    try:
        with pytest.raises(ModelFileError, match="checksum"):
            sdlgm.load(path)
    finally:
        path.write_bytes(original)


@given(position=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__load__flipped_bit_in_the_header__is_an_error(path, position, bit):
    original, content = path.read_bytes(), _tensorfile.read(path, "sdlgm-model")
    flip(path, int(position * start_of_tensors(path)), bit)
    try:
        found = _tensorfile.read(path, "sdlgm-model")
    except ModelFileError:
        with pytest.raises(ModelFileError):
            sdlgm.load(path)
    else:  # the same numbers, such as 1e-05 and 1E-05
        assert (found.document, found.written_by) == (content.document, content.written_by)
        assert all(torch.equal(tensor, content.tensors[name]) for name, tensor in found.tensors.items())
    finally:
        path.write_bytes(original)


@pytest.mark.parametrize("value", [{"n_iter": 61}, {"likelihood": "gaussian"}])
def test__load__document_that_was_edited__is_an_error(path, value):
    content = json.loads(header_of(path)[0]["__metadata__"]["sdlgm"])
    content["document"] |= value
    save_file(load_file(path), path, {"sdlgm": json.dumps(content)})
    with pytest.raises(ModelFileError, match="checksum does not match"):
        sdlgm.load(path)


def test__load__checksum_that_is_missing__is_an_error(path):
    content = json.loads(header_of(path)[0]["__metadata__"]["sdlgm"])
    del content["sha256"]
    save_file(load_file(path), path, {"sdlgm": json.dumps(content)})
    with pytest.raises(ModelFileError, match="checksum"):
        sdlgm.load(path)


def as_version_1(path) -> None:
    """Write the file as the first release did."""
    content = json.loads(header_of(path)[0]["__metadata__"]["sdlgm"])
    first = {"format": content["format"], "version": 1, "document": content["document"]}
    save_file(load_file(path), path, {"sdlgm": json.dumps(first)})


def test__load__version_1_without_checksum__answers_the_same(fitted, digits, path):
    as_version_1(path)
    content = _tensorfile.read(path, "sdlgm-model")
    assert content.written_by == "0.1.0"
    loaded = sdlgm.load(path)
    np.testing.assert_array_equal(loaded.elbo(digits, random_state=0), fitted.elbo(digits, random_state=0))
    assert (loaded.transform(digits) != fitted.transform(digits)).nnz == 0


@pytest.mark.parametrize("version", [_tensorfile.VERSION + 1, 0, -1, "2", 2.0, True, None])
def test__load__version_that_is_later_or_none__is_refused(path, version):
    rewrite(path, lambda content, document: content.update(version=version))
    with pytest.raises(ModelFileError, match=f"version {version} is not known.*up to {_tensorfile.VERSION}"):
        sdlgm.load(path)


def test__save__this_version__is_in_the_file(path):
    assert _tensorfile.read(path, "sdlgm-model").written_by == sdlgm.__version__


def test__save__equal_models__are_equal_bytes(digits, small, tmp_path):
    for name in ("a", "b"):
        SDLGM(**small, random_state=0).fit(digits).save(tmp_path / name)
    sdlgm.load(tmp_path / "a").save(tmp_path / "c")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()
    SDLGM(**small, random_state=1).fit(digits).save(tmp_path / "d")
    assert (tmp_path / "d").read_bytes() != (tmp_path / "a").read_bytes()


# Migrations


@pytest.fixture
def kl_warmup_since_0_2(monkeypatch):
    """As if version 0.2.0 had added ``kl_warmup``, and 0.7 had been the behaviour before."""
    migration = Migration("SDLGM", "kl_warmup", since="0.2.0", value=0.7)
    monkeypatch.setattr(_migrations, "MIGRATIONS", (migration,))


def without(path, parameter: str, written_by: str) -> None:
    def change(content, document):
        content["written_by"] = written_by
        del document["params"][parameter]

    rewrite(path, change)


@pytest.mark.parametrize("written_by", ["0.1.0", "0.1.9"])
def test__migrations__file_from_before_the_parameter__has_its_value(digits, path, kl_warmup_since_0_2, written_by):
    before = sdlgm.load(path)
    without(path, "kl_warmup", written_by)
    loaded = sdlgm.load(path)
    assert (before.kl_warmup, loaded.kl_warmup) == (0.3, 0.7)
    assert (loaded.transform(digits) != before.transform(digits)).nnz == 0


def test__migrations__file_of_version_1__has_its_value(path, kl_warmup_since_0_2):
    without(path, "kl_warmup", "0.1.0")
    as_version_1(path)
    assert sdlgm.load(path).kl_warmup == 0.7


@pytest.mark.parametrize("written_by", ["0.2.0", "0.2.0rc1", "0.2.1", "0.10.0", "1.0.0"])
def test__migrations__file_from_after_the_parameter__is_refused(path, kl_warmup_since_0_2, written_by):
    without(path, "kl_warmup", written_by)
    with pytest.raises(ModelFileError, match="missing settings: kl_warmup"):
        sdlgm.load(path)


def test__migrations__value_in_the_file__is_kept(path, kl_warmup_since_0_2):
    rewrite(path, lambda content, document: content.update(written_by="0.1.0"))
    assert sdlgm.load(path).kl_warmup == 0.3


@pytest.mark.parametrize("parameter", ["kl_warmup", "max_active", "hidden"])
def test__load__parameter_without_migration__is_named(path, parameter):
    without(path, parameter, "0.1.0")
    with pytest.raises(ModelFileError, match=f"missing settings: {parameter}"):
        sdlgm.load(path)


def test__migrations__other_estimator__is_not_concerned(path, monkeypatch):
    monkeypatch.setattr(_migrations, "MIGRATIONS", (Migration("SDLGMCounter", "kl_warmup", "0.2.0", 0.7),))
    without(path, "kl_warmup", "0.1.0")
    with pytest.raises(ModelFileError, match="missing settings: kl_warmup"):
        sdlgm.load(path)


def test__load__unknown_parameters__are_named(path):
    rewrite(path, lambda content, document: document["params"].update(wings=2, anchor=1))
    with pytest.raises(ModelFileError, match="unknown settings: anchor, wings"):
        sdlgm.load(path)


@pytest.mark.parametrize("written_by", ["", "new", None, [1], ".5"])
def test__load__version_of_sdlgm_that_is_none__is_a_named_error(path, written_by):
    rewrite(path, lambda content, document: content.update(written_by=written_by))
    with pytest.raises(ModelFileError, match="version"):
        sdlgm.load(path)


def test__save__version_of_a_candidate__can_be_read(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(_tensorfile, "__version__", "0.3.0rc1")
    fitted.save(tmp_path / "model")
    assert sdlgm.load(tmp_path / "model").n_iter_ == fitted.n_iter_


def test__migrations__every_one__is_of_a_parameter_that_exists():
    for migration in MIGRATIONS:
        assert migration.parameter in LOADABLE[migration.estimator]._get_param_names()


def test__load__tensor_of_a_shape_that_cannot_be__is_a_named_error(path):
    content = path.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + n_header])
    end = len(content) - 8 - n_header
    header["z"] = {"dtype": "F32", "shape": [0, 2**63], "data_offsets": [end, end]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + n_header :])
    with pytest.raises(ModelFileError, match="damaged"):
        sdlgm.load(path)


def test__load__default_model__does_not_import_the_compiler_of_torch(fitted, tmp_path):
    fitted.save(tmp_path / "m.sdlgm")
    code = f"import sys, sdlgm; sdlgm.load({str(tmp_path / 'm.sdlgm')!r}); assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
