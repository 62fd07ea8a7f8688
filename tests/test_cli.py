import inspect
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits
from typer.testing import CliRunner

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, __version__, cli, load
from sdlgm.cli import app
from sdlgm.data import digit_columns, read_codes
from sdlgm.train import Trainer

ROOT = Path(__file__).parents[1]
FAST = ["--max-iter", "30", "--n-components", "16", "--max-active", "4", "--hidden", "32", "--gate-hidden", "8"]


def run(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.sdlgm"
    run("fit", "digits:train", "--out", path, *FAST, "--seed", 3)
    return path


def test__fit__options__reach_the_model(model):
    loaded = load(model)
    assert (loaded.max_active, loaded.n_components, loaded.hidden, loaded.random_state) == (4, 16, (32,), 3)
    assert loaded.n_iter_ == 30


def test__fit__every_parameter_of_the_estimator__is_an_option_with_its_default():
    parameters = inspect.signature(cli.fit).parameters
    for name, parameter in inspect.signature(SDLGM).parameters.items():
        if name in ("random_state", "verbose"):  # --seed; the bar is always shown
            continue
        default = parameter.default
        expected = ",".join(map(str, default)) if isinstance(default, tuple) else default
        assert parameters[name].default == expected, name


def test__encode_and_decode__round_trip__keeps_the_budget(model, tmp_path):
    result = run("encode", model, "digits:test", "--out", tmp_path / "codes.npz")
    codes = sp.load_npz(tmp_path / "codes.npz")
    assert codes.shape == (297, 16)
    assert codes.sum(axis=1).max() <= 4
    assert "297 rows" in result.output
    run("decode", model, tmp_path / "codes.npz", "--out", tmp_path / "decoded.csv")
    run("decode", model, tmp_path / "codes.npz", "--out", tmp_path / "decoded.npy")
    assert np.load(tmp_path / "decoded.npy").shape == (297, 64)
    run("encode", model, "digits:test", "--out", tmp_path / "best.npz", "--n-candidates", 3)


def test__encode__budget__cuts_ordered_codes(tmp_path):
    run("fit", "digits:train", "--out", tmp_path / "model.sdlgm", *FAST, "--posterior", "ordered")
    run("encode", tmp_path / "model.sdlgm", "digits:test", "--out", tmp_path / "codes.npz", "--budget", 1)
    expected = load(tmp_path / "model.sdlgm").transform("digits:test", budget=1)
    assert (read_codes(tmp_path / "codes.npz") != expected).nnz == 0
    assert expected.sum(axis=1).max() == 1


def test__evaluate__json__is_for_machines(model):
    numbers = json.loads(run("evaluate", model, "digits:test", "--json").output)
    assert numbers["n_rows"] == 297
    assert numbers["n_active_max"] <= 4
    assert numbers["discrete_bits"] == pytest.approx(numbers["discrete"] / np.log(2))
    assert "discrete bound" in run("evaluate", model, "digits:test").output


def test__sample_and_report__write_their_files(model, tmp_path):
    run("sample", model, "-n", 5, "--out", tmp_path / "new.npy", "--seed", 1)
    assert np.load(tmp_path / "new.npy").shape == (5, 64)
    run("report", model, "digits:test", "--out", tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 50_000


def test__demo__few_iterations__does_the_whole_job(tmp_path):
    result = run("demo", "--out", tmp_path / "demo", "--max-iter", 20)
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {
        "report.html",
        "model.sdlgm",
        "codes.npz",
        "decoded.npy",
    }
    for words in ("nats", "bits", "active slots, mean", "active slots, largest", "features used", "report.html"):
        assert words in result.output


def test__fit__interrupted_and_resumed__ends_at_the_same_model(tmp_path, monkeypatch):
    common = ["fit", "digits:train", *FAST, "--checkpoint-every", 10]
    run(*common, "--out", tmp_path / "a")
    step = Trainer.step

    def interrupted(self, rows):
        if self.iteration == 25:
            raise KeyboardInterrupt
        return step(self, rows)

    monkeypatch.setattr(Trainer, "step", interrupted)
    message = run(*common, "--out", tmp_path / "b", "--checkpoint-dir", tmp_path / "c", code=130).stderr
    assert "--resume" in message
    assert not (tmp_path / "b").exists()
    monkeypatch.undo()
    assert "--resume" in run(*common, "--out", tmp_path / "b", "--checkpoint-dir", tmp_path / "c", code=2).stderr
    run(*common, "--out", tmp_path / "b", "--checkpoint-dir", tmp_path / "c", "--resume")
    assert load(tmp_path / "a").history_ == load(tmp_path / "b").history_
    tensors = load(tmp_path / "a").module_.state_dict(), load(tmp_path / "b").module_.state_dict()
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


def test__fit__csv_with_labels__leaves_the_label_out(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["a,b,kind"] + [f"{x},{y},{'uv'[i % 2]}" for i, (x, y) in enumerate(rng.normal(size=(40, 2)))]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    run("fit", tmp_path / "data.csv", "--label-column", "kind", "--out", tmp_path / "m", *FAST)
    assert load(tmp_path / "m").likelihood_ == "gaussian"


def test__csv__column_names__are_kept_and_checked(tmp_path):
    rng = np.random.default_rng(0)
    values = "".join(f"{x},{y}\n" for x, y in rng.normal(size=(40, 2)))
    (tmp_path / "data.csv").write_text("alpha,beta\n" + values)
    (tmp_path / "swapped.csv").write_text("beta,alpha\n" + values)
    run("fit", tmp_path / "data.csv", "--out", tmp_path / "m", *FAST)
    run("encode", tmp_path / "m", tmp_path / "data.csv", "--out", tmp_path / "codes.npz")
    run("decode", tmp_path / "m", tmp_path / "codes.npz", "--out", tmp_path / "decoded.csv")
    assert (tmp_path / "decoded.csv").read_text().splitlines()[0] == '"alpha","beta"'
    run("report", tmp_path / "m", tmp_path / "data.csv", "--out", tmp_path / "report.html")
    result = run("encode", tmp_path / "m", tmp_path / "swapped.csv", "--out", tmp_path / "no.npz", code=2)
    assert "feature names" in result.stderr
    assert "same order" in result.stderr


def test__data_list__names__are_there():
    output = run("data", "list").output
    assert "digits" in output
    assert "mnist" in output
    assert "nothing to fetch" in run("data", "fetch", "digits").output


def test__version_and_help__answer():
    assert run("--version").output.strip() == __version__
    for command in ("demo", "fit", "encode", "decode", "evaluate", "sample", "report", "data", "reproduce"):
        assert command in run("--help").output
        assert "Usage" in run(command, "--help").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nonsense", "--out", "OUT"], "named data sets are"),
        (["fit", "missing.csv", "--out", "OUT"], "no such file"),
        (["fit", "digits", "--out", "OUT", "--max-active", "0"], "max_active"),
        (["fit", "digits", "--out", "OUT", "--gradient", "magic"], "gradient"),
        (["fit", "digits", "--out", "OUT", "--hidden", "a,b"], "layer sizes"),
        (["fit", "digits", "--out", "OUT", "--hidden=-5"], "positive"),
        (["fit", "digits", "--out", "OUT", "--device", "nonsense"], "device"),
        (["fit", "digits", "--out", "OUT", "--resume"], "--checkpoint-dir"),
        (["fit", "digits", "--out", "no/such/folder/model"], "make it first"),
        (["encode", "MODEL", "NARROW", "--out", "OUT.npz"], "features"),
        (["encode", "MODEL", "digits", "--out", "OUT.csv"], ".npz"),
        (["encode", "GARBAGE", "digits", "--out", "OUT.npz"], "damaged"),
        (["decode", "MODEL", "GARBAGE", "--out", "OUT.npy"], "garbage"),
        (["decode", "MODEL", "OVER", "--out", "OUT.npy"], "budget"),
        (["evaluate", "MODEL", "BAD"], "NaN"),
        (["data", "fetch", "nonsense"], "known are"),
    ],
)
def test__errors__expected_ones__are_one_line_with_code_two_and_no_file(model, tmp_path, arguments, message):
    (tmp_path / "garbage").write_bytes(b"garbage")
    np.save(tmp_path / "narrow.npy", np.zeros((3, 5)))
    np.save(tmp_path / "bad.npy", np.full((3, 64), np.nan))
    sp.save_npz(tmp_path / "over.npz", sp.csr_matrix(np.ones((2, 16))))
    names = {
        "MODEL": model,
        "OUT": tmp_path / "out",
        "OUT.npz": tmp_path / "out.npz",
        "OUT.csv": tmp_path / "out.csv",
        "OUT.npy": tmp_path / "out.npy",
        "GARBAGE": tmp_path / "garbage",
        "NARROW": tmp_path / "narrow.npy",
        "BAD": tmp_path / "bad.npy",
        "OVER": tmp_path / "over.npz",
    }
    before = sorted(tmp_path.iterdir())
    result = run(*(names.get(argument, argument) for argument in arguments), code=2)
    assert message in result.stderr
    assert result.stderr.startswith("error:")
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output
    assert sorted(tmp_path.iterdir()) == before


# Rows in files


@pytest.fixture(scope="module")
def table_folder(tmp_path_factory):
    """The digits in two parquet files, with a column that is no feature."""
    folder = tmp_path_factory.mktemp("table") / "rows"
    folder.mkdir()
    X = load_digits().data[:300] / 16
    for number, part in enumerate((X[:120], X[120:])):
        columns = {f"p{i}": part[:, i] for i in range(64)} | {"kind": ["x"] * len(part)}
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=50)
    return folder


def test__folder__is_fitted_encoded_decoded_and_evaluated(table_folder, tmp_path):
    label = ["--label-column", "kind"]
    run("fit", table_folder, "--out", tmp_path / "model.sdlgm", *FAST, *label)
    result = run("encode", tmp_path / "model.sdlgm", table_folder, "--out", tmp_path / "codes", *label)
    assert "300 rows in 7 files" in " ".join(result.stdout.split())
    run("encode", tmp_path / "model.sdlgm", table_folder, "--out", tmp_path / "codes", *label)  # nothing is left to do
    run("decode", tmp_path / "model.sdlgm", tmp_path / "codes", "--out", tmp_path / "decoded.npy")
    assert np.load(tmp_path / "decoded.npy").shape == (300, 64)
    found = json.loads(run("evaluate", tmp_path / "model.sdlgm", table_folder, "--json", *label).stdout)
    assert found["n_rows"] == 300
    for source, n_rows in ((table_folder / "0.parquet", 120), (table_folder, 300)):
        run("encode", tmp_path / "model.sdlgm", source, "--out", tmp_path / "codes.npz", *label)
        np.testing.assert_array_equal(
            read_codes(tmp_path / "codes")[:n_rows].toarray(), read_codes(tmp_path / "codes.npz").toarray()
        )
    refused = run("report", tmp_path / "model.sdlgm", table_folder, "--out", tmp_path / "report.html", code=2)
    assert "is a folder" in refused.stderr
    other = run(
        "encode",
        tmp_path / "model.sdlgm",
        table_folder,
        "--out",
        tmp_path / "codes",
        "--n-candidates",
        2,
        *label,
        code=2,
    )
    assert "another n candidates" in " ".join(other.stderr.split())


def test__stream__file__is_read_in_parts(table_folder, tmp_path):
    common = ["--label-column", "kind", *FAST, "--stream"]
    run("fit", table_folder / "1.parquet", "--out", tmp_path / "model.sdlgm", *common)
    assert load(tmp_path / "model.sdlgm").n_features_in_ == 64
    assert "--stream" in run("fit", "digits", "--out", tmp_path / "m.sdlgm", "--stream", code=2).stderr
    assert ".npz" in run("encode", tmp_path / "model.sdlgm", "digits", "--out", tmp_path / "x", code=2).stderr


# Classification


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


@pytest.mark.parametrize("written", ["", "?", "often"])
def test__classify__label_columns_of_rows_to_predict__are_not_looked_at(songs, tmp_path, written):
    header, *rows = (songs / "new.csv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "new.csv").write_text("\n".join([f"{header},happy", *[f"{row},{written}" for row in rows]]) + "\n")
    for source, out in ((tmp_path / "new.csv", "a.csv"), (songs / "new.csv", "b.csv")):
        run("classify", "predict", songs / "model.sdlgm", source, "--out", tmp_path / out)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


@pytest.mark.filterwarnings("ignore:X has feature names")
def test__classify_and_count__features_and_labels_both_numbered__are_told_apart(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 4)), rng.integers(0, 2, size=(60, 2))
    (tmp_path / "new.csv").write_text("\n".join(["0,1,2,3", *[",".join(map(str, row)) for row in X]]) + "\n")
    named = pd.DataFrame(Y, columns=["0", "1"])
    for command, model in (
        ("classify", SDLGMClassifier(max_iter=3, random_state=0).fit(X, Y)),
        ("count", SDLGMCounter(max_iter=3, random_state=0).fit(X, named)),
    ):
        model.save(tmp_path / "model.sdlgm")
        run(command, "predict", tmp_path / "model.sdlgm", tmp_path / "new.csv", "--out", tmp_path / "predicted.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "predicted.npy"), model.predict(X))
        refused = run(command, "evaluate", tmp_path / "model.sdlgm", tmp_path / "new.csv", code=2)
        assert "new.csv: has no" in " ".join(refused.stderr.split())


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
        (["evaluate", model, songs / "songs.csv"], "SDLGMClassifier"),
    ]:
        result = run("classify", *arguments, code=2)
        assert message in " ".join(result.stderr.split())
    assert "sdlgm classify" in run("evaluate", songs / "model.sdlgm", songs / "new.csv", code=2).stderr
    assert not (songs / "x.sdlgm").exists()


def test__classify_fit__parameters_of_the_estimator__are_options():
    options = inspect.signature(cli.classify_fit).parameters
    left_out = {"activation", "n_samples", "kl_warmup", "lr_decay", "random_state", "device", "verbose"}
    assert set(inspect.signature(SDLGMClassifier).parameters) - left_out <= set(options)


# Counting


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
    assert "encoder patches" in " ".join(result.stdout.split())
    for data in ("pictures.npz", "pictures.npy"):
        run("count", "predict", baskets / "pictures.sdlgm", baskets / data, "--out", baskets / f"{data}.npy")
    first, second = (np.load(baskets / f"pictures.{kind}.npy") for kind in ("npz", "npy"))
    np.testing.assert_array_equal(first, second)
    assert first.shape == (40, 10)


def test__count__mistakes__are_one_line(baskets, model):
    out = ["--out", baskets / "x.sdlgm"]
    for arguments, message in [
        (["fit", baskets / "baskets.csv", *out], "--classes"),
        (["fit", baskets / "baskets.csv", "--classes", "nope", *out], "nope"),
        (["fit", baskets / "baskets.csv", "--classes", "a", *out], "whole numbers"),
        (["fit", baskets / "baskets.csv", "--classes", "milk", "--max-active", 1, *out], "max_active=2"),
        (["fit", baskets / "baskets.csv", "--classes", "milk", "--encoder", "cnn", *out], "needs pictures"),
        (["evaluate", baskets / "model.sdlgm", baskets / "new.csv"], "columns of counts"),
        (["evaluate", model, baskets / "baskets.csv"], "SDLGMCounter"),
    ]:
        result = run("count", *arguments, code=2)
        assert message in " ".join(result.stderr.split())
    assert "sdlgm count" in run("evaluate", baskets / "model.sdlgm", baskets / "new.csv", code=2).stderr
    assert not (baskets / "x.sdlgm").exists()


def test__count_fit__parameters_of_the_estimator__are_options():
    options = inspect.signature(cli.count_fit).parameters
    left_out = {"activation", "lr_decay", "random_state", "device", "verbose"}
    assert set(inspect.signature(SDLGMCounter).parameters) - left_out <= set(options)


def test__errors__name_with_colons__is_printed_as_it_is(tmp_path):
    result = run("classify", "fit", "digits:train", "--out", tmp_path / "m", code=2)
    assert "digits:train: is no multi-label data set" in result.stderr
