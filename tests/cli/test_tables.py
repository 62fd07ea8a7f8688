"""Tables and series on the command line, from the file to decoded series."""

import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import FAST, run, text
from sdlgm import SDLGM, load
from sdlgm.cli import _tables
from sdlgm.data import read_codes, write_codes
from sdlgm.data.series import LONGEST_WINDOW, MAX_GAP

pytestmark = pytest.mark.filterwarnings("default")  # the commands show them


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """A trace as phones write it: a time that is no ISO text, text, ids, an empty column, two journeys, a gap."""
    path = tmp_path_factory.mktemp("trace") / "trace.csv.gz"
    rng = np.random.default_rng(0)
    lines = ["Timestamp,Mode,Level,Rate,Ping,Cell,Journey"]
    for journey in "ab":
        for i in range(40):
            second = i if i < 25 else i + 15
            rate = 10 * (i % 8 < 4) + rng.random()
            lines.append(
                f"2019.11.23_12.2{second // 60 + 7}.{second % 60:02d},5G,{-100 + i % 5},{rate:.2f},-,C{journey}{i},"
                f"{journey}"
            )
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    return path


@pytest.fixture(scope="module")
def series_model(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("series") / "m.sdlgm"
    options = ["--time-column", "Timestamp", "--group", "Journey", "--window", 4, "--stride", 2, "--drop", "Mode,Cell"]
    result = run("fit", trace, "--out", path, *options, *FAST)
    assert "left out: 'Ping'" in text(result.stderr)
    assert "2 gaps in 'Timestamp' longer than 5 median steps of 1 s, at most 16 s" in text(result.stderr)
    return path


def test__series__are_encoded_and_decoded_without_further_options(trace, series_model, tmp_path):
    run("encode", series_model, trace, "--out", tmp_path / "c.npz")
    # Each journey has pieces of 25 and 15 rows.
    assert read_codes(tmp_path / "c.npz").shape == (2 * (11 + 6), 16)
    result = run("decode", series_model, tmp_path / "c.npz", "--out", tmp_path / "d.csv")
    assert "series of 34 windows" in text(result.stdout)
    decoded = pd.read_csv(tmp_path / "d.csv")
    assert decoded.columns.tolist() == ["Journey", "Timestamp", "Level", "Rate"]
    assert decoded["Journey"].tolist() == ["a"] * 38 + ["b"] * 38  # the last row of each piece is in no window
    assert decoded["Timestamp"][0] == "2019-11-23 12:27:00"
    run("decode", series_model, tmp_path / "c.npz", "--out", tmp_path / "d.parquet")
    assert pa.types.is_timestamp(pq.read_schema(tmp_path / "d.parquet").field("Timestamp").type)
    refused = run("decode", series_model, tmp_path / "c.npz", "--out", tmp_path / "d.npy", code=2)
    assert "column 'Journey' holds string" in text(refused.stderr)
    run("encode", series_model, trace, "--out", tmp_path / "apart.npz", "--stride", 4)
    assert read_codes(tmp_path / "apart.npz").shape[0] == 2 * (6 + 3)


def test__series__are_evaluated_reported_and_sampled(trace, series_model, tmp_path):
    assert json.loads(run("evaluate", series_model, trace, "--json").stdout)["n_rows"] == 34
    run("report", series_model, trace, "--out", tmp_path / "r.html", "--label-column", "Mode")
    run("sample", series_model, "-n", 3, "--out", tmp_path / "s.csv")
    assert pd.read_csv(tmp_path / "s.csv").columns.tolist()[3:5] == ["Level[t]", "Rate[t-3]"]


def test__decode__codes_without_origins__are_windows(series_model, tmp_path):
    codes = load(series_model).sample_prior_codes(5, random_state=0)
    write_codes(tmp_path / "c.npz", codes)
    result = run("decode", series_model, tmp_path / "c.npz", "--out", tmp_path / "d.csv")
    assert "5 rows, 8 columns; windows" in text(result.stdout)


def test__encode__other_series__need_their_columns(series_model, tmp_path):
    (tmp_path / "t.csv").write_text("Timestamp,Level\n2019-11-23,1\n")
    stderr = run("encode", series_model, tmp_path / "t.csv", "--out", tmp_path / "c.npz", code=2).stderr
    assert "t.csv: there is no column 'Journey'" in text(stderr)
    assert not (tmp_path / "c.npz").exists()


def test__table__with_booleans_and_an_ignored_column__comes_back(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"id": [f"r{i}" for i in range(60)], "on": rng.random(60) < 0.5, "x": rng.normal(size=60)})
    table.to_csv(tmp_path / "t.tsv", sep="\t", index=False)
    run("fit", tmp_path / "t.tsv", "--out", tmp_path / "m", "--drop", "id", *FAST)
    table.drop(columns="id").to_parquet(tmp_path / "u.parquet")
    for name in ("t.tsv", "u.parquet"):
        run("encode", tmp_path / "m", tmp_path / name, "--out", tmp_path / f"{name}.npz")
        run("evaluate", tmp_path / "m", tmp_path / name)
    first, second = (read_codes(tmp_path / f"{name}.npz") for name in ("t.tsv", "u.parquet"))
    assert (first != second).nnz == 0
    run("decode", tmp_path / "m", tmp_path / "t.tsv.npz", "--out", tmp_path / "d.csv")
    assert pd.read_csv(tmp_path / "d.csv").dtypes.astype(str).tolist() == ["bool", "float64"]
    run("report", tmp_path / "m", tmp_path / "t.tsv", "--out", tmp_path / "r.html")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "column 'Timestamp' holds text that looks like dates; name it as the time column (--time-column"),
        (["--time-column", "Timestamp"], "column 'Cell' holds text with 80 different values"),
        (["--columns", "Rate,Speed"], "has no column 'Speed'"),
        (["--columns", "Rate", "--window", "81"], "no series has 81 rows"),
        (["--columns", "Rate", "--time-column", "Cell", "--window", "4"], "'Ca0'; write times as 2019-11-23 12:27:34"),
        (["--stride", "2"], "--window"),
        (["--group", "Journey"], "--window"),
        (["--window", "2", "--max-gap", "0.5"], "--max-gap"),
        (["--window", "0"], "--window"),
    ],
)
def test__fit__impossible_options__are_refused_with_the_remedy(trace, tmp_path, options, message):
    stderr = run("fit", trace, "--out", tmp_path / "m", *options, *FAST, code=2).stderr
    assert message in text(stderr)
    assert not (tmp_path / "m").exists()


def test__options__limits__are_those_of_the_library():
    assert (_tables.LONGEST_WINDOW, _tables.MAX_GAP) == (LONGEST_WINDOW, MAX_GAP)


def test__fit__options_for_a_folder__are_refused(tmp_path):
    (tmp_path / "rows").mkdir()
    np.save(tmp_path / "rows" / "a.npy", np.eye(3))
    stderr = run("fit", tmp_path / "rows", "--out", tmp_path / "m", "--drop", "x0", code=2).stderr
    assert "no options for their columns" in text(stderr)


def test__fit__array_in_windows__is_decoded_with_made_names(tmp_path):
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 2)))
    run("fit", tmp_path / "t.npy", "--out", tmp_path / "m", "--window", 2, *FAST)
    run("encode", tmp_path / "m", tmp_path / "t.npy", "--out", tmp_path / "c.npz")
    run("decode", tmp_path / "m", tmp_path / "c.npz", "--out", tmp_path / "d.npy")
    assert np.load(tmp_path / "d.npy").shape == (40, 2)


def test__sample__npy_of_categories__is_refused_before_work(tmp_path, monkeypatch):
    rows = [f"{kind},{number}" for number in range(20) for kind in ("a", "b")]
    (tmp_path / "t.csv").write_text("\n".join(["kind,number", *rows]))
    run("fit", tmp_path / "t.csv", "--out", tmp_path / "m.sdlgm", *FAST)
    monkeypatch.setattr(SDLGM, "sample", lambda *_, **__: pytest.fail("worked"))
    result = run("sample", tmp_path / "m.sdlgm", "--out", tmp_path / "x.npy", code=2)
    assert "x.npy: column 'kind' of the data is a category, not a number; write .csv or .parquet" in text(result.stderr)
