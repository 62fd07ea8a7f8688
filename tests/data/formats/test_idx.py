import gzip
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdlgm.data import read_idx, read_table
from sdlgm.data.formats.idx import parse_idx
from sdlgm.errors import DataError


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(">BBBB", 0, 0, 0x08, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


@pytest.mark.parametrize("gzipped", [False, True])
def test__idx__images_with_labels_beside__are_scaled_and_labelled(tmp_path, gzipped):
    images = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    ending = ".gz" if gzipped else ""
    for name, array in (("t-images-idx3-ubyte", images), ("t-labels-idx1-ubyte", np.array([7, 3]))):
        content = idx_bytes(array)
        (tmp_path / f"{name}{ending}").write_bytes(gzip.compress(content) if gzipped else content)
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


def test__idx__header_that_states_more__is_refused():
    content = struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 2**31)
    with pytest.raises(DataError, match="header is damaged"):
        parse_idx(content, "file")


@pytest.mark.parametrize("shape", [(1,) * 70, (0, 2**32 - 1, 2**32 - 1, 2**32 - 1)], ids=["dimensions", "sides"])
def test__idx__array_that_cannot_be__is_a_named_error(tmp_path, shape):
    path = tmp_path / "a-ubyte"
    path.write_bytes(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + b"\1")
    with pytest.raises(DataError, match="a-ubyte: the IDX header is damaged"):
        read_idx(path)
