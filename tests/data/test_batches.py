import numpy as np
import pytest

from sdlgm.data import load_data, open_batches, write_table
from sdlgm.errors import DataError


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(25, 3))


def columns(batch) -> np.ndarray:
    return batch if isinstance(batch, np.ndarray) else np.column_stack([column.to_numpy() for column in batch.columns])


@pytest.mark.parametrize("ending", [".npy", ".csv", ".parquet"])
def test__open_batches__any_file__give_the_rows_of_load_data(tmp_path, X, ending):
    path = write_table(tmp_path / f"data{ending}", X, ("a", "b", "c"))
    batches = open_batches(str(path), size=10)
    assert batches.n_rows in (25, None)
    parts = list(batches)
    if ending != ".csv":
        assert [len(columns(part)) for part in parts] == [10, 10, 5]
    np.testing.assert_array_equal(np.concatenate([columns(part) for part in parts]), load_data(str(path)).X)
    if ending != ".npy":
        assert parts[0].column_names == ["a", "b", "c"]


def test__open_batches__named_data_and_archives__are_sliced(tmp_path, X):
    assert sum(len(part) for part in open_batches("digits:test", size=100)) == 297
    np.savez(tmp_path / "data.npz", X=X)
    assert [len(part) for part in open_batches(str(tmp_path / "data.npz"), size=20)] == [20, 5]


@pytest.mark.parametrize("ending", [".npy", ".parquet"])
def test__open_batches__folder__gives_the_rows_of_its_files(tmp_path, X, ending):
    for number, rows in enumerate((X[:10], X[10:])):
        write_table(tmp_path / f"{number}{ending}", rows)
    batches = open_batches(str(tmp_path))
    assert batches.n_rows == len(X)
    np.testing.assert_array_equal(np.concatenate([batch[:] for batch in batches]), X)
    with pytest.raises(DataError, match="is a folder"):
        load_data(str(tmp_path))
