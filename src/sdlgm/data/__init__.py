"""Data: files of several kinds, and data sets by name."""

from sdlgm.data.coded import CodedParts, checksum
from sdlgm.data.codes import CodesWriter, read_codes, write_codes
from sdlgm.data.counting import digit_columns, scattered_digits
from sdlgm.data.dataset import CountDataset, Dataset, MultiLabelDataset
from sdlgm.data.idx import read_idx
from sdlgm.data.labelled import read_counted, read_labelled
from sdlgm.data.loading import Batches, load_data, load_mulan, open_batches
from sdlgm.data.named import DATASETS, fetch, find_file
from sdlgm.data.rows import RowFiles, SpooledRows, is_stream, open_rows, rows_of
from sdlgm.data.tables import CODES, TABLES, check_writable, read_table, write_table

__all__ = [
    "CODES",
    "DATASETS",
    "TABLES",
    "Batches",
    "CodedParts",
    "CodesWriter",
    "CountDataset",
    "Dataset",
    "MultiLabelDataset",
    "RowFiles",
    "SpooledRows",
    "check_writable",
    "checksum",
    "digit_columns",
    "fetch",
    "find_file",
    "is_stream",
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
