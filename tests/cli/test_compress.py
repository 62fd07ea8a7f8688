import base64
import json
import sys

import numpy as np
import pandas as pd
import pytest

from commands import run
from sdlgm import SDLGM, DataError, load
from sdlgm.codec import max_bytes


def test__compress_and_decompress__round_trip__is_that_of_encode_and_decode(model, tmp_path):
    out = tmp_path / "x.sdl"
    result = run("compress", "digits:test", "--model", model, "--out", out)
    assert "297 rows" in result.output
    estimator = load(model)
    assert out.read_bytes() == estimator.compress("digits:test")
    run("decompress", out, "--model", model, "--out", tmp_path / "y.npy")
    expected = estimator.inverse_transform(estimator.transform("digits:test"))
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    numbers = json.loads(run("info", out, "--json").output)
    assert (numbers["rows"], numbers["bytes"], numbers["content"]) == (297, out.stat().st_size, "codes")
    assert "bits per row" in run("info", out).output


def test__compress__folder__is_one_file(model, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    X = np.random.default_rng(0).random((30, 64)).astype(np.float32)
    np.save(folder / "a.npy", X[:20])
    np.save(folder / "b.npy", X[20:])
    run("compress", folder, "--model", model, "--out", tmp_path / "x.sdl")
    assert (tmp_path / "x.sdl").read_bytes() == load(model).compress(X)


@pytest.fixture
def folder(tmp_path):
    """A folder of two files of zeros and ones."""
    folder = tmp_path / "data"
    folder.mkdir()
    X = (np.random.default_rng(0).random((30, 64)) < 0.3).astype(np.float32)
    np.save(folder / "a.npy", X[:20])
    np.save(folder / "b.npy", X[20:])
    return folder


@pytest.mark.parametrize("max_error", [None, 0.1])
def test__compress__folder_into_a_folder__has_a_file_for_each_part(folder, tmp_path, max_error):
    X, out = np.concatenate([np.load(path) for path in sorted(folder.iterdir())]), tmp_path / "compressed"
    model = tmp_path / "model.sdlgm"
    settings = {"n_components": 16, "max_active": 4, "hidden": (8,), "max_iter": 5, "random_state": 0}
    estimator = SDLGM(**settings, likelihood="gaussian").fit(np.tile(X, (20, 1)))
    estimator.save(model)
    option = [] if max_error is None else ["--max-error", max_error]
    result = run("compress", folder, "--model", model, "--out", out, *option)
    assert "30 rows in 2 files" in result.output
    first, second = sorted(out.glob("*.sdl"))
    assert first.read_bytes() == estimator.compress(X[:20], max_error=max_error)
    whole = first.read_bytes()
    first.unlink()
    run("compress", folder, "--model", model, "--out", out, *option)  # makes what is missing
    assert first.read_bytes() == whole
    run("decompress", out, "--model", model, "--out", tmp_path / "y.npy")
    decoded = np.load(tmp_path / "y.npy")
    if max_error is None:
        np.testing.assert_array_equal(decoded, estimator.inverse_transform(estimator.transform(X)))
    else:
        assert np.abs(decoded - X).max() <= max_error
    second.unlink()
    result = run("decompress", out, "--model", model, "--out", tmp_path / "y.npy", code=2)
    assert "has 1 of 2 parts; run 'sdlgm compress' again" in result.stderr


def test__compress__folder_of_other_settings_or_for_a_file__is_refused(model, folder, tmp_path, monkeypatch):
    common = ["compress", folder, "--model", model, "--out"]
    run(*common, tmp_path / "compressed")
    assert "another lossless" in run(*common, tmp_path / "compressed", "--lossless", code=2).stderr
    assert "is inside the folder of the data" in run(*common, folder / "compressed", code=2).stderr
    assert "into a folder; name a .sdl" in run("compress", "digits", *common[2:], tmp_path / "x", code=2).stderr
    assert "writes to a folder" in run(*common, tmp_path / "x.sdl", "--engine", "ray", code=2).stderr
    assert "writes to a folder" in run(*common, "-", "--engine", "ray", "--follow", code=2).stderr
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "sdlgm[ray]" in run(*common, tmp_path / "cluster", "--engine", "ray", code=2).stderr
    assert "holds no compressed rows" in run("decompress", folder, *common[2:], tmp_path / "y.npy", code=2).stderr


def test__decompress__file_cut_short__writes_what_is_whole(model, tmp_path):
    estimator, out = load(model), tmp_path / "x.sdl"
    out.write_bytes(estimator.compress(np.zeros((1500, 64)))[:-3])
    result = run("decompress", out, "--model", model, "--out", tmp_path / "y.npy", code=2)
    assert "cut short" in result.stderr
    assert np.load(tmp_path / "y.npy").shape == (1500, 64)


def test__follow__lines__become_messages_and_lines_again(model, tmp_path):
    X = np.random.default_rng(0).random((5, 64)).round(3)
    np.savetxt(tmp_path / "x.csv", X, delimiter=",", header=",".join(f"c{i}" for i in range(64)))
    lines = tmp_path / "messages.txt"
    run("compress", tmp_path / "x.csv", "--follow", "--checksum", "--model", model, "--out", lines)
    messages = [base64.b64decode(line) for line in lines.read_text().splitlines()]
    estimator = load(model)
    assert messages == estimator.to_messages(X, checksum=True)
    assert max(map(len, messages)) <= max_bytes(estimator, checksum=True)
    run("decompress", lines, "--follow", "--checksum", "--model", model, "--out", tmp_path / "y.csv")
    expected = estimator.inverse_transform(estimator.transform(X))
    np.testing.assert_allclose(np.loadtxt(tmp_path / "y.csv", delimiter=","), expected, rtol=1e-5, atol=1e-7)


def test__follow__bad_lines__are_named(model, tmp_path):
    (tmp_path / "x.csv").write_text("1,2\n")
    arguments = ("--follow", "--model", model, "--out", tmp_path / "y")
    assert (
        "line 1: has 2 values, and the model needs 64" in run("compress", tmp_path / "x.csv", *arguments, code=2).stderr
    )
    (tmp_path / "m.txt").write_text("!!!\n")
    assert "line 1" in run("decompress", tmp_path / "m.txt", *arguments, code=2).stderr


def test__follow__output_that_is_an_input__is_refused(model, tmp_path):
    lines = tmp_path / "x.csv"
    lines.write_text(",".join(["1"] * 64) + "\n")
    own = tmp_path / "own.sdlgm"
    own.write_bytes(model.read_bytes())
    for out in (lines, own):
        before = out.read_bytes()
        result = run("compress", lines, "--follow", "--model", own, "--out", out, code=2)
        assert "would be overwritten" in result.stderr
        assert out.read_bytes() == before
    assert run("decompress", lines, "--follow", "--model", own, "--out", lines, code=2)
    assert lines.read_text()


def test__follow__first_line__is_a_header_only_without_numbers(model, tmp_path):
    lines, out, numbers = tmp_path / "x.csv", tmp_path / "y", ["0.5"] * 63
    arguments = ("compress", lines, "--follow", "--model", model, "--out", out)
    lines.write_text(",".join(["", *numbers]) + "\n" + ",".join(["nan", *numbers]) + "\n")
    run(*arguments)
    first, second = out.read_text().splitlines()  # a value is missing in both
    assert first == second
    lines.write_text(",".join(["1x", *numbers]) + "\n")
    assert "line 1: could not convert" in run(*arguments, code=2).stderr


def test__follow__columns_of_the_fit__have_to_be_in_their_order(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).random((30, 2)), columns=["a", "b"])
    SDLGM(n_components=4, max_active=2, max_iter=2, random_state=0).fit(X).save(tmp_path / "m.sdlgm")
    lines = tmp_path / "x.csv"
    arguments = ("compress", lines, "--follow", "--model", tmp_path / "m.sdlgm", "--out", tmp_path / "y")
    lines.write_text("b,a\n1,2\n")
    assert "line 1: has the columns b, a, and the model needs a, b" in run(*arguments, code=2).stderr
    lines.write_text("a,b\n1,2\n")
    run(*arguments)


def test__follow__values_and_messages_that_are_none__are_named_with_their_line(model, tmp_path):
    lines = tmp_path / "x.csv"
    lines.write_text(",".join(["1"] * 64) + "\n" + ",".join(["inf"] * 64) + "\n")
    arguments = ("--follow", "--model", model, "--out", tmp_path / "y")
    assert "line 2: " in run("compress", lines, *arguments, code=2).stderr
    lines.write_text("é\n", encoding="utf-8")
    assert "line 1: " in run("decompress", lines, *arguments, code=2).stderr


def test__compress_lossless__rows_that_are_not_binary__are_an_error_of_the_user(model, tmp_path):
    result = run("compress", "digits:test", "--lossless", "--model", model, "--out", tmp_path / "x.sdl", code=2)
    assert "lossless compression needs" in result.stderr or "only rows of zeros and ones" in result.stderr


def test__decompress__rows_beyond_the_memory__are_an_error_before_they_are_decoded(model, tmp_path, monkeypatch):
    estimator, out = load(model), tmp_path / "x.sdl"
    content = estimator.compress(np.zeros((3000, 64)))
    out.write_bytes(content)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")  # of 1.5 MB
    result = run("decompress", out, "--model", model, "--out", tmp_path / "y.npy", code=2)
    assert "SDLGM_MAX_MEMORY" in result.stderr
    for source in (content, bytearray(content), str(out)):
        with pytest.raises(DataError, match="decompress_batches"):
            estimator.decompress(source)
    assert sum(len(part) for part in estimator.decompress_batches(bytearray(content))) == 3000
