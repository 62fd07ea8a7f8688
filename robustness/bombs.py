"""Small files that would take gigabytes of memory if their readers trusted them.

`BOMBS` has each file with the reader that opens it. Every one has to end in an error of sdlgm with less than 2 GiB of
memory. `HONEST` has files that are read, and what their readers estimate.
"""

import base64
import gzip
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from robustness.memory import Measured
from robustness.memory import measure as measure_reader
from sdlgm.data import load_data, open_batches, open_rows, read_codes, read_counted, read_labelled
from sdlgm.data.code_folder import MANIFEST
from sdlgm.errors import SDLGMError

PIECE = 1 << 20


# Readers ---------------------------------------------------------------------------------------------------------------


def _read_rows(path: Path) -> None:
    rows = open_rows(path)
    assert rows is not None
    for part in rows.parts:
        rows.read(part)


def _read_batches(path: Path) -> None:
    for _ in open_batches(str(path)):
        pass


def _load_model(path: Path) -> None:
    from sdlgm import load

    load(path)


class CommandError(SDLGMError):
    """A command ended with a message."""


def _run(*arguments: str) -> None:
    """Run a command in this process, so that its memory is measured."""
    from typer.testing import CliRunner

    from sdlgm.cli import app

    result = CliRunner().invoke(app, arguments)
    if result.exit_code == 1:  # a named error; others are bugs
        raise CommandError(result.output)
    if result.exception is not None:
        raise result.exception


def _model_beside(path: Path) -> Path:
    """Return a fitted model for rows of one column."""
    from sdlgm import SDLGM

    model = path.parent / "model.sdlgm"
    if not model.exists():
        rows = np.random.default_rng(0).random((40, 1))
        SDLGM(n_components=4, max_active=2, hidden=(3,), max_iter=2, batch_size=20, random_state=0).fit(rows).save(model)
    return model


def _encode(path: Path) -> None:
    _run("encode", str(_model_beside(path)), str(path), "--out", str(path.parent / "codes.npz"))


def _encode_folder(path: Path) -> None:
    _run("encode", str(_model_beside(path)), str(path), "--out", str(path.parent / "codes"))


READERS: dict[str, Callable[[Path], object]] = {
    "load_data": lambda path: load_data(str(path)),
    "load_data_label": lambda path: load_data(str(path), label_column="label"),
    "table": lambda path: load_data(str(path)).table,
    "open_rows": _read_rows,
    "open_batches": _read_batches,
    "read_codes": read_codes,
    "read_counted": read_counted,
    "read_labelled": lambda path: read_labelled(path, ["label"]),
    "read_mulan": read_labelled,
    "load": _load_model,
    "encode": _encode,
    "encode_folder": _encode_folder,
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
    return measure_reader(str(bomb_or_reader) if bomb is None else bomb.reader, path)


# Writers ---------------------------------------------------------------------------------------------------------------


def _repeat(pattern: bytes, n_bytes: int) -> Iterator[bytes]:
    """Return a pattern repeated to a length, in pieces."""
    piece = pattern * max(1, PIECE // len(pattern))
    for _ in range(n_bytes // len(piece)):
        yield piece
    yield piece[: n_bytes % len(piece)]


def _deflate(pieces: Iterable[bytes], wbits: int) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, wbits)
    return b"".join([*map(packer.compress, pieces), packer.flush()])


def _write_gzip(path: Path, *pieces: Iterable[bytes]) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for piece in (piece for some in pieces for piece in some):
            file.write(piece)


def _npy_header(shape: tuple[int, ...], dtype: str) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


def _write_npz(path: Path, **members: Iterable[bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, pieces in members.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                for piece in pieces:
                    member.write(piece)


def _zeros(shape: tuple[int, ...], dtype: str) -> Iterator[bytes]:
    """Return an array of zeros as ``.npy``, in pieces."""
    yield _npy_header(shape, dtype)
    yield from _repeat(b"\0", int(np.prod(shape)) * np.dtype(dtype).itemsize)


def _array(array: np.ndarray) -> list[bytes]:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return [buffer.getvalue()]


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
        format=_array(np.array(b"csr")),
        shape=_array(np.array([300_000_000, 4])),
        data=_zeros((0,), "<i4"),
        indices=_zeros((0,), "<i4"),
        indptr=_zeros((300_000_001,), "|u1"),
    )


def _long_header(path: Path) -> None:
    """Write an array whose header states that it is itself four gigabytes long."""
    start = b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1)
    _write_npz(path, X=[start, *_repeat(b" ", 3 * 2**30)])


def _idx(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + b"".join(side.to_bytes(4, "big") for side in shape)


def _write_label_bomb(path: Path) -> None:
    path.write_bytes(_idx(2, 1, 1) + b"\0\1")
    labels = path.with_name(path.name.replace("images-idx3", "labels-idx1") + ".gz")
    _write_gzip(labels, [_idx(2**31)], _repeat(b"\0", 2**31))
    labels.rename(path.with_name(path.name.replace("images-idx3", "labels-idx1")))


def _write_columns(path: Path, columns: dict[str, pa.Array], n_groups: int = 1, **options: object) -> None:
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        for _ in range(n_groups):
            writer.write_table(table, row_group_size=len(table))


def _many_groups(path: Path) -> None:
    _write_columns(path, {"a": pa.array(np.zeros(1_000_000))}, 250, compression="zstd")


def _list_column(path: Path) -> None:
    """Write lists in few bytes, by copying a row group of run-length encoded zeros."""
    lists = pa.ListArray.from_arrays(pa.array([0, 20_000_000], pa.int32()), pa.array(np.zeros(20_000_000, np.int8)))
    _write_columns(path, {"a": lists}, 10, compression="zstd")


def _coded_folder(path: Path) -> None:
    """Write a part with a hundred million empty codes, whose row groups repeat one of a million."""
    path.mkdir()
    n_rows, n_groups = 1_000_000, 100
    empty = pa.ListArray.from_arrays(pa.array(np.zeros(n_rows + 1, np.int32)), pa.array([], pa.int32()))
    _write_columns(path / "part-000000.parquet", {"features": empty, "counts": empty}, n_groups)
    manifest = {"format": "sdlgm-codes", "version": 1, "n_components": 4, "n_rows": n_rows * n_groups, "n_parts": 1}
    (path / MANIFEST).write_text(json.dumps(manifest))


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


def _footer(names: list[bytes], physical: int, groups: bytes, n_rows: int) -> bytes:
    root = b"\x48" + _text(b"s") + b"\x15" + _number(len(names)) + b"\0"
    leaves = [b"\x15" + _number(physical) + b"\x25" + _number(0) + b"\x18" + _text(name) + b"\0" for name in names]
    schema = _list([root, *leaves])
    return b"\x15" + _number(1) + b"\x19" + schema + b"\x16" + _number(n_rows) + b"\x19" + groups + b"\0"


def _write_parquet(path: Path, body: bytes, footer: bytes) -> None:
    path.write_bytes(b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1")


def _lying_page(path: Path) -> None:
    """Write a page of 2 GiB in a column that states a few hundred bytes."""
    n_rows, size = 10, 2**31 - 8
    content = _deflate(_repeat(b"\0", size), 31)
    data = b"\x15" + _number(n_rows) + b"\x15" + _number(0) + b"\x15" + _number(3) + b"\x15" + _number(3) + b"\0"
    page = b"\x15" + _number(0) + b"\x15" + _number(size) + b"\x15" + _number(len(content)) + b"\x2c" + data + b"\0"
    body = page + content
    numbers = [n_rows, 80, len(body)]
    # type, encodings, path, codec, number of values, both sizes, offset of the first page
    meta = b"\x15" + _number(5) + b"\x19" + _list([_number(0)], 5) + b"\x19" + _list([_text(b"a")], 8) + b"\x15"
    meta += _number(2) + b"".join(b"\x16" + _number(value) for value in numbers) + b"\x26" + _number(4) + b"\0"
    chunk = b"\x26" + _number(4) + b"\x1c" + meta + b"\0"
    group = b"\x19" + _list([chunk]) + b"\x16" + _number(80) + b"\x16" + _number(n_rows) + b"\0"
    _write_parquet(path, body, _footer([b"a"], 5, _list([group]), n_rows))


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
    table = pa.table({"a": np.zeros(2, np.float32)})
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"ARROW:schema": base64.b64encode(bytes(schema)).decode()})


def _delta_texts(path: Path) -> None:
    """Write texts of a megabyte that repeat each other, stored as differences."""
    texts = pa.array(["x" * PIECE] * 2_000)
    columns = {"a": pa.array(np.zeros(2_000)), "label": texts}
    encoding = {"label": "DELTA_BYTE_ARRAY"}
    table = pa.table(columns)
    with pq.ParquetWriter(path, table.schema, use_dictionary=False, column_encoding=encoding) as writer:
        writer.write_table(table)


# Text files.

ARFF = "@relation r\n"


def _sparse_arff(path: Path) -> None:
    n = 20_000
    attributes = "".join(f"@attribute a{i} numeric\n" for i in range(n))
    path.write_text(f"{ARFF}{attributes}@data\n" + "{0 1}\n" * n)


def _nominal_arff(path: Path) -> None:
    values = ",".join(map(str, range(10_000)))
    path.write_text(f"{ARFF}@attribute {'n' * 1_000_000} {{{values}}}\n@data\n0\n")


def _gzipped_arff(path: Path) -> None:
    _write_gzip(path, [ARFF.encode(), b"@attribute a numeric\n@data\n"], _repeat(b"1\n", 2**31))


def _beside_arff(write: Callable[[Path], object]) -> Callable[[Path], None]:
    """Write an ARFF file with a hostile XML file beside it."""

    def write_both(path: Path) -> None:
        path.write_text(f"{ARFF}@attribute wet {{0,1}}\n@attribute a numeric\n@data\n1,2\n")
        write(path.with_suffix(".xml"))

    return write_both


def _nested_xml(path: Path) -> None:
    path.write_bytes(b"<labels xmlns='" + b"u" * 10_000 + b"'>" + b"<a>" * 2_000_000)


def _many_columns(path: Path) -> None:
    names = np.array([f"{i:x}" for i in range(2_000_000)])
    path.write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")


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
    "npz_bytes": Bomb("load_data", "data.npz", lambda path: _write_npz(path, X=_zeros((2**31 // 8, 8), "|u1"))),
    "npz_doubles": Bomb("load_data", "data.npz", lambda path: _write_npz(path, X=_zeros((2**28, 1), "<f8"))),
    "npz_counts": Bomb(
        "read_counted",
        "data.npz",
        lambda path: _write_npz(path, X=_zeros((10**8, 1), "|u1"), counts=_zeros((10**8, 1), "|u1")),
    ),
    "npz_header": Bomb("load_data", "data.npz", _long_header),
    "idx_gzipped": Bomb(
        "load_data",
        "images-idx3-ubyte.gz",
        lambda path: _write_gzip(path, [_idx(2**21, 32, 32)], _repeat(b"\0", 2**31)),
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
    "parquet_footer": Bomb("open_batches", "data.parquet", _empty_chunks),
    "parquet_arrow_schema": Bomb("open_batches", "data.parquet", _shared_name),
    "parquet_delta_texts": Bomb("load_data_label", "data.parquet", _delta_texts),
    "codes_part": Bomb("read_codes", "codes", _coded_folder),
    "arff_sparse": Bomb("load_data", "data.arff", _sparse_arff),
    "arff_nominal": Bomb("load_data", "data.arff", _nominal_arff),
    "arff_gzipped": Bomb("load_data", "data.arff", _gzipped_arff),
    "xml_gzipped": Bomb(
        "read_mulan", "data.arff", _beside_arff(lambda path: _write_gzip(path, _repeat(b" ", 2**31)))
    ),
    "xml_nested": Bomb("read_mulan", "data.arff", _beside_arff(_nested_xml)),
    "csv_columns": Bomb("load_data", "data.csv", _many_columns),
    "csv_columns_encode": Bomb("encode", "data.csv", _many_columns),
    "model_tensors": Bomb("load", "model.sdlgm", _many_tensors),
}
"""Hostile files by name."""
