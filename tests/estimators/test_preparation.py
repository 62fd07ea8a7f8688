"""Statistics of columns, scaling and held-out rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdlgm.data import RowFiles, open_rows
from sdlgm.errors import DataError
from sdlgm.estimators._preparation import Columns, Scaling, Survey, _hold_out, in_parts, prepare_training


def opened(path) -> RowFiles:
    rows = open_rows(path)
    assert rows is not None
    return rows


def test__columns__sparse_rows__are_those_of_dense_ones(measurements):
    X = np.where(measurements > 0, measurements, 0)
    X[:, 4] = 0.0
    dense, sparse = Columns.of(X), Columns.of(sp.csr_array(X))
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=1e-12)
    np.testing.assert_allclose(sparse.deviation, dense.deviation, rtol=1e-9)
    assert sparse.varies.tolist() == dense.varies.tolist() == [True, True, True, True, False, True]


def test__scaling__rows_of_any_kind__are_standardised_and_back(measurements):
    X = np.column_stack([measurements, np.full(len(measurements), 7.0)])
    scaling = Scaling.standardizing(Columns.of(X))
    scaled = scaling.apply(X)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(scaled[:, :-1].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(scaled[:, :-1].std(axis=0), 1, rtol=1e-6)
    assert (scaled[:, -1] == 0).all()
    np.testing.assert_array_equal(scaling.apply(sp.csr_matrix(X)), scaled)
    assert (np.abs(scaling.undo(scaled) - X) <= 1e-6 * X.std(axis=0)).all()
    assert scaling.log_jacobian == pytest.approx(-np.log(measurements.std(axis=0)).sum())


def test__scaling__value_too_large_for_single_precision__is_named(measurements):
    X = measurements.copy()
    X[3, 2] = 1e30
    scaling = Scaling.standardizing(Columns.of(measurements))
    with pytest.raises(DataError, match="row 13, column 2"):
        scaling.apply_checked(X, first_row=10)
    np.testing.assert_array_equal(scaling.apply_checked(X[:3]), scaling.apply(X[:3]))


def test__prepare_training__held_out_rows__are_in_no_batch(measurements):
    data = prepare_training(measurements, 0.25, seed=0)
    assert (data.n_rows, len(data.watched)) == (225, 75)
    together = np.concatenate([data.rows, data.watched])
    np.testing.assert_array_equal(np.sort(together[:, 0]), np.sort(measurements[:, 0]))
    np.testing.assert_array_equal(data.columns.mean, np.mean(data.rows, axis=0, dtype=np.float64))
    assert prepare_training(measurements, None, seed=0).n_rows == len(measurements)


def test__survey__parts__are_what_the_columns_are_like_in_memory(tmp_path, measurements):
    np.save(tmp_path / "a.npy", measurements[:100])
    np.save(tmp_path / "b.npy", measurements[100:])
    survey, columns = Survey.of(opened(tmp_path), range(100)), Columns.of(measurements)
    np.testing.assert_allclose(survey.columns.mean, columns.mean, rtol=1e-12)
    np.testing.assert_allclose(survey.columns.deviation, columns.deviation, rtol=1e-9)
    assert not survey.profile.in_unit_interval
    measured = measurements.copy()
    measured[150, 2] = np.nan
    np.save(tmp_path / "b.npy", measured[100:])
    with pytest.raises(ValueError, match=r"b\.npy.* row 50, column 2"):
        Survey.of(opened(tmp_path), range(100))


def test__in_parts__sizes__are_those_of_array_split():
    for n_rows, n_parts in ((10, 3), (9, 3), (5, 5), (7, 1)):
        rows = np.arange(n_rows)
        for part, expected in zip(in_parts(rows, n_parts), np.array_split(rows, n_parts), strict=True):
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize(
    ("sizes", "fraction", "expected"),
    [([10] * 20, 0.1, 20), ([10] * 20, 0.9, 180), ([1, 99], 0.1, 1), ([99, 1], 0.5, 1), ([50, 50], 0.1, 50)],
)
def test__early_stopping__row_groups__come_near_to_the_fraction(tmp_path, sizes, fraction, expected):
    for number, size in enumerate(sizes):
        np.save(tmp_path / f"{number:02d}.npy", np.full((size, 2), float(number)))
    for seed in range(5):
        watched, kept = _hold_out(opened(tmp_path), fraction, np.random.default_rng(seed))
        assert len(watched) == expected
        assert not {int(value) for value in watched[:, 0]} & set(kept)
        assert len(watched) + sum(sizes[number] for number in kept) == sum(sizes)
