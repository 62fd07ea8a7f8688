"""Tables of CSV and parquet files as they are, and rows of files for models."""

import gzip
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from sdlgm.data import (
    CodesWriter,
    EncodedRows,
    Schema,
    TableOptions,
    Windows,
    load_for_model,
    open_for_model,
    origin_arrays,
    read_codes,
    read_for_fit,
    read_for_model,
    read_origins,
    windows,
    write_columns,
)
from sdlgm.data.table_files import open_table
from sdlgm.errors import DataError

# The traps of a real trace: a time that is no ISO text, text, `-`, numbers written in two ways, an id, an empty column.
TRACE = "".join(
    [
        "Timestamp,Mode,Level,Rate,Ping,Cell,Served\n",
        *(
            f"2019.11.23_12.27.{i:02d},{'5G' if i % 3 else 'LTE'},{'-' if i == 4 else '-100' if i % 2 else '-100.0'},"
            f"{i * i},-,C{i:03d},{'true' if i % 2 else 'false'}\n"
            for i in range(30)
        ),
    ]
)
LEVEL = [np.nan if i == 4 else -100 for i in range(30)]


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.name.endswith(".gz") else text.encode())
    return str(path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.tsv.gz", "t.csv semicolons", "t.parquet", "t.parquet text"])
@pytest.mark.filterwarnings("ignore:these columns have no values")
def test__read_for_fit__trace__is_read_as_it_is(tmp_path, name):
    text = TRACE.replace(",", "\t") if "tsv" in name else TRACE.replace(",", ";") if "semi" in name else TRACE
    path = tmp_path / name.partition(" ")[0]
    if "parquet" in name:
        table = open_table(write(tmp_path / "t.csv", TRACE)).read()
        if "text" not in name:
            table = pa.Table.from_pandas(pd.read_csv(tmp_path / "t.csv", na_values="-"))
        pq.write_table(table, path, row_group_size=7)
    else:
        write(path, text)
    options = TableOptions(time_column="Timestamp", drop=("Cell",))
    rows = read_for_fit(str(path), options)
    assert isinstance(rows, EncodedRows)
    assert rows.schema.feature_names == ("Mode", "Level", "Rate", "Served")
    assert rows.schema.kinds == ("category", "number", "number", "boolean")
    expected = [[float(i % 3 == 0), LEVEL[i], i * i, i % 2] for i in range(30)]
    np.testing.assert_array_equal(rows.matrix, expected)
    assert set(rows.schema.ignored) == {"Ping", "Cell"}
    # Later files may lack what is ignored, and come in batches.
    model = SimpleNamespace(schema_=rows.schema)
    parts = open_for_model(str(path), model).batches
    np.testing.assert_array_equal(np.concatenate([rows.schema.encode(part) for part in parts]), expected)
    made = read_for_fit(str(path), replace(options, window=3, stride=3))
    assert isinstance(made, Windows)
    assert made.shape == (10, 12)
    assert made.inverse(made.matrix).column("Timestamp")[3].as_py() == pd.Timestamp("2019-11-23 12:27:03")


@pytest.mark.parametrize(
    ("options", "label", "message"),
    [
        (TableOptions(drop=("Cells",)), None, r"t\.csv: has no column 'Cells'; its columns are 'Timestamp', 'Mode'"),
        (TableOptions(columns=("Rate", "x")), None, "has no column 'x'"),
        (TableOptions(), "kind", "has no column 'kind'"),
        (TableOptions(drop=("Timestamp",)), None, r"t\.csv: column 'Cell' holds text with 30 .*--drop"),
        (TableOptions(drop=("Cell",)), None, r"t\.csv: column 'Timestamp' .* looks like dates; .*--time-column"),
        (TableOptions(columns=("Rate",), window=31), None, r"t\.csv: no series has 31 rows"),
    ],
)
def test__read_for_fit__impossible__names_file_column_and_remedy(tmp_path, options, label, message):
    with pytest.raises(DataError, match=message):
        read_for_fit(write(tmp_path / "t.csv", TRACE), options, label)


def test__read_for_fit__decimal_commas_among_semicolons__are_points(tmp_path):
    rows = read_for_fit(write(tmp_path / "t.csv", "a;b\n1,5;x\n-2,25;y\n3;x\n-;x\n"), TableOptions())
    np.testing.assert_array_equal(rows.matrix, [[1.5, 0], [-2.25, 1], [3, 0], [np.nan, 0]])


def test__read_for_fit__without_a_header__has_made_names(tmp_path):
    rows = read_for_fit(write(tmp_path / "t.csv.gz", "0.5,-\n0.25,2\n"), TableOptions())
    assert rows.schema.feature_names == ("f0", "f1")
    np.testing.assert_array_equal(rows.matrix, [[0.5, np.nan], [0.25, 2]])


def test__read_for_fit__other_sources__have_options_too(tmp_path):
    np.save(tmp_path / "t.npy", np.arange(12.0).reshape(6, 2))
    made = read_for_fit(str(tmp_path / "t.npy"), TableOptions(window=2, stride=2))
    np.testing.assert_array_equal(made.matrix, [[0, 2, 1, 3], [4, 6, 5, 7], [8, 10, 9, 11]])
    model = SimpleNamespace(schema_=made.schema)
    assert read_for_model(str(tmp_path / "t.npy"), model, stride=1).shape == (5, 4)
    assert isinstance(read_for_fit(str(tmp_path / "t.npy"), TableOptions()), np.ndarray)


def test__read_for_model__model_of_named_numbers__reads_text_as_numbers(tmp_path):
    """Of a model that was fitted to a plain table in Python, the names are known and the kinds follow."""
    model = SimpleNamespace(schema_=None, feature_names_in_=np.array(["a", "b"]))
    path = write(tmp_path / "t.csv", "a,b\n1,-\n2,3\n")
    rows = read_for_model(path, model)
    np.testing.assert_array_equal(rows.matrix, [[1, np.nan], [2, 3]])
    (part,) = open_for_model(path, model).batches
    np.testing.assert_array_equal(part.matrix, rows.matrix)


@pytest.mark.filterwarnings("ignore:.*not in the order")
def test__load_for_model__windows__have_the_label_of_their_last_row(tmp_path):
    path = write(tmp_path / "t.csv", "t,a,kind\n2,20,w\n0,0,u\n1,10,\n3,30,x\n")
    made = read_for_fit(path, TableOptions(time_column="t", window=2), "kind")
    data = load_for_model(path, SimpleNamespace(schema_=made.schema), "kind")
    np.testing.assert_array_equal(data.X, [[0, 10], [10, 20], [20, 30]])
    assert list(data.labels) == ["(none)", "w", "x"]
    assert data.table.schema == made.schema


def test__csv__small_archive_of_much_text__is_refused_before_it_takes_memory(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv.gz", "a,b\n" + "1,2\n" * 2_000_000)
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "20M")
    with pytest.raises(DataError, match=r"t\.csv\.gz: takes 2\d.* of memory to read"):
        read_for_fit(path, TableOptions())


def test__parquet__repeated_long_text__is_not_multiplied(tmp_path):
    texts = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int32)), pa.array(["x" * 900]))
    pq.write_table(pa.table({"a": texts.cast(pa.string()), "b": np.zeros(200_000)}), tmp_path / "t.parquet")
    table = open_table(str(tmp_path / "t.parquet")).read()
    assert table.nbytes < 10_000_000
    assert Schema.of(table).columns[0].storage == "text"


@pytest.mark.parametrize("group", [None, "g"])
@pytest.mark.parametrize("times", [None, [1, 2, 3, 4, 5], [0.5, 1, 1.5, 2, 2.5], pd.date_range("2020", periods=5)])
def test__origins__beside_codes__make_series_of_decoded_windows(tmp_path, times, group):
    table = pd.DataFrame({"t": range(5) if times is None else times, "g": list("uuvvv"), "x": np.arange(5.0)})
    made = windows(table, length=2, time_column=None if times is None else "t", group=group, columns=["x"])
    codes = sp.csr_matrix(np.ones((len(made), 3), int))
    with CodesWriter(tmp_path / "codes.npz", origin_arrays(made.origins)) as writer:
        writer.append(codes)
    assert (read_codes(tmp_path / "codes.npz") != codes).nnz == 0
    origins = read_origins(tmp_path / "codes.npz", 2, 1)
    pd.testing.assert_frame_equal(origins.join(made.schema, made.matrix), made.inverse(made.matrix))
    with pytest.raises(DataError, match="there are 1 windows, and the series have"):
        origins.join(made.schema, made.matrix[:1])


def test__origins__codes_of_rows__have_none(tmp_path):
    with CodesWriter(tmp_path / "codes.npz") as writer:
        writer.append(sp.csr_matrix(np.eye(2, dtype=int)))
    assert read_origins(tmp_path / "codes.npz", 2, 1) is None
    assert read_origins(tmp_path, 2, 1) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("series_starts", np.array([3, 1])),
        ("series_starts", np.array([-1, 1])),
        ("series_starts", np.array([0, 4])),
        ("series_starts", np.array([0.0, 1.0])),
        ("series_starts", np.empty(0, np.int64)),
        ("series_n_rows", np.array([2])),
        ("series_n_rows", np.array([5, 5])),
        ("series_n_rows", np.array([2**60])),
        ("series_times", np.arange(4)),
        ("series_times", np.arange(5).astype(np.int8)),
        ("series_numbers", np.array([0, 0, 1, 1, 2])),
        ("series_numbers", np.array([0, 0, 1, 1, -1])),
        ("series_numbers", np.zeros(4, np.int64)),
        ("series_names", np.frombuffer(b"[1", np.uint8)),
        ("series_names", np.frombuffer(b"{}", np.uint8)),
        ("series_names", np.frombuffer(b'["u", null]', np.uint8)),
        ("series_names", None),
    ],
)
def test__origins__that_do_not_fit__are_refused(tmp_path, name, value):
    table = pa.table({"t": [1, 2, 3, 4, 5], "g": list("uuvvv"), "x": np.arange(5.0)})
    arrays = origin_arrays(windows(table, length=2, time_column="t", group="g").origins)
    arrays = {key: array for key, array in {**arrays, name: value}.items() if array is not None}
    np.savez(tmp_path / "codes.npz", **arrays)
    with pytest.raises(DataError, match="do not fit its windows|of memory"):
        read_origins(tmp_path / "codes.npz", 2, 1)


def test__write_columns__any_types__are_read_again(tmp_path):
    table = pa.table({"a": [1, None], "k": ["x", None], "b": [True, None], "f": [0.5, None]})
    for name in ("t.csv", "t.parquet"):
        rows = read_for_fit(str(write_columns(tmp_path / name, table)), TableOptions())
        np.testing.assert_array_equal(rows.matrix, [[1, 0, 1, 0.5], [np.nan] * 4])
    with pytest.raises(DataError, match=r"column 'k' holds string, not numbers; write \.csv or \.parquet"):
        write_columns(tmp_path / "t.npy", table)
    write_columns(tmp_path / "t.npy", table.select(["a", "f"]))
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), [[1, 0.5], [np.nan, np.nan]])
