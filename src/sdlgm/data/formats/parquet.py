"""Tables in parquet files."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.checks import check_column_names, check_has_rows
from sdlgm.data.columns import (
    EXTRA,
    TextMemory,
    arrow_file,
    arrow_table,
    check_features,
    check_flat,
    check_targets,
    is_text,
    table_block,
)
from sdlgm.data.parquet_memory import REMEDY, GroupMemory, group_memory, open_parquet
from sdlgm.data.source import NO_TARGETS, Block, Part, PartedSource, TargetColumns
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_EXACT_IN_SINGLE = ("float", "halffloat", "bool", "int8", "uint8", "int16", "uint16")
# Bytes of a target beside its column: the numbers as they are read, checked and handed on; the index of a text, with
# its copies and the hashes from which it is made.
_TARGET_BYTES, _TEXT_BYTES = 24, 64


class ParquetFile(PartedSource):
    """Rows of a parquet file. A part is a row group.

    Parameters
    ----------
    path : Path
        The file.
    targets : TargetColumns
        Columns that are not features.

    """

    def __init__(self, path: Path, targets: TargetColumns = NO_TARGETS):
        self.path = path
        self.where = str(path)
        self.name = path.name
        with open_parquet(path) as file:
            fields = list(file.schema_arrow)
            names = [field.name for field in fields]
            metadata = file.metadata
            sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        check_column_names(path, names)
        check_flat(path, fields)
        self.feature_names, self._targets = targets.split(path, names)
        self._fields = dict(zip(names, fields, strict=True))
        self._indices = {name: index for index, name in enumerate(names)}
        check_features(path, [self._fields[name] for name in self.feature_names])
        self._texts = TextMemory(path) if targets.as_text else None
        if not targets.as_text:
            check_targets(path, [self._fields[name] for name in self._targets])
        self._text_columns = [name for name in self._targets if is_text(self._fields[name].type)]
        self.row_shape = (len(self.feature_names),)
        exact = all(str(self._fields[name].type) in _EXACT_IN_SINGLE for name in self.feature_names)
        self.dtype = np.dtype(np.float32 if exact else np.float64)
        self.parts = []
        first = 0
        for number, n_rows in enumerate(sizes):
            if n_rows < 0:
                raise DataError(f"{path}: row group {number} has {n_rows} rows; write the file again")
            if n_rows:
                self.parts.append(Part(path, first, n_rows, number))
                first += n_rows

    def with_order(self, feature_names: tuple[str, ...]) -> Self:
        """Return the same source with its features in another order."""
        other = self.at(self.path)
        other.feature_names = feature_names
        return other

    def describe(self, part: Part, row: int) -> str:
        return f"row {row} of row group {part.place}"

    def check_parts(self) -> None:
        """Raise if a row group takes too much memory to be read at once."""
        with self._open() as file:
            for part in self.parts:
                self._check_part_memory(file, part, self.dtype)

    def _open(self, **options: bool | int | list[str]) -> AbstractContextManager["parquet.ParquetFile"]:
        return open_parquet(self.path, **options)

    @property
    def _columns(self) -> list[str]:
        return [*(self.feature_names or ()), *self._targets]

    def _check_memory(self, n_bytes: int, remedy: str = REMEDY) -> None:
        check_memory(self.where, n_bytes, self.path.stat().st_size, remedy)

    def _group_memory(self, file: "parquet.ParquetFile", part: Part) -> GroupMemory:
        fields, indices = ([by[name] for name in self._columns] for by in (self._fields, self._indices))
        return group_memory(self.path, file.metadata, fields, indices, part.place)

    def _row_bytes(self, dtype: np.dtype) -> int:
        """Return the bytes of a row of the result."""
        target = _TARGET_BYTES if self._texts is None else _TEXT_BYTES
        return self.row_shape[0] * dtype.itemsize + len(self._targets) * target

    def _check_part_memory(self, file: "parquet.ParquetFile", part: Part, dtype: np.dtype) -> None:
        self._check_memory(self._group_memory(file, part).whole + part.n_rows * self._row_bytes(dtype))

    def _read_part(self, part: Part, dtype: np.dtype | None) -> Block:
        dtype = np.dtype(np.float64) if dtype is None else dtype
        options = {"pre_buffer": False, "read_dictionary": self._text_columns}
        with self._open(**options) as file:
            self._check_part_memory(file, part, dtype)
            return self._read_group(file, part, np.empty((part.n_rows, *self.row_shape), dtype), use_threads=False)

    def _read_group(self, file: "parquet.ParquetFile", part: Part, out: np.ndarray, *, use_threads: bool) -> Block:
        table = file.read_row_group(part.place, columns=self._columns, use_threads=use_threads)
        if table.num_rows != part.n_rows:
            raise DataError(
                f"{self.where}: row group {part.place} has {table.num_rows} rows, and should have {part.n_rows}; write "
                "the file again"
            )
        return self._block(table, f"row group {part.place}", out)

    def _read_batches(self, size: int) -> Iterator[Block]:
        pa = optional_import("pyarrow", EXTRA)
        options = {"buffer_size": 1 << 16, "pre_buffer": False, "read_dictionary": self._text_columns}
        first = 0
        with self._open(**options) as file:
            for part in self.parts:
                n_rows = min(size, part.n_rows)
                needed = self._group_memory(file, part).batch(n_rows) + n_rows * self._row_bytes(np.dtype(np.float64))
                self._check_memory(needed, "write smaller pages or row groups")
            for batch in file.iter_batches(size, columns=self._columns):
                place = f"rows {first} to {first + batch.num_rows - 1}"
                yield self._block(pa.Table.from_batches([batch]), place, np.empty((batch.num_rows, *self.row_shape)))
                first += batch.num_rows

    def read(self) -> Block:
        check_has_rows(self.where, self.n_rows)
        with self._open(read_dictionary=self._text_columns) as file:
            groups = [self._group_memory(file, part) for part in self.parts]
            # The result, the named columns that are made of it later, and row groups: Arrow keeps some of the memory of
            # one for the next.
            features = self.n_rows * self.row_shape[0] * 8
            largest = max(group.whole for group in groups)
            needed = self.n_rows * self._row_bytes(np.dtype(np.float64)) + features + 2 * largest
            self._check_memory(needed)
            if self._texts is not None:
                self._texts.held = needed
            X = np.empty((self.n_rows, *self.row_shape))
            blocks = []
            for part in self.parts:  # as `read_part`, with one look at the metadata of the file
                out = X[part.first : part.first + part.n_rows]
                blocks.append(self._read_group(file, part, out, use_threads=True))
                self._check_part(part, blocks[-1])
        return Block(X, {name: np.concatenate([block.targets[name] for block in blocks]) for name in self._targets})

    def _block(self, table: "pa.Table", place: str, out: np.ndarray) -> Block:
        features = self.feature_names or ()
        return table_block(self.path, table, features, self._targets, place=place, texts=self._texts, out=out)


def write_parquet(path: Path, X: np.ndarray, names: list[str]) -> None:
    """Write a matrix as a parquet file with named columns."""
    write_arrow_parquet(path, arrow_table(X, names))


def write_arrow_parquet(path: Path, table: "pa.Table") -> None:
    """Write a table as a parquet file."""
    with arrow_file(path, "wb") as file:
        optional_import("pyarrow.parquet", EXTRA).write_table(table, file)
