"""Load data by a path or by the name of a data set."""

from collections.abc import Collection
from pathlib import Path

from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.formats import existing_file, kind_of, open_file
from sdlgm.data.named import DATASETS, check_name, load_named
from sdlgm.data.source import Block, RowSource, WholeSource
from sdlgm.data.tables import read_source
from sdlgm.errors import DataError


class NamedSource(WholeSource):
    """Rows of a named data set.

    Parameters
    ----------
    name : str
        Name of the data set, such as ``"mnist:test"``.

    """

    has_missing_values = True

    def __init__(self, name: str):
        dataset = load_named(name)
        self._dataset = dataset.observations if isinstance(dataset, MultiLabelDataset) else dataset
        self.where = name
        self.name = self._dataset.name
        self.feature_names = self._dataset.feature_names
        self.row_shape = self._dataset.image_shape or self._dataset.X.shape[1:]

    def _load(self) -> Block:
        labels = self._dataset.labels
        return Block(self._dataset.X, {} if labels is None else {"label": labels})


def is_path(source: str) -> bool:
    """Return whether a source is a path, and not the name of a data set."""
    return Path(source).is_file() or "." in source or "/" in source


def check_source(source: str, *, names: Collection[str] | None = None) -> None:
    """Raise if a source is no file of a known kind, no folder and no data set. Nothing is read. Call this before work.

    Parameters
    ----------
    source : str
        Path of a file or a folder, or name of a data set.
    names : collection of str or None, default=None
        Names of data sets, without splits; None for those of `DATASETS`.

    """
    if Path(source).is_dir():
        return
    if is_path(source):
        kind_of(existing_file(Path(source)))
    elif names is None:
        check_name(source)
    elif source.partition(":")[0] not in names:
        raise DataError(f"{source}: no file and no data set of that name; known are {', '.join(names)}")


def open_source(source: str, label_column: str | None = None, *, labels: bool = True) -> RowSource:
    """Open a file or a named data set.

    Parameters
    ----------
    source : str
        Path of a file, or name of a data set.
    label_column : str or None, default=None
        Column of a ``.csv`` or ``.parquet`` file that is a class and not a feature.
    labels : bool, default=True
        Whether to read the classes. Otherwise they are skipped.

    Returns
    -------
    RowSource

    """
    if Path(source).is_dir() and source not in DATASETS:
        raise DataError(f"{source}: is a folder; name one file, or a data set. Open a folder with open_rows")
    return open_file(Path(source), label_column, labels=labels) if is_path(source) else NamedSource(source)


def load_data(source: str, *, label_column: str | None = None) -> Dataset:
    """Load a file or a named data set.

    Parameters
    ----------
    source : str
        Path of a file, or name of a data set such as ``digits`` or ``mnist:test``. A folder is opened with `open_rows`.
    label_column : str or None, default=None
        Column of a ``.csv`` or ``.parquet`` file that is a class and not a feature.

    Returns
    -------
    Dataset
        All rows. Multi-label data, such as ``birds``, come without their labels.

    """
    return read_source(open_source(source, label_column))
