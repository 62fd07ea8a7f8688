"""Limits of the memory that readers take."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm import load
from sdlgm._limits import DEFAULT_MEMORY, allowed_memory, check_memory, max_memory
from sdlgm.data import load_data
from sdlgm.data.thrift import read_struct
from sdlgm.errors import DataError, ModelFileError


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("", DEFAULT_MEMORY),
        ("1000", 1000),
        ("4G", 2**32),
        ("4g", 2**32),
        ("1.5 GiB", 3 * 2**29),
        ("2TB", 2**41),
        (" 64 k ", 2**16),
    ],
)
def test__max_memory__size__is_parsed(monkeypatch, text, n_bytes):
    monkeypatch.setenv("SDLGM_MAX_MEMORY", text)
    assert max_memory() == n_bytes


@pytest.mark.parametrize("text", ["0", "-1", "4X", "G", "much", "1e9", "nan", "4G4G"])
def test__max_memory__no_size__is_a_named_error(monkeypatch, tmp_path, text):
    monkeypatch.setenv("SDLGM_MAX_MEMORY", text)
    with pytest.raises(DataError, match="SDLGM_MAX_MEMORY is .*, not a size"):
        max_memory()
    np.savez(tmp_path / "data.npz", np.zeros((2, 2)))
    with pytest.raises(DataError, match="not a size"):
        load_data(str(tmp_path / "data.npz"))


def test__max_memory__unset__leaves_room_for_imports(monkeypatch):
    monkeypatch.delenv("SDLGM_MAX_MEMORY", raising=False)
    assert max_memory() == 3 * 2**29


def test__allowed_memory__large_file__is_eight_times_its_size(monkeypatch):
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")
    assert allowed_memory(10) == 2**20
    assert allowed_memory(2**20) == 2**23


def test__check_memory__too_much__names_file_size_limit_and_remedy(monkeypatch):
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")
    check_memory("some.npz", 2**20, 0)
    with pytest.raises(DataError) as error:
        check_memory("some.npz", 3 * 2**29, 0, "cut it")
    assert str(error.value) == (
        "some.npz: takes 1.5 GiB of memory to read, more than 1.0 MiB; cut it, or set SDLGM_MAX_MEMORY to a larger "
        "size, such as 8G"
    )


def test__load__long_header__is_refused(monkeypatch, tmp_path):
    header = b"{" + b" " * 100_000 + b"}"
    (tmp_path / "model.sdlgm").write_bytes(len(header).to_bytes(8, "little") + header)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "6M")
    with pytest.raises(ModelFileError, match="takes 6.1 MiB of memory"):
        load(tmp_path / "model.sdlgm")


def test__load_data__texts_of_a_label_column__are_counted(monkeypatch, tmp_path):
    texts = [f"{i:05d}" for i in range(20_000)]
    pq.write_table(pa.table({"a": np.zeros(20_000), "label": texts}), tmp_path / "data.parquet")
    (tmp_path / "data.csv").write_text("a,label\n" + "".join(f"1,{text}\n" for text in texts))
    for name in ("data.parquet", "data.csv"):
        monkeypatch.setenv("SDLGM_MAX_MEMORY", "4M")
        with pytest.raises(DataError, match="MiB of memory to read"):
            load_data(str(tmp_path / name), label_column="label")
        monkeypatch.setenv("SDLGM_MAX_MEMORY", "20M")
        labels = load_data(str(tmp_path / name), label_column="label").labels
        assert labels is not None
        assert list(labels) == texts


def test__read_struct__page_header__has_its_fields():
    # type 0, sizes 300 and 20, no checksum, and a data page of ten values with the encoding 8 and a text
    page = bytes([0x15, 20, 0x15, 16, 0x28, 2, 65, 66, 0x00])
    content = bytes([0x15, 0, 0x15, 0xD8, 0x04, 0x15, 40, 0x2C]) + page + bytes([0x00, 99])
    fields, end = read_struct(content)
    assert fields == {1: 0, 2: 300, 3: 20, 5: {1: 10, 2: 8, 4: None}}
    assert end == len(content) - 1


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\x15", IndexError),
        (b"\x18\x7f", IndexError),
        (b"\x15\x02\x05\x02\x02\x00", ValueError),  # a field twice
        (b"\x1c" * 40, ValueError),
        (b"\x1f\x00", ValueError),
        (b"\x15" + b"\xff" * 12, ValueError),
    ],
)
def test__read_struct__damaged__raises(content, error):
    with pytest.raises(error):
        read_struct(content)
