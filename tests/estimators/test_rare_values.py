"""Values that few rows have do not reach the encoder a hundred times as large as others."""

import numpy as np
import torch

from sdlgm import SDLGM


def test__encoder_inputs__columns_with_rare_values__stay_small(small):
    rng = np.random.default_rng(0)
    n_rows = 5000
    ordinary = rng.integers(0, 2, (n_rows, 2)) @ rng.normal(size=(2, 3)) + 0.1 * rng.normal(size=(n_rows, 3))
    counts = rng.poisson(2.0, (n_rows, 1))
    rare_truth, rare_count = np.zeros((n_rows, 1)), np.zeros((n_rows, 1))
    rare_truth[7], rare_count[[11, 12]] = 1, [[3], [2]]
    X = np.hstack([ordinary, counts, rare_count, rare_truth])
    assert (np.abs(X - X.mean(axis=0)) / X.std(axis=0)).max() > 50  # standardised
    model = SDLGM(**{**small, "max_iter": 5}, random_state=0).fit(X)
    assert model.likelihoods_[-1] == "bernoulli"
    inputs = model.module_.inputs
    assert inputs is not None
    with torch.no_grad():
        seen = inputs(torch.as_tensor(model._fitted.scaling.apply(X)))
    assert float(seen.abs().max()) < 6.0
    assert float(seen[:, 0:1].std()) > 0.1  # ordinary columns are not squeezed
