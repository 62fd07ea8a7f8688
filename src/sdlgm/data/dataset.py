"""Data sets in memory: rows with labels or counts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp

from sdlgm.data.columns import arrow_table
from sdlgm.data.schema import Schema
from sdlgm.data.windowing import EncodedRows

if TYPE_CHECKING:
    import pyarrow as pa

Table: TypeAlias = "np.ndarray | sp.csr_matrix | pa.Table"


@dataclass(frozen=True)
class Dataset:
    """Rows, and what is known about them."""

    name: str
    X: np.ndarray | sp.csr_matrix
    """(n, D), float, or CSR."""
    labels: np.ndarray | None = None
    """(n,), the class of each row. Used in figures only; the unsupervised model does not see it."""
    feature_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    """Height and width, if a row is an image."""
    schema: Schema | None = None
    """Meaning of the columns, if the rows are those of a table as numbers."""

    @property
    def table(self) -> "Table | EncodedRows":
        """Rows with the names of their columns, if they have names. Pass this to an estimator."""
        if self.schema is not None:
            return EncodedRows(self.schema, np.asarray(self.X))
        return self.X if self.feature_names is None else arrow_table(self.X, self.feature_names)


@dataclass(frozen=True)
class MultiLabelDataset:
    """Rows with any number of labels each."""

    name: str
    X: np.ndarray
    """(n, D), float; NaN where a value is missing."""
    Y: np.ndarray
    """(n, labels), 0 or 1."""
    feature_names: tuple[str, ...]
    label_names: tuple[str, ...]

    @property
    def observations(self) -> Dataset:
        """The rows without their labels."""
        return Dataset(self.name, self.X, feature_names=self.feature_names)

    @property
    def table(self) -> Table:
        """Rows with the names of their columns. Pass this to an estimator."""
        return self.observations.table

    @property
    def labels(self) -> Table:
        """Labels with their names. Pass this to an estimator."""
        return arrow_table(self.Y, self.label_names)


@dataclass(frozen=True)
class SparseLabelledDataset:
    """Rows with any number of labels each, of which nothing is dense."""

    name: str
    X: sp.csr_array
    """(n, D), float."""
    Y: sp.csr_array
    """(n, labels), 0 or 1."""
    feature_names: tuple[str, ...] = ()
    """Empty if they have no names."""
    label_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class CountDataset:
    """Rows or images with the number of times that each class occurs in them."""

    name: str
    X: np.ndarray
    """(n, D), or (n, height, width[, channels]); float."""
    counts: np.ndarray
    """(n, classes), whole numbers."""
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def table(self) -> Table:
        """Rows with the names of their columns, if they have names. Pass this to an estimator."""
        return self.X if self.feature_names is None else arrow_table(self.X, self.feature_names)

    @property
    def targets(self) -> Table:
        """Counts with the names of the classes, if they have names. Pass this to an estimator."""
        return self.counts if self.class_names is None else arrow_table(self.counts, self.class_names)
