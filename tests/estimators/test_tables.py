"""Estimators of tables and of windows: what they keep, and what they give back."""

import copy

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal

from sdlgm import SDLGM, load
from sdlgm._tensorfile import read, write
from sdlgm.data import Schema, encode_table, windows
from sdlgm.errors import DataError, ModelFileError

FAST = {"n_components": 8, "max_active": 3, "hidden": (8,), "max_iter": 20, "batch_size": 20, "random_state": 0}


def readings(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    on = rng.random(n) < 0.5
    return pd.DataFrame({"load": 3 * on + rng.normal(size=n), "users": 5 * on + rng.integers(0, 3, n), "on": on})


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return readings()


@pytest.fixture(scope="module")
def model(table) -> SDLGM:
    return SDLGM(**FAST).fit(table)


def test__fit__table_with_booleans__gives_a_table_back(model, table):
    assert list(model.feature_names_in_) == ["load", "users", "on"]
    assert model.schema_.kinds == ("number", "number", "boolean")
    decoded = model.inverse_transform(model.transform(table))
    assert decoded.dtypes.astype(str).tolist() == ["float64", "float64", "bool"]
    matrix = model.inverse_transform(model.transform(table), encoded=True)
    assert_frame_equal(model.schema_.decode(matrix), decoded)
    assert model.sample(4, random_state=0).columns.tolist() == ["load", "users", "on"]
    assert model.sample(4, random_state=0, encoded=True).shape == (4, 3)


def test__fit__encoded_rows__is_the_fit_to_their_table(model, table):
    arrow = pa.Table.from_pandas(table)
    for rows in (encode_table(Schema.of(table), table), arrow):
        other = SDLGM(**FAST).fit(rows)
        np.testing.assert_array_equal(other.elbo(rows, random_state=0), model.elbo(table, random_state=0))
    assert isinstance(other.inverse_transform(other.transform(arrow)), pa.Table)
    assert model.evaluate(table, random_state=0) == other.evaluate(arrow, random_state=0)


def test__fit__plain_numbers__have_no_schema_and_bits_as_an_array(table, small):
    numbers = table[["load", "users"]]
    of_table, of_array = SDLGM(**FAST).fit(numbers), SDLGM(**FAST).fit(numbers.to_numpy())
    assert of_table.schema_ is None
    assert of_array.schema_ is None
    np.testing.assert_array_equal(
        of_table.inverse_transform(of_table.transform(numbers)),
        of_array.inverse_transform(of_array.transform(numbers.to_numpy())),
    )


def test__load__model_of_a_table__has_its_schema(model, table, tmp_path):
    model.save(tmp_path / "m.sdlgm")
    loaded = load(tmp_path / "m.sdlgm")
    assert loaded.schema_ == model.schema_
    assert_frame_equal(
        loaded.inverse_transform(loaded.transform(table)), model.inverse_transform(model.transform(table))
    )
    assert copy.deepcopy(model).schema_ == model.schema_
    SDLGM(**FAST).fit(table[["load"]]).save(tmp_path / "n.sdlgm")
    assert "schema" not in read(tmp_path / "n.sdlgm", "sdlgm-model").document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(columns=s["columns"][:2]), "2 columns that are not the 3"),
        (lambda s: s["columns"][0].update(name="other"), "not the 3 of the model"),
        (lambda s: s["columns"][0].update(kind="code"), "'code'"),
        (lambda s: s.update(window={"length": 90_000, "stride": 1, "max_gap": None, "step": None}), "270000 columns"),
        (lambda s: s.clear(), "entries"),
    ],
)
def test__load__schema_of_something_else__is_refused(model, tmp_path, change, message):
    model.save(tmp_path / "m.sdlgm")
    content = read(tmp_path / "m.sdlgm", "sdlgm-model")
    change(content.document["schema"])
    write(tmp_path / "n.sdlgm", "sdlgm-model", content.document, content.tensors)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "n.sdlgm")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[["users", "load", "on"]], "same order"),
        (lambda t: t[["users", "load"]], "missing"),
        (lambda t: t.assign(more=1), "unseen at fit time"),
        (lambda t: t.assign(load="high"), "column 'load' has the value 'high', and had numbers at fit"),
        (lambda t: t.assign(load=np.inf), "infinity: column 'load', row 0"),
    ],
)
def test__transform__other_columns__are_refused(model, table, change, message):
    with pytest.raises(ValueError, match=message):
        model.transform(change(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.assign(id=[f"a{i}" for i in range(len(t))]), "column 'id' holds text with 60 different values"),
        (lambda t: t.assign(day=pd.Timestamp("2020-01-01")), "column 'day' holds dates"),
        (lambda t: t.assign(load=np.inf), "infinity: column 'load', row 0"),
        (lambda t: t[["load"]].assign(load=-np.inf), "infinity: column 'load', row 0"),
    ],
)
def test__fit__unusable_column__is_named_and_leaves_the_model(model, table, change, message):
    other = copy.deepcopy(model)
    with pytest.raises(ValueError, match=message):
        other.fit(change(table))
    with pytest.raises(ValueError, match="fewer than 2|minimum of 2"):
        other.fit(table[:1].assign(more=True))  # fails after the columns have been learned
    assert other.schema_ == model.schema_
    assert list(other.feature_names_in_) == list(model.feature_names_in_)
    np.testing.assert_array_equal(other.transform(table).toarray(), model.transform(table).toarray())


def test__fit__again_on_an_array__forgets_the_table(model, table):
    other = copy.deepcopy(model).fit(table.to_numpy(float))
    assert other.schema_ is None
    assert not hasattr(other, "feature_names_in_")


def test__partial_fit__tables__keep_the_first_schema(table):
    model = SDLGM(**FAST).partial_fit(table[:30]).partial_fit(table[30:])
    assert model.schema_ == Schema.of(table[:30])
    with pytest.raises(ValueError, match="had truth values"):
        model.partial_fit(table.assign(on="perhaps"))


def test__windows__of_a_table__are_fitted_encoded_and_joined_again(table):
    timed = table[["load", "users"]].assign(t=pd.date_range("2020-01-01", periods=60, freq="min"), id="x", s="u")
    made = windows(timed, length=4, stride=2, time_column="t", group="s", drop=["id"])
    model = SDLGM(**FAST).fit(made)
    assert model.n_features_in_ == 8
    assert list(model.feature_names_in_[:4]) == ["load[t-3]", "load[t-2]", "load[t-1]", "load[t]"]
    codes = model.transform(made)
    # A table is cut as at fit, without another word.
    assert (model.transform(timed) != codes).nnz == 0
    assert (model.transform(timed.drop(columns="id")) != codes).nnz == 0
    assert model.score(timed) == pytest.approx(model.score(made))
    decoded = made.inverse(model.inverse_transform(codes))
    assert decoded.columns.tolist() == ["s", "t", "load", "users"]
    assert len(decoded) == 60
    with pytest.raises(DataError, match="no column 't'"):
        model.transform(timed.drop(columns="t"))
    with pytest.raises(DataError, match="those at fit were load"):
        model.transform(windows(timed, length=3, columns=["load", "users"]))


def test__encoded_rows__of_another_schema__are_refused(model, table):
    swapped = table.assign(on=np.arange(60) / 60)
    with pytest.raises(DataError, match="another schema"):
        model.transform(encode_table(Schema.of(swapped.assign(on=swapped["on"])), swapped))
