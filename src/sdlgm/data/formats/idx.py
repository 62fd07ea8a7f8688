"""The IDX format of the MNIST files, plain or gzipped."""

import math
import os
from pathlib import Path

import numpy as np

from sdlgm.data.checks import check_array, float_dtype
from sdlgm.data.compressed import read_bytes
from sdlgm.data.source import Block, WholeSource
from sdlgm.errors import DataError

_DTYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def parse_idx(content: bytes, where: str) -> np.ndarray:
    """Convert the bytes of an IDX file.

    Parameters
    ----------
    content : bytes
        Content of the file.
    where : str
        Name of the file in messages.

    Returns
    -------
    ndarray

    """
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES:
        raise DataError(f"{where}: not an IDX file")
    dtype, n_dimensions = np.dtype(_DTYPES[content[2]]), content[3]
    start = 4 + 4 * n_dimensions
    if n_dimensions == 0 or len(content) < start:
        raise DataError(f"{where}: the IDX header is cut short; copy the file again")
    shape = tuple(int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(n_dimensions))
    expected = math.prod(shape) * dtype.itemsize
    if len(content) - start != expected:
        raise DataError(
            f"{where}: the IDX header states {expected} bytes, and the file has {len(content) - start}; copy it again"
        )
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read an IDX file, gzipped or not.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    ndarray
        The array as it is stored: bytes stay ``uint8``.

    """
    return parse_idx(read_bytes(Path(path)), str(path))


def scale_pixels(images: np.ndarray) -> np.ndarray:
    """Return images as rows of single precision, with bytes scaled to [0, 1]."""
    rows = images.reshape(len(images), math.prod(images.shape[1:]))
    if images.dtype == np.uint8:
        return rows.astype(np.float32) / 255
    return rows.astype(float_dtype(images.dtype), copy=False)


class IdxFile(WholeSource):
    """Rows of an IDX file, with the labels of the file beside it.

    ``t10k-images-idx3-ubyte`` has its labels in ``t10k-labels-idx1-ubyte``. They are the target ``"label"``.

    Parameters
    ----------
    path : Path
        The file.

    """

    def __init__(self, path: Path):
        self.path = path
        self.where = str(path)
        self.name = path.name
        self._images = read_idx(path)
        check_array(self.where, self._images.shape, self._images.dtype)
        self.row_shape = self._images.shape[1:]

    def _load(self) -> Block:
        labels_path = self.path.with_name(self.path.name.replace("images-idx3", "labels-idx1"))
        has_labels = labels_path != self.path and labels_path.is_file()
        return Block(scale_pixels(self._images), {"label": read_idx(labels_path)} if has_labels else {})
