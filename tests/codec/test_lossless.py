"""Binary rows without loss: read back exactly, with about as many bits as the bound says."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from commands import run
from sdlgm import SDLGM, DataError, MissingDependencyError

pytest.importorskip("constriction")
QUICK = {"n_components": 24, "max_active": 6, "hidden": (64,), "max_iter": 250, "random_state": 0}


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    return (load_digits().data > 8).astype(np.float32)


@pytest.fixture(scope="module")
def binary(pictures) -> SDLGM:
    return SDLGM(**QUICK).fit(pictures)


def test__lossless__a_thousand_rows__are_the_same_and_near_the_bound(binary, pictures):
    content = binary.compress(pictures[:1024], lossless=True)
    rows = binary.decompress(content)
    np.testing.assert_array_equal(rows, pictures[:1024])
    bound = -binary.elbo(pictures[:1024]).sum() / np.log(2)
    assert 8 * len(content) < 1.01 * bound + 8 * 60  # framing and first bits, which are little in larger rows
    assert 8 * len(content) > 0.98 * bound


@pytest.mark.parametrize("n_rows", [0, 1, 2, 17, 1030])
def test__lossless__any_number_of_rows__are_the_same(binary, pictures, n_rows, tmp_path):
    path = tmp_path / "x.sdl"
    with path.open("wb") as file:
        written, n_first_bits = binary.write_lossless(file, [pictures[:n_rows]] if n_rows else [])
    assert written == n_rows
    assert n_first_bits < 200 * max(1, -(-n_rows // 1024))
    np.testing.assert_array_equal(binary.decompress(path), pictures[:n_rows])
    np.testing.assert_array_equal(np.concatenate([pictures[:0], *binary.decompress_batches(path)]), pictures[:n_rows])


@pytest.mark.parametrize(
    "settings",
    [{"posterior": "subset"}, {"posterior_rank": 3, "prior_rank": 4}, {"posterior": "chain", "max_active": 1}],
)
def test__lossless__other_posteriors_and_priors__are_the_same(settings, pictures):
    model = SDLGM(**{**QUICK, "max_iter": 30, "hidden": (16,), **settings}).fit(pictures[:300])
    np.testing.assert_array_equal(model.decompress(model.compress(pictures[:40], lossless=True)), pictures[:40])


def test__lossless__networks_that_answer_otherwise__are_noticed(binary, pictures, monkeypatch):
    from sdlgm.codec import _lossless

    content = binary.compress(pictures[:40], lossless=True)
    parts = _lossless._parts
    monkeypatch.setattr(_lossless, "_parts", lambda logits: parts(logits + 1e-2))
    with pytest.raises(DataError, match="decompress where they were compressed"):
        binary.decompress(content)


def test__lossless__what_it_cannot_do__is_refused(binary, pictures, fitted_gaussian, measurements, monkeypatch):
    with pytest.raises(ValueError, match="only rows of zeros and ones"):
        binary.compress(pictures / 2, lossless=True)
    with pytest.raises(ValueError, match="needs prior='chain' and likelihood='bernoulli'"):
        fitted_gaussian.compress(measurements, lossless=True)
    with pytest.raises(DataError, match="has rows without loss, and not codes"):
        binary.codec_.from_bytes(binary.compress(pictures[:3], lossless=True))
    monkeypatch.setitem(sys.modules, "constriction", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sdlgm\[codec\]'"):
        binary.compress(pictures[:3], lossless=True)


def test__lossless__command__round_trip(binary, pictures, tmp_path):
    binary.save(tmp_path / "m.sdlgm")
    np.save(tmp_path / "x.npy", pictures[:20])
    out = tmp_path / "x.sdl"
    result = run("compress", tmp_path / "x.npy", "--lossless", "--model", tmp_path / "m.sdlgm", "--out", out)
    assert "first bits" in result.output
    run("decompress", out, "--model", tmp_path / "m.sdlgm", "--out", tmp_path / "y.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), pictures[:20])
    assert "rows without loss" in run("info", out).output


def test__lossless__file_of_another_model__is_said_by_models_that_cannot_have_one(binary, pictures):
    content = binary.compress(pictures[:3], lossless=True)
    other = SDLGM(**{**QUICK, "max_iter": 2}, prior="slots").fit(pictures)
    with pytest.raises(DataError, match="was made by the model"):
        other.decompress(content)
