"""Small files that would take gigabytes of memory if their readers trusted them.

`BOMBS` has each file with the reader that opens it. Every one has to end in an error of sdlgm with less than 2 GiB of
memory.
"""

import base64
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from robustness.memory import Measured, measure_readers
from sdlgm.data import (
    TableOptions,
    load_data,
    open_batches,
    open_rows,
    read_codes,
    read_counted,
    read_for_fit,
    read_labelled,
    read_origins,
)
from sdlgm.data.code_folder import CODES
from sdlgm.errors import SDLGMError

PIECE = 1 << 20
MODEL = Path(__file__).resolve().parents[1] / "tests/golden/gaussian-1.sdlgm"


# Readers.


def read_rows(path: Path) -> None:
    """Read rows a part at a time."""
    rows = open_rows(path)
    assert rows is not None
    for part in rows.parts:
        rows.read(part)


def read_batches(path: Path) -> None:
    """Read rows in batches."""
    for _ in open_batches(str(path)):
        pass


def _load_model(path: Path) -> None:
    from sdlgm import load

    load(path)


class CommandError(SDLGMError):
    """A command ended with a message of one line."""


def _encode(name: str) -> Callable[[Path], None]:
    """Encode in this process, so that its memory is measured. The file is refused before its columns are compared."""

    def encode(path: Path) -> None:
        from typer.testing import CliRunner

        from sdlgm.cli import app

        result = CliRunner().invoke(app, ["encode", str(MODEL), str(path), "--out", str(path.parent / name)])
        if result.exit_code == 2:  # the code of errors that are not bugs
            raise CommandError(result.output)
        if result.exception is not None:
            raise RuntimeError(result.output) from result.exception

    return encode


READERS: dict[str, Callable[[Path], object]] = {
    "load_data": lambda path: load_data(str(path)),
    "load_data_label": lambda path: load_data(str(path), label_column="label"),
    "table": lambda path: load_data(str(path)).table,
    "open_rows": read_rows,
    "open_batches": read_batches,
    "read_codes": read_codes,
    "read_counted": read_counted,
    "read_labelled": lambda path: read_labelled(path, ["label"]),
    "read_mulan": read_labelled,
    "load": _load_model,
    "read_for_fit": lambda path: read_for_fit(str(path), TableOptions()),
    "read_origins": lambda path: read_origins(path, 4, 3),
    "encode": _encode("codes.npz"),
    "encode_folder": _encode("codes"),
}
"""Readers by name."""


@dataclass(frozen=True)
class Bomb:
    """A hostile file."""

    reader: str
    """Name in `READERS`."""
    file: str
    """Name of the file or folder."""
    write: Callable[[Path], object]
    """Write it, in little memory."""

    def make(self, folder: Path) -> Path:
        """Write the file into a folder."""
        path = folder / self.file
        self.write(path)
        return path


def measure(bomb_or_reader: "str | Bomb", path: Path) -> Measured:
    """Read a file in a process of its own.

    Parameters
    ----------
    bomb_or_reader : str or Bomb
        Name of a bomb or of a reader, or a bomb.
    path : Path
        The file.

    Returns
    -------
    Measured

    """
    bomb = BOMBS.get(bomb_or_reader) if isinstance(bomb_or_reader, str) else bomb_or_reader
    (measured,) = measure_readers([(str(bomb_or_reader) if bomb is None else bomb.reader, path)])
    return measured


# Writers.


def _deflate(start: bytes, pattern: bytes, n_bytes: int) -> bytes:
    """Compress a few bytes and a repeated pattern. One piece is compressed, and its bytes are repeated."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    head = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(pattern * (PIECE // len(pattern))) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + piece * (n_bytes // PIECE) + packer.flush()


def _checksum(start: bytes, pattern: bytes, n_bytes: int) -> int:
    piece = pattern * (PIECE // len(pattern))
    crc = zlib.crc32(start)
    for first in range(0, n_bytes, PIECE):
        crc = zlib.crc32(piece[: n_bytes - first], crc)
    return crc


def _gzip(start: bytes, pattern: bytes, n_bytes: int) -> bytes:
    """Compress as gzip. ``n_bytes`` are whole pieces."""
    end = struct.pack("<II", _checksum(start, pattern, n_bytes), (len(start) + n_bytes) % 2**32)
    return gzip.compress(b"")[:10] + _deflate(start, pattern, n_bytes) + end


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


@dataclass(frozen=True)
class Zeros:
    """An array of zeros."""

    shape: tuple[int, ...]
    dtype: str = "|u1"

    @property
    def n_bytes(self) -> int:
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def _write_npz(path: Path, **members: "np.ndarray | Zeros | tuple[bytes, bytes, int]") -> None:
    """Write arrays, or a few bytes and a repeated pattern."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, member in members.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            if isinstance(member, np.ndarray):
                archive.writestr(entry, _array(member))
                continue
            if isinstance(member, Zeros):
                member = (_npy_header(member.shape, member.dtype), b"\0", member.n_bytes)  # noqa: PLW2901
            start, pattern, n_bytes = member
            archive.writestr(entry, _deflate(start, pattern, n_bytes + PIECE))
            entry.compress_type, entry.file_size = zipfile.ZIP_DEFLATED, len(start) + n_bytes
            entry.CRC = _checksum(start, pattern, n_bytes)


def _array(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _write_sparse(kind: str) -> Callable[[Path], None]:
    """Write one value in a matrix whose shape states two billion rows."""
    arrays = {
        "csc": {"indices": np.zeros(1, np.int32), "indptr": np.array([0, 1], np.int32), "data": np.ones(1)},
        "coo": {"row": np.zeros(1, np.int32), "col": np.zeros(1, np.int32), "data": np.ones(1)},
        "dia": {"offsets": np.zeros(1, np.int32), "data": np.ones((1, 1))},
        "bsr": {"indices": np.zeros(1, np.int32), "indptr": np.zeros(2, np.int32), "data": np.ones((1, 2, 1))},
    }[kind]

    def write(path: Path) -> None:
        np.savez_compressed(path, format=np.array(kind.encode()), shape=np.array([2_000_000_000, 1]), **arrays)

    return write


def _write_csr_zeros(path: Path) -> None:
    _write_npz(
        path,
        format=np.array(b"csr"),
        shape=np.array([300_000_000, 4]),
        data=np.zeros(0, np.int32),
        indices=np.zeros(0, np.int32),
        indptr=Zeros((300_000_001,)),
    )


def _long_header(path: Path) -> None:
    """Write an array whose header states that it is itself four gigabytes long."""
    _write_npz(path, X=(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1), b" ", 7 * 2**28))


def _idx(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + b"".join(side.to_bytes(4, "big") for side in shape)


def _write_label_bomb(path: Path) -> None:
    path.write_bytes(_idx(2, 1, 1) + b"\0\1")
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    labels.write_bytes(_gzip(_idx(7 * 2**28), b"\0", 7 * 2**28))


def _write_columns(path: Path, columns: dict[str, pa.Array], n_groups: int = 1) -> None:
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, compression="zstd") as writer:
        for _ in range(n_groups):
            writer.write_table(table, row_group_size=len(table))


def _many_groups(path: Path, n_groups: int = 60) -> None:
    zeros = pa.array(np.zeros(1_000_000, np.int8))
    _write_columns(path, {"a": zeros, "label": zeros}, n_groups)


def _list_column(path: Path) -> None:
    """Write a list of ten million zeros in each of several row groups."""
    n = 10_000_000
    lists = pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), pa.array(np.zeros(n, np.int8)))
    _write_columns(path, {"a": lists}, 4)


def _coded_folder(path: Path, n_groups: int = 60) -> None:
    """Write a part with a million empty codes in each row group."""
    path.mkdir()
    n_rows = 1_000_000
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n_rows + 1, np.int32)), pa.array([], pa.int32()))
    _write_columns(path / "part-000000.parquet", {"features": empty, "counts": empty}, n_groups)
    manifest = {"format": "sdlgm-codes", "version": 1, "n_components": 4, "n_rows": n_rows * n_groups, "n_parts": 1}
    (path / CODES.manifest).write_text(json.dumps(manifest))


# Parquet files that pyarrow does not write: pages and footers in Thrift's compact protocol.


def _varint(value: int) -> bytes:
    content = bytearray()
    while value > 0x7F:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def _number(value: int) -> bytes:
    return _varint(2 * value)


def _text(value: bytes) -> bytes:
    return _varint(len(value)) + value


def _list(items: list[bytes] | tuple[bytes, int], kind: int = 12) -> bytes:
    content, n = (b"".join(items), len(items)) if isinstance(items, list) else items
    return (bytes([n << 4 | kind]) if n < 15 else bytes([0xF0 | kind]) + _varint(n)) + content


def _footer(names: list[bytes], physical: int, groups: bytes, n_rows: int, texts: tuple[bytes, ...] = ()) -> bytes:
    """Return a footer: names of columns of one physical type, then those of columns of texts."""
    root = b"\x48" + _text(b"s") + b"\x15" + _number(len(names) + len(texts)) + b"\0"
    leaves = [b"\x15" + _number(physical) + b"\x25" + _number(0) + b"\x18" + _text(name) + b"\0" for name in names]
    leaves += [
        b"\x15" + _number(6) + b"\x25" + _number(0) + b"\x18" + _text(name) + b"\x25" + _number(0) + b"\0"
        for name in texts
    ]
    schema = _list([root, *leaves])
    return b"\x15" + _number(1) + b"\x19" + schema + b"\x16" + _number(n_rows) + b"\x19" + groups + b"\0"


def _write_parquet(path: Path, body: bytes, footer: bytes) -> None:
    path.write_bytes(b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def _page(n_values: int, size: int, content: bytes) -> bytes:
    """Return a page of ``size`` bytes that are compressed to ``content``."""
    data = b"\x15" + _number(n_values) + b"\x15" + _number(0) + b"\x15" + _number(3) + b"\x15" + _number(3) + b"\0"
    header = b"\x15" + _number(0) + b"\x15" + _number(size) + b"\x15" + _number(len(content)) + b"\x2c" + data + b"\0"
    return header + content


def _chunk(name: bytes, physical: int, n_values: int, body: bytes, place: int) -> bytes:
    """Return the description of a column of a row group, whose pages are at some place of the file."""
    numbers = [n_values, 8 * n_values, len(body)]
    # type, encodings, path, codec, number of values, both sizes, offset of the first page
    meta = b"\x15" + _number(physical) + b"\x19" + _list([_number(0)], 5) + b"\x19" + _list([_text(name)], 8) + b"\x15"
    meta += _number(2) + b"".join(b"\x16" + _number(value) for value in numbers) + b"\x26" + _number(place) + b"\0"
    return b"\x26" + _number(place) + b"\x1c" + meta + b"\0"


def _group(chunks: list[bytes], n_rows: int) -> bytes:
    return b"\x19" + _list(chunks) + b"\x16" + _number(8 * n_rows) + b"\x16" + _number(n_rows) + b"\0"


def _lying_page(path: Path, size: int = 2**31 - PIECE) -> None:
    """Write a page of 2 GiB in a column that states a few bytes."""
    n_rows = 10
    body = _page(n_rows, size, _gzip(b"", b"\0", size))
    group = _group([_chunk(b"a", 5, n_rows, body, 4)], n_rows)
    _write_parquet(path, body, _footer([b"a"], 5, _list([group]), n_rows))


def _many_texts(path: Path, n: int = 600, size: int = 2**22) -> None:
    """Write different texts of 4 MiB, each in a page of its own."""
    start = zlib.compressobj(9, wbits=31)
    head = start.compress(struct.pack("<I", size) + b"x" * (size - 8))
    texts = b""
    for number in range(n):
        rest = start.copy()
        texts += _page(1, size + 4, head + rest.compress(b"%08d" % number) + rest.flush())
    numbers = _page(n, 8 * n, gzip.compress(bytes(8 * n)))
    chunks = [_chunk(b"a", 5, n, numbers, 4), _chunk(b"label", 6, n, texts, 4 + len(numbers))]
    _write_parquet(path, numbers + texts, _footer([b"a"], 5, _list([_group(chunks, n)]), n, (b"label",)))


def _many_names(path: Path) -> None:
    """Write a footer with half a million columns that have short names."""
    _write_parquet(path, b"", _footer([b"%x" % number for number in range(520_000)], 5, b"\x0c", 0))


def _empty_chunks(path: Path) -> None:
    """Write a footer with ten million columns of row groups, three bytes each."""
    n = 10_000
    group = b"\x19" + _list(((b"\x26\0\0") * 1000, 1000)) + b"\x16\0\x16\0\0"
    _write_parquet(path, b"", _footer([b"a"], 5, _list((group * n, n)), 0))


def _shared_name(path: Path) -> None:
    """Write Arrow's own schema so that ten thousand fields share one name of a megabyte."""
    n = 10_000
    fields = [pa.field(f"f{i}", pa.float32()) for i in range(n - 1)]
    schema = bytearray(pa.schema([*fields, pa.field("z" * PIECE, pa.float32())]).serialize().to_pybytes())

    def follow(place: int) -> int:
        return place + struct.unpack_from("<I", schema, place)[0]

    def field(table: int, number: int) -> int:
        offsets = table - struct.unpack_from("<i", schema, table)[0]
        return table + struct.unpack_from("<H", schema, offsets + 4 + 2 * number)[0]

    names = follow(field(follow(field(follow(8), 2)), 1))  # message, header, fields
    last = follow(names + 4 * n)
    for place in range(names + 4, names + 4 + 4 * n, 4):
        struct.pack_into("<I", schema, place, last - place)
    table = pa.table({"a": ["no", "number"]})
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(bytes(schema)).decode()})


def _delta_texts(path: Path) -> None:
    """Write texts of a megabyte that repeat each other, stored as differences."""
    n = 300
    encoding = {"label": "DELTA_BYTE_ARRAY"}
    table = pa.table({"a": np.zeros(n), "label": ["x" * PIECE] * n})
    with pq.ParquetWriter(path, table.schema, use_dictionary=False, column_encoding=encoding) as writer:
        writer.write_table(table)


# Text files.

ARFF = "@relation r\n"


def _sparse_arff(path: Path, n: int = 20_000) -> None:
    attributes = "".join(f"@attribute a{i} numeric\n" for i in range(n))
    path.write_text(f"{ARFF}{attributes}@data\n" + "{0 1}\n" * n)


def _nominal_arff(path: Path) -> None:
    values = ",".join(map(str, range(10_000)))
    path.write_text(f"{ARFF}@attribute {'n' * 1_000_000} {{{values}}}\n@data\n0\n")


def _gzipped_arff(path: Path) -> None:
    path.write_bytes(_gzip(f"{ARFF}@attribute a numeric\n@data\n".encode(), b"1\n", 2**30))


def _beside_arff(write: Callable[[Path], object]) -> Callable[[Path], None]:
    """Write an ARFF file with a hostile XML file beside it."""

    def write_both(path: Path) -> None:
        path.write_text(f"{ARFF}@attribute wet {{0,1}}\n@attribute a numeric\n@data\n1,2\n")
        write(path.with_suffix(".xml"))

    return write_both


def _nested_xml(path: Path) -> None:
    path.write_bytes(b"<labels xmlns='" + b"u" * 10_000 + b"'>" + b"<a>" * 2_000_000)


def _wide_csv(path: Path, n: int = 170_000) -> None:
    names = [f"{i:x}" for i in range(n)]
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * n) + "\n")


def _long_line(path: Path) -> None:
    _wide_csv(path, 2_000_000)


def _gzipped_csv(start: str, pattern: str, n_bytes: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(_gzip(start.encode(), pattern.encode(), n_bytes))


def _csv_of_texts(path: Path, n: int = 3_000_000) -> None:
    """Write a column in which every text is another one."""
    path.write_bytes(gzip.compress("".join(["id,a\n", *(f"t{i:x},1\n" for i in range(n))]).encode(), 1))


def _parquet_of_texts(path: Path) -> None:
    """Write one long text many times, with missing values between."""
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2**20, np.int32)), pa.array(["x" * 2**16]))
    _write_columns(path, {"a": texts, "b": pa.array(np.zeros(2**20))})


def _many_series(path: Path) -> None:
    _write_npz(path, series_starts=Zeros((2**27,), "<i8"), series_n_rows=Zeros((1,), "<i8"))


def _many_tensors(path: Path) -> None:
    """Write a header of tensors without values."""
    entries = ",".join(f'"{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}' for i in range(1_000_000))
    document = json.dumps(json.dumps({"format": "sdlgm-model", "version": 1, "document": {}}))
    header = f'{{"__metadata__":{{"sdlgm":{document}}},{entries}}}'.encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header)


BOMBS: dict[str, Bomb] = {
    **{f"codes_{kind}": Bomb("read_codes", "codes.npz", _write_sparse(kind)) for kind in ("csc", "coo", "dia", "bsr")},
    **{f"sparse_{kind}": Bomb("load_data", "data.npz", _write_sparse(kind)) for kind in ("csc", "coo", "dia", "bsr")},
    "codes_csr_empty_rows": Bomb("read_codes", "codes.npz", _write_csr_zeros),
    "npz_bytes": Bomb("load_data", "data.npz", lambda path: _write_npz(path, X=Zeros((2**26, 8)))),
    "npz_doubles": Bomb("load_data", "data.npz", lambda path: _write_npz(path, X=Zeros((220_000_000, 1), "<f8"))),
    "npz_counts": Bomb(
        "read_counted", "data.npz", lambda path: _write_npz(path, X=Zeros((10**8, 1)), counts=Zeros((10**8, 1)))
    ),
    "npz_header": Bomb("load_data", "data.npz", _long_header),
    "idx_gzipped": Bomb(
        "load_data", "images-idx3-ubyte.gz", lambda path: path.write_bytes(_gzip(_idx(2**19, 32, 32), b"\0", 2**29))
    ),
    "idx_labels": Bomb("load_data", "t10k-images-idx3-ubyte", _write_label_bomb),
    "parquet_rows": Bomb("load_data", "data.parquet", _many_groups),
    "parquet_rows_as_labels": Bomb("read_labelled", "data.parquet", _many_groups),
    "parquet_lists": Bomb("load_data", "data.parquet", _list_column),
    "parquet_lists_in_parts": Bomb("open_rows", "data.parquet", _list_column),
    "parquet_lists_encode": Bomb("encode", "data.parquet", _list_column),
    "parquet_lists_encode_folder": Bomb("encode_folder", "data.parquet", _list_column),
    "parquet_page": Bomb("load_data", "data.parquet", _lying_page),
    "parquet_page_in_parts": Bomb("open_rows", "data.parquet", _lying_page),
    "parquet_page_encode": Bomb("encode", "data.parquet", _lying_page),
    "parquet_page_encode_folder": Bomb("encode_folder", "data.parquet", _lying_page),
    "parquet_texts": Bomb("load_data_label", "data.parquet", _many_texts),
    "parquet_names": Bomb("open_batches", "data.parquet", _many_names),
    "parquet_footer": Bomb("open_batches", "data.parquet", _empty_chunks),
    "parquet_arrow_schema": Bomb("open_batches", "data.parquet", _shared_name),
    "parquet_delta_texts": Bomb("load_data_label", "data.parquet", _delta_texts),
    "codes_part": Bomb("read_codes", "codes", _coded_folder),
    "arff_sparse": Bomb("load_data", "data.arff", _sparse_arff),
    "arff_nominal": Bomb("load_data", "data.arff", _nominal_arff),
    "arff_gzipped": Bomb("load_data", "data.arff", _gzipped_arff),
    "xml_gzipped": Bomb(
        "read_mulan", "data.arff", _beside_arff(lambda path: path.write_bytes(_gzip(b"<labels>", b" ", 2**30)))
    ),
    "xml_nested": Bomb("read_mulan", "data.arff", _beside_arff(_nested_xml)),
    "csv_columns": Bomb("load_data", "data.csv", _wide_csv),
    "csv_columns_encode": Bomb("encode", "data.csv", _wide_csv),
    "csv_line": Bomb("load_data", "data.csv", _long_line),
    "csv_gzipped": Bomb("load_data", "data.csv.gz", _gzipped_csv("a,b\n", "1,2\n", 2**30)),
    "csv_gzipped_table": Bomb("read_for_fit", "data.csv.gz", _gzipped_csv("a,b\n", "1,2\n", 2**30)),
    "csv_gzipped_line": Bomb("read_for_fit", "data.csv.gz", _gzipped_csv("a,b\n1,2\n", "1111", 2**30)),
    "csv_gzipped_names": Bomb("read_for_fit", "data.csv.gz", _gzipped_csv("a", ",,,,", 2**30)),
    "csv_texts": Bomb("read_for_fit", "data.csv.gz", _csv_of_texts),
    "csv_columns_table": Bomb("read_for_fit", "data.csv", _wide_csv),
    "parquet_rows_table": Bomb("read_for_fit", "data.parquet", _many_groups),
    "parquet_texts_table": Bomb("read_for_fit", "data.parquet", _parquet_of_texts),
    "parquet_page_table": Bomb("read_for_fit", "data.parquet", _lying_page),
    "codes_series": Bomb("read_origins", "codes.npz", _many_series),
    "model_tensors": Bomb("load", "model.sdlgm", _many_tensors),
}
"""Hostile files by name."""


def _csc(path: Path) -> None:
    sp.save_npz(path, sp.csc_matrix((30_000_000, 1)))


def _honest_texts(path: Path) -> None:
    labels = pa.array([f"{i:x}" for i in range(500_000)])
    _write_columns(path, {"a": pa.array(np.zeros(500_000)), "label": labels})


HONEST: dict[str, Bomb] = {
    "npz": Bomb("load_data", "data.npz", lambda path: np.savez_compressed(path, X=np.zeros((4_000_000, 10), np.uint8))),
    "npz_counts": Bomb(
        "read_counted",
        "data.npz",
        lambda path: np.savez_compressed(path, X=np.zeros((4_000_000, 5)), counts=np.zeros((4_000_000, 2), np.uint8)),
    ),
    "npz_csc": Bomb("load_data", "data.npz", _csc),
    "idx_gzipped": Bomb(
        "load_data",
        "a-idx3-ubyte.gz",
        lambda path: path.write_bytes(gzip.compress(_idx(40_000, 32, 32) + bytes(40_000 * 1024), 1)),
    ),
    "parquet": Bomb("table", "data.parquet", lambda path: _many_groups(path, 6)),
    "parquet_labels": Bomb("read_labelled", "data.parquet", lambda path: _many_groups(path, 6)),
    "parquet_texts": Bomb("load_data_label", "data.parquet", _honest_texts),
    "parquet_parts": Bomb(
        "open_rows", "data.parquet", lambda path: _write_columns(path, {"a": pa.array(np.zeros(10_000_000))})
    ),
    "codes_part": Bomb("read_codes", "codes", lambda path: _coded_folder(path, 3)),
    "arff_sparse": Bomb("table", "data.arff", lambda path: _sparse_arff(path, 3_000)),
    "csv_columns": Bomb("open_batches", "data.csv", lambda path: _wide_csv(path, 10_000)),
    "csv_table": Bomb("read_for_fit", "data.csv.gz", _gzipped_csv("a,b\n", "1,2\n", 2**24)),
    "parquet_table": Bomb("read_for_fit", "data.parquet", lambda path: _many_groups(path, 6)),
}
"""Files that are read, with 50 to 300 MB of memory, though they are small."""
