"""Files of earlier releases must go on loading, with the same results.

Each file was written once by the release that introduced its format version and is never written again.
"""

from pathlib import Path

import numpy as np
import pytest

import sdlgm

GOLDEN = Path(__file__).parents[1] / "golden"


def test__golden__bernoulli_model_of_version_1__decodes_and_encodes_as_then():
    model = sdlgm.load(GOLDEN / "bernoulli-1.sdlgm")
    decoded = model.inverse_transform(np.eye(5)[:1])
    np.testing.assert_allclose(decoded, [BERNOULLI], rtol=1e-4)
    assert model.transform([[1, 0, 1, 0, 0, 0]]).toarray().tolist() == [ENCODED]
    assert model.max_active == 3
    assert model.likelihood_ == "bernoulli"


def test__golden__gaussian_model_of_version_1__decodes_in_the_units_of_the_data():
    model = sdlgm.load(GOLDEN / "gaussian-1.sdlgm")
    np.testing.assert_allclose(model.inverse_transform(np.eye(5)[:1]), [GAUSSIAN], rtol=1e-4)
    assert model.gate_prior_ == pytest.approx(GATE_PRIOR, rel=1e-5)
    assert len(model.history_) == 30


BERNOULLI = []
ENCODED = []
GAUSSIAN = []
GATE_PRIOR = 0.0
