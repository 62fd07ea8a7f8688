"""Files of earlier releases must go on loading, with the same results.

Each file was written once by the release that introduced its format version and is never written again.
"""

from pathlib import Path

import numpy as np
import pytest

import sdlgm

GOLDEN = Path(__file__).parents[1] / "golden"


def test__golden__bernoulli_model_of_version_1__encodes_and_decodes_as_then():
    model = sdlgm.load(GOLDEN / "bernoulli-1.sdlgm")
    rows = [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0]]
    assert model.transform(rows).toarray().tolist() == [[0, 0, 2, 0], [0, 2, 0, 0], [2, 0, 0, 0], [0, 0, 0, 2]]
    expected = [0.994894, 0.994523, 0.994426, 0.99672, 0.996896, 0.996472]
    np.testing.assert_allclose(model.inverse_transform(np.eye(4)[:1]), [expected], rtol=1e-4)
    assert model.max_active == 3
    assert model.likelihood_ == "bernoulli"


def test__golden__gaussian_model_of_version_1__decodes_in_the_units_of_the_data():
    model = sdlgm.load(GOLDEN / "gaussian-1.sdlgm")
    expected = [5.52512, 7.0, 1.7675]
    np.testing.assert_allclose(model.inverse_transform(np.eye(4)[:1]), [expected], rtol=1e-4)
    assert model.gate_prior_ == pytest.approx(0.391861, rel=1e-5)
    assert len(model.history_) == 30
