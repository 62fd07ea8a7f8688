"""The budget holds for adversarial rows and models."""

import numpy as np
import scipy.sparse as sp

from robustness.budgets import KINDS, count_beyond, try_budgets


def test__try_budgets__adversarial_rows_and_models__are_within_the_budget():
    found = try_budgets(10_000, seed=0)
    assert found.rows >= 10_000
    assert found.beyond == 0


def test__count_beyond__codes_beyond_the_budget__are_counted():
    codes = np.array([[1, 1, 0], [2, 1, 0], [-1, 0, 0], [0, 0, 0]])
    assert count_beyond(codes, 2) == 2
    assert count_beyond(sp.csr_matrix(codes), 3) == 1
    assert count_beyond(np.array([[0.5], [np.nan]]), 2) == 2


def test__kinds__every_one__makes_rows_of_one_shape():
    assert {make(np.random.default_rng(0)).shape for make in KINDS.values()} == {
        KINDS["zeros"](np.random.default_rng(0)).shape
    }
