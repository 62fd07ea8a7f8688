"""Folders of CSV files, each of which is one series."""

import gzip

import numpy as np
import pytest

from commands import FAST, run, text
from sdlgm.data import is_series_folder, read_codes, read_series, windows
from sdlgm.errors import DataError


@pytest.fixture
def folder(tmp_path):
    """Three files with 12, 9 and 3 rows, columns in another order in one of them."""
    path = tmp_path / "machines"
    (path / "old").mkdir(parents=True)
    (path / "a.csv").write_text("t,load,mode\n" + "".join(f"{i},{i % 4},on\n" for i in range(12)))
    (path / "b.csv").write_text("load,mode,t\n" + "".join(f"{10 + i % 3},off,{i}\n" for i in range(9)))
    rows = "t,load,mode\n" + "".join(f"{i},5,on\n" for i in range(3))
    (path / "old" / "c.csv.gz").write_bytes(gzip.compress(rows.encode()))
    (path / ".hidden").write_text("no table")
    return path


def test__read_series__files__are_groups_that_no_window_spans(folder):
    table = read_series(folder)
    assert table.column_names == ["t", "load", "mode", "file"]
    made = windows(table, length=4, time_column="t", group="file", columns=["load"])
    assert made.origins.series_names == ("a.csv", "b.csv", "old/c.csv.gz")
    assert len(made) == 9 + 6
    low = made.matrix < 10
    assert (low.all(axis=1) | ~low.any(axis=1)).all()
    np.testing.assert_array_equal(made.matrix[:2], [[0, 1, 2, 3], [1, 2, 3, 0]])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.csv", "t,load\n1,2\n", r"d\.csv: has no column 'mode', and .*a\.csv has one"),
        ("d.csv", "t,load,mode,more\n1,2,on,3\n", r"d\.csv: has the column 'more', and .*a\.csv has not"),
        ("d.csv", "t,load,mode\n", r"d\.csv: has no rows"),
        ("d.txt", "notes", r"d\.txt: a folder of series has CSV files only"),
    ],
)
def test__read_series__files_that_do_not_fit__are_named(folder, name, content, message):
    (folder / name).write_text(content)
    assert is_series_folder(folder)
    with pytest.raises(DataError, match=message):
        read_series(folder)


def test__read_series__column_called_file__is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("file,load\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv: has a column 'file'.*rename it"):
        read_series(tmp_path)


def test__is_series_folder__other_sources__are_not(tmp_path, folder):
    (tmp_path / "rows").mkdir()
    np.save(tmp_path / "rows" / "a.npy", np.ones((2, 2)))
    assert not is_series_folder(tmp_path / "rows")
    assert not is_series_folder(folder / "a.csv")
    assert not is_series_folder("digits")
    with pytest.raises(DataError, match="CSV files only"):
        read_series(tmp_path / "rows")


@pytest.mark.filterwarnings("default")
def test__commands__folder_of_series__is_fitted_encoded_scored_and_decoded(folder, tmp_path):
    model, codes = tmp_path / "m.sdlgm", tmp_path / "c.npz"
    run("fit", folder, "--out", model, "--window", 4, "--time-column", "t", "--drop", "mode", *FAST)
    run("encode", model, folder, "--out", codes)
    assert read_codes(codes).shape[0] == 9 + 6
    run("decode", model, codes, "--out", tmp_path / "d.csv")
    lines = (tmp_path / "d.csv").read_text().splitlines()
    assert lines[0] == '"file","t","load"'
    assert [line.split(",")[0].strip('"') for line in lines[1:]] == ["a.csv"] * 12 + ["b.csv"] * 9
    run("evaluate", model, folder)
    run("encode", model, folder / "b.csv", "--out", codes)  # a single file is one series
    assert read_codes(codes).shape[0] == 6
    run("detect", model, folder, "--out", tmp_path / "scores.csv")
    assert len((tmp_path / "scores.csv").read_text().splitlines()) == 1 + 15


def test__commands__folder_of_series__say_what_is_missing(folder, tmp_path):
    out = ("--out", tmp_path / "m.sdlgm")
    result = run("fit", folder, *out, code=2)
    assert "read as series, one in each file; give --window" in text(result.stderr)
    result = run("fit", folder, *out, "--window", 4, "--group", "mode", code=2)
    assert "no --group to name" in text(result.stderr)
    result = run("fit", folder, *out, "--window", 4, "--drop", "none", code=2)
    assert "has no column 'none'" in text(result.stderr)


def test__series_folder__that_is_not_there__is_said(tmp_path):
    with pytest.raises(DataError, match="there is no such folder"):
        read_series(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["0.csv", "a1.csv", "d.csv"])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2020-01-01 00:00,oops,on", "'load' holds numbers and 'oops'"),
        ("soon,1,on", "'t' has the value 'soon'"),
    ],
)
def test__commands__value_in_one_file_of_a_folder__is_named_with_the_file(folder, tmp_path, name, row, message):
    for number, other in enumerate(("a.csv", "b.csv", name)):
        rows = "".join(f"2020-01-01 00:{minute},{minute + number / 4},on\n" for minute in range(10, 60))
        (folder / other).write_text("t,load,mode\n" + rows)
    (folder / "old" / "c.csv.gz").unlink()
    window = ("--out", tmp_path / "m.sdlgm", "--window", 4, "--time-column", "t", *FAST)
    run("fit", folder, *window)
    (folder / name).write_text(f"t,load,mode\n{row}\n")
    stderr = text(run("fit", folder, *window, code=2).stderr)
    assert f"{folder / name}: " in stderr
    assert message in stderr
    assert f"{folder / name}: " in text(run("evaluate", tmp_path / "m.sdlgm", folder, code=2).stderr)


def test__commands__mistake_about_all_files__names_the_folder(folder, tmp_path):
    window = ("--out", tmp_path / "m.sdlgm", "--window", 400, "--time-column", "t", *FAST)
    assert f"{folder}: " in text(run("fit", folder, *window, code=2).stderr)
