import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from sdlgm.data import load_data, open_batches, read_codes, read_counted, read_table
from sdlgm.errors import DataError


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, 3))


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


def test__npz__sparse__is_sliced_into_batches_and_is_no_picture(tmp_path, X):
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_matrix(X))
    batches = list(open_batches(str(tmp_path / "sparse.npz"), size=4))
    assert [batch.shape for batch in batches] == [(4, 3), (2, 3)]
    np.testing.assert_array_equal(sp.vstack(batches).toarray(), X)
    with pytest.raises(DataError, match="name the observations X"):
        read_counted(tmp_path / "sparse.npz")


def test__npz__labels_of_another_length__are_refused(tmp_path, X):
    np.savez(tmp_path / "data.npz", X=X, y=np.arange(5))
    with pytest.raises(DataError, match=r"6 rows but labels of shape \(5,\)"):
        read_table(tmp_path / "data.npz")


@pytest.mark.parametrize("read", [load_data, read_counted, lambda path: list(open_batches(path))])
def test__npz__archive_that_unpacks_to_too_much__is_refused(tmp_path, monkeypatch, read):
    np.savez_compressed(tmp_path / "data.npz", X=np.zeros((1000, 100)))
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "8M")
    with pytest.raises(DataError, match=r"data\.npz: takes 8\.\d MiB of memory to read, more than 8.0 MiB"):
        read(str(tmp_path / "data.npz"))


@pytest.mark.parametrize("kind", ["csr", "csc"])
def test__npz__sparse_rows__are_read(tmp_path, X, kind):
    sp.save_npz(tmp_path / "data.npz", sp.csr_matrix(X).asformat(kind))
    read = load_data(str(tmp_path / "data.npz")).X
    assert isinstance(read, sp.csr_matrix)
    np.testing.assert_array_equal(read.toarray(), X)


@pytest.mark.parametrize("kind", ["coo", "dia", "bsr"])
def test__npz__sparse_format_whose_shape_takes_memory__is_refused(tmp_path, X, kind):
    sp.save_npz(tmp_path / "data.npz", sp.csr_matrix(X).asformat(kind))
    with pytest.raises(DataError, match=rf"in the format {kind}; convert it with .tocsr\(\)"):
        load_data(str(tmp_path / "data.npz"))


@pytest.mark.parametrize("kind", ["csc", "coo", "dia", "bsr"])
def test__read_codes__other_sparse_format__is_refused(tmp_path, kind):
    sp.save_npz(tmp_path / "codes.npz", sp.csr_matrix(np.eye(3, dtype=int)).asformat(kind))
    with pytest.raises(DataError, match=rf"in the format {kind}; convert it with .tocsr\(\)"):
        read_codes(tmp_path / "codes.npz")


def test__npz__stored_by_columns__is_read_by_rows(tmp_path, X):
    np.savez(tmp_path / "data.npz", X=np.asfortranarray(X))
    np.testing.assert_array_equal(load_data(str(tmp_path / "data.npz")).X, X)


def test__npz__damaged_values__are_refused_by_their_checksum(tmp_path):
    np.savez(tmp_path / "data.npz", X=np.ones((100, 4)))
    content = bytearray((tmp_path / "data.npz").read_bytes())
    content[1000] ^= 1
    (tmp_path / "data.npz").write_bytes(content)
    with pytest.raises(DataError, match="CRC"):
        load_data(str(tmp_path / "data.npz"))


def header(descr: str, shape: tuple[int, ...]) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize(
    ("descr", "shape", "values"),
    [
        ("'u1'", (0, 2**63 - 1, 2**63 - 1), b""),
        ("'u1'", (0, 2**66), b""),
        ("'u1'", (1,) * 100, b"\0"),
        ("('<f8', (2,))", (3,), bytes(48)),
        ("[('a', '<f8')]", (3,), bytes(24)),
    ],
    ids=["sides", "side", "dimensions", "subarray", "fields"],
)
@pytest.mark.parametrize("name", ["X", "counts"])
def test__npz__array_that_cannot_be__is_a_named_error(tmp_path, name, descr, shape, values):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        if name == "counts":
            archive.writestr("X.npy", header("'u1'", (3, 1)) + bytes(3))
        archive.writestr(f"{name}.npy", header(descr, shape) + values)
    with pytest.raises(DataError, match="a.npz: not a .npz archive of plain arrays"):
        read_counted(path)


def test__npz__two_arrays_of_one_name__are_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", header("'u1'", (3, 1)) + bytes(3))
        archive.writestr("X", header("'u1'", (3, 1)) + bytes(3))
    with pytest.raises(DataError, match="two arrays are called 'X'"):
        load_data(str(path))


def test__npz__arrays_that_are_not_used__are_not_read(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", header("'u1'", (3, 1)) + bytes(3))
        archive.writestr("other.npy", b"no array")
    assert load_data(str(path)).X.shape == (3, 1)
