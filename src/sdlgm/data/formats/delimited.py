"""Text files of rows whose fields are separated by commas, semicolons or tabs, gzipped or not."""

import contextlib
import csv
import io
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sdlgm._limits import check_memory
from sdlgm._optional import optional_import
from sdlgm.data.columns import EXTRA, arrow_errors
from sdlgm.data.compressed import open_content
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from pyarrow import csv as arrow_csv

# Bytes of the file that are parsed at a time. A line has to fit in.
BLOCK_BYTES = 1 << 20
# Memory of Arrow for a column, whatever the number of rows.
_COLUMN_BYTES = 20 << 10
# Records by which the separator is found.
_SNIFFED_RECORDS = 100
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}


@dataclass(frozen=True)
class Layout:
    """How the rows of a file are written."""

    path: Path
    separator: str
    header: bool
    """Whether the first line has the names of the columns."""

    @classmethod
    def of(cls, path: Path) -> "Layout":
        """Find the layout of a file by its name and its first megabyte."""
        with arrow_errors(path, "csv"):
            start = _start(path)
            if len(start) >= BLOCK_BYTES and not re.search("[\r\n]", start):
                raise DataError(
                    f"{path}: its first line is longer than a megabyte; save wide tables as .npy or .parquet"
                )
            separator = separator_of(path, start)
            return cls(path, separator, has_header(path, start, separator))

    @contextlib.contextmanager
    def reader(self, convert: "arrow_csv.ConvertOptions | None" = None) -> Iterator["arrow_csv.CSVStreamingReader"]:
        """Open the rows as batches of about a megabyte of the content."""
        arrow = optional_import("pyarrow.csv", EXTRA)
        options = {
            "read_options": arrow.ReadOptions(autogenerate_column_names=not self.header, block_size=BLOCK_BYTES),
            "parse_options": arrow.ParseOptions(delimiter=self.separator),
            "convert_options": convert,
        }
        with open_content(self.path) as file, arrow.open_csv(file, **options) as reader:
            yield reader


def _start(path: Path) -> str:
    """Return the first megabyte of the content as text."""
    with open_content(path) as file:
        start = file.read(BLOCK_BYTES)
    return start.decode("utf-8-sig", errors="replace")


def _records(start: str, separator: str, most: int) -> list[list[str]]:
    """Return the first records, without one that the end of the text may have cut."""
    if len(start) >= BLOCK_BYTES // 4:  # the file may go on
        start = start[: max(start.rfind("\n"), start.rfind("\r")) + 1] or start
    reader = csv.reader(io.StringIO(start, newline=""), delimiter=separator)
    return [record for record, _ in zip(reader, range(most), strict=False) if record]


def separator_of(path: Path, start: str) -> str:
    """Return the separator of a file.

    It is a tab in a ``.tsv`` file. Otherwise it is the one that divides all of the first records into the same number
    of fields, two or more, and a comma if none does.

    Parameters
    ----------
    path : Path
        The file.
    start : str
        Its first megabyte.

    Returns
    -------
    str

    """
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    found = []
    for separator in _SEPARATORS:
        try:
            widths = {len(record) for record in _records(start, separator, _SNIFFED_RECORDS)}
        except csv.Error:  # such as a long line that this separator does not divide
            continue
        if len(widths) == 1 and min(widths) > 1:
            found.append(separator)
    if len(found) > 1:
        possible = " or by ".join(_SEPARATORS[separator] for separator in found)
        raise DataError(
            f"{path}: may be separated by {possible}; put texts in quotes, write numbers with decimal points, or save "
            "the file with tabs as .tsv"
        )
    return found[0] if found else ","


def has_header(path: Path, start: str, separator: str = ",") -> bool:
    """Return whether the first line of a file has the names of the columns.

    It does if a field is text, if it is 0, 1, 2, ..., or if it is in quotes and the next line is not. Numbers and the
    symbols of missing values are not text.

    Parameters
    ----------
    path : Path
        The file.
    start : str
        Its first megabyte.
    separator : str, default=","
        Separator of its fields.

    Returns
    -------
    bool

    """
    missing = optional_import("pyarrow.csv", EXTRA).ConvertOptions().null_values
    lines = [*start.splitlines()[:2], "", ""]
    records = csv.reader(io.StringIO(start, newline=""), delimiter=separator)
    first, second = ([field.strip() for field in next(records, [])] for _ in range(2))
    # The longest line, since the first ones may be empty.
    n_columns = max(len(first), len(second), *(line.count(separator) + 1 for line in re.split("[\r\n]", start)))
    check_memory(path, _COLUMN_BYTES * n_columns, path.stat().st_size, "save wide tables as .npy or .parquet")
    if not all(map(_is_number, set(first).difference(missing, ["", "-"]))):
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
