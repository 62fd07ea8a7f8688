import numpy as np
import pytest
import scipy.sparse as sp

from sdlgm.data import CodesWriter, read_codes, write_codes
from sdlgm.errors import DataError


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
