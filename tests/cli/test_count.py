import json

import numpy as np
import pandas as pd
import pytest

from commands import run, text
from sdlgm import SDLGMCounter
from sdlgm.data import digit_columns


@pytest.fixture(scope="module")
def baskets(tmp_path_factory):
    """A table of two counts that three measurements depend on, and pictures in an archive."""
    folder = tmp_path_factory.mktemp("baskets")
    rng = np.random.default_rng(0)
    counts = rng.integers(3, size=(150, 2))
    X = counts @ rng.normal(size=(2, 3)) + 0.05 * rng.normal(size=(150, 3))
    for name, columns, header in (
        ("baskets.csv", np.column_stack([X, counts]), "a,b,c,bread,milk"),
        ("new.csv", X, "a,b,c"),
    ):
        np.savetxt(folder / name, columns, delimiter=",", header=header, comments="", fmt="%g")
    pictures = digit_columns("train", 40, n_columns=2, source="digits")
    np.savez(folder / "pictures.npz", X=pictures.X, counts=pictures.counts)
    np.save(folder / "pictures.npy", pictures.X)
    fast = ["--max-iter", 300, "--hidden", 16, "--learning-rate", 0.03, "--dropout", 0]
    run("count", "fit", folder / "baskets.csv", "--classes", "bread,milk", "--out", folder / "model.sdlgm", *fast)
    return folder


def test__count__table__is_fitted_predicted_and_evaluated(baskets):
    run("count", "predict", baskets / "model.sdlgm", baskets / "new.csv", "--out", baskets / "counts.csv")
    header, *rows = (baskets / "counts.csv").read_text(encoding="utf-8").splitlines()
    assert header.replace('"', "") == "bread,milk"
    assert len(rows) == 150
    run("count", "predict", baskets / "model.sdlgm", baskets / "baskets.csv", "--out", baskets / "mean.npy", "--mean")
    assert np.load(baskets / "mean.npy").dtype == np.float64
    result = json.loads(run("count", "evaluate", baskets / "model.sdlgm", baskets / "baskets.csv", "--json").stdout)
    assert result["exact_match"] > 0.7
    assert "counts right" in run("count", "evaluate", baskets / "model.sdlgm", baskets / "baskets.csv").stdout


def test__count__pictures__are_read_from_archives(baskets):
    fast = ["--max-iter", 3, "--hidden", 8, "--channels", 2, "--patch-size", 8, "--patch-stride", 4]
    result = run("count", "fit", baskets / "pictures.npz", "--out", baskets / "pictures.sdlgm", *fast)
    assert "encoder patches" in text(result.stdout)
    for data in ("pictures.npz", "pictures.npy"):
        run("count", "predict", baskets / "pictures.sdlgm", baskets / data, "--out", baskets / f"{data}.npy")
    first, second = (np.load(baskets / f"pictures.{kind}.npy") for kind in ("npz", "npy"))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (40, 10)


@pytest.mark.filterwarnings("ignore:X has feature names")
def test__count__features_and_classes_both_numbered__are_told_apart(tmp_path):
    rng = np.random.default_rng(0)
    X, counts = rng.normal(size=(60, 4)), rng.integers(0, 2, size=(60, 2))
    (tmp_path / "new.csv").write_text("\n".join(["0,1,2,3", *[",".join(map(str, row)) for row in X]]) + "\n")
    model = SDLGMCounter(max_iter=3, random_state=0).fit(X, pd.DataFrame(counts, columns=["0", "1"]))
    model.save(tmp_path / "model.sdlgm")
    run("count", "predict", tmp_path / "model.sdlgm", tmp_path / "new.csv", "--out", tmp_path / "predicted.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), model.predict(X))
    refused = run("count", "evaluate", tmp_path / "model.sdlgm", tmp_path / "new.csv", code=2)
    assert "new.csv: has no" in text(refused.stderr)


def test__count__mistakes__are_one_line(baskets, model):
    out = ["--out", baskets / "x.sdlgm"]
    for arguments, message in [
        (["fit", baskets / "baskets.csv", *out], "--classes"),
        (["fit", baskets / "baskets.csv", "--classes", "nope", *out], "nope"),
        (["fit", baskets / "baskets.csv", "--classes", "a", *out], "whole numbers"),
        (["fit", baskets / "baskets.csv", "--classes", "milk", "--max-active", 1, *out], "max_active=2"),
        (["fit", baskets / "baskets.csv", "--classes", "milk", "--encoder", "cnn", *out], "needs pictures"),
        (["evaluate", baskets / "model.sdlgm", baskets / "new.csv"], "has no counts"),
        (["evaluate", model, baskets / "baskets.csv"], "SDLGMCounter"),
    ]:
        result = run("count", *arguments, code=2)
        assert message in text(result.stderr)
    assert "sdlgm count" in run("evaluate", baskets / "model.sdlgm", baskets / "new.csv", code=2).stderr
    assert not (baskets / "x.sdlgm").exists()
