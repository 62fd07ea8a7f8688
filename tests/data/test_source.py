"""The checks of the rows are the same whichever function reads them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import load_data, open_batches, open_rows, read_counted, read_labelled, rows_of
from sdlgm.data.source import TargetColumns
from sdlgm.errors import DataError


def read_all(rows) -> np.ndarray:
    return rows[0 : len(rows)]


ENTRIES = {
    "load_data": load_data,
    "open_rows": lambda path: read_all(open_rows(path)),
    "open_batches": lambda path: list(open_batches(path)),
    "rows_of": lambda path: read_all(rows_of(path)),
    "read_labelled": read_labelled,
    "read_counted": read_counted,
}


@pytest.fixture(params=ENTRIES)
def read(request):
    return ENTRIES[request.param]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, 2.0], "b": [[1], [2, 3]]}, "column 'b' holds list<.*>, not numbers; remove it"),
        ({"a": [1.0, 2.0], "b": ["x", "y"]}, "column 'b' holds string, not numbers; remove it, encode it"),
        ({"a": [1.0, 2.0], "b": [b"x", b"y"]}, "column 'b' holds binary, not numbers; remove it"),
        ({"a": [1.0, 2.0], "b": [1.0, None]}, "column 'b' has 1 missing values in .*; fill or drop them first"),
        ({"a": [1.0, 2.0], "b": [1.0, np.nan]}, "contains NaN or infinity, in row 1.*, column 1; fill or drop"),
        ({"a": [1.0, 2.0], "": [1.0, 2.0]}, "a column has no name"),
        ({"a": pa.array([], pa.float64())}, "has no rows"),
    ],
)
def test__parquet__bad_columns__are_refused_by_every_entry(tmp_path, read, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "data.parquet")
    with pytest.raises(DataError, match=message):
        read(str(tmp_path / "data.parquet"))


def test__parquet__too_much_memory__is_refused_by_every_entry(tmp_path, read, monkeypatch):
    pq.write_table(pa.table({"a": np.zeros(10), "b": np.zeros(10)}), tmp_path / "data.parquet")
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "20K")
    with pytest.raises(DataError, match=r"data\.parquet: takes \d+ bytes of memory to read, more than 20480 bytes"):
        read(str(tmp_path / "data.parquet"))


def test__parquet__many_small_row_groups__are_read_in_parts_only(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": np.zeros(100_000)}), tmp_path / "data.parquet", row_group_size=10_000)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")
    assert ENTRIES["open_rows"](tmp_path / "data.parquet").shape == (100_000, 1)
    with pytest.raises(DataError, match="read the file with --stream or open_rows"):
        load_data(str(tmp_path / "data.parquet"))


def test__parquet__column_with_other_number_of_values__is_refused(tmp_path):
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"a": np.arange(10.0)}), path)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    ten, more = b"\x16\x14", b"\x16\x7e"
    rows, values, *rest = content[footer:].split(ten)  # the rows of the file come first, then the values of the column
    path.write_bytes(content[:footer] + rows + ten + values + more + ten.join(rest))
    with pytest.raises(DataError, match=r"data\.parquet: column 'a' has 63 values in row group 0, which has 10 rows"):
        load_data(str(path))


NPY_ENTRIES = [name for name in ENTRIES if name != "read_labelled"]


@pytest.mark.parametrize("name", NPY_ENTRIES)
@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"data\.npy: holds float64 of shape \(5,\), which has 1 dimensions; expected numbers"),
        (np.zeros((5, 0)), r"data\.npy: holds float64 of shape \(5, 0\).*expected numbers"),
        (np.ones((5, 2), complex), r"data\.npy: holds complex128, not real numbers; expected numbers"),
        (np.zeros((0, 3)), "has no rows"),
        (np.array([[1.0, 2.0], [3.0, np.inf]]), r"data\.npy: Input X contains NaN or infinity, in row 1, column 1"),
    ],
)
def test__npy__bad_arrays__are_refused_by_every_entry(tmp_path, name, array, message):
    np.save(tmp_path / "data.npy", array)
    with pytest.raises(DataError, match=message):
        ENTRIES[name](str(tmp_path / "data.npy"))


@pytest.mark.parametrize("name", NPY_ENTRIES)
def test__npy__header_that_states_too_much__is_refused_by_every_entry(tmp_path, name):
    with (tmp_path / "data.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**9, 1000)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    with pytest.raises(DataError, match=r"data\.npy: is cut short; its header states 8\d+ bytes"):
        ENTRIES[name](str(tmp_path / "data.npy"))


@pytest.mark.parametrize("name", ["load_data", "open_batches", "read_counted"])
def test__npz__nan_and_wrong_shapes__are_refused_by_every_entry(tmp_path, name):
    np.savez(tmp_path / "data.npz", X=np.array([[1.0, np.nan]]))
    with pytest.raises(DataError, match="in row 0, column 1"):
        ENTRIES[name](str(tmp_path / "data.npz"))
    np.savez(tmp_path / "data.npz", X=np.zeros((1, 2, 3, 4, 5)))
    with pytest.raises(DataError, match=r"data\.npz: X: holds float64 of shape"):
        ENTRIES[name](str(tmp_path / "data.npz"))


@pytest.mark.parametrize("name", ["load_data", "open_batches", "read_labelled", "read_counted"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,x\n", "column 'b' holds string"),
        ("a,b\n1,\n", "column 'b' has 1 missing values in rows 0 to 0"),
        ("a,b\n1,inf\n2,3\n", "NaN or infinity, in row 0, column 1"),
        ("a,b\n", "has no rows"),
        ("a,a\n1,2\n", "more than one column is called 'a'"),
        ("a;b\n1;2;3\n", "semicolons"),
    ],
)
def test__csv__bad_columns__are_refused_by_every_entry(tmp_path, name, text, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=rf"data\.csv: .*{message}"):
        ENTRIES[name](str(tmp_path / "data.csv"))


def test__target_columns__split__follows_the_options():
    columns = ("a", "wet", "b")
    assert TargetColumns(("wet",)).split("f", columns) == (("a", "b"), ("wet",))
    assert TargetColumns(("wet",), values=False).split("f", columns) == (("a", "b"), ())
    assert TargetColumns(("wet", "dry"), optional=True).split("f", columns) == (("a", "b"), ("wet",))
    assert TargetColumns(("wet",), n_features=3).split("f", columns) == (columns, ())
    with pytest.raises(DataError, match="f: has no column 'dry'; its columns are 'a', 'wet', 'b'"):
        TargetColumns(("dry",)).split("f", columns)
    with pytest.raises(DataError, match="f: has no columns of features"):
        TargetColumns(columns).split("f", columns)
