"""The interface of every file format: rows of one source, read a part at a time."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import scipy.sparse as sp

from sdlgm.data.checks import check_finite, check_has_rows
from sdlgm.errors import DataError


@dataclass(frozen=True)
class TargetColumns:
    """Columns of a file that are no features.

    Parameters
    ----------
    names : tuple of str
        Names of the columns.
    optional : bool, default=False
        Ignore names that the file does not have. Otherwise they are an error.
    n_features : int or None, default=None
        A file with this number of columns has features only, even if some are named like targets.
    values : bool, default=True
        Read the values of the columns. Otherwise the columns are skipped, whatever they contain.
    as_text : bool, default=False
        Read the values as text. Otherwise they are numbers.

    """

    names: tuple[str, ...] = ()
    optional: bool = False
    n_features: int | None = None
    values: bool = True
    as_text: bool = False

    def split(self, where: str | Path, columns: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the features, and those of the targets that are to be read."""
        known = set(columns)
        found = [] if len(columns) == self.n_features else [name for name in self.names if name in known]
        if not self.optional:
            for name in self.names:
                if name not in known:
                    raise DataError(f"{where}: has no column {name!r}; its columns are {some_names(columns)}")
        excluded = set(found)
        features = tuple(name for name in columns if name not in excluded)
        if not features:
            raise DataError(f"{where}: has no columns of features; name fewer columns as labels")
        return features, tuple(found) if self.values else ()


NO_TARGETS = TargetColumns()


def some_names(names: Sequence[str], most: int = 10) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"


@dataclass(frozen=True)
class Block:
    """Rows in memory."""

    X: np.ndarray | sp.csr_matrix
    """Features, (n, n_columns)."""
    targets: dict[str, np.ndarray] = field(default_factory=dict)
    """Values of the target columns by name, n each."""

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def __getitem__(self, rows: slice) -> "Block":
        return Block(self.X[rows], {name: values[rows] for name, values in self.targets.items()})


def concatenate(blocks: Sequence[Block]) -> Block:
    """Join blocks of dense rows."""
    if len(blocks) == 1:
        return blocks[0]
    targets = {name: np.concatenate([block.targets[name] for block in blocks]) for name in blocks[0].targets}
    return Block(np.concatenate([np.asarray(block.X) for block in blocks]), targets)


class RowSource(ABC):
    """Rows of one file or data set.

    The columns are known when a source has been created, and wrong ones have been refused. Values are checked as they
    are read.
    """

    where: str
    """Name of the source in messages, such as the path of the file."""
    name: str
    """Name of the data set."""
    row_shape: tuple[int, ...]
    """Shape of a row as it is stored: ``(D,)``, or that of an image."""
    feature_names: tuple[str, ...] | None = None
    has_missing_values: bool = False
    """Whether NaN stands for a missing value. Otherwise it is an error."""

    @property
    @abstractmethod
    def n_rows(self) -> int | None:
        """Number of rows; None if only the end of the file tells it."""

    @abstractmethod
    def _read_batches(self, size: int) -> Iterator[Block]:
        """Read all rows, about ``size`` at a time."""

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width, if a row is an image without channels."""
        return (self.row_shape[0], self.row_shape[1]) if len(self.row_shape) == 2 else None

    def batches(self, size: int) -> Iterator[Block]:
        """Read all rows in batches.

        Parameters
        ----------
        size : int
            Number of rows of a batch. Sources that store rows in blocks of their own may take other numbers.

        Yields
        ------
        Block

        """
        n_rows = 0
        for block in self._read_batches(size):
            if len(block):
                self._check_values(block, n_rows)
                n_rows += len(block)
                yield block
        check_has_rows(self.where, n_rows)

    @abstractmethod
    def read(self) -> Block:
        """Read all rows at once."""

    def _check_values(self, block: Block, first: int) -> None:
        check_finite(self.where, block.X, lambda row: f"row {first + row}", missing=self.has_missing_values)


DEFAULT_BATCH_ROWS = 10_000


@dataclass(frozen=True)
class Part:
    """Rows of a file that are read at once."""

    path: Path
    first: int
    """Index of the first row, among the rows of all files."""
    n_rows: int
    place: int
    """Parquet: index of the row group. ``.npy``: index of the first row in the file."""


class PartedSource(RowSource):
    """Rows of a file that can be read from any place."""

    path: Path
    parts: list[Part]
    """Parts in the order of the file; their sizes do not depend on anything but the file."""
    dtype: np.dtype
    """Single precision if it represents every value of the file exactly, and double precision otherwise."""

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)

    @abstractmethod
    def _read_part(self, part: Part, dtype: np.dtype | None) -> Block: ...

    @abstractmethod
    def describe(self, part: Part, row: int) -> str:
        """Describe the place of a row of a part, for messages."""

    def read_part(self, part: Part, dtype: np.dtype | None = None) -> Block:
        """Read the rows of a part.

        Parameters
        ----------
        part : Part
            One of `parts`.
        dtype : dtype or None, default=None
            Type of the features; None for the type of `read`.

        Returns
        -------
        Block

        """
        block = self._read_part(part, dtype)
        self._check_part(part, block)
        return block

    def _check_part(self, part: Part, block: Block) -> None:
        missing = self.has_missing_values
        check_finite(self.where, block.X, lambda row: self.describe(part, row), missing=missing)

    def at(self, path: Path) -> Self:
        """Return the same source under another path of the file."""
        other = copy.copy(self)
        other.path = path
        other.parts = [replace(part, path=path) for part in self.parts]
        return other


class WholeSource(RowSource):
    """Rows of a file that can only be read all at once."""

    @abstractmethod
    def _load(self) -> Block: ...

    @cached_property
    def _block(self) -> Block:
        block = self._load()
        check_has_rows(self.where, len(block))
        self._check_values(block, 0)
        return block

    @property
    def n_rows(self) -> int:
        return len(self._block)

    def _read_batches(self, size: int) -> Iterator[Block]:
        for start in range(0, self.n_rows, size):
            yield self._block[start : start + size]

    def read(self) -> Block:
        return self._block
