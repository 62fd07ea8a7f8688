"""ARFF files with sparse rows that stay sparse."""

import numpy as np
import pytest
import scipy.sparse as sp

from sdlgm.data import load_mulan
from sdlgm.errors import DataError

HEADER = """@relation words
@attribute a {0,1}
@attribute tag1 {0,1}
@attribute b numeric
@attribute tag2 {false,true}
@data
"""
XML = '<labels><label name="tag1"></label><label name="tag2"></label></labels>'


@pytest.fixture
def write(tmp_path):
    def write_to(text: str):
        (tmp_path / "words.xml").write_text(XML, encoding="utf-8")
        (tmp_path / "words.arff").write_text(text, encoding="utf-8")
        return tmp_path / "words.arff"

    return write_to


def test__load_mulan__sparse_rows__are_those_that_are_read_dense(write):
    path = write(HEADER + "{0 1, 1 1}\n{2 0.5, 3 true}\n{}\n{0 1, 1 0, 2 -3e2, 3 false}\n")
    dense, sparse = load_mulan(path), load_mulan(path, sparse=True)
    assert isinstance(sparse.X, sp.csr_array)
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    np.testing.assert_array_equal(sparse.Y.toarray(), dense.Y)
    assert (sparse.X.nnz, sparse.Y.nnz) == (4, 2)
    assert {part.dtype for part in (sparse.X.indices, sparse.X.indptr)} == {np.dtype(np.int32)}
    assert (sparse.feature_names, sparse.label_names) == (dense.feature_names, dense.label_names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1,1,0,true\n", "written dense"),
        (HEADER, "has no rows"),
        (HEADER + "{0 2}\n", "line 7: attribute 'a' cannot be '2'"),
        (HEADER + "{2 x}\n", "line 7: attribute 'b' cannot be 'x'"),
        (HEADER + "{0 1}\n{2 inf}\n", "row 1 has an infinite value"),
        (HEADER + "{1 ?}\n", "the value of a label is missing"),
        (HEADER.replace("a {0,1}", "a {1,0}") + "{0 1}\n", "leaves 'a' out has the value '1'"),
        (HEADER.replace("a {0,1}", "a {red,blue}") + "{0 blue}\n", "leaves 'a' out has the value 'red'"),
        (HEADER.replace("{false,true}", "{true,false}") + "{0 1}\n", "leaves 'tag2' out has the value 'true'"),
        (HEADER.replace("{false,true}", "numeric") + "{3 2}\n", "attribute 'tag2' cannot be '2'"),
        (HEADER + "{0 1}\n1,1,0,true\n", "mixed"),
    ],
)
def test__load_mulan__what_cannot_be_sparse__says_why(write, text, message):
    with pytest.raises(DataError, match=message):
        load_mulan(write(text), sparse=True)


def test__load_mulan__named_data__are_dense():
    with pytest.raises(DataError, match="emotions: is dense"):
        load_mulan("emotions", sparse=True)
