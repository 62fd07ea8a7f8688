import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import load_data, open_batches, open_rows, read_table
from sdlgm.errors import DataError


def test__parquet__missing_labels__have_a_name(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "kind": ["x", None]}), tmp_path / "data.parquet")
    assert list(read_table(tmp_path / "data.parquet", label_column="kind").labels) == ["x", "(none)"]


def test__parquet__label_of_long_texts__is_in_memory_once(tmp_path):
    """A dictionary-encoded column of a small file can repeat a long text without limit."""
    text = "x" * 100_000
    table = pa.table({"a": np.arange(3000.0), "label": pa.array([text] * 2999 + [None]).dictionary_encode()})
    pq.write_table(table, tmp_path / "t.parquet")
    tracemalloc.start()
    data = read_table(tmp_path / "t.parquet", label_column="label")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.labels is not None
    assert list(data.labels[-2:]) == [text, "(none)"]
    assert peak < 20e6


def test__parquet__nested_columns__are_refused_before_they_are_read(tmp_path, monkeypatch):
    pq.write_table(pa.table({"a": [1.0, 2.0], "b": [[1], [2, 3]]}), tmp_path / "t.parquet")
    for reader in ("read", "read_row_group", "iter_batches"):
        monkeypatch.setattr(pq.ParquetFile, reader, lambda *_args, **_kwargs: pytest.fail("it was read"))
    with pytest.raises(DataError, match="'b' holds list"):
        read_table(tmp_path / "t.parquet")


def test__parquet__several_row_groups__are_one_table(tmp_path):
    kinds = ["x", "yy", None] * 5
    pq.write_table(pa.table({"a": np.arange(15.0), "kind": kinds}), tmp_path / "t.parquet", row_group_size=4)
    data = read_table(tmp_path / "t.parquet", label_column="kind")
    np.testing.assert_array_equal(data.X[:, 0], np.arange(15.0))
    assert data.labels is not None
    assert list(data.labels) == ["x", "yy", "(none)"] * 5
    assert len({id(label) for label in data.labels}) == 3


def test__parquet__whole_batches_and_parts__have_the_same_rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 2))
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1]}), tmp_path / "t.parquet", row_group_size=7)
    rows = open_rows(tmp_path / "t.parquet")
    assert rows is not None
    np.testing.assert_array_equal(load_data(str(tmp_path / "t.parquet")).X, X)
    np.testing.assert_array_equal(np.concatenate([rows.read(part) for part in rows.parts]), X)
    batches = [np.column_stack(list(batch.columns)) for batch in open_batches(str(tmp_path / "t.parquet"), size=20)]
    np.testing.assert_array_equal(np.concatenate(batches), X)
