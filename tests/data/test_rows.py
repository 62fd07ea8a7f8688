import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import SpooledRows, is_stream, open_rows, rows_of
from sdlgm.data.formats.npy import PART_BYTES
from sdlgm.errors import DataError

X = np.arange(60, dtype=np.float64).reshape(20, 3) / 7
NAMES = ["a", "b", "c"]


def write(path, rows, group=4, names=NAMES) -> None:
    if path.suffix == ".npy":
        np.save(path, rows)
    else:
        table = pa.table({name: rows[:, i] for i, name in enumerate(names)})
        pq.write_table(table, path, row_group_size=group)


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test__open_rows__folder__has_all_rows_in_the_order_of_the_names(tmp_path, ending):
    (tmp_path / "inner").mkdir()
    for name, part in (("a", X[:7]), ("b", X[7:8]), ("inner/c", X[8:])):
        write(tmp_path / f"{name}{ending}", part)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden").write_text("")
    rows = open_rows(tmp_path)
    assert rows is not None
    assert rows.shape == (20, 3)
    assert len(rows) == 20
    for start in range(20):
        for stop in (start + 1, start + 5, 20):
            np.testing.assert_array_equal(rows[start:stop], X[start:stop])
    np.testing.assert_array_equal(np.concatenate([rows.read(part) for part in rows.parts]), X)
    assert [part.first for part in rows.parts] == np.cumsum([0, *[part.n_rows for part in rows.parts]])[:-1].tolist()
    if ending == ".parquet":
        assert [part.n_rows for part in rows.parts] == [4, 3, 1, 4, 4, 4]
        assert rows.head.column_names == NAMES


def test__open_rows__npy_file__is_cut_into_parts(tmp_path):
    n_columns = PART_BYTES // 4 // 10
    big = np.arange(25 * n_columns, dtype=np.float32).reshape(25, n_columns)
    np.save(tmp_path / "big.npy", big)
    rows = open_rows(tmp_path / "big.npy")
    assert rows is not None
    assert [part.n_rows for part in rows.parts] == [10, 10, 5]
    np.testing.assert_array_equal(rows[8:23], big[8:23])


def test__open_rows__columns__go_by_name_and_the_label_is_left_out(tmp_path):
    write(tmp_path / "a.parquet", X)
    table = pa.table({"c": X[:, 2], "kind": ["x"] * 20, "a": X[:, 0], "b": X[:, 1]})
    (tmp_path / "folder").mkdir()
    pq.write_table(table.drop_columns(["kind"]), tmp_path / "folder" / "b.parquet")
    write(tmp_path / "folder" / "a.parquet", X)
    rows = open_rows(tmp_path / "folder")
    assert rows is not None
    np.testing.assert_array_equal(rows[20:40], X)
    pq.write_table(table, tmp_path / "labelled.parquet")
    labelled = open_rows(tmp_path / "labelled.parquet", label_column="kind")
    assert labelled is not None
    np.testing.assert_array_equal(labelled[0:20], X[:, [2, 0, 1]])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "this has no files"),
        ({"a.npy": X, "b.parquet": X}, "this has npy, parquet"),
        ({"a.npy": X, "b.npy": X[:, :2]}, "2 columns"),
        ({"a.npy": X[:0]}, "no rows"),
        ({"a.npy": np.asfortranarray(X)}, "Fortran"),
        ({"a.parquet": X, "b.parquet": X[:, :2]}, "other columns"),
    ],
)
def test__open_rows__folders_that_do_not_fit__are_refused(tmp_path, files, message):
    for name, rows in files.items():
        write(tmp_path / name, rows, names=NAMES[: rows.shape[1]])
    with pytest.raises(DataError, match=message):
        open_rows(tmp_path)


def test__open_rows__damaged_files__are_named_errors(tmp_path):
    for ending, content in ((".parquet", b"PAR1nothing"), (".npy", b"\x93NUMPY\x01")):
        (tmp_path / f"bad{ending}").write_bytes(content)
        with pytest.raises(DataError, match="bad"):
            open_rows(tmp_path / f"bad{ending}")
    np.save(tmp_path / "short.npy", X)
    content = (tmp_path / "short.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(content[:-8])
    with pytest.raises(DataError, match="cut short"):
        open_rows(tmp_path / "short.npy")
    pq.write_table(pa.table({"a": [1.0, None]}), tmp_path / "null.parquet")
    missing = open_rows(tmp_path / "null.parquet")
    assert missing is not None
    with pytest.raises(DataError, match="missing values"):
        missing.read(missing.parts[0])


def test__rows_of__paths_iterators_and_arrays__are_told_apart(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    assert rows_of(tmp_path / "data.csv").column_names == ["a", "b"]
    assert rows_of(X) is X
    listed = X.tolist()
    assert rows_of(listed) is listed
    assert not any(is_stream(other) for other in (X, listed, "text", pa.table({"a": [1]}), 3, None))
    spooled = rows_of(iter([X[:5], X[5:5], X[5:]]))
    assert isinstance(spooled, SpooledRows)
    np.testing.assert_array_equal(spooled[0:20], X)
    folder = spooled.paths[0].parent
    assert folder.is_dir()
    del spooled
    assert not folder.exists()


def test__spooled__bad_batches__are_refused():
    for batches in ([], [X[0]], [np.array([["a"]])], [X, X[:, :2]]):
        with pytest.raises(DataError):
            SpooledRows(iter(batches))


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test__read__files_of_different_precision__lose_nothing(tmp_path, ending, first):
    """The values of both files are exact, in either order of the files."""
    fine, coarse = 1.7e9 + np.arange(8.0).reshape(4, 2), np.arange(8, dtype=np.int16).reshape(4, 2)
    in_files = {"a": fine, "b": coarse} if first == "a" else {"a": coarse, "b": fine}
    for name, rows in in_files.items():
        write(tmp_path / f"{name}{ending}", rows, names=("x", "y"))
    opened = open_rows(tmp_path)
    assert opened is not None
    for part in opened.parts:
        assert opened.read(part).dtype == np.float64
    np.testing.assert_array_equal(opened[0:8], np.concatenate(list(in_files.values())))


@pytest.mark.parametrize("dtype", [">f8", ">f4", "<f2", np.longdouble, bool, np.int64, np.uint8])
def test__read__npy_of_any_numbers__is_what_torch_knows(tmp_path, dtype):
    rows = (np.arange(12).reshape(6, 2) % 2).astype(dtype)
    np.save(tmp_path / "rows.npy", rows)
    opened = open_rows(tmp_path / "rows.npy")
    assert opened is not None
    assert opened[0:6].dtype in (np.dtype("=f4"), np.dtype("=f8"))
    np.testing.assert_array_equal(opened[0:6], rows.astype(float))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((10**15, 0), "<f8"), ((10**14, 3), "<U0"), ((), "<f8"), ((8,), "<f8"), ((2, 1, 2, 2), "<f8")]
)
def test__open_rows__header_of_no_table__is_refused_at_once(tmp_path, shape, dtype):
    """A small file can state more empty parts than there is memory for a list of them."""
    with (tmp_path / "rows.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
        file.write(bytes(64))
    with pytest.raises(DataError, match="expected numbers"):
        open_rows(tmp_path)


@pytest.mark.parametrize("column", [pa.array(["x" * 10] * 3), pa.array([[1], [2], [3]]), pa.array([b"x"] * 3)])
def test__open_rows__parquet_with_other_than_numbers__is_refused_before_it_is_read(tmp_path, column, monkeypatch):
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "other": column}), tmp_path / "rows.parquet")
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda *_args, **_kwargs: pytest.fail("it was read"))
    with pytest.raises(DataError, match="'other' holds"):
        open_rows(tmp_path)


@pytest.mark.parametrize(("ending", "place"), [(".npy", "row 9, column 1"), (".parquet", "row 1 of row group 2")])
def test__read__value_that_is_not_finite__is_named_by_its_place(tmp_path, ending, place):
    rows = np.zeros((11, 2))
    rows[9, 1] = np.nan
    write(tmp_path / f"rows{ending}", rows, names=("x", "y"))
    opened = open_rows(tmp_path)
    assert opened is not None
    with pytest.raises(DataError, match=place):
        opened[0:11]


def test__read__file_that_has_vanished__is_a_named_error(tmp_path):
    write(tmp_path / "rows.npy", np.zeros((3, 2)))
    opened = open_rows(tmp_path)
    assert opened is not None
    (tmp_path / "rows.npy").unlink()
    with pytest.raises(DataError, match=r"rows\.npy"):
        opened[0:3]


def test__spooled__tables__are_put_into_the_order_of_the_first():
    import pandas as pd

    first, second = pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"b": [4.0], "a": [3.0]})
    for tables in ([first, second], [pa.Table.from_pandas(table) for table in (first, second)]):
        spooled = SpooledRows(iter(tables))
        assert spooled.feature_names == ("a", "b")
        np.testing.assert_array_equal(spooled[0:2], [[1, 2], [3, 4]])
    with pytest.raises(DataError, match="batch 1 has other columns"):
        SpooledRows(iter([first, second.rename(columns={"a": "c"})]))
    with pytest.raises(DataError, match="batch 1 has other columns"):
        SpooledRows(iter([first, np.zeros((2, 2))]))


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test__absolute__pickled_for_another_folder__reads_the_same(tmp_path, monkeypatch, ending):
    write(tmp_path / f"rows{ending}", X)
    monkeypatch.chdir(tmp_path)
    opened = open_rows(f"rows{ending}")
    assert opened is not None
    sent = pickle.dumps(opened.absolute())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(pickle.loads(sent)[0:20], X)


def test__spooled__some_parts__outlive_the_rest():
    spooled = SpooledRows(iter([X[:5], X[5:]]))
    chosen = spooled.with_parts(spooled.parts[1:])
    del spooled
    np.testing.assert_array_equal(chosen[0:15], X[5:])


def test__open_rows__empty_file_among_others__is_skipped(tmp_path):
    for ending in (".npy", ".parquet"):
        folder = tmp_path / ending
        folder.mkdir()
        for name, part in (("a", X[:0]), ("b", X)):
            write(folder / f"{name}{ending}", part)
        opened = open_rows(folder)
        assert opened is not None
        np.testing.assert_array_equal(opened[0:20], X)
