"""Tables in CSV files."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.checks import check_column_names
from sdlgm.data.columns import (
    EXTRA,
    TextMemory,
    arrow_errors,
    arrow_file,
    arrow_table,
    check_features,
    check_targets,
    table_block,
)
from sdlgm.data.formats.delimited import Layout
from sdlgm.data.source import DEFAULT_BATCH_ROWS, NO_TARGETS, Block, RowSource, TargetColumns, concatenate
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# Bytes of a target: numbers as they are read, joined, checked and handed on; references to texts.
_TARGET_BYTES = 32


class CsvFile(RowSource):
    """Rows of numbers in a CSV file. A batch is about a megabyte of its content.

    Parameters
    ----------
    path : Path
        The file, which may be gzipped. Its columns are separated by commas, semicolons or tabs.
    targets : TargetColumns
        Columns that are not features.

    """

    def __init__(self, path: Path, targets: TargetColumns = NO_TARGETS):
        self.path = path
        self.where = str(path)
        self.name = path.name
        self._layout = Layout.of(path)
        with arrow_errors(path, "csv"), self._layout.reader() as reader:
            fields = list(reader.schema)
            names = [field.name for field in fields]
        check_column_names(path, names)
        self.feature_names, self._targets = targets.split(path, names)
        self._as_text = targets.as_text
        self._texts = TextMemory(path) if targets.as_text else None
        by_name = {field.name: self._stored(field) for field in fields}
        check_features(path, [by_name[name] for name in self.feature_names])
        if not self._as_text:
            check_targets(path, [by_name[name] for name in self._targets])
        self.row_shape = (len(self.feature_names),)
        self._types = {name: by_name[name].type for name in (*self.feature_names, *self._targets)}

    @property
    def n_rows(self) -> None:
        return None

    def _stored(self, field: "pa.Field") -> "pa.Field":
        """Return the type of a column in all of the file.

        The types are those of the first megabyte. Numbers that are whole there may have fractions later, and a column
        that is empty there may have numbers.
        """
        pa = optional_import("pyarrow", EXTRA)
        if self._as_text and field.name in self._targets:
            return field.with_type(pa.string())
        loose = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        return field.with_type(pa.float64()) if loose else field

    def _read_batches(self, size: int) -> Iterator[Block]:
        pa, arrow = optional_import("pyarrow", EXTRA), optional_import("pyarrow.csv", EXTRA)
        convert = arrow.ConvertOptions(column_types=self._types, include_columns=list(self._types))
        features = self.feature_names or ()
        first = 0
        with arrow_errors(self.path, "csv"):
            try:
                with self._layout.reader(convert) as reader:
                    for batch in reader:
                        place = f"rows {first} to {first + batch.num_rows - 1}"
                        table = pa.Table.from_batches([batch])
                        yield table_block(self.path, table, features, self._targets, place=place, texts=self._texts)
                        first += batch.num_rows
            except pa.ArrowInvalid as error:
                if "conversion error" not in str(error):
                    raise
                raise DataError(
                    f"{self.where}: a column of numbers holds something else after row {first} ({error}); remove the "
                    "column, encode it as numbers, or name it as the label column"
                ) from error

    def read(self) -> Block:
        blocks: list[Block] = []
        needed = 0
        for block in self.batches(DEFAULT_BATCH_ROWS):
            blocks.append(block)
            # The rows are in memory twice as they are joined, and later as a matrix and as named columns.
            needed += len(block) * (2 * 8 * self.row_shape[0] + _TARGET_BYTES * len(self._targets))
            held = needed + (0 if self._texts is None else self._texts.n_bytes)
            check_memory(self.where, held, self.path.stat().st_size, "cut it into smaller files")
            if self._texts is not None:
                self._texts.held = needed
        return concatenate(blocks)


def write_csv(path: Path, X: np.ndarray, names: list[str]) -> None:
    """Write a matrix as a CSV file with a header."""
    write_arrow_csv(path, arrow_table(X, names))


def write_arrow_csv(path: Path, table: "pa.Table") -> None:
    """Write a table as a CSV file with a header. Missing values are empty."""
    with arrow_file(path, "wb") as file:
        optional_import("pyarrow.csv", EXTRA).write_csv(table, file)
