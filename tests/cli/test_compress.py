import base64
import json

import numpy as np

from commands import run
from sdlgm import load
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
