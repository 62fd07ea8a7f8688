"""Where windows come from, kept beside their codes, so that decoded windows become series again."""

import json
import os
from pathlib import Path

import numpy as np

from sdlgm.data.formats import existing_file
from sdlgm.data.formats.npz import Archive
from sdlgm.data.times import Times
from sdlgm.data.windowing import Origins
from sdlgm.errors import DataError

# Names of the arrays: where windows begin, the times and the series of the rows, and the names of the series.
_STARTS, _N_ROWS, _DATES, _TIMES, _SERIES, _NAMES = (
    f"series_{name}" for name in ("starts", "n_rows", "dates", "times", "numbers", "names")
)
# Memory for a byte of the names, which are JSON, and for an entry of the arrays while it is checked.
_JSON_RATIO, _CHECK_BYTES = 64, 16


def origin_arrays(origins: Origins) -> dict[str, np.ndarray]:
    """Return the arrays in which a file keeps where windows come from.

    Parameters
    ----------
    origins : Origins

    Returns
    -------
    dict of str to ndarray

    """
    arrays = {_STARTS: origins.starts.astype(np.int64), _N_ROWS: np.array([origins.n_rows])}
    if origins.times is not None:
        arrays[_DATES if origins.times.is_date else _TIMES] = origins.times.values
    if origins.series is not None:
        arrays[_SERIES] = origins.series.astype(np.int64)
        arrays[_NAMES] = np.frombuffer(json.dumps(origins.series_names).encode(), np.uint8)
    return arrays


def read_origins(path: str | os.PathLike[str], length: int, n_columns: int) -> Origins | None:
    """Read where the windows of a file of codes come from.

    Parameters
    ----------
    path : str or path-like
        A ``.npz`` file, or a folder of codes, which has none.
    length : int
        Rows of a window.
    n_columns : int
        Columns of a row.

    Returns
    -------
    Origins or None
        None if the file has codes only.

    """
    path = Path(path)
    if path.is_dir():
        return None
    archive = Archive(existing_file(path))
    if _STARTS not in archive or _N_ROWS not in archive:
        return None
    names = [name for name in (_STARTS, _DATES, _TIMES, _SERIES, _NAMES) if name in archive]
    sizes = {name: archive[name] for name in names}
    needed = sum(member.n_bytes + _CHECK_BYTES * member.size for member in sizes.values())
    archive.check_memory(needed + _JSON_RATIO * (sizes[_NAMES].n_bytes if _NAMES in sizes else 0))
    n_rows = archive.read_small(_N_ROWS)
    starts = archive.read(_STARTS)
    if n_rows.shape != (1,) or n_rows.dtype.kind not in "iu" or starts.ndim != 1 or starts.dtype.kind not in "iu":
        raise _damaged(path)
    n = int(n_rows[0])
    if not len(starts) or starts[0] < 0 or (np.diff(starts) <= 0).any() or int(starts[-1]) + length > n:
        raise _damaged(path)
    archive.check_memory(_CHECK_BYTES * n * (n_columns + 1))
    times = None
    for name, is_date in ((_DATES, True), (_TIMES, False)):
        if name in archive:
            values = archive.read(name)
            if values.shape != (n,) or values.dtype not in ((np.int64,) if is_date else (np.int64, np.float64)):
                raise _damaged(path)
            times = Times(values, is_date)
    if _SERIES not in archive:
        return Origins(starts, n, times)
    return Origins(starts, n, times, *_read_series(path, archive, n))


def _read_series(path: Path, archive: Archive, n_rows: int) -> tuple[np.ndarray, tuple[str | int | float, ...]]:
    numbers = archive.read(_SERIES)
    try:
        names = json.loads(archive.read(_NAMES).tobytes())
    except (LookupError, ValueError, RecursionError):
        raise _damaged(path) from None
    types = {type(name) for name in names} if isinstance(names, list) else {None}
    if not (types <= {str} or types <= {int, float}) or numbers.dtype.kind != "i" or numbers.shape != (n_rows,):
        raise _damaged(path)
    if numbers.min() < 0 or numbers.max() >= len(names):
        raise _damaged(path)
    return numbers, tuple(names)


def _damaged(path: Path) -> DataError:
    return DataError(f"{path}: its series do not fit its windows; write it again with 'sdlgm encode'")
