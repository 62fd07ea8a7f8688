"""Readers and writers of files, one module for each format."""

from pathlib import Path

from sdlgm._files import why_missing
from sdlgm.data.formats.arff import ArffFile, labels_beside
from sdlgm.data.formats.csv import CsvFile
from sdlgm.data.formats.idx import IdxFile
from sdlgm.data.formats.npy import NpyFile
from sdlgm.data.formats.npz import NpzFile
from sdlgm.data.formats.parquet import ParquetFile
from sdlgm.data.source import RowSource, TargetColumns
from sdlgm.errors import DataError

# Formats whose columns have names, so that some can be named as targets.
COLUMN_FORMATS = ("csv", "parquet")


def kind_of(path: Path) -> str:
    """Return the format of a file, by the ending of its name.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str
        ``"npy"``, ``"npz"``, ``"csv"`` (also ``.tsv``, and either gzipped), ``"parquet"``, ``"arff"`` or ``"idx"``.

    """
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(("-ubyte", ".idx")):
        return "idx"
    if name.endswith((".csv", ".tsv")):
        return "csv"
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("npy", "npz", "parquet", "arff"):
        raise DataError(
            f"{path}: unknown kind of file; known are .npy, .npz, .csv[.gz], .tsv[.gz], .parquet, .arff and IDX "
            "(-ubyte[.gz])"
        )
    return kind


def existing_file(path: Path) -> Path:
    """Return the path, or raise if there is no such file."""
    if not path.is_file():
        raise DataError(f"{path}: {why_missing(path)}")
    return path


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder, and of the folders in it, by name; not hidden ones, and none with a leading _."""
    files = {file: file.relative_to(folder).parts for file in folder.rglob("*") if file.is_file()}
    return sorted(file for file, parts in files.items() if not any(part.startswith((".", "_")) for part in parts))


def open_columns(path: Path, targets: TargetColumns) -> CsvFile | ParquetFile:
    """Open a ``.csv`` or ``.parquet`` file.

    Parameters
    ----------
    path : Path
        The file.
    targets : TargetColumns
        Columns that are not features.

    Returns
    -------
    CsvFile or ParquetFile

    """
    return CsvFile(path, targets) if kind_of(path) == "csv" else ParquetFile(path, targets)


def check_label_column(path: Path, kind: str, label_column: str | None) -> None:
    """Raise if a label column is named for a format without names."""
    if label_column is not None and kind not in COLUMN_FORMATS:
        raise DataError(f"{path}: a label column can be named for .csv and .parquet only")


def open_file(path: Path, label_column: str | None = None, *, labels: bool = True) -> RowSource:
    """Open a file of any format.

    Parameters
    ----------
    path : Path
        The file.
    label_column : str or None, default=None
        Column of a ``.csv`` or ``.parquet`` file that is a class and not a feature.
    labels : bool, default=True
        Whether to read the classes. Otherwise they are skipped.

    Returns
    -------
    RowSource
        Rows whose only target, if any, is the class of each row. Labels of an ``.arff`` file are skipped.

    """
    kind = kind_of(existing_file(path))
    check_label_column(path, kind, label_column)
    if kind in COLUMN_FORMATS:
        names = () if label_column is None else (label_column,)
        return open_columns(path, TargetColumns(names, values=labels, as_text=True))
    if kind == "npy":
        return NpyFile(path)
    if kind == "npz":
        return NpzFile(path, target="y" if labels else None)
    if kind == "idx":
        return IdxFile(path)
    return ArffFile.open(path, TargetColumns(labels_beside(path), values=False))
