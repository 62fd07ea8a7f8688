import json
from dataclasses import asdict

import numpy as np
import pytest

from commands import run, text
from sdlgm import SDLGMClassifier, load
from sdlgm.data import read_labelled


@pytest.fixture(scope="module")
def songs(tmp_path_factory):
    """A table of two labels that depend on three features."""
    folder = tmp_path_factory.mktemp("songs")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    lines = [f"{a},{b},{c},{int(a + b > 0)},{int(c > 0.3)}" for a, b, c in X]
    (folder / "songs.csv").write_text("\n".join(["a,b,c,happy,sad", *lines]) + "\n", encoding="utf-8")
    (folder / "new.csv").write_text("\n".join(["a,b,c", *[f"{a},{b},{c}" for a, b, c in X]]) + "\n", encoding="utf-8")
    fast = ["--max-iter", 60, "--hidden", 16, "--learning-rate", 0.03, "--input-dropout", 0, "--threshold", 0.4]
    run("classify", "fit", folder / "songs.csv", "--labels", "happy,sad", "--out", folder / "model.sdlgm", *fast)
    return folder


def test__classify__table__is_fitted_predicted_and_evaluated(songs):
    run("classify", "predict", songs / "model.sdlgm", songs / "new.csv", "--out", songs / "predicted.csv")
    header, *rows = (songs / "predicted.csv").read_text(encoding="utf-8").splitlines()
    assert header.replace('"', "") == "happy,sad"
    assert len(rows) == 120
    assert set("".join(rows)) == set("01,")
    run("classify", "predict", songs / "model.sdlgm", songs / "songs.csv", "--out", songs / "probs.npy", "--proba")
    probs = np.load(songs / "probs.npy")
    assert ((probs >= 0.4).astype(int) == [[int(v) for v in row.split(",")] for row in rows]).all()
    result = json.loads(run("classify", "evaluate", songs / "model.sdlgm", songs / "songs.csv", "--json").stdout)
    assert result["micro_f1"] > 0.8
    assert "micro F1" in run("classify", "evaluate", songs / "model.sdlgm", songs / "songs.csv").stdout


def test__classify_report__known_labels__is_a_page_of_the_file(songs, tmp_path):
    done = run("classify", "report", songs / "model.sdlgm", songs / "songs.csv", "--out", tmp_path / "labels.html")
    assert done.stdout.strip() == f"report: {tmp_path / 'labels.html'}"
    page = (tmp_path / "labels.html").read_text(encoding="utf-8")
    assert "Labels of songs" in page
    assert page.count("data:image/png;base64,") == 4


def test__classify__decisions__are_those_of_the_library(songs, tmp_path):
    fast = ["--max-iter", 20, "--hidden", 4]
    fit = ["classify", "fit", songs / "songs.csv", "--labels", "happy,sad", *fast]
    run(*fit, "--out", tmp_path / "a.sdlgm")
    run(*fit, "--out", tmp_path / "b.sdlgm", "--decision", "count")
    model, other = load(tmp_path / "a.sdlgm"), load(tmp_path / "b.sdlgm")
    assert (model.decision_, other.decision_) == ("f1", "count")
    table = read_labelled(songs / "songs.csv", ["happy", "sad"])
    for decision in (None, "f1", "mode", "count", "threshold"):
        chosen = [] if decision is None else ["--decision", decision]
        source = [tmp_path / "a.sdlgm", songs / "songs.csv"]
        run("classify", "predict", *source, "--out", tmp_path / "predicted.npy", *chosen)
        expected = model.predict(table.table, decision=decision)
        np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), expected)
        (tmp_path / "predicted.npy").unlink()
        result = json.loads(run("classify", "evaluate", *source, "--json", *chosen).stdout)
        assert result == asdict(model.evaluate(table.table, table.labels, decision=decision))
    refused = run(*fit, "--out", tmp_path / "c.sdlgm", "--decision", "f1", "--threshold", 0.4, code=2)
    assert "decision='f1' has no threshold" in text(refused.stderr)


@pytest.mark.parametrize("written", ["", "?", "often"])
def test__classify__label_columns_of_rows_to_predict__are_not_looked_at(songs, tmp_path, written):
    header, *rows = (songs / "new.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "new.csv").write_text("\n".join([f"{header},happy", *[f"{row},{written}" for row in rows]]) + "\n")
    for source, out in ((tmp_path / "new.csv", "a.csv"), (songs / "new.csv", "b.csv")):
        run("classify", "predict", songs / "model.sdlgm", source, "--out", tmp_path / out)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.filterwarnings("ignore:X has feature names")
def test__classify__features_and_labels_both_numbered__are_told_apart(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 4)), rng.integers(0, 2, size=(60, 2))
    (tmp_path / "new.csv").write_text("\n".join(["0,1,2,3", *[",".join(map(str, row)) for row in X]]) + "\n")
    model = SDLGMClassifier(max_iter=3, random_state=0).fit(X, Y)
    model.save(tmp_path / "model.sdlgm")
    run("classify", "predict", tmp_path / "model.sdlgm", tmp_path / "new.csv", "--out", tmp_path / "predicted.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), model.predict(X))
    refused = run("classify", "evaluate", tmp_path / "model.sdlgm", tmp_path / "new.csv", code=2)
    assert "new.csv: has no" in text(refused.stderr)


def test__classify__other_columns__are_named(songs, tmp_path):
    rows = (songs / "new.csv").read_text(encoding="utf-8")
    (tmp_path / "new.csv").write_text(rows.replace("a,b,c", "a,b,volume"), encoding="utf-8")
    done = run("classify", "predict", songs / "model.sdlgm", tmp_path / "new.csv", "--out", tmp_path / "p.csv", code=2)
    assert "volume" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test__classify__mistakes__are_one_line(songs, model):
    out = ["--out", songs / "x.sdlgm"]
    for arguments, message in [
        (["fit", songs / "songs.csv", *out], "--labels"),
        (["fit", songs / "songs.csv", "--labels", "nope", *out], "nope"),
        (["fit", songs / "songs.csv", "--labels", "a", *out], "labels are 0 or 1"),
        (["fit", songs / "songs.csv", "--labels", "sad", "--threshold", "high", *out], "threshold"),
        (["evaluate", songs / "model.sdlgm", songs / "new.csv"], "happy"),
        (["report", songs / "model.sdlgm", songs / "new.csv"], "happy"),
        (["report", model, songs / "songs.csv"], "SDLGMClassifier"),
        (["evaluate", model, songs / "songs.csv"], "SDLGMClassifier"),
    ]:
        result = run("classify", *arguments, code=2)
        assert message in text(result.stderr)
    assert "sdlgm classify" in run("evaluate", songs / "model.sdlgm", songs / "new.csv", code=2).stderr
    assert not (songs / "x.sdlgm").exists()
