"""Data: one source of rows behind every file format, and named data sets."""

from sdlgm.data.batches import Batches, open_batches
from sdlgm.data.code_files import CodesWriter, read_codes, write_codes
from sdlgm.data.code_folder import CodedParts, checksum
from sdlgm.data.dataset import CountDataset, Dataset, MultiLabelDataset
from sdlgm.data.digit_pictures import digit_columns, scattered_digits
from sdlgm.data.formats import kind_of
from sdlgm.data.formats.idx import read_idx
from sdlgm.data.loading import check_source, load_data
from sdlgm.data.named import DATASETS, fetch, find_file
from sdlgm.data.rows import RowFiles, SpooledRows, is_stream, open_rows, rows_of
from sdlgm.data.tables import CODES, TABLES, check_writable, read_table, write_table
from sdlgm.data.targets import GENERATED, load_mulan, read_counted, read_labelled

__all__ = [
    "CODES",
    "DATASETS",
    "GENERATED",
    "TABLES",
    "Batches",
    "CodedParts",
    "CodesWriter",
    "CountDataset",
    "Dataset",
    "MultiLabelDataset",
    "RowFiles",
    "SpooledRows",
    "check_source",
    "check_writable",
    "checksum",
    "digit_columns",
    "fetch",
    "find_file",
    "is_stream",
    "kind_of",
    "load_data",
    "load_mulan",
    "open_batches",
    "open_rows",
    "read_codes",
    "read_counted",
    "read_idx",
    "read_labelled",
    "read_table",
    "rows_of",
    "scattered_digits",
    "write_codes",
    "write_table",
]
