import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from commands import FAST, run, text
from sdlgm import load
from sdlgm.data import read_codes
from sdlgm.train import Trainer


def test__fit__options__reach_the_model(model):
    loaded = load(model)
    assert (loaded.max_active, loaded.n_components, loaded.hidden, loaded.random_state) == (4, 16, (32,), 3)
    assert loaded.n_iter_ == 30


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
    run("encode", model, "digits:test", "--out", tmp_path / "short.npz", "--n-candidates", 3, "--rate", 2)
    result = run("encode", model, "digits:test", "--out", tmp_path / "no.npz", "--rate", 2, "--n-changes", 0, code=2)
    assert "n_candidates" in result.stderr


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


def test__fit__likelihoods_by_column__are_used_and_named(tmp_path):
    rng = np.random.default_rng(0)
    rows = zip(rng.normal(size=60), rng.integers(0, 3, 60), rng.integers(0, 2, 60), strict=True)
    (tmp_path / "data.csv").write_text("size,colour,sold\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    chosen = ["--likelihood", "colour=categorical,size=student_t"]
    result = run("fit", tmp_path / "data.csv", "--out", tmp_path / "m", *FAST, *chosen)
    assert "mixed likelihood: 1 student_t, 1 categorical, 1 bernoulli" in " ".join(result.stdout.split())
    run("report", tmp_path / "m", tmp_path / "data.csv", "--out", tmp_path / "report.html")
    page = " ".join((tmp_path / "report.html").read_text().split())
    assert "Mixed likelihood (1 student t, 1 categorical, 1 bernoulli)" in page
    wrong = ["--likelihood", "price=poisson"]
    assert "'price'" in run("fit", tmp_path / "data.csv", "--out", tmp_path / "n", *FAST, *wrong, code=2).stderr


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nonsense", "--out", "OUT"], "named data sets are"),
        (["fit", "missing.csv", "--out", "OUT"], "no such file"),
        (["fit", "digits", "--out", "OUT", "--max-active", "0"], "--max-active: 0 is out of range"),
        (["fit", "digits", "--out", "OUT", "--gradient", "disarm"], "gradient"),
        (["fit", "digits", "--out", "OUT", "--hidden=-5"], "positive"),
        (["fit", "digits", "--out", "OUT", "--device", "nonsense"], "device"),
        (["fit", "digits", "--out", "no/such/folder/model"], "make it first"),
        (["encode", "MODEL", "NARROW", "--out", "OUT.npz"], "features"),
        (["encode", "MODEL", "digits", "--out", "OUT.csv"], ".npz"),
        (["encode", "GARBAGE", "digits", "--out", "OUT.npz"], "damaged"),
        (["decode", "MODEL", "GARBAGE", "--out", "OUT.npy"], "garbage"),
        (["decode", "MODEL", "OVER", "--out", "OUT.npy"], "budget"),
        (["evaluate", "MODEL", "BAD"], "NaN"),
    ],
)
def test__command__user_error__is_one_line_with_code_two_and_no_file(model, tmp_path, arguments, message):
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
    assert "300 rows in 7 files" in text(result.stdout)
    run("encode", tmp_path / "model.sdlgm", table_folder, "--out", tmp_path / "codes", *label)  # nothing is left to do
    (tmp_path / "codes").rename(tmp_path / "codes.2026")
    run("encode", tmp_path / "model.sdlgm", table_folder, "--out", tmp_path / "codes.2026", *label)  # an old name
    (tmp_path / "codes.2026").rename(tmp_path / "codes")
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
    assert "another n candidates" in text(other.stderr)


def test__stream__file__is_read_in_parts(table_folder, tmp_path):
    common = ["--label-column", "kind", *FAST, "--stream"]
    run("fit", table_folder / "1.parquet", "--out", tmp_path / "model.sdlgm", *common)
    assert load(tmp_path / "model.sdlgm").n_features_in_ == 64
    assert "--stream" in run("fit", "digits", "--out", tmp_path / "m.sdlgm", "--stream", code=2).stderr
    assert ".npz" in run("encode", tmp_path / "model.sdlgm", "digits", "--out", tmp_path / "x", code=2).stderr


def test__output__that_is_an_input__is_refused_and_unchanged(tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b\n1.0,2.0\n3.0,4.5\n5.0,0.5\n", encoding="utf-8")
    before = rows.read_bytes()
    result = run("fit", rows, "--out", rows, "--max-iter", 1, code=2)
    assert "would be overwritten" in result.stderr
    assert rows.read_bytes() == before


def test__encode__name_with_another_ending__is_refused(tmp_path):
    result = run("encode", "model.sdlgm", "digits:test", "--out", tmp_path / "codes.txt", code=2)
    assert ".npz file, or to a folder" in result.stderr
    assert not (tmp_path / "codes.txt").exists()
