"""Training on the real MNIST: what the results page says, on a smaller scale."""

import os

import pytest

from reproduction.table1 import PAPER
from sdlgm import SDLGM
from sdlgm.data import load_data

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("SDLGM_DATA"), reason="SDLGM_DATA does not name a folder with MNIST"),
]


def test__mnist__default__learns_codes_that_are_worth_their_nats():
    model = SDLGM(max_iter=2500, random_state=0).fit(load_data("mnist:train").X)
    evaluation = model.evaluate(load_data("mnist:test").X, random_state=0)
    assert evaluation.discrete > -140
    assert evaluation.kl > 15
    assert evaluation.features_alive > 150
    assert evaluation.n_active_max <= 40


def test__mnist__setting_of_the_paper__looks_good_relaxed_and_is_not():
    model = SDLGM(**PAPER, max_iter=2500, random_state=0).fit(load_data("mnist:train").X)
    evaluation = model.evaluate(load_data("mnist:test").X[:2000], random_state=0)
    assert evaluation.relaxed > -160
    assert evaluation.discrete < evaluation.relaxed - 50
