import gzip

import numpy as np
import pytest

from sdlgm.data import load_data, open_batches, read_table, write_table
from sdlgm.errors import DataError


def columns(batch) -> np.ndarray:
    return np.column_stack([column.to_numpy() for column in batch.columns])


@pytest.mark.parametrize("text", ["1,2\n3,4", '"1","2"\n"3","4"', "\ufeff1,2\n3,4", "1e0,2.0\n3,4"])
def test__csv__without_header__keeps_the_first_row(tmp_path, text):
    (tmp_path / "data.csv").write_text(f"{text}\n", encoding="utf-8")
    np.testing.assert_array_equal(read_table(tmp_path / "data.csv").X, [[1, 2], [3, 4]])


@pytest.mark.parametrize("header", ["0,1", "2019,total", '"2019","2020"'])
def test__csv__header_with_numbers__is_a_header(tmp_path, header):
    (tmp_path / "data.csv").write_text(f"{header}\n3,4\n5,6\n")
    np.testing.assert_array_equal(read_table(tmp_path / "data.csv").X, [[3, 4], [5, 6]])


def test__csv__numbers_that_may_be_names__is_warned_of(tmp_path):
    (tmp_path / "data.csv").write_text("2019,2020\n1.5,2\n2.5,1\n")
    with pytest.warns(UserWarning, match="first line has whole numbers only"):
        assert read_table(tmp_path / "data.csv").X.shape == (3, 2)


def test__csv__missing_value_in_the_first_row__is_no_header(tmp_path):
    (tmp_path / "data.csv").write_text("1.5,NA\n2.5,1\n")
    with pytest.raises(DataError, match="1 missing values"):
        read_table(tmp_path / "data.csv")


def test__csv__names_that_are_numbers__come_back(tmp_path):
    path = write_table(tmp_path / "data.csv", np.array([[1.5, 2.0]]), ("10", "20"))
    assert read_table(path).feature_names == ("10", "20")


def test__csv__label_column__is_apart(tmp_path):
    (tmp_path / "data.csv").write_text("a,kind,b\n1,cat,2\n3,dog,4\n")
    dataset = read_table(tmp_path / "data.csv", label_column="kind")
    np.testing.assert_array_equal(dataset.X, [[1, 2], [3, 4]])
    assert dataset.labels is not None
    assert list(dataset.labels) == ["cat", "dog"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("data.csv", "a;b\n1;2.5\n3;4\n"),
        ("data.csv", "a\tb\n1\t2.5\n3\t4\n"),
        ("data.tsv", "a\tb\n1\t2.5\n3\t4\n"),
        ("data.csv.gz", '"a","b"\n1,2.5\n3,4\n'),
        ("data.tsv.gz", "a\tb\r\n1\t2.5\r\n3\t4\r\n"),
        ("data.CSV.GZ", "a;b\n1;2.5\n3;4\n"),
    ],
)
def test__csv__separators_and_compression__are_found(tmp_path, name, text):
    compressed = name.lower().endswith(".gz")
    (tmp_path / name).write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
    dataset = read_table(tmp_path / name)
    assert dataset.feature_names == ("a", "b")
    np.testing.assert_array_equal(dataset.X, [[1, 2.5], [3, 4]])


def test__csv__comma_in_quotes_among_semicolons__is_no_separator(tmp_path):
    (tmp_path / "data.csv").write_text('kind;a\n"x,y";1\n"z,w";2\n')
    dataset = read_table(tmp_path / "data.csv", label_column="kind")
    assert list(dataset.labels) == ["x,y", "z,w"]


@pytest.mark.parametrize("damage", [slice(0, 30), slice(0, -8)])
def test__csv__cut_archive__is_named(tmp_path, damage):
    text = "a,b\n" + "".join(f"{i},{i * i % 97}\n" for i in range(3000))
    (tmp_path / "data.csv.gz").write_bytes(gzip.compress(text.encode())[damage])
    with pytest.raises(DataError, match=r"data\.csv\.gz: cannot be read"):
        read_table(tmp_path / "data.csv.gz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2;3\n", "semicolons"),
        ("1,5;2,5\n3,5;4,5\n", "may be separated by commas or by semicolons"),
        (",a,b\n0,1,2\n", "index=False"),
        ("a,b\n", "has no rows"),
        ("x" * 200_000 + ",b\n1,2\n", "cannot be read"),
        ("a,a\n1,2\n", "more than one column is called 'a'"),
        ("a,b\n1,x\n", "column 'b' holds string"),
        ("a,b\n1,\n2,3\n", "1 missing"),
        ("a,b\n1,2,3\n", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test__csv__bad_content__is_named(tmp_path, text, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "data.csv")


def test__csv_batches__fractions_far_down__are_read(tmp_path):
    """The types are inferred from the first megabyte, which has whole numbers only."""
    lines = ["a,kind", *["1,x"] * 400_000, "0.5,y"]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    parts = [columns(part) for part in open_batches(str(tmp_path / "data.csv"), label_column="kind")]
    assert len(parts) > 1
    values = np.concatenate(parts)
    assert values.shape == (400_001, 1)
    assert values[-1] == 0.5


@pytest.mark.parametrize(
    ("text", "message"), [("a,b\n", "has no rows"), ("a;b\n1;2;3\n", "semicolons"), ("a,b\n1,x\n", "holds string")]
)
def test__csv_batches__bad_files__say_what_is_wrong(tmp_path, text, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        list(open_batches(str(tmp_path / "data.csv")))


def test__csv__label_column__is_text_as_it_is_written(tmp_path):
    (tmp_path / "data.csv").write_text("a,kind\n1,007\n2,\n3,NA\n")
    assert list(read_table(tmp_path / "data.csv", label_column="kind").labels) == ["007", "(none)", "NA"]


@pytest.mark.parametrize("read", [lambda path: load_data(path).X, lambda path: list(open_batches(path))])
def test__csv__text_far_down__is_named_with_the_fix(tmp_path, read):
    (tmp_path / "data.csv").write_text("a,b\n" + "1,2\n" * 400_000 + "1,x\n")
    with pytest.raises(DataError, match=r"data\.csv: .*invalid value 'x'.*; remove the column, encode it"):
        read(str(tmp_path / "data.csv"))


def test__csv__missing_value_far_down__is_named_by_its_rows(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n" + "1,2\n" * 400_000 + "1,\n")
    with pytest.raises(DataError, match=r"'b' has 1 missing values in rows [1-9]\d+ to 400000"):
        load_data(str(tmp_path / "data.csv"))


def test__csv__many_columns__are_refused_before_they_take_memory(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text(",".join(f"c{i}" for i in range(100)) + "\n" + ",".join("1" * 100) + "\n")
    assert load_data(str(tmp_path / "data.csv")).X.shape == (1, 100)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")
    with pytest.raises(DataError, match=r"data\.csv: takes 2.0 MiB .* save wide tables as \.npy or \.parquet"):
        load_data(str(tmp_path / "data.csv"))


def test__csv__line_that_one_separator_does_not_divide__is_read(tmp_path):
    n = 15_000  # a line of more than 131,072 characters is more than Python's reader takes as one field
    (tmp_path / "data.csv").write_text(",".join(f"column {i}" for i in range(n)) + "\n" + ",".join(["1"] * n) + "\n")
    assert load_data(str(tmp_path / "data.csv")).X.shape == (1, n)


def test__csv__line_of_more_than_a_megabyte__is_refused(tmp_path):
    (tmp_path / "data.csv").write_text("1," * 2**20 + "1\n")
    with pytest.raises(DataError, match=r"data\.csv: its first line is longer than a megabyte"):
        load_data(str(tmp_path / "data.csv"))
