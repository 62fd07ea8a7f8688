"""What a reader returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdlgm.errors import DataError


@dataclass(frozen=True)
class Dataset:
    """Rows of observations with what is known about them."""

    name: str
    X: np.ndarray | sp.csr_matrix
    """(n, D), float, or CSR."""
    labels: np.ndarray | None = None
    """(n,), one class a row, for pictures only: the unsupervised model never sees it."""
    feature_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    """Height and width, if a row is a picture."""

    @property
    def table(self) -> Any:
        """The observations with the names of their columns, if they have any: what an estimator should be given."""
        if self.feature_names is None:
            return self.X
        return arrow_table(self.X, self.feature_names)


@dataclass(frozen=True)
class MultiLabelDataset:
    """Rows of observations, each with any number of labels."""

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
    def table(self) -> Any:
        """The observations with the names of their columns: what an estimator should be given."""
        return self.observations.table

    @property
    def labels(self) -> Any:
        """The labels with their names, likewise."""
        return arrow_table(self.Y, self.label_names)


@dataclass(frozen=True)
class CountDataset:
    """Rows of observations, or pictures, and how often each class is there."""

    name: str
    X: np.ndarray
    """(n, D), or (n, height, width[, channels]); float."""
    counts: np.ndarray
    """(n, classes), whole numbers."""
    feature_names: tuple[str, ...] | None = None
    class_names: tuple[str, ...] | None = None

    @property
    def table(self) -> Any:
        """The observations with the names of their columns, if they have any: what an estimator should be given."""
        return self.X if self.feature_names is None else arrow_table(self.X, self.feature_names)

    @property
    def targets(self) -> Any:
        """The counts with the names of the classes, likewise."""
        return self.counts if self.class_names is None else arrow_table(self.counts, self.class_names)


def binary_labels(where: str, name: str, values: np.ndarray) -> np.ndarray:
    """One label of every row as 0 and 1, or an error that says what is there instead."""
    missing = np.isnan(values)
    if missing.any():
        raise DataError(f"{where}: label {name!r} has {missing.sum()} missing values; drop those rows first")
    strange = values[(values != 0) & (values != 1)]
    if strange.size:
        raise DataError(f"{where}: label {name!r} has the value {strange[0]:g}; labels are 0 or 1")
    return values.astype(np.int64)


def arrow_table(X: Any, names: Sequence[str]) -> Any:
    """Columns with their names as a pyarrow table."""
    import pyarrow as pa

    return pa.table({name: X[:, i] for i, name in enumerate(names)})
