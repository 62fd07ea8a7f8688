"""Readers and writers of people's own files, by their ending."""

import contextlib
import csv
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from sdlgm._files import write_whole
from sdlgm.data.dataset import Dataset, arrow_table
from sdlgm.data.idx import read_idx
from sdlgm.data.mulan import read_observations
from sdlgm.errors import DataError

# Endings of the files that can be written.
TABLES = (".npy", ".csv", ".parquet")
CODES = (".npz",)
# A file of a few kilobytes can unpack to gigabytes: an archive may do so up to a limit, or as far as codes compress.
MAX_UNPACKED = 2**31
MAX_RATIO = 100
# Numbers of a table that are in memory at once.
MAX_VALUES = 2**31


def read_table(path: str | os.PathLike[str], *, label_column: str | None = None) -> Dataset:
    """Read a data file: ``.npy``, ``.npz``, ``.csv``, ``.parquet``, ``.arff`` or IDX (``-ubyte``, also gzipped).

    ``label_column`` names the column of a CSV or parquet file that is a class and not a feature. The labels of an ARFF
    file, if an XML file beside it names them, are left out.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    kind = kind_of(path)
    if label_column is not None and kind not in ("csv", "parquet"):
        raise DataError(f"{path}: a label column can be named for .csv and .parquet only")
    if kind in ("csv", "parquet"):
        return from_columns(path, read_columns(path, kind, label_column), label_column)
    return {"npy": _read_npy, "npz": _read_npz, "idx": _read_images, "arff": read_observations}[kind](path)


def write_table(path: str | os.PathLike[str], X: np.ndarray, feature_names: tuple[str, ...] | None = None) -> Path:
    """Write a dense matrix as ``.npy``, ``.csv`` or ``.parquet``, whole or not at all."""
    path = Path(path)
    names = list(feature_names) if feature_names else [f"x{i}" for i in range(X.shape[1])]
    writers: dict[str, Callable[[Path], object]] = {
        ".npy": lambda temporary: np.save(temporary, X),
        ".csv": lambda temporary: _write_csv(temporary, X, names),
        ".parquet": lambda temporary: _write_parquet(temporary, X, names),
    }
    check_writable(path, TABLES)
    return write_whole(path, writers[path.suffix])


def check_writable(path: Path, endings: tuple[str, ...] = ()) -> None:
    """Refuse a place that cannot be written to; worth asking before long work."""
    if path.exists() and not path.is_file():
        raise DataError(f"{path}: is a folder or a device; name a file to write")
    if endings and path.suffix not in endings:
        raise DataError(f"{path}: cannot write this kind of file; it is written as {' or '.join(endings)}")
    if not path.parent.is_dir():
        raise DataError(f"{path.parent}: there is no such folder to write to; make it first")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"{path.parent}: this folder cannot be written to")


def kind_of(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(("-ubyte", ".idx")):
        return "idx"
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("npy", "npz", "csv", "parquet", "arff"):
        raise DataError(
            f"{path}: unknown kind of file; known are .npy, .npz, .csv, .parquet, .arff and IDX (-ubyte[.gz])"
        )
    return kind


def _read_npy(path: Path) -> Dataset:
    return from_array(path, arrays_of(path)["X"])


def _read_npz(path: Path) -> Dataset:
    codes = load_sparse(path)
    if codes is not None:
        return Dataset(path.name, codes)
    arrays = arrays_of(path)
    key = "X" if "X" in arrays else next(iter(arrays)) if len(arrays) == 1 else None
    if key is None:
        raise DataError(f"{path}: has the arrays {', '.join(arrays)}; name the observations X")
    return from_array(path, arrays[key], arrays.get("y"))


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a ``.npz`` file by their names, or that of a ``.npy`` file as X."""
    if kind_of(path) == "npy":
        npy_layout(path)
    else:
        check_archive(path)
    try:
        with path.open("rb") as file:  # numpy leaves a file that it cannot read open
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {"X": loaded}
            with loaded:
                return {name: loaded[name] for name in loaded.files}
    except Exception as error:  # damaged files make numpy, zipfile and zlib fail in many ways
        raise DataError(f"{path}: not a plain .npy array, or not an archive of them ({error})") from error


@dataclass(frozen=True)
class NpyLayout:
    """Where the numbers of a ``.npy`` file are."""

    shape: tuple[int, ...]
    dtype: np.dtype
    by_columns: bool
    start: int
    """In bytes."""


def npy_layout(path: Path) -> NpyLayout:
    """What the header of a ``.npy`` file says, if the file is as long as that."""
    try:
        with path.open("rb") as file:
            layout = _read_layout(file)
            n_bytes = os.fstat(file.fileno()).st_size
    except Exception as error:  # a damaged header makes numpy fail in many ways
        raise DataError(f"{path}: not a plain .npy array ({error})") from error
    _check_promise(str(path), layout, n_bytes)
    return layout


def _read_layout(file: IO[bytes]) -> NpyLayout:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = readers[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or any(side < 0 for side in shape):
        raise ValueError(f"it holds {dtype} of shape {shape}")
    return NpyLayout(shape, dtype, by_columns, file.tell())


def _check_promise(where: str, layout: NpyLayout, n_bytes: int) -> None:
    """Refuse a header that promises more than there is, before memory is asked for."""
    promised = layout.start + math.prod(layout.shape) * layout.dtype.itemsize
    if promised > n_bytes:
        raise DataError(f"{where}: is cut short; its header promises {promised} bytes, and it has {n_bytes}")


def check_archive(path: Path) -> None:
    """Refuse an archive that unpacks to far more than it is, or whose arrays are not what they promise."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if unpacked > max(MAX_UNPACKED, MAX_RATIO * path.stat().st_size):
                raise DataError(f"{path}: unpacks to {unpacked} bytes, which no archive of arrays does")
            for member in members:
                with archive.open(member) as file:
                    _check_promise(f"{path}: {member.filename}", _read_layout(file), member.file_size)
    except DataError:
        raise
    except Exception as error:  # damaged archives make zipfile, zlib and numpy fail in many ways
        raise DataError(f"{path}: not a .npz archive, or damaged ({error})") from error


def load_sparse(path: Path) -> sp.csr_matrix | None:
    """The sparse matrix in a file of `scipy.sparse.save_npz`, or None if it is some other archive."""
    check_archive(path)
    try:
        with path.open("rb") as file:
            with np.load(file, allow_pickle=False) as archive:
                if not {"format", "shape", "data"} <= set(archive.files):
                    return None
            file.seek(0)
            matrix = sp.csr_matrix(sp.load_npz(file))
        matrix.check_format(full_check=True)
    except Exception as error:  # as above
        raise DataError(f"{path}: not a .npz archive, or damaged ({error})") from error
    return matrix


def _read_images(path: Path) -> Dataset:
    array = read_idx(path)
    scaled = array.astype(np.float32) / 255 if array.dtype == np.uint8 else array
    labels_path = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    labels = read_idx(labels_path) if labels_path != path and labels_path.is_file() else None
    return from_array(path, scaled, labels)


def from_array(path: Path, array: np.ndarray, labels: np.ndarray | None = None) -> Dataset:
    if array.dtype.kind not in "biuf":
        raise DataError(f"{path}: holds {array.dtype}, not real numbers")
    if array.ndim not in (2, 3):
        raise DataError(f"{path}: has {array.ndim} dimensions; expected (rows, features) or (rows, height, width)")
    image_shape = (int(array.shape[1]), int(array.shape[2])) if array.ndim == 3 else None
    X = array.reshape(array.shape[0], math.prod(array.shape[1:])).astype(working_dtype(array.dtype), copy=False)
    if labels is not None and labels.shape != (array.shape[0],):
        raise DataError(f"{path}: has {array.shape[0]} rows but labels of shape {labels.shape}")
    return Dataset(path.name, X, labels=labels, image_shape=image_shape)


def working_dtype(dtype: np.dtype) -> type[np.floating]:
    """Single precision if it holds every number of a type exactly, otherwise double."""
    return np.float32 if dtype.itemsize <= (4 if dtype.kind == "f" else 2) else np.float64


def read_columns(path: Path, kind: str, *labels: str | None) -> Any:
    """A CSV or parquet file as a pyarrow table with rows, with these labels and with features beside them."""
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    with reading(path, kind):
        if kind == "csv":
            table = arrow_csv.read_csv(path, read_options=csv_options(path))
        else:
            with parquet.ParquetFile(path) as file:
                check_size(path, file.metadata)
                texts = check_flat(path, file.schema_arrow)
            table = parquet.read_table(path, read_dictionary=texts)  # a text that is repeated is in memory once
        names = table.column_names  # of which pyarrow may find only now that they are no text
    check_columns(path, names, *labels)
    if table.num_rows == 0:
        raise DataError(f"{path}: has no rows")
    return table


def check_size(path: Path, metadata: Any) -> None:
    """Refuse a parquet file, or a row group of one, that would not fit into any memory."""
    if not 0 <= metadata.num_rows * metadata.num_columns <= MAX_VALUES:
        raise DataError(
            f"{path}: has {metadata.num_rows} rows of {metadata.num_columns} columns to be read at once, more than "
            f"{MAX_VALUES} numbers; write it in smaller row groups, and read it with --stream or open_rows"
        )


def check_flat(path: Path, schema: Any) -> list[str]:
    """Refuse columns with values of any size, such as lists, before they are read; returns those of text."""
    import pyarrow as pa

    texts = []
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts.append(field.name)
        elif not (pa.types.is_primitive(kind) or pa.types.is_null(kind)):
            raise DataError(f"{path}: column {field.name!r} holds {field.type}, not numbers; remove it")
    return texts


@contextlib.contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Say which file it was that pyarrow could not read."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read as {kind} ({error})") from error


def csv_options(path: Path) -> Any:
    from pyarrow import csv as arrow_csv

    return arrow_csv.ReadOptions(autogenerate_column_names=not _has_header(path))


def check_columns(path: Path, names: Sequence[str], *labels: str | None) -> None:
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise DataError(f"{path}: looks separated by semicolons or tabs; separate the columns by commas")
    if "" in names:
        raise DataError(f"{path}: a column has no name, as a row index has; leave it out (pandas: index=False)")
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise DataError(f"{path}: more than one column is called {sorted(repeated)[0]!r}; rename them")
    for label in labels:
        if label is not None and label not in names:
            raise DataError(f"{path}: has no column {label!r}")
    if not set(names) - set(labels):
        raise DataError(f"{path}: has no columns of features")


def from_columns(path: Path, table: Any, label_column: str | None, dtype: Any = np.float64) -> Dataset:
    """A pyarrow table as a data set: every column a feature but for the label."""
    labels = None
    if label_column is not None:
        labels = _texts(table[label_column])
        table = table.drop_columns([label_column])
    rows = np.empty((table.num_rows, table.num_columns), dtype)
    for place, name in enumerate(table.column_names):
        rows[:, place] = _numbers(path, name, table[name])
    return Dataset(path.name, rows, labels=labels, feature_names=tuple(table.column_names))


def _texts(column: Any) -> np.ndarray:
    """The values of a column as text, of which those that are repeated are made once."""
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    known = ["(none)" if value is None else str(value) for value in encoded.dictionary.to_pylist()]
    return np.array([*known, "(none)"], dtype=object)[encoded.indices.fill_null(len(known)).to_numpy()]


def _numbers(path: Path, name: str, column) -> np.ndarray:
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"{path}: column {name!r} holds {kind}, not numbers; remove it, encode it as numbers, or name it as the "
            "label column"
        )
    if column.null_count:
        raise DataError(f"{path}: column {name!r} has {column.null_count} missing values; fill or drop them first")
    return column.to_numpy()


def _has_header(path: Path) -> bool:
    """A first line with a text is a header, and so is 0, 1, 2, ..., or a line in quotes before one without them.

    Numbers and what stands for a missing one are no text.
    """
    from pyarrow import csv as arrow_csv

    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        lines = [file.readline(), file.readline()]
        file.seek(0)
        records = csv.reader(file)
        first, second = ([field.strip() for field in next(records, [])] for _ in range(2))
    if not all(map(_is_number, set(first).difference(arrow_csv.ConvertOptions().null_values, [""]))):
        return True
    if len(first) > 1 and first == [str(i) for i in range(len(first))]:
        return True
    if lines[0].startswith('"') and not lines[1].startswith('"'):
        return True
    if all(map(str.isdigit, first)) and len(set(first)) == len(first) > 1 and not all(map(str.isdigit, second)):
        warnings.warn(
            f"{path}: the first line has whole numbers only and is read as a row; put them in quotes if they are names",
            stacklevel=2,
        )
    return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _write_csv(path: Path, X: np.ndarray, names: list[str]) -> None:
    from pyarrow import csv as arrow_csv

    arrow_csv.write_csv(arrow_table(X, names), path)


def _write_parquet(path: Path, X: np.ndarray, names: list[str]) -> None:
    from pyarrow import parquet

    parquet.write_table(arrow_table(X, names), path)
