import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import load_data, open_batches, open_rows, parquet_memory, read_table
from sdlgm.data.thrift import list_lengths
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


def test__parquet__time_differences__are_no_numbers(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "t": pa.array([1, 2], pa.duration("s"))}), path)
    with pytest.raises(DataError, match="column 't' holds duration"):
        load_data(str(path))


def test__parquet__large_schema_of_arrow__is_left_out_unless_it_matters(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_memory, "_SCHEMA_DIVISOR", 1e-9)
    path = tmp_path / "a.parquet"
    pd.DataFrame({"a": [1.0, 2.0], "b": pd.Categorical(["x", "y"])}).to_parquet(path)
    assert load_data(str(path), label_column="b").labels.tolist() == ["x", "y"]
    pd.DataFrame({"a": [1.0, 2.0], "t": pd.to_timedelta([1, 2], unit="s")}).to_parquet(path)
    with pytest.raises(DataError, match="time differences"):
        load_data(str(path))


def test__parquet__label_column_without_any_label__is_read(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0], "label": pa.nulls(2)}), path)
    assert load_data(str(path), label_column="label").labels.tolist() == ["(none)", "(none)"]


def test__parquet__footer_with_many_columns__is_counted(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({f"c{i}": [1.0, 2.0] for i in range(50)}), path, row_group_size=1)
    with path.open("rb") as file:
        content = file.read()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    # The other lists are the schema, its root included, the metadata of the file and the orders of the columns.
    *_, (n_others, n_chunks) = list_lengths(footer, 4, 1)
    assert n_chunks == 100
    assert 51 <= n_others <= 110
    monkeypatch.setattr(parquet_memory, "_FOOTER_RATIO", 2**40)
    assert load_data(str(path)).X.shape == (2, 50)
    monkeypatch.setattr(parquet_memory, "_COLUMN_MEMORY", 2**31)
    with pytest.raises(DataError, match="fewer columns or row groups"):
        load_data(str(path))
