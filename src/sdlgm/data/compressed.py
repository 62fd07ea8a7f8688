"""Content of files that may be gzipped."""

import gzip
import zlib
from pathlib import Path

from sdlgm.data import limits
from sdlgm.errors import DataError


def read_bytes(path: Path) -> bytes:
    """Read a file, and decompress it if it is gzipped.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    bytes

    """
    try:
        with path.open("rb") as file:
            is_gzipped = file.read(2) == b"\x1f\x8b"
        with gzip.open(path) if is_gzipped else path.open("rb") as file:
            content = file.read(limits.MAX_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if len(content) > limits.MAX_BYTES:
        raise DataError(f"{path}: unpacks to more than {limits.MAX_BYTES} bytes; cut it into smaller files")
    return content
