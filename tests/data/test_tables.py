import gzip
import struct
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdlgm.data import load_data, read_codes, read_idx, read_table, write_codes, write_table
from sdlgm.data.idx import parse_idx
from sdlgm.data.rows import open_rows
from sdlgm.errors import DataError


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, 3))


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 0x08, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test__tables__written_and_read__are_the_same(tmp_path, X, ending):
    path = write_table(tmp_path / f"data{ending}", X, ("a", "b", "c"))
    dataset = read_table(path)
    np.testing.assert_allclose(dataset.X, X, rtol=1e-15)
    if ending != ".npy":
        assert dataset.feature_names == ("a", "b", "c")


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


def test__npy__ending_in_capitals__is_read(tmp_path):
    np.save(tmp_path / "data.npy", np.eye(2))
    (tmp_path / "data.npy").rename(tmp_path / "DATA.NPY")
    np.testing.assert_array_equal(read_table(tmp_path / "DATA.NPY").X, np.eye(2))
    rows = open_rows(tmp_path / "DATA.NPY")
    assert rows is not None
    assert rows.shape == (2, 2)


def test__csv__label_column__is_apart(tmp_path):
    (tmp_path / "data.csv").write_text("a,kind,b\n1,cat,2\n3,dog,4\n")
    dataset = read_table(tmp_path / "data.csv", label_column="kind")
    np.testing.assert_array_equal(dataset.X, [[1, 2], [3, 4]])
    assert dataset.labels is not None
    assert list(dataset.labels) == ["cat", "dog"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1;2\n", "semicolons"),
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


def test__npz__arrays_and_sparse__are_read(tmp_path, X):
    np.savez(tmp_path / "named.npz", X=X, y=np.arange(6))
    dataset = read_table(tmp_path / "named.npz")
    np.testing.assert_array_equal(dataset.X, X)
    assert dataset.labels is not None
    np.savez(tmp_path / "two.npz", first=X, second=X)
    with pytest.raises(DataError, match="name the observations X"):
        read_table(tmp_path / "two.npz")
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_matrix(X))
    assert sp.issparse(read_table(tmp_path / "sparse.npz").X)


def test__npy__images__are_flattened_with_their_shape(tmp_path):
    np.save(tmp_path / "images.npy", np.zeros((5, 4, 3)))
    dataset = read_table(tmp_path / "images.npy")
    assert dataset.X.shape == (5, 12)
    assert dataset.image_shape == (4, 3)


def test__npy__large_integers__are_exact_and_complex_numbers_refused(tmp_path):
    times = 1_600_000_000 + np.arange(100).reshape(-1, 1)
    np.save(tmp_path / "times.npy", times)
    np.testing.assert_array_equal(read_table(tmp_path / "times.npy").X, times)
    np.save(tmp_path / "complex.npy", np.ones((2, 2), dtype=complex))
    with pytest.raises(DataError, match="not real numbers"):
        read_table(tmp_path / "complex.npy")


def test__parquet__missing_labels__have_a_name(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", None]}), tmp_path / "data.parquet")
    assert list(read_table(tmp_path / "data.parquet", label_column="kind").labels) == ["x", "(none)"]


@pytest.mark.parametrize("name", ["data.npy", "codes.npz"])
@given(position=st.floats(0, 1), byte=st.integers(0, 255))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__numpy_files__any_byte_changed__are_read_or_a_named_error(tmp_path, name, position, byte):
    path = tmp_path / name
    if not path.exists():
        matrix = np.eye(6, dtype=np.int32)
        np.save(path, matrix) if name == "data.npy" else write_codes(path, sp.csr_matrix(matrix))
    original = path.read_bytes()
    content = bytearray(original)
    content[int(position * (len(content) - 1))] = byte
    path.write_bytes(bytes(content))
    try:
        read_table(path) if name == "data.npy" else read_codes(path)
    except DataError:
        pass
    finally:
        path.write_bytes(original)


def test__numpy_files__with_objects__are_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", X=np.array([{"a": 1}], dtype=object))
    for name in ("objects.npy", "objects.npz"):
        with pytest.raises(DataError, match=name):
            read_table(tmp_path / name)


@pytest.mark.parametrize("name", ["data.npy", "data.npz", "data.parquet", "images-idx3-ubyte", "images-idx3-ubyte.gz"])
@pytest.mark.parametrize("content", [b"", b"garbage" * 20])
def test__any_reader__damaged_file__is_a_named_error(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name):
        read_table(tmp_path / name)


def test__reader__missing_or_unknown_kind__is_named(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_table(tmp_path / "no.csv")
    (tmp_path / "data.xyz").write_text("1")
    with pytest.raises(DataError, match="unknown kind"):
        read_table(tmp_path / "data.xyz")
    with pytest.raises(DataError, match="named data sets are digits, mnist"):
        load_data("nonsense")
    with pytest.raises(DataError, match="cannot write this kind"):
        write_table(tmp_path / "data.xyz", np.zeros((1, 1)))
    with pytest.raises(DataError, match="no such folder"):
        write_table(tmp_path / "no" / "data.npy", np.zeros((1, 1)))


@pytest.mark.parametrize("packed", [False, True])
def test__idx__images_with_labels_beside__are_scaled_and_labelled(tmp_path, packed):
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    ending = ".gz" if packed else ""
    for name, array in (("t-images-idx3-ubyte", images), ("t-labels-idx1-ubyte", np.array([7, 3]))):
        content = idx_bytes(array)
        (tmp_path / f"{name}{ending}").write_bytes(gzip.compress(content) if packed else content)
    dataset = read_table(tmp_path / f"t-images-idx3-ubyte{ending}")
    np.testing.assert_allclose(dataset.X, images.reshape(2, 12) / 255, rtol=1e-6)
    assert dataset.image_shape == (3, 4)
    assert list(dataset.labels) == [7, 3]
    np.testing.assert_array_equal(read_idx(tmp_path / f"t-images-idx3-ubyte{ending}"), images)


@given(st.binary(max_size=60))
@settings(deadline=None)
def test__idx__any_bytes__parse_or_are_a_named_error(content):
    try:
        parse_idx(content, "file")
    except DataError:
        pass


def test__idx__header_that_promises_more__is_refused():
    content = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 2**31)
    with pytest.raises(DataError, match="promises"):
        parse_idx(content, "file")


def test__codes__written_and_read__are_the_same(tmp_path):
    codes = sp.csr_matrix(np.array([[0, 2, 0], [1, 0, 1]], dtype=np.int32))
    write_codes(tmp_path / "codes.npz", codes)
    assert (read_codes(tmp_path / "codes.npz") != codes).nnz == 0
    with pytest.raises(DataError, match="written as .npz"):
        write_codes(tmp_path / "codes.csv", codes)
    np.savez(tmp_path / "other.npz", X=np.zeros(3))
    with pytest.raises(DataError, match="no sparse matrix"):
        read_codes(tmp_path / "other.npz")


def test__codes__inconsistent_indices__are_refused(tmp_path):
    np.savez(
        tmp_path / "bad.npz",
        format=np.array(b"csr"),
        shape=np.array([2, 3]),
        data=np.array([1, 1]),
        indices=np.array([0, 9]),
        indptr=np.array([0, 1, 2]),
    )
    with pytest.raises(DataError, match="damaged"):
        read_codes(tmp_path / "bad.npz")


def test__parquet__label_of_long_texts__is_in_memory_once(tmp_path):
    """A dictionary lets a small file repeat a long text as often as it likes."""
    text = "x" * 100_000
    table = pa.table({"a": np.arange(3000.0), "label": pa.array([text] * 2999 + [None]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    tracemalloc.start()
    data = read_table(tmp_path / "t.parquet", label_column="label")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.labels is not None
    assert list(data.labels[-2:]) == [text, "(none)"]
    assert peak < 20e6


def test__parquet__nested_columns__are_refused_before_they_are_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [[1], [2, 3]]}), tmp_path / "t.parquet")
    monkeypatch.setattr(pq, "read_table", lambda *_args, **_kwargs: pytest.fail("it was read"))
    with pytest.raises(DataError, match="'b' holds list"):
        read_table(tmp_path / "t.parquet")
