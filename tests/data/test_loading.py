import numpy as np
import pytest
import scipy.sparse as sp

from sdlgm.data import CodesWriter, load_data, open_batches, read_codes, write_codes, write_table
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


def test__csv_batches__fractions_far_down__are_read(tmp_path):
    """The first megabyte, which the types are guessed from, has whole numbers only."""
    lines = ["a,kind", *["1,x"] * 400_000, "0.5,y"]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    parts = [columns(part) for part in open_batches(str(tmp_path / "data.csv"), label_column="kind")]
    assert len(parts) > 1
    values = np.concatenate(parts)
    assert values.shape == (400_001, 1)
    assert values[-1] == 0.5


@pytest.mark.parametrize(
    ("text", "message"), [("a,b\n", "has no rows"), ("a;b\n1;2\n", "semicolons"), ("a,b\n1,x\n", "holds string")]
)
def test__csv_batches__bad_files__say_what_is_wrong(tmp_path, text, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=message):
        list(open_batches(str(tmp_path / "data.csv")))


def test__codes_writer__batches__read_back_as_one_matrix(tmp_path):
    codes = sp.csr_matrix(np.random.default_rng(0).poisson(0.3, (25, 9)).astype(np.int32))
    with CodesWriter(tmp_path / "codes.npz") as writer:
        for start in range(0, 25, 10):
            writer.append(codes[start : start + 10])
        assert not (tmp_path / "codes.npz").exists()
    for found in (read_codes(tmp_path / "codes.npz"), sp.load_npz(tmp_path / "codes.npz")):
        assert found.dtype == np.int32
        assert (found != codes).nnz == 0
    assert writer.n_rows == 25
    assert writer.n_active_total == codes.sum()
    assert writer.n_active_max == codes.sum(axis=1).max()
    assert [path.name for path in tmp_path.iterdir()] == ["codes.npz"]


def test__codes_writer__failing_half_way__leaves_nothing(tmp_path):
    write_codes(tmp_path / "codes.npz", sp.csr_matrix(np.eye(2, dtype=np.int32)))
    before = (tmp_path / "codes.npz").read_bytes()

    def interrupted() -> None:
        with CodesWriter(tmp_path / "codes.npz") as writer:
            writer.append(sp.csr_matrix(np.eye(3, dtype=np.int32)))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (tmp_path / "codes.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["codes.npz"]


def test__codes_writer__other_width_or_nothing__is_refused(tmp_path):
    with CodesWriter(tmp_path / "a.npz") as writer:
        writer.append(sp.csr_matrix((1, 2)))
        with pytest.raises(ValueError, match="3 columns after codes with 2"):
            writer.append(sp.csr_matrix((1, 3)))
    with pytest.raises(DataError, match="no rows"), CodesWriter(tmp_path / "b.npz"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
