"""The command detect."""

import csv

import numpy as np
import pandas as pd
import pytest

from commands import FAST, run
from sdlgm import SDLGM, SDLGMDetector, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fitted model, normal rows, and rows of which the last is broken."""
    folder, rng = tmp_path_factory.mktemp("detect"), np.random.default_rng(0)
    normal = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 4)) + 0.1 * rng.normal(size=(300, 4))
    rows = normal[:20].copy()
    rows[-1, 2] = 40.0
    for name, table in (("normal", normal), ("rows", rows)):
        np.savetxt(folder / f"{name}.csv", table, delimiter=",", header="a,b,c,d", comments="")
    run("fit", folder / "normal.csv", "--out", folder / "model", *FAST)
    return folder


def table(path) -> list[dict[str, float]]:
    with path.open() as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test__detect__normal_rows__set_the_threshold(folder):
    arguments = ["detect", folder / "model", folder / "rows.csv", "--normal", folder / "normal.csv"]
    output = run(*arguments, "--contamination", 0.01, "--contributions", "--out", folder / "scores.csv").stdout
    assert "normal.csv" in output
    rows = table(folder / "scores.csv")
    assert [row["anomaly"] for row in rows][-1] == 1
    assert list(rows[0]) == [
        "score",
        "decision",
        "anomaly",
        *(f"contribution:{name}" for name in ("a", "b", "c", "d", "code")),
    ]
    detector = SDLGMDetector(load(folder / "model"), contamination=0.01, prefit=True)
    detector.fit(pd.read_csv(folder / "normal.csv"))
    X = pd.read_csv(folder / "rows.csv")
    np.testing.assert_allclose([row["decision"] for row in rows], detector.decision_function(X), rtol=1e-6)
    np.testing.assert_array_equal([row["anomaly"] for row in rows], detector.predict(X) < 0)
    added = [sum(value for name, value in row.items() if name.startswith("contribution")) for row in rows]
    normal = detector.contributions(X).normal
    np.testing.assert_allclose([row["score"] for row in rows], normal - np.array(added), rtol=1e-6)
    assert max(rows[-1], key=lambda name: rows[-1][name] if ":" in name else -np.inf) == "contribution:c"


def test__detect__saved_detector__keeps_its_threshold_and_works_as_a_model(folder):
    first = run("detect", folder / "model", folder / "normal.csv", "--out", folder / "a.csv", "--save", folder / "d")
    second = run("detect", folder / "d", folder / "rows.csv", "--out", folder / "b.csv")
    assert "the threshold from" in first.stdout
    assert "the threshold of the model" in second.stdout
    offset = load(folder / "d").offset_
    assert all(row["decision"] == pytest.approx(row["score"] - offset) for row in table(folder / "b.csv"))
    run("encode", folder / "d", folder / "rows.csv", "--out", folder / "codes.npz")
    assert isinstance(load(folder / "model"), SDLGM)


@pytest.mark.parametrize("share", ["0", "0.7", "-1"])
def test__detect__impossible_share__is_refused_before_any_work(folder, share):
    arguments = ["detect", "nothing", "nothing.csv", "--contamination", share, "--out", folder / "none.csv"]
    assert "at most 0.5" in run(*arguments, code=2).stderr
    assert not (folder / "none.csv").exists()


def test__detect__model_of_labels__is_refused(folder, tmp_path):
    from sdlgm import SDLGMClassifier

    X = np.random.default_rng(0).normal(size=(30, 4))
    SDLGMClassifier(hidden=(4,), max_iter=3, random_state=0).fit(X, X > 0).save(tmp_path / "labels")
    message = run("detect", tmp_path / "labels", folder / "rows.csv", "--out", tmp_path / "s.csv", code=2).stderr
    assert "is an SDLGMClassifier" in message
