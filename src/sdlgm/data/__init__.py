"""Data: one source of rows behind every file format, and named data sets."""

from sdlgm.data.batches import Batches, open_batches
from sdlgm.data.code_files import CodesWriter, read_codes, write_codes
from sdlgm.data.code_folder import CodedParts
from sdlgm.data.compressed_folder import CompressedParts, compressed_files
from sdlgm.data.dataset import CountDataset, Dataset, MultiLabelDataset, SparseLabelledDataset
from sdlgm.data.digit_pictures import digit_columns, scattered_digits
from sdlgm.data.formats import kind_of
from sdlgm.data.formats.idx import read_idx
from sdlgm.data.loading import check_source, load_data
from sdlgm.data.named import DATASETS, fetch, find_file
from sdlgm.data.origin_files import origin_arrays, read_origins
from sdlgm.data.part_folder import PartFolder, checksum
from sdlgm.data.rows import RowFiles, SpooledRows, is_stream, open_rows, rows_of
from sdlgm.data.schema import MISSING_SYMBOLS, Column, Schema
from sdlgm.data.series import Timeline
from sdlgm.data.series_files import is_series_folder, read_series
from sdlgm.data.table_rows import TableOptions, load_for_model, open_for_model, read_for_fit, read_for_model
from sdlgm.data.tables import CODES, TABLES, check_no_input, check_writable, read_table, write_columns, write_table
from sdlgm.data.targets import GENERATED, load_extreme, load_mulan, read_counted, read_labelled
from sdlgm.data.windowing import EncodedRows, Origins, Windows, encode_table, windows

__all__ = [
    "CODES",
    "DATASETS",
    "GENERATED",
    "MISSING_SYMBOLS",
    "TABLES",
    "Batches",
    "CodedParts",
    "CodesWriter",
    "Column",
    "CompressedParts",
    "CountDataset",
    "Dataset",
    "EncodedRows",
    "MultiLabelDataset",
    "Origins",
    "PartFolder",
    "RowFiles",
    "Schema",
    "SparseLabelledDataset",
    "SpooledRows",
    "TableOptions",
    "Timeline",
    "Windows",
    "check_no_input",
    "check_source",
    "check_writable",
    "checksum",
    "compressed_files",
    "digit_columns",
    "encode_table",
    "fetch",
    "find_file",
    "is_series_folder",
    "is_stream",
    "kind_of",
    "load_data",
    "load_extreme",
    "load_for_model",
    "load_mulan",
    "open_batches",
    "open_for_model",
    "open_rows",
    "origin_arrays",
    "read_codes",
    "read_counted",
    "read_for_fit",
    "read_for_model",
    "read_idx",
    "read_labelled",
    "read_origins",
    "read_series",
    "read_table",
    "rows_of",
    "scattered_digits",
    "windows",
    "write_codes",
    "write_columns",
    "write_table",
]
