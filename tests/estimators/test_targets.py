"""Labels and counts as users have them, to matrices."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sdlgm.errors import BudgetError
from sdlgm.estimators._targets import check_budget, counts_of, labels_of
from sdlgm.train.batches import dense

INDICATOR = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize(
    "Y",
    [
        INDICATOR,
        INDICATOR.astype(bool),
        INDICATOR.tolist(),
        sp.csr_array(INDICATOR),
        pd.DataFrame(INDICATOR, columns=list("abc")),
        [{"a", "c"}, {"b"}, set()],
        pd.Series([("a", "c"), ("b",), ()]),
    ],
)
def test__labels_of__every_kind__is_the_same_matrix(Y):
    labels = labels_of(Y)
    np.testing.assert_array_equal(dense(labels.indicator), INDICATOR)
    assert labels.indicator.dtype.kind == "i"
    assert labels.names.tolist() in ([0, 1, 2], ["a", "b", "c"])
    assert not labels.single


def test__labels_of__classes__are_one_hot_and_single():
    labels = labels_of(np.array(["b", "a", "b"]))
    assert labels.single
    assert labels.names.tolist() == ["a", "b"]
    np.testing.assert_array_equal(labels.indicator, [[0, 1], [1, 0], [0, 1]])


def test__labels_of__names_of_a_model__decide_the_order_and_what_is_unseen():
    names = np.array(["a", "b", "c"], dtype=object)
    turned = pd.DataFrame(INDICATOR[:, [2, 0, 1]], columns=["c", "a", "b"])
    np.testing.assert_array_equal(dense(labels_of(turned, names).indicator), INDICATOR)
    with pytest.raises(ValueError, match="row 1 has the label 'z'"):
        labels_of([{"a"}, {"z"}], names)
    unseen = labels_of([{"a"}, {"z"}], names, unseen=True).indicator
    np.testing.assert_array_equal(dense(unseen), [[1, 0, 0, 0], [0, 0, 0, 1]])


def test__counts_of__matrix_and_single_class__say_which():
    matrix = counts_of(pd.DataFrame([[2, 0], [1, 3]], columns=["x", "y"]))
    assert (matrix.names.tolist(), matrix.single, matrix.matrix.tolist()) == (["x", "y"], False, [[2, 0], [1, 3]])
    one = counts_of([2, 0, 5])
    assert (one.single, one.matrix.tolist()) == (True, [[2], [0], [5]])


def test__check_budget__row_beyond_it__is_named_with_the_remedy():
    check_budget(INDICATOR, 2)
    check_budget(sp.csr_array(INDICATOR), 2)
    with pytest.raises(BudgetError, match="row 0 has 2 labels, more than max_active=1.*max_active=2 or more"):
        check_budget(INDICATOR, 1)
