"""Tables in parquet files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from sdlgm._optional import optional_import
from sdlgm.data.checks import check_column_names, check_has_rows
from sdlgm.data.columns import (
    EXTRA,
    arrow_errors,
    arrow_file,
    arrow_table,
    check_features,
    check_flat,
    check_targets,
    is_text,
    table_block,
)
from sdlgm.data.limits import check_n_values
from sdlgm.data.source import NO_TARGETS, Block, Part, PartedSource, TargetColumns, concatenate
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

_EXACT_IN_SINGLE = ("float", "halffloat", "bool", "int8", "uint8", "int16", "uint16")


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
        with arrow_errors(path, "parquet"), self._open() as file:
            fields = list(file.schema_arrow)
            names = [field.name for field in fields]
            metadata = file.metadata
            groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
            sizes = [(group.num_rows, group.num_columns) for group in groups]
        check_column_names(path, names)
        check_flat(path, fields)
        self.feature_names, self._targets = targets.split(path, names)
        by_name = dict(zip(names, fields, strict=True))
        check_features(path, [by_name[name] for name in self.feature_names])
        self._texts: dict[str, str] | None = {} if targets.as_text else None
        if not targets.as_text:
            check_targets(path, [by_name[name] for name in self._targets])
        self._text_columns = [name for name in self._targets if is_text(by_name[name].type)]
        self.row_shape = (len(self.feature_names),)
        exact = all(str(by_name[name].type) in _EXACT_IN_SINGLE for name in self.feature_names)
        self.dtype = np.dtype(np.float32 if exact else np.float64)
        self._n_file_columns = len(names)
        self.parts = []
        first = 0
        for number, (n_rows, n_columns) in enumerate(sizes):
            check_n_values(path, n_rows, n_columns)
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

    def _open(self, **options: bool | int | list[str]) -> "parquet.ParquetFile":
        return optional_import("pyarrow.parquet", EXTRA).ParquetFile(arrow_file(self.path), **options)

    @property
    def _columns(self) -> list[str]:
        return [*(self.feature_names or ()), *self._targets]

    def _read_part(self, part: Part, dtype: np.dtype | None) -> Block:
        options = {"pre_buffer": False, "read_dictionary": self._text_columns}
        with arrow_errors(self.path, "parquet"), self._open(**options) as file:
            return self._read_group(file, part, dtype, use_threads=False)

    def _read_group(
        self, file: "parquet.ParquetFile", part: Part, dtype: np.dtype | None, *, use_threads: bool
    ) -> Block:
        table = file.read_row_group(part.place, columns=self._columns, use_threads=use_threads)
        if table.num_rows != part.n_rows:
            raise DataError(
                f"{self.where}: row group {part.place} has {table.num_rows} rows, and should have {part.n_rows}; write "
                "the file again"
            )
        return self._block(table, f"row group {part.place}", dtype)

    def _read_batches(self, size: int) -> Iterator[Block]:
        pa = optional_import("pyarrow", EXTRA)
        options = {"buffer_size": 1 << 16, "pre_buffer": False, "read_dictionary": self._text_columns}
        first = 0
        with arrow_errors(self.path, "parquet"), self._open(**options) as file:
            for batch in file.iter_batches(size, columns=self._columns):
                place = f"rows {first} to {first + batch.num_rows - 1}"
                yield self._block(pa.Table.from_batches([batch]), place, None)
                first += batch.num_rows

    def read(self) -> Block:
        check_has_rows(self.where, self.n_rows)
        check_n_values(self.where, self.n_rows, self._n_file_columns)
        blocks = []
        with arrow_errors(self.path, "parquet"), self._open(read_dictionary=self._text_columns) as file:
            for part in self.parts:  # as `read_part`, with one look at the metadata of the file
                blocks.append(self._read_group(file, part, None, use_threads=True))
                self._check_part(part, blocks[-1])
        return concatenate(blocks)

    def _block(self, table: "pa.Table", place: str, dtype: np.dtype | None) -> Block:
        features = self.feature_names or ()
        return table_block(self.path, table, features, self._targets, place=place, texts=self._texts, dtype=dtype)


def write_parquet(path: Path, X: np.ndarray, names: list[str]) -> None:
    """Write a matrix as a parquet file with named columns."""
    with arrow_file(path, "wb") as file:
        optional_import("pyarrow.parquet", EXTRA).write_table(arrow_table(X, names), file)
