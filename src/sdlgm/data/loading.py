"""Load data by a path or by the name of a data set."""

from pathlib import Path

from sdlgm.data.dataset import Dataset, MultiLabelDataset
from sdlgm.data.formats import existing_file, kind_of, open_file
from sdlgm.data.named import DATASETS, load_named
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


def check_exists(source: str) -> None:
    """Raise if a source is the path of a file that is not there, or of an unknown kind.

    Parameters
    ----------
    source : str
        Path of a file or of a folder, or name of a data set.

    """
    if is_path(source) and not Path(source).is_dir():
        kind_of(existing_file(Path(source)))


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
