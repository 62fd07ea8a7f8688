import json
import multiprocessing
import random
import signal
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sdlgm.data import CodedParts, open_rows, read_codes
from sdlgm.data.code_folder import CODES
from sdlgm.errors import DataError

N_COLUMNS = 12


@pytest.fixture
def rows(tmp_path):
    """Fifty rows in two files, with row groups of four."""
    (tmp_path / "rows").mkdir()
    values = np.random.default_rng(0).random((50, 3))
    for name, part in (("a", values[:23]), ("b", values[23:])):
        table = pa.table({f"c{i}": part[:, i] for i in range(3)})
        pq.write_table(table, tmp_path / "rows" / f"{name}.parquet", row_group_size=4)
    opened = open_rows(tmp_path / "rows")
    assert opened is not None
    return opened


def code(rows) -> sp.csr_matrix:
    """Return codes in which each row depends on one row of the data."""
    values = rows[0 : len(rows)]
    dense = np.zeros((len(values), N_COLUMNS), int)
    dense[np.arange(len(values)), (values[:, 0] * N_COLUMNS).astype(int)] = 1 + (values[:, 1] * 3).astype(int)
    dense[values[:, 2] < 0.2] = 0
    return sp.csr_matrix(dense)


def test__encode__parts__are_read_back_in_order(rows, tmp_path):
    advanced = []
    CodedParts(tmp_path / "codes", rows, N_COLUMNS, {"model": "m"}).encode(code, advanced.append)
    assert sum(advanced) == 50
    codes = read_codes(tmp_path / "codes")
    np.testing.assert_array_equal(codes.toarray(), code(rows).toarray())
    assert len(list((tmp_path / "codes").glob("part-*.parquet"))) == len(rows.parts) == 13


def test__encode__again__does_only_what_is_missing(rows, tmp_path):
    coded = CodedParts(tmp_path / "codes", rows, N_COLUMNS, {"model": "m"})
    coded.encode(code)
    before = {path.name: path.read_bytes() for path in (tmp_path / "codes").iterdir()}
    coded.path(3).unlink()
    (tmp_path / "codes" / ".sdlgm-left____.parquet").write_bytes(b"half")
    calls = []

    def noted(part):
        calls.append(len(part))
        return code(part)

    CodedParts(tmp_path / "codes", rows, N_COLUMNS, {"model": "m"}).encode(noted)
    assert calls == [4]
    assert {path.name: path.read_bytes() for path in (tmp_path / "codes").iterdir()} == before


def work(folder, rows, most: int) -> None:
    """Encode ``most`` - 1 parts, and wait to be killed at the next."""
    begun = 0

    def slowly(part) -> sp.csr_matrix:
        nonlocal begun
        begun += 1
        time.sleep(0.01 if begun < most else 600)
        return code(part)

    CodedParts(folder, rows, N_COLUMNS, {"model": "m"}).encode(slowly)


@pytest.mark.skipif(sys.platform != "linux", reason="fork")
def test__encode__killed_again_and_again__equals_one_run(rows, tmp_path):
    CodedParts(tmp_path / "once", rows, N_COLUMNS, {"model": "m"}).encode(code)
    context, rng = multiprocessing.get_context("fork"), random.Random(1)
    for _ in range(6):  # there are more parts than two for each
        process = context.Process(target=work, args=(tmp_path / "often", rows, 3))
        process.start()
        time.sleep(rng.uniform(0.0, 0.06))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    CodedParts(tmp_path / "often", rows, N_COLUMNS, {"model": "m"}).encode(code)
    once, often = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("once", "often"))
    assert once == often


def test__folder__of_other_codes_or_other_things__is_refused(rows, tmp_path):
    CodedParts(tmp_path / "codes", rows, N_COLUMNS, {"model": "m"}).encode(code)
    with pytest.raises(DataError, match="another model"):
        CodedParts(tmp_path / "codes", rows, N_COLUMNS, {"model": "n"}).encode(code)
    fewer = rows.with_parts(rows.parts[:3])
    with pytest.raises(DataError, match="another data"):
        CodedParts(tmp_path / "codes", fewer, N_COLUMNS, {"model": "m"}).encode(code)
    being_written = tmp_path / "rows" / ".sdlgm-abc.parquet"
    being_written.touch()
    with pytest.raises(DataError, match="not empty"):
        CodedParts(tmp_path / "rows", rows, N_COLUMNS, {"model": "m"}).encode(code)
    assert being_written.exists()
    with pytest.raises(ValueError, match="shape"):
        CodedParts(tmp_path / "wrong", rows, N_COLUMNS, {}).encode(lambda part: code(part)[:1])


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", "not json", json.dumps({"format": "sdlgm-codes", "version": 9}), "[" * 100_000, "1" * 2_000_000],
)
def test__read_codes__damaged_manifest__is_a_named_error(rows, tmp_path, content):
    CodedParts(tmp_path / "codes", rows, N_COLUMNS, {}).encode(code)
    (tmp_path / "codes" / CODES.manifest).write_text(content)
    with pytest.raises(DataError):
        read_codes(tmp_path / "codes")


@pytest.mark.parametrize(
    "table",
    [
        {"features": [[0], [1]]},
        {"features": [[0], [1]], "counts": [[1], []]},
        {"features": [[0], [99]], "counts": [[1], [1]]},
        {"features": [[0], [-1]], "counts": [[1], [1]]},
        {"features": [0, 1], "counts": [1, 1]},
        {"features": [["a"], []], "counts": [[1], []]},
    ],
)
def test__read_codes__damaged_part__is_a_named_error(rows, tmp_path, table):
    coded = CodedParts(tmp_path / "codes", rows, N_COLUMNS, {})
    coded.encode(code)
    pq.write_table(pa.table(table), coded.path(0))
    with pytest.raises(DataError):
        read_codes(tmp_path / "codes")


def test__read_codes__missing_parts__says_how_to_get_them(rows, tmp_path):
    coded = CodedParts(tmp_path / "codes", rows, N_COLUMNS, {})
    coded.encode(code)
    coded.path(2).unlink()
    with pytest.raises(DataError, match="12 of 13 parts"):
        read_codes(tmp_path / "codes")
    with pytest.raises(DataError, match="holds no codes"):
        read_codes(tmp_path / "rows")


def test__encode__killed_while_the_manifest_is_written__can_be_started_again(rows, tmp_path):
    folder = tmp_path / "codes"
    folder.mkdir()
    (folder / ".sdlgm-abcdefgh.json").write_text("{")
    CodedParts(folder, rows, N_COLUMNS, {}).encode(code)
    assert read_codes(folder).shape[0] == len(rows)


@pytest.mark.parametrize(
    "columns",
    [
        {"features": pa.array([[0]], pa.list_(pa.int64())), "counts": pa.array([[1]], pa.list_(pa.int32()))},
        {"features": pa.array([[0]], pa.list_(pa.int32())), "counts": pa.array([[1.5]])},
        {"features": pa.array([[0]], pa.list_(pa.int32())), "counts": pa.array([[0]], pa.list_(pa.int32()))},
        {"features": pa.array([[0]], pa.list_(pa.int32())), "counts": pa.array([[-1]], pa.list_(pa.int32()))},
        {name: pa.array([[0] * 1000], pa.list_(pa.int32())) for name in ("features", "counts")},
    ],
)
def test__read_codes__part_that_no_encoder_writes__is_refused(rows, tmp_path, columns):
    folder = tmp_path / "codes"
    coded = CodedParts(folder, rows, N_COLUMNS, {})
    coded.encode(code)
    pq.write_table(pa.table(columns), coded.path(0))
    with pytest.raises(DataError, match="part-000000"):
        read_codes(folder)
