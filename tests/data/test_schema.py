"""Schemas: what columns mean, their numbers, and the way back."""

import json
import subprocess
import sys
from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from sdlgm.data import Column, Schema
from sdlgm.data.series import WindowPlan
from sdlgm.errors import DataError

MIXED = pd.DataFrame(
    {
        "whole": [1, 2, 3, 4],
        "text": ["x", "y", None, "x"],
        "category": pd.Categorical(["u", "v", "u", None], ["w", "v", "u"]),
        "ordered": pd.Categorical(["lo", "hi", "hi", None], ["lo", "hi"], ordered=True),
        "truth": [True, False, True, True],
        "maybe": pd.array([1, None, 3, 4], "Int64"),
        "part": pd.array([0.5, None, 3, 4], "Float64"),
        "float": [0.5, np.nan, 1, 2],
        "perhaps": pd.array([True, None, False, True], "boolean"),
        "codes": pd.Categorical([3, 1, 3, 1]),
    }
)
NUMBERS = [
    [1, 0, 2, 0, 1, 1, 0.5, 0.5, 1, 1],
    [2, 1, 1, 1, 0, np.nan, np.nan, np.nan, np.nan, 0],
    [3, np.nan, 2, 1, 1, 3, 3, 1, 0, 1],
    [4, 0, np.nan, np.nan, 1, 4, 4, 2, 1, 0],
]


def test__encode__columns_of_pandas__are_numbers_and_come_back():
    schema = Schema.of(MIXED)
    matrix = schema.encode(MIXED)
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, NUMBERS)
    assert_frame_equal(schema.decode(matrix), MIXED)
    assert schema.kinds == ("number", *["category"] * 3, "boolean", *["number"] * 3, "boolean", "category")
    assert schema.n_levels == (0, 2, 3, 2, 0, 0, 0, 0, 0, 2)


def test__encode__arrow__has_the_numbers_of_pandas():
    table = pa.Table.from_pandas(MIXED)
    schema = Schema.of(table)
    np.testing.assert_array_equal(schema.encode(table), NUMBERS)
    decoded = schema.decode(schema.encode(table))
    assert decoded.schema.field("ordered").type.ordered
    assert decoded.to_pylist() == table.to_pylist()
    # A schema of one package encodes tables of the other.
    np.testing.assert_array_equal(Schema.of(MIXED).encode(table), NUMBERS)
    np.testing.assert_array_equal(schema.encode(MIXED[MIXED.columns[::-1]]), NUMBERS)


@pytest.mark.parametrize("make", [lambda values: pd.DataFrame({"a": values}), lambda values: pa.table({"a": values})])
@pytest.mark.parametrize(
    ("texts", "kind", "numbers"),
    [
        (["1", "-", "2.5", "NA"], "number", [1, np.nan, 2.5, np.nan]),
        (["-100", "-100.0", "", " 3 "], "number", [-100, -100, np.nan, 3]),
        (["1e3", "007", None, "-0"], "number", [1000, 7, np.nan, 0]),
        (["TRUE", "false", "-", "True"], "boolean", [1, 0, np.nan, 1]),
        (["5G", "LTE", "-", "5G"], "category", [0, 1, np.nan, 0]),
        (["AB4", "12", "D", "nan"], "category", [1, 0, 2, np.nan]),
        (["yes", "no", None, "no"], "category", [1, 0, np.nan, 0]),
        (["1_0", "1", "2", "3"], "category", [1, 0, 2, 3]),
    ],
)
def test__text__by_all_of_its_values__is_of_a_kind(make, texts, kind, numbers):
    table = make(texts)
    schema = Schema.of(table)
    assert schema.kinds == (kind,)
    np.testing.assert_array_equal(schema.encode(table)[:, 0], numbers)


def test__na_values__are_missing_beside_the_usual_ones():
    table = pa.table({"a": ["1", "n.d.", "-", "4"]})
    assert Schema.of(table).kinds == ("category",)
    schema = Schema.of(table, na_values=["n.d."])
    np.testing.assert_array_equal(schema.encode(table)[:, 0], [1, np.nan, np.nan, 4])
    np.testing.assert_array_equal(schema.encode(pa.table({"a": ["n.d.", "5"]}))[:, 0], [np.nan, 5])


def test__objects__of_python__are_read_by_their_types():
    table = pd.DataFrame(
        {
            "truth": np.array([True, None, False], object),
            "number": np.array([1.5, None, 2], object),
            "mixed": np.array([5, "5G", None], object),
        }
    )
    schema = Schema.of(table)
    assert schema.kinds == ("boolean", "number", "category")
    assert schema.columns[2].levels == ("5", "5G")
    np.testing.assert_array_equal(schema.encode(table), [[1, 1.5, 0], [np.nan, np.nan, 1], [0, 2, np.nan]])


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        ([13, 7, 13, 7], (7, 13)),
        ([0.5, 7.0, np.nan, 7.0], (0.5, 7)),
        (["13", "7", "-", "13"], (7, 13)),
        (["013", "7", "-", "13"], ("013", "13", "7")),
        (["1E5", "12", "-", "12"], ("12", "1E5")),
        ([True, False, True, True], (False, True)),
    ],
)
def test__categorical__numbers__are_categories(values, levels):
    table = pd.DataFrame({"cell": values})
    schema = Schema.of(table, categorical=["cell"])
    assert schema.columns[0].levels == levels
    decoded = schema.decode(schema.encode(table))
    present = [value for value in values if str(value) not in ("nan", "-")]
    assert [str(value) for value in decoded["cell"].dropna()] == [str(value) for value in present]
    # The same cells as text, such as those of a CSV file.
    as_text = pd.DataFrame({"cell": [str(value) for value in values]})
    np.testing.assert_array_equal(schema.encode(as_text), schema.encode(table))


def test__categories__that_are_text__are_found_among_numbers():
    schema = Schema.of(pa.table({"cell": ["13", "AB"]}))
    np.testing.assert_array_equal(schema.encode(pd.DataFrame({"cell": [13, 13.0]})), [[0], [0]])


def test__unseen_categories__are_missing_and_said_once():
    schema = Schema.of(pa.table({"state": ["D", "I"], "mode": ["LTE", "5G"]}))
    with pytest.warns(UserWarning, match=r"column 'state' has 'V', 'X'; column 'mode' has '6G'") as caught:
        matrix = schema.encode(pa.table({"state": ["V", "D", "X", "V"], "mode": ["6G", "5G", "-", "LTE"]}))
    assert len(caught) == 1
    np.testing.assert_array_equal(matrix, [[np.nan, np.nan], [0, 0], [np.nan, np.nan], [np.nan, 1]])


def test__level__that_is_a_symbol_of_missing_values__is_a_level():
    table = pd.DataFrame({"a": pd.Categorical(["-", "x", None])})
    np.testing.assert_array_equal(Schema.of(table).encode(table)[:, 0], [0, 1, np.nan])


@pytest.mark.filterwarnings("ignore:these columns have no values")
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"id": [f"user {i}" for i in range(30)]}, "'id' holds text with 30 different values in 30 rows, such as"),
        ({"id": [f"user {i}" for i in range(3000)]}, "names or free text, not categories; leave it out"),
        (
            {"when": [f"2020-01-{i + 1:02d} 10:00" for i in range(30)]},
            "'when' holds text that looks like dates; name it",
        ),
        ({"day": ["2020-01-01", "-", "2020-01-01"]}, "'day' holds text that looks like dates"),
        ({"a": [1, np.inf], "b": [[1], []], "c": [1, 2]}, r"column 'a', row 1; .*\. column 'b' holds"),
        ({"x": [str(i) for i in range(30)] + ["n.d."]}, "'x' holds numbers and 'n.d.'; .* --na-values"),
        ({"when": pd.date_range("2020-01-01", periods=3)}, "'when' holds dates; name it as the time column"),
        ({"when": [date(2020, 1, 1), None]}, "'when' holds dates"),
        ({"x": [[1], [2]]}, "'x' holds .*; leave it out"),
        ({"x": [1j, 2]}, "'x' holds complex"),
        ({"x": pd.to_timedelta([1, 2])}, "'x' holds timedelta"),
        ({"x": [1.0, np.inf]}, "infinity: column 'x', row 1"),
        ({"x": ["1", "inf"]}, "infinity: column 'x', row 1"),
        ({"x": pd.Categorical(range(1001))}, "'x' has 1001 categories"),
        ({"x": ["a" * 1001, "b"]}, "'x' holds texts of more than 1000 characters"),
        ({"x": pd.Categorical(["a" * 1001, "b"])}, "'x' holds texts of more than 1000 characters"),
        ({"x": pd.Categorical([1, "b"])}, "the levels of column 'x' are not all text, or all numbers"),
        ({"x" * 10_001: [1]}, "at most 10000 characters"),
        ({"x": [np.nan, np.nan]}, "no column of features is left"),
        ({"x": []}, "no rows"),
    ],
)
def test__schema__column_that_is_no_feature__is_named_with_the_remedy(column, message):
    with pytest.raises(DataError, match=message):
        Schema.of(pd.DataFrame(column))


@pytest.mark.parametrize("name", ["columns", "drop", "categorical", "time_column", "group"])
def test__schema__unknown_name__is_refused(name):
    with pytest.raises(DataError, match=rf"no column 'z' \({name}\); the columns are 'a', 'b'"):
        Schema.of(pa.table({"a": [1], "b": [2]}), **{name: "z"})


def test__schema__chosen_columns__are_the_features():
    table = pa.table({"t": [1, 2], "g": ["u", "v"], "a": [1, 2], "b": [3, 4], "c": [5, 6]})
    schema = Schema.of(table, columns=["c", "a"], time_column="t", group="g")
    assert schema.feature_names == ("a", "c")
    assert (schema.ignored, schema.time_column, schema.group) == (("b",), "t", "g")
    assert Schema.of(table, drop=["t", "g", "a"]).feature_names == ("b", "c")
    assert schema.encode(table.drop_columns(["b", "t", "g"])).tolist() == [[1, 5], [2, 6]]


def test__schema__columns_without_values__are_left_out_and_said():
    table = pa.table({"a": [1, 2], "ping": ["-", ""], "rssi": pa.nulls(2)})
    with pytest.warns(UserWarning, match="no values and are left out: 'ping', 'rssi'"):
        schema = Schema.of(table)
    assert (schema.feature_names, schema.ignored) == (("a",), ("ping", "rssi"))


@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        ([1, 2], ["1", "x"], "'a' has the value 'x', and had numbers at fit"),
        ([True, False], ["true", "perhaps"], "'a' has the value 'perhaps', and had truth values"),
        ([True, False], [1, 2], "'a' has the value 2 in row 1, and had truth values"),
        ([1, 2], pd.date_range("2020", periods=2), "'a' holds .*, and was numbers at fit"),
        ([1, 2], [1, np.inf], "infinity: column 'a', row 1"),
    ],
)
def test__encode__values_of_another_kind__are_named(fitted, given, message):
    schema = Schema.of(pd.DataFrame({"a": fitted}))
    with pytest.raises(DataError, match=message):
        schema.encode(pd.DataFrame({"a": given}))
    with pytest.raises(DataError, match="no column 'a', which the model needs"):
        schema.encode(pd.DataFrame({"b": given}))


def test__encode__numbers_given_as_text_or_categories__are_numbers():
    schema = Schema.of(pa.table({"a": [1.5, 2], "b": [True, False]}))
    table = pd.DataFrame({"a": pd.Categorical(["2.5", "-"]), "b": ["True", None]})
    np.testing.assert_array_equal(schema.encode(table), [[2.5, 1], [np.nan, np.nan]])


def test__decode__means__are_rounded_where_only_some_values_exist():
    table = pd.DataFrame({"count": [1, 2], "truth": [True, False], "kind": ["u", "v"]})
    schema = Schema.of(table)
    decoded = schema.decode(np.array([[1.25, 0.5, 0.6], [2, 0.49, 0.4]]))
    assert decoded["count"].tolist() == [1.25, 2.0]  # the mean of a count is no count
    assert decoded["truth"].tolist() == [True, False]
    assert decoded["kind"].tolist() == ["v", "u"]
    assert schema.decode(np.array([[1, 1, 0.0]]))["count"].dtype == np.int64
    with pytest.raises(DataError, match="'kind' has the value 2, and its 2 categories"):
        schema.decode(np.array([[1, 1, 2.0]]))
    with pytest.raises(ValueError, match="3 columns"):
        schema.decode(np.zeros((2, 4)))


def test__array__is_a_table_of_numbers():
    X = np.array([[1, np.nan], [3, 4]])
    schema = Schema.of(X)
    assert (schema.feature_names, schema.container) == (("x0", "x1"), "array")
    np.testing.assert_array_equal(schema.decode(schema.encode(X)), X)
    for other in ([[1, 2]], {"a": [1]}, pd.DataFrame([[1, 2]]), np.array([["a"]])):
        with pytest.raises(DataError, match="no table with named columns"):
            Schema.of(other)


def test__repeated_names__are_refused():
    for table in (pd.DataFrame([[1, 2]], columns=["a", "a"]), pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"])):
        with pytest.raises(DataError, match="more than one column is called 'a'"):
            Schema.of(table)


def test__document__of_any_schema__comes_back():
    schema = Schema.of(MIXED, drop=["float"], time_column="whole", na_values=["?"])
    for one in (schema, replace(schema, window=WindowPlan(3, 2, None, 1.5), group="g")):
        assert Schema.from_document(json.loads(json.dumps(one.to_document()))) == one


def changed(change):
    document = Schema.of(MIXED, time_column="whole").to_document()
    change(document)
    return document


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.clear(),
        lambda d: d.update(columns=[]),
        lambda d: d.update(columns={}),
        lambda d: d.update(more=1),
        lambda d: d.update(container="eval"),
        lambda d: d.update(time_column=1),
        lambda d: d.update(time_column="text"),
        lambda d: d.update(ignored=["float"]),
        lambda d: d.update(na_values=[1]),
        lambda d: d.update(na_values=["x" * 10_001]),
        lambda d: d.update(window=1),
        lambda d: d.update(window={"length": 3}),
        lambda d: d.update(window={"length": 0, "stride": 1, "max_gap": None, "step": None}),
        lambda d: d.update(window={"length": 10**9, "stride": 1, "max_gap": None, "step": None}),
        lambda d: d.update(window={"length": True, "stride": 1, "max_gap": None, "step": None}),
        lambda d: d.update(window={"length": 2, "stride": 1, "max_gap": 0.5, "step": None}),
        lambda d: d.update(window={"length": 2, "stride": 1, "max_gap": None, "step": float("inf")}),
        lambda d: d["columns"].append(d["columns"][0]),
        lambda d: d["columns"][0].update(name=3),
        lambda d: d["columns"][0].update(kind="text"),
        lambda d: d["columns"][0].update(kind=["number"]),
        lambda d: d["columns"][0].update(storage="bool"),
        lambda d: d["columns"][0].update(levels=[]),
        lambda d: d["columns"][0].update(levels=["x", "x"]),
        lambda d: d["columns"][0].update(levels=["x", 1]),
        lambda d: d["columns"][0].update(levels=["x", None]),
        lambda d: d["columns"][0].update(levels=[["x"]]),
        lambda d: d["columns"][0].update(levels=[float("nan")]),
        lambda d: d["columns"][0].update(levels=[str(i) for i in range(1001)]),
        lambda d: d["columns"][3].update(levels=["x"]),
    ],
)
def test__document__of_something_else__is_refused(change):
    with pytest.raises(ValueError, match=r"."):
        Schema.from_document(changed(change))


@pytest.mark.parametrize("document", [None, [], "schema", 3])
def test__document__no_object__is_refused(document):
    with pytest.raises(ValueError, match="entries"):
        Schema.from_document(document)


def test__column__levels_are_of_categories_only():
    with pytest.raises(ValueError, match="has 1 levels"):
        Column("a", "number", "float", ("x",))
    with pytest.raises(ValueError, match="has 0 levels"):
        Column("a", "category", "text")


def test__pandas__not_installed__is_not_needed_for_tables_of_arrow():
    code = """
import sys
class Hidden:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hidden())
import pyarrow as pa
from sdlgm.data import Schema, windows
table = pa.table({"t": ["2020-01-01", "2020-01-02", "2020-01-03"], "a": ["u", "v", "u"], "b": [True, False, None]})
made = windows(table, length=2, time_column="t")
print(made.inverse(made.to_table()).num_rows)
sys.modules["pyarrow"] = None
import numpy as np
print(windows(np.eye(3), length=2).matrix.shape)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.splitlines() == ["3", "(2, 6)"], result.stderr


numbers = st.floats(-1e6, 1e6) | st.none()
texts = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=4).map(lambda text: f"k{text}")


@st.composite
def frames(draw) -> pd.DataFrame:
    """Draw a table with a column of every kind, with and without missing values."""
    n = draw(st.integers(1, 12))
    levels = draw(st.lists(texts, min_size=1, max_size=4, unique=True))

    def column(values, **kwargs):
        return draw(st.lists(values, min_size=n, max_size=n, **kwargs))

    table = pd.DataFrame({"always": np.arange(float(n))})
    table["float"] = np.array(column(numbers), float)
    table["int"] = column(st.integers(-(2**53), 2**53))
    table["Int"] = pd.array(column(st.integers(-9, 9) | st.none()), "Int64")
    table["bool"] = column(st.booleans())
    table["Bool"] = pd.array(column(st.booleans() | st.none()), "boolean")
    table["text"] = pd.Series(column(st.sampled_from(levels) | st.none()), dtype="str")
    ordered = draw(st.booleans())
    table["category"] = pd.Categorical(column(st.sampled_from(levels) | st.none()), levels, ordered=ordered)
    return table


@pytest.mark.filterwarnings("ignore:these columns have no values")
@given(frames())
@settings(max_examples=40, deadline=None)
def test__schema__of_any_table__decodes_what_it_encodes(table):
    schema = Schema.of(table)
    matrix = schema.encode(table)
    expected = table[list(schema.feature_names)]
    assert_frame_equal(schema.decode(matrix), expected)
    assert np.array_equal(np.isnan(matrix), expected.isna().to_numpy())
    again = Schema.from_document(json.loads(json.dumps(schema.to_document())))
    np.testing.assert_array_equal(again.encode(table), matrix)
    arrow = replace(schema, container="arrow").decode(matrix)
    np.testing.assert_array_equal(schema.encode(arrow), matrix)
