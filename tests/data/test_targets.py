import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sdlgm.data import read_counted, read_labelled
from sdlgm.errors import DataError

CSV = "wet,a,cold,b\n1,0.5,true,2\n0,1.5,False,3\n0,-1,true,4\n"
Y = [[1, 1], [0, 0], [1, 0]]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test__read_labelled__named_columns__are_labels_in_the_order_given(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    if ending == ".csv":
        path.write_text(CSV)
    else:
        columns = {"wet": [1.0, 0.0, 0.0], "a": [0.5, 1.5, -1.0], "cold": [True, False, True], "b": [2, 3, 4]}
        pq.write_table(pa.table(columns), path)
    dataset = read_labelled(path, ["cold", "wet"])
    assert dataset.name == path.name
    assert dataset.label_names == ("cold", "wet")
    assert dataset.feature_names == ("a", "b")
    np.testing.assert_array_equal(dataset.X, [[0.5, 2], [1.5, 3], [-1, 4]])
    np.testing.assert_array_equal(dataset.Y, Y)
    assert np.issubdtype(dataset.Y.dtype, np.integer)


def test__read_labelled__no_labels__gives_no_columns_of_them(tmp_path):
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n")
    dataset = read_labelled(str(tmp_path / "data.csv"))
    assert dataset.X.shape == (2, 2)
    assert dataset.Y.shape == (2, 0)
    assert dataset.label_names == ()


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        (CSV, ["warm"], "has no column 'warm'"),
        (CSV, ["wet", "wet"], "a name is given twice"),
        (CSV, ["wet", "a", "cold", "b"], "has no columns of features"),
        (CSV, ["b"], "label 'b' has the value 2; labels are 0 or 1"),
        (CSV.replace("1,0.5", ",0.5"), ["wet"], "column 'wet' has 1 missing values"),
        (CSV.replace("1,0.5", "x,0.5"), ["wet"], "column 'wet' holds string"),
        (CSV.replace("0.5", "loud"), ["wet"], "column 'a' holds string, not numbers"),
        (CSV.replace("0.5", ""), ["wet"], "column 'a' has 1 missing values"),
        ("a,wet\n", ["wet"], "has no rows"),
    ],
)
def test__read_labelled__bad_columns__are_named(tmp_path, text, labels, message):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=rf"data\.csv: {message}"):
        read_labelled(tmp_path / "data.csv", labels)


def test__read_labelled__nan_in_a_label__is_missing(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "wet": [1.0, float("nan")]}), tmp_path / "data.parquet")
    with pytest.raises(DataError, match="label 'wet' has 1 missing values"):
        read_labelled(tmp_path / "data.parquet", ["wet"])


def test__read_labelled__arff__takes_its_labels_from_the_xml_or_from_the_call(tmp_path):
    (tmp_path / "data.arff").write_text(
        "@relation r\n@attribute wet {0,1}\n@attribute a numeric\n@attribute cold {0,1}\n@data\n1,2,0\n"
    )
    (tmp_path / "data.xml").write_text("<labels><label name='cold'/><label name='wet'/></labels>")
    dataset = read_labelled(tmp_path / "data.arff")
    assert (dataset.label_names, dataset.feature_names) == (("cold", "wet"), ("a",))
    assert dataset.Y.tolist() == [[0, 1]]
    dataset = read_labelled(tmp_path / "data.arff", ["wet"])
    assert (dataset.label_names, dataset.feature_names) == (("wet",), ("a", "cold"))


def test__read_labelled__names_and_other_files__are_refused(tmp_path):
    with pytest.raises(DataError, match="birds: a named data set has labels of its own"):
        read_labelled("birds", ["wet"])
    with pytest.raises(DataError, match="digits: is not a multi-label data set"):
        read_labelled("digits")
    with pytest.raises(DataError, match="no such file"):
        read_labelled(tmp_path / "no.csv", ["wet"])
    np.save(tmp_path / "data.npy", np.zeros((2, 2)))
    with pytest.raises(DataError, match="labels can be read from .csv, .parquet and .arff"):
        read_labelled(tmp_path / "data.npy", ["wet"])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test__read_counted__named_columns__are_counts(tmp_path, ending):
    path = tmp_path / f"data{ending}"
    if ending == ".csv":
        path.write_text("milk,a,bread\n2,0.5,0\n0,1.5,7\n")
    else:
        pq.write_table(pa.table({"milk": [2.0, 0.0], "a": [0.5, 1.5], "bread": [0, 7]}), path)
    dataset = read_counted(path, ["bread", "milk"])
    np.testing.assert_array_equal(dataset.counts, [[0, 2], [7, 0]])
    np.testing.assert_array_equal(dataset.X, [[0.5], [1.5]])
    assert (dataset.class_names, dataset.feature_names) == (("bread", "milk"), ("a",))
    assert dataset.targets.column_names == ["bread", "milk"]
    assert dataset.table.column_names == ["a"]
    some = read_counted(path, ["bread", "eggs"], optional=True)
    assert some.class_names == ("bread",)


def test__read_counted__archive__has_pictures_and_counts(tmp_path):
    X, counts = np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([[1, 0], [0, 3]])
    np.savez(tmp_path / "data.npz", X=X, counts=counts)
    dataset = read_counted(tmp_path / "data.npz")
    np.testing.assert_array_equal(dataset.X, X)
    np.testing.assert_array_equal(dataset.counts, counts)
    assert dataset.X.dtype == np.float32
    np.save(tmp_path / "data.npy", X)
    assert read_counted(tmp_path / "data.npy").counts.shape == (2, 0)
    assert read_counted(tmp_path / "data.npz", ["a", "b"]).class_names == ("a", "b")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((2, 2))}, "name the observations X"),
        ({"X": np.zeros(2)}, "X: holds float64 of shape"),
        ({"X": np.array([["a"]])}, "X: holds <U1"),
        ({"X": np.zeros((2, 2)), "counts": np.zeros((3, 1))}, "counts are"),
        ({"X": np.zeros((2, 2)), "counts": np.array([[1.5], [0]])}, "has the value 1.5"),
        ({"X": np.zeros((2, 2)), "counts": np.array([[np.nan], [0]])}, "has the value nan"),
        ({"X": np.zeros((2, 2)), "counts": np.array([[-1], [0]])}, "has the value -1"),
    ],
)
def test__read_counted__bad_arrays__are_named(tmp_path, arrays, message):
    np.savez(tmp_path / "data.npz", **arrays)
    with pytest.raises(DataError, match=message):
        read_counted(tmp_path / "data.npz")


def test__read_counted__names_and_other_files__are_refused(tmp_path):
    with pytest.raises(DataError, match="known are digit_columns"):
        read_counted("birds")
    (tmp_path / "data.arff").write_text("@relation r\n")
    with pytest.raises(DataError, match="only"):
        read_counted(tmp_path / "data.arff")
    with pytest.raises(DataError, match="no such file"):
        read_counted(tmp_path / "nothing.csv")
