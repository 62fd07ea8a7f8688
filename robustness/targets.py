"""Readers of files from unknown authors. Each target reads bytes and may raise errors of sdlgm only.

tests/robustness/test_targets.py reads a few damaged files with each target, and `robustness.fuzz` as many as there is
time for.
"""

import contextlib
import functools
import gzip
import json
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from robustness.bombs import read_batches, read_rows
from robustness.model_targets import BINARY, MODEL_TARGETS
from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, SDLGMError, load
from sdlgm.data import (
    CodedParts,
    TableOptions,
    load_data,
    open_rows,
    origin_arrays,
    read_codes,
    read_counted,
    read_for_fit,
    read_labelled,
    read_origins,
    windows,
)
from sdlgm.data.code_folder import CODES
from sdlgm.errors import DataError

RNG = np.random.default_rng(0)
X = RNG.random((12, 4))
SMALL = {"hidden": (3,), "max_iter": 2, "batch_size": 6, "random_state": 0}


@dataclass(frozen=True)
class Target:
    """A reader, the ending of its files, and how to make a valid file."""

    ending: str
    make: Callable[[Path], object]
    read: Callable[[Path], object]

    @functools.cached_property
    def valid(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"valid{self.ending}"
            self.make(path)
            return path.read_bytes()

    def read_bytes(self, content: bytes) -> None:
        """Read the bytes as a file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"fuzzed{self.ending}"
            path.write_bytes(content)
            self.read(path)

    def __call__(self, content: bytes) -> None:
        """Read the bytes as a file, and ignore errors of sdlgm."""
        with contextlib.suppress(SDLGMError):
            self.read_bytes(content)


def _estimator(kind: type, **options: object) -> Callable[[Path], object]:
    counts = RNG.integers(2, size=(12, 2))

    def make(path: Path) -> None:
        model = kind(**SMALL, **options)
        (model.fit(X) if kind is SDLGM else model.fit(X, counts)).save(path)

    return make


def _checkpoint(path: Path) -> None:
    folder = path.parent / "checkpoint"
    SDLGM(n_components=4, max_active=2, **SMALL, checkpoint_dir=folder).fit(X)
    (folder / "checkpoint.safetensors").rename(path)


TABLE = "t,k,b,x\n2020-01-01,u,true,1\n2020-01-02,v,-,2.5\n2020-01-03,u,false,-\n"


def _read_table(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_for_fit(str(path), TableOptions(time_column="t", window=2))


def _parquet_table(path: Path) -> None:
    columns = {"t": [1, 2, 3], "k": ["u", None, "v"], "b": [True, None, False], "x": [1.5, None, 2]}
    pq.write_table(pa.table(columns), path)


def _codes_of_series(path: Path) -> None:
    made = windows(pa.table({"t": [1, 2, 3, 4], "g": list("uuvv"), "x": [1, 2, 3, 4]}), length=2, group="g")
    arrays: dict[str, Any] = origin_arrays(made.origins)
    np.savez(path, **arrays)


def _resume(path: Path) -> None:
    folder = path.parent / "checkpoint"
    folder.mkdir()
    path.rename(folder / "checkpoint.safetensors")
    SDLGM(n_components=4, max_active=2, **SMALL, checkpoint_dir=folder, resume=True).fit(X)


def _read_and_use(path: Path) -> None:
    model = load(path)
    if isinstance(model, SDLGM):
        model.transform(X)
    else:
        model.predict(X)


def _manifest(path: Path) -> None:
    np.save(path.parent / "rows.npy", X)
    rows = open_rows(path.parent / "rows.npy")
    assert rows is not None
    coded = CodedParts(path.parent / "codes", rows, 3, {})
    coded.encode(lambda part: sp.csr_matrix(np.eye(3, dtype=int)[np.arange(len(part)) % 3]))
    path.write_bytes((path.parent / "codes" / CODES.manifest).read_bytes())


def _read_manifest(path: Path) -> None:
    folder = path.parent / "codes"
    folder.mkdir()
    path.rename(folder / CODES.manifest)
    _write_part(folder / "part-000000.parquet", [[0], [1], [2]] * 4, [[1]] * 12)
    read_codes(folder)


def _write_part(path: Path, features: list[list[int]], counts: list[list[int]]) -> None:
    columns = {"features": features, "counts": counts}
    pq.write_table(pa.table({name: pa.array(lists, pa.list_(pa.int32())) for name, lists in columns.items()}), path)


def _read_coded_part(path: Path) -> None:
    folder = path.parent / "codes"
    folder.mkdir()
    path.rename(folder / "part-000000.parquet")
    manifest = {"format": "sdlgm-codes", "version": 1, "n_components": 4, "n_rows": 3, "n_parts": 1}
    (folder / CODES.manifest).write_text(json.dumps(manifest))
    read_codes(folder)


@functools.cache
def _sender() -> SDLGM:
    """Return the model of which the wire targets read files and messages."""
    return SDLGM(n_components=8, max_active=3, likelihood="bernoulli", **SMALL).fit(BINARY)


def _lossless(path: Path) -> None:
    path.write_bytes(_sender().compress(BINARY, lossless=True))


def _read_wire(path: Path) -> None:
    list(_sender().decompress_batches(path))


def _message(*, checksum: bool) -> tuple[Callable[[Path], object], Callable[[Path], object]]:
    """Return how to make and to read one message."""

    def make(path: Path) -> None:
        path.write_bytes(_sender().to_messages(BINARY[:1], checksum=checksum)[0])

    return make, lambda path: _sender().from_messages([path.read_bytes()], checksum=checksum)


def _text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


def _arff(path: Path) -> object:
    path.with_suffix(".xml").write_text(LABELS)
    return read_labelled(path)


def _arff_labels(path: Path) -> object:
    arff = path.with_suffix(".arff")
    arff.write_text(f"{ARFF}{DENSE}")
    return read_labelled(arff)


def _parquet(path: Path) -> None:
    pq.write_table(pa.table({"a": X[:, 0], "b": [1] * 12}), path)


def _parquet_lists(path: Path) -> None:
    pq.write_table(pa.table({"a": [[1, 2], [3]], "b": [1.0, 2.0]}), path)


def _read_lists(path: Path) -> None:
    """Read a file with lists, which is refused, and go on to the other entries if it is not."""
    for read in (read_rows, read_batches, lambda path: load_data(str(path))):
        with contextlib.suppress(DataError):
            read(path)


def _parquet_texts(path: Path) -> None:
    pq.write_table(pa.table({"a": X[:, 0], "label": list("abcabcabcabc")}), path)


def _sparse(kind: str) -> Callable[[Path], object]:
    return lambda path: sp.save_npz(path, getattr(sp.csr_matrix(X[:, :2]), f"to{kind}")())


def _read_sparse(path: Path) -> None:
    """Read a matrix as data and as codes. Some formats are refused."""
    for read in (lambda path: load_data(str(path)), read_codes):
        with contextlib.suppress(DataError):
            read(path)


IDX = b"\0\0\x08\x02\0\0\0\x03\0\0\0\x02" + bytes(range(6))


def _idx(path: Path) -> None:
    path.write_bytes(IDX)


def _gzipped(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(gzip.compress(content, mtime=0))


ARFF = """@relation r
@attribute wet {0,1}
@attribute 'a b' numeric
@attribute kind {x,'y z'}
@data
"""
DENSE = """1, 2.5, x
0, ?, 'y z'
"""
SPARSE = """{0 1, 1 3}
{2 'y z', 1 ?}
"""
LABELS = "<labels xmlns='http://mulan.sourceforge.net/labels'><label name='wet'></label></labels>"

TARGETS = {
    "model": Target(".sdlgm", _estimator(SDLGM, n_components=4, max_active=2), _read_and_use),
    "classifier": Target(".sdlgm", _estimator(SDLGMClassifier, n_trees=2), _read_and_use),
    "counter": Target(".sdlgm", _estimator(SDLGMCounter), _read_and_use),
    "checkpoint": Target(".safetensors", _checkpoint, _resume),
    "codes": Target(".npz", lambda path: sp.save_npz(path, sp.csr_matrix(np.eye(4, dtype=int))), read_codes),
    "codes_manifest": Target(".json", _manifest, _read_manifest),
    "codes_part": Target(
        ".parquet", lambda path: _write_part(path, [[0], [1, 2], []], [[1], [1, 3], []]), _read_coded_part
    ),
    "wire": Target(".sdl", lambda path: path.write_bytes(_sender().compress(BINARY)), _read_wire),
    "wire_lossless": Target(".sdl", _lossless, _read_wire),
    "message": Target(".bin", *_message(checksum=False)),
    "message_checksum": Target(".bin", *_message(checksum=True)),
    "npy": Target(".npy", lambda path: np.save(path, X), lambda path: load_data(str(path))),
    "npz": Target(".npz", lambda path: np.savez(path, X=X, counts=np.ones((12, 2))), read_counted),
    "rows": Target(".npy", lambda path: np.save(path, X), read_rows),
    "parquet": Target(".parquet", _parquet, read_rows),
    "parquet_whole": Target(".parquet", _parquet, lambda path: load_data(str(path))),
    "parquet_batches": Target(".parquet", _parquet, read_batches),
    "npy_batches": Target(".npy", lambda path: np.save(path, np.asfortranarray(X)), read_batches),
    "npz_sparse": Target(".npz", lambda path: sp.save_npz(path, sp.csr_matrix(X)), read_batches),
    "csv_batches": Target(".csv", _text("a,b\n1,2\n3,4.5\n"), read_batches),
    "csv": Target(".csv", _text("a,b,wet\n1,2,0\n3,4,1\n"), lambda path: read_labelled(path, ["wet"])),
    "csv_gzipped": Target(
        ".csv.gz", _gzipped(b"a,k\n1,u\n2.5,v\n"), lambda path: load_data(str(path), label_column="k")
    ),
    "csv_table": Target(".csv", _text(TABLE), _read_table),
    "csv_table_gzipped": Target(".csv.gz", _gzipped(TABLE.encode()), _read_table),
    "parquet_table": Target(".parquet", _parquet_table, _read_table),
    "codes_series": Target(".npz", _codes_of_series, lambda path: read_origins(path, 2, 1)),
    "idx": Target("-idx2-ubyte", _idx, lambda path: load_data(str(path))),
    "arff": Target(".arff", _text(f"{ARFF}{DENSE}"), _arff),
    "arff_sparse": Target(".arff", _text(f"{ARFF}{SPARSE}"), _arff),
    "arff_labels": Target(".xml", _text(LABELS), _arff_labels),
    "arff_gzipped": Target(".arff", _gzipped(f"{ARFF}{SPARSE}".encode()), _arff),
    "arff_labels_gzipped": Target(".xml", _gzipped(LABELS.encode()), _arff_labels),
    "idx_gzipped": Target("-idx2-ubyte.gz", _gzipped(IDX), lambda path: load_data(str(path))),
    "parquet_lists": Target(".parquet", _parquet_lists, _read_lists),
    "parquet_texts": Target(".parquet", _parquet_texts, lambda path: load_data(str(path), label_column="label")),
    **{f"sparse_{kind}": Target(".npz", _sparse(kind), _read_sparse) for kind in ("csc", "coo", "dia", "bsr")},
    **{name: Target(*parts) for name, parts in MODEL_TARGETS.items()},
}
