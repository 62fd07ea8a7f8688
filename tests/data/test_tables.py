"""Whole tables of every format."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdlgm.data import load_data, read_codes, read_table, write_codes, write_table
from sdlgm.errors import DataError


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, 3))


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test__tables__written_and_read__are_the_same(tmp_path, X, ending):
    path = write_table(tmp_path / f"data{ending}", X, ("a", "b", "c"))
    dataset = read_table(path)
    np.testing.assert_allclose(dataset.X, X, rtol=1e-15)
    if ending != ".npy":
        assert dataset.feature_names == ("a", "b", "c")


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
