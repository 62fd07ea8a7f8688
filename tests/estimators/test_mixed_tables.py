"""Fits to tables with categories and missing values, from the table to the decoded table."""

import numpy as np
import pandas as pd
import pytest

from commands import run
from sdlgm import SDLGM, SDLGMDetector, load
from sdlgm.data import windows
from sdlgm.errors import DataError

FAST = {"n_components": 16, "max_active": 5, "hidden": (32,), "max_iter": 300, "batch_size": 50, "random_state": 0}


def readings(n: int = 400) -> pd.DataFrame:
    """Return measurements in two modes, with missing values."""
    rng = np.random.default_rng(0)
    fast = rng.random(n) < 0.4
    table = pd.DataFrame(
        {
            "mode": np.where(fast, "5G", "LTE"),
            "rate": np.where(fast, 80.0, 10.0) + rng.normal(size=n),
            "level": np.where(fast, -80.0, -110.0) + rng.normal(size=n),
            "moving": fast,
        }
    )
    return table.mask(rng.random(table.shape) < 0.1)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return readings()


@pytest.fixture(scope="module")
def model(table) -> SDLGM:
    return SDLGM(**FAST).fit(table)


def test__fit__mixed_table__fills_in_what_is_missing(model, table):
    decoded = model.inverse_transform(model.transform(table))
    assert decoded.columns.tolist() == table.columns.tolist()
    assert not decoded.isna().any().any()
    assert set(decoded["mode"]) <= {"5G", "LTE"}
    known = table["mode"].notna()
    assert (decoded["mode"] == table["mode"])[known].mean() > 0.9
    filled = decoded["mode"][~known & table["rate"].notna()]
    truth = np.where(table["rate"][filled.index] > 45, "5G", "LTE")
    assert (filled == truth).mean() > 0.9


def test__transform__unseen_category__is_a_missing_value(model, table):
    with pytest.warns(UserWarning, match="column 'mode' has '6G'"):
        codes = model.transform(table.assign(mode="6G"))
    missing = table.assign(mode=pd.Series([None] * len(table), dtype="str"))
    assert (codes != model.transform(missing)).nnz == 0


def test__load__mixed_model__answers_as_before(model, table, tmp_path):
    model.save(tmp_path / "m.sdlgm")
    loaded = load(tmp_path / "m.sdlgm")
    pd.testing.assert_frame_equal(
        loaded.inverse_transform(loaded.transform(table)), model.inverse_transform(model.transform(table))
    )
    np.testing.assert_allclose(loaded.elbo(table, random_state=0), model.elbo(table, random_state=0))


def test__windows__of_mixed_series__decode_to_series(table):
    made = windows(table.assign(t=range(len(table))), length=4, time_column="t")
    model = SDLGM(**FAST).fit(made)
    series = made.inverse(model.inverse_transform(model.transform(made)))
    assert series.columns.tolist() == ["t", *table.columns]
    assert set(series["mode"]) <= {"5G", "LTE"}
    assert len(series) == len(table)


def test__command_line__mixed_csv__decodes_to_its_columns(table, tmp_path):
    table.assign(t=range(len(table))).to_csv(tmp_path / "t.csv.gz", index=False, na_rep="-")
    fast = ["--max-iter", 50, "--n-components", 16, "--max-active", 4, "--hidden", 32]
    run("fit", tmp_path / "t.csv.gz", "--out", tmp_path / "m", "--time-column", "t", "--window", 4, *fast)
    run("encode", tmp_path / "m", tmp_path / "t.csv.gz", "--out", tmp_path / "c.npz")
    run("decode", tmp_path / "m", tmp_path / "c.npz", "--out", tmp_path / "d.csv")
    decoded = pd.read_csv(tmp_path / "d.csv")
    assert decoded.columns.tolist() == ["t", *table.columns]
    assert set(decoded["mode"]) <= {"5G", "LTE"}
    run("evaluate", tmp_path / "m", tmp_path / "t.csv.gz")
    run("report", tmp_path / "m", tmp_path / "t.csv.gz", "--out", tmp_path / "r.html")
    run("detect", tmp_path / "m", tmp_path / "t.csv.gz", "--out", tmp_path / "s.csv", "--contributions")
    scores = pd.read_csv(tmp_path / "s.csv")
    assert len(scores) == len(table) - 3
    assert {"score", "contribution:rate[t-3]", "contribution:mode[t]", "contribution:code"} <= set(scores)


def test__likelihood__one_name_for_a_table__is_for_its_numbers(table):
    model = SDLGM(**{**FAST, "max_iter": 5}, likelihood="student_t").fit(table)
    assert model.likelihoods_.tolist() == ["categorical", "student_t", "student_t", "bernoulli"]
    assert set(model.sample(20)["mode"]) <= {"5G", "LTE"}
    with pytest.raises(ValueError, match="column 'mode' holds categories"):
        SDLGM(**FAST, likelihood={"mode": "gaussian"}).fit(table)


def test__likelihood__column_of_a_series__is_that_of_all_its_times(table):
    made = windows(table[["rate", "level"]].assign(t=range(len(table))), length=3, time_column="t")
    model = SDLGM(**{**FAST, "max_iter": 5}, likelihood={"rate": "student_t", "level": "gaussian"}).fit(made)
    assert model.likelihoods_.tolist() == ["student_t"] * 3 + ["gaussian"] * 3


def test__windows__some_of_them__are_rows_of_the_same_columns(table):
    made = windows(table.assign(t=range(len(table))), length=3, time_column="t")
    chosen = made[np.array([5, 2])]
    np.testing.assert_array_equal(chosen.matrix, made.matrix[[5, 2]])
    assert chosen.schema == made.schema
    detector = SDLGMDetector(SDLGM(**{**FAST, "max_iter": 5}), random_state=0).fit(made)
    assert detector.predict(made).shape == (len(made),)


def test__frame__columns_without_names__need_numbers(table):
    with pytest.raises(DataError, match=r"X.columns = \[str\(name\)"):
        SDLGM(**FAST).fit(table.set_axis(range(4), axis=1))
