import numpy as np
import pytest

from sdlgm.data import load_data, open_batches, open_rows, read_table
from sdlgm.errors import DataError


def test__npy__ending_in_capitals__is_read(tmp_path):
    np.save(tmp_path / "data.npy", np.eye(2))
    (tmp_path / "data.npy").rename(tmp_path / "DATA.NPY")
    np.testing.assert_array_equal(read_table(tmp_path / "DATA.NPY").X, np.eye(2))
    rows = open_rows(tmp_path / "DATA.NPY")
    assert rows is not None
    assert rows.shape == (2, 2)


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


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(25, 3))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, ">f8", bool])
def test__npy_batches__any_numbers__are_the_same_as_at_once(tmp_path, dtype):
    np.save(tmp_path / "data.npy", np.arange(24).reshape(6, 2, 2).astype(dtype))
    parts = list(open_batches(str(tmp_path / "data.npy"), size=4))
    whole = load_data(str(tmp_path / "data.npy")).X
    assert parts[0].dtype == whole.dtype
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test__npy_batches__columns_first__are_read_too(tmp_path, X):
    np.save(tmp_path / "data.npy", np.asfortranarray(X))
    np.testing.assert_array_equal(np.concatenate(list(open_batches(str(tmp_path / "data.npy"), size=10))), X)


def test__npy_batches__cut_short__is_refused(tmp_path, X):
    np.save(tmp_path / "data.npy", X)
    content = (tmp_path / "data.npy").read_bytes()
    (tmp_path / "data.npy").write_bytes(content[:-30])
    with pytest.raises(DataError, match="cut short"):
        list(open_batches(str(tmp_path / "data.npy"), size=10))
    (tmp_path / "data.npy").write_bytes(content[:20])
    with pytest.raises(DataError, match="not a plain"):
        open_batches(str(tmp_path / "data.npy"))


def test__npy_batches__no_table__is_refused_before_reading(tmp_path):
    np.save(tmp_path / "data.npy", np.zeros(5))
    with pytest.raises(DataError, match="1 dimensions"):
        open_batches(str(tmp_path / "data.npy"))
    np.save(tmp_path / "data.npy", np.array([["a"]]))
    with pytest.raises(DataError, match="not real numbers"):
        open_batches(str(tmp_path / "data.npy"))


def test__npy__fortran_order__is_read_whole_and_in_batches_only(tmp_path, X):
    np.save(tmp_path / "data.npy", np.asfortranarray(X))
    np.testing.assert_array_equal(read_table(tmp_path / "data.npy").X, X)
    with pytest.raises(DataError, match="save it in C order"):
        open_rows(tmp_path / "data.npy")
