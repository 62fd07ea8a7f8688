"""Tables in CSV files."""

import csv
import io
import re
import warnings
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
from sdlgm.data.source import DEFAULT_BATCH_ROWS, NO_TARGETS, Block, RowSource, TargetColumns, concatenate
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

# Bytes of the file that are parsed at a time. A line has to fit in.
BLOCK_BYTES = 1 << 20
# Memory of Arrow for a column, whatever the number of rows.
_COLUMN_BYTES = 20 << 10
# Bytes of a target: numbers as they are read, joined, checked and handed on; references to texts.
_TARGET_BYTES = 32


class CsvFile(RowSource):
    """Rows of a CSV file. A batch is about a megabyte of the file.

    Parameters
    ----------
    path : Path
        The file. Its columns are separated by commas.
    targets : TargetColumns
        Columns that are not features.

    """

    def __init__(self, path: Path, targets: TargetColumns = NO_TARGETS):
        self.path = path
        self.where = str(path)
        self.name = path.name
        arrow = optional_import("pyarrow.csv", EXTRA)
        with arrow_errors(path, "csv"):
            self._header = has_header(path)
            with arrow.open_csv(arrow_file(path), read_options=self._read_options()) as reader:
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

    def _read_options(self) -> "arrow_csv.ReadOptions":
        return optional_import("pyarrow.csv", EXTRA).ReadOptions(
            autogenerate_column_names=not self._header, block_size=BLOCK_BYTES
        )

    def _read_batches(self, size: int) -> Iterator[Block]:
        pa, arrow = optional_import("pyarrow", EXTRA), optional_import("pyarrow.csv", EXTRA)
        convert = arrow.ConvertOptions(column_types=self._types, include_columns=list(self._types))
        features = self.feature_names or ()
        first = 0
        with arrow_errors(self.path, "csv"):
            try:
                file, options = arrow_file(self.path), self._read_options()
                with arrow.open_csv(file, read_options=options, convert_options=convert) as reader:
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


def has_header(path: Path) -> bool:
    """Return whether the first line of a CSV file has the names of the columns.

    It does if a field is text, if it is 0, 1, 2, ..., or if it is in quotes and the next line is not. Numbers and the
    symbols of missing values are not text.
    """
    missing = optional_import("pyarrow.csv", EXTRA).ConvertOptions().null_values
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        start = file.read(BLOCK_BYTES)
    lines = [*start.splitlines()[:2], "", ""]
    if len(lines[0]) >= BLOCK_BYTES:
        raise DataError(f"{path}: its first line is longer than a megabyte; save wide tables as .npy or .parquet")
    records = csv.reader(io.StringIO(start, newline=""))
    first, second = ([field.strip() for field in next(records, [])] for _ in range(2))
    # The longest line, since the first ones may be empty.
    n_columns = max(len(first), len(second), *(line.count(",") + 1 for line in re.split("[\r\n]", start)))
    check_memory(path, _COLUMN_BYTES * n_columns, path.stat().st_size, "save wide tables as .npy or .parquet")
    if not all(map(_is_number, set(first).difference(missing, [""]))):
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


def write_csv(path: Path, X: np.ndarray, names: list[str]) -> None:
    """Write a matrix as a CSV file with a header."""
    with arrow_file(path, "wb") as file:
        optional_import("pyarrow.csv", EXTRA).write_csv(arrow_table(X, names), file)
