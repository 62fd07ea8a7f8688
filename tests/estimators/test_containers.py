"""Codes in data frames, and in scikit-learn's tools for columns; what features draw."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sdlgm import SDLGM, load


@pytest.fixture(scope="module")
def frame(measurements) -> pd.DataFrame:
    return pd.DataFrame(measurements, columns=list("abcdef"), index=[f"row{i}" for i in range(len(measurements))])


def test__set_output__pandas__is_a_frame_with_sparse_columns(frame, small):
    model = SDLGM(**small, random_state=0)
    codes = clone(model).fit_transform(frame)
    assert isinstance(codes, sp.csr_matrix)
    model.set_output(transform="pandas")
    for found in (model.fit_transform(frame), model.transform(frame)):
        assert isinstance(found, pd.DataFrame)
        assert all(isinstance(kind, pd.SparseDtype) and kind.fill_value == 0 for kind in found.dtypes)
        assert found.index.equals(frame.index)
        assert found.columns.tolist() == model.get_feature_names_out().tolist()
        np.testing.assert_array_equal(found.to_numpy(), codes.toarray())
    assert found.sparse.density == pytest.approx(codes.nnz / np.prod(codes.shape))
    assert model.evaluate(frame).n_rows == len(frame)
    assert isinstance(next(iter(model.transform_batches([frame]))), sp.csr_matrix)
    model.set_output(transform="default")
    assert isinstance(model.transform(frame), sp.csr_matrix)


def test__set_output__configuration_and_other_containers__are_heeded(frame, fitted_gaussian):
    X = frame.to_numpy()
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(fitted_gaussian.transform(X), pd.DataFrame)
    with sklearn.config_context(transform_output="polars"), pytest.raises(ValueError, match="no sparse columns"):
        fitted_gaussian.transform(X)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test__column_transformer__codes_of_some_columns__beside_others(frame, small, output):
    table = frame.assign(kind=np.where(frame["a"] > frame["a"].median(), "high", "low"))
    columns = ColumnTransformer(
        [
            ("codes", SDLGM(**small, random_state=0), list("abcdef")),
            ("kind", OneHotEncoder(sparse_output=output == "default"), ["kind"]),
        ]
    ).set_output(transform=output)
    joined = columns.fit_transform(table)
    assert joined.shape == (len(table), small["n_components"] + 2)
    if output == "pandas":
        assert isinstance(joined.dtypes.iloc[0], pd.SparseDtype)
        assert joined.columns[0] == "codes__sdlgm0"
        return  # scikit-learn warns of frames in which some columns are sparse, and makes them dense
    assert sp.issparse(joined)
    pipeline = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(table, table["kind"])
    assert pipeline.score(table, table["kind"]) > 0.9


def test__components__feature_alone__is_its_decoded_mean_minus_that_of_no_feature(fitted_gaussian, small, tmp_path):
    components = fitted_gaussian.components_
    assert components.shape == (small["n_components"], 6)
    code = np.zeros((2, small["n_components"]), int)
    code[0, 3] = 1
    one, none = fitted_gaussian.inverse_transform(code)
    np.testing.assert_allclose(components[3], one - none, rtol=1e-4, atol=1e-9)
    fitted_gaussian.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").components_, components)
    assert not hasattr(SDLGM(), "components_")


def test__components__linear_decoder__are_its_weights(measurements):
    model = SDLGM(n_components=8, max_active=4, hidden=(), max_iter=100, random_state=0).fit(measurements)
    weights = model.module_.decoder[0].weight.detach().numpy().T * model._fitted.scaling.scale
    largest = np.abs(weights).max(axis=0)
    np.testing.assert_allclose(model.components_ / largest, weights / largest, rtol=1e-3, atol=1e-5)
