"""Limits of the readers: a small or damaged file must not take more memory than its content needs."""

import math
from pathlib import Path

from sdlgm.errors import DataError

# Bytes of a .npz archive after decompression. A larger archive is read if its compression ratio is below MAX_RATIO.
MAX_UNPACKED = 2**31
MAX_RATIO = 100
# Bytes of a gzipped file after decompression.
MAX_BYTES = 2**31
# Values of a table, or of a row group of a parquet file, that are in memory at once.
MAX_VALUES = 2**31
# ARFF: bytes of the files, and values of the dense matrix that a sparse file describes.
MAX_ARFF_BYTES = 2**30
MAX_ARFF_VALUES = 2**28
MAX_XML_BYTES = 2**24
# Codes in a folder: columns of a code, and bytes of the manifest.
MAX_COMPONENTS = 10**8
MAX_MANIFEST_BYTES = 10**6


def check_n_values(where: str | Path, n_rows: int, n_columns: int) -> None:
    """Raise if a table has more values than may be in memory at once.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    n_rows, n_columns : int
        Size of the table, or of a row group, as the file states it.

    """
    if not 0 <= n_rows * n_columns <= MAX_VALUES:
        raise DataError(
            f"{where}: has {n_rows} rows of {n_columns} columns to be read at once, more than {MAX_VALUES} numbers; "
            "write it in smaller row groups, and read it with --stream or open_rows"
        )


def check_stated_size(where: str | Path, shape: tuple[int, ...], itemsize: int, offset: int, n_bytes: int) -> None:
    """Raise if the header of an array states more bytes than the file has.

    Parameters
    ----------
    where : str or Path
        File, for the message.
    shape : tuple of int
        Shape of the array.
    itemsize : int
        Bytes of a value.
    offset : int
        Bytes before the first value.
    n_bytes : int
        Bytes of the file.

    """
    stated = offset + math.prod(shape) * itemsize
    if stated > n_bytes:
        raise DataError(f"{where}: is cut short; its header states {stated} bytes, and it has {n_bytes}; copy it again")


def check_unpacked_size(path: Path, n_bytes: int) -> None:
    """Raise if an archive decompresses to far more bytes than it has."""
    if n_bytes > max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size):
        raise DataError(f"{path}: unpacks to {n_bytes} bytes, too many for its size; save the array as .npy")
