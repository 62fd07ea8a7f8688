import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import is_stream, open_rows, rows_of
from sdlgm.data.rows import PART_BYTES, SpooledRows
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
