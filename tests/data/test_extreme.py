"""Text files with many labels."""

import gzip

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import LabelBinarizer

from sdlgm import SDLGMClassifier
from sdlgm.data import load_extreme
from sdlgm.errors import DataError


def write(path, text: str):
    path.write_text(text, encoding="ascii")
    return path


def test__load_extreme__file_of_the_repository__has_its_shape(tmp_path):
    path = write(tmp_path / "train.txt", "3 5 4\n1,3 0:1 4:0.25\n 2:-1e-3\n0 1:2 # a comment\n")
    data = load_extreme(path)
    np.testing.assert_array_equal(data.X.toarray(), [[1, 0, 0, 0, 0.25], [0, 0, -1e-3, 0, 0], [0, 2, 0, 0, 0]])
    np.testing.assert_array_equal(data.Y.toarray(), [[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    (tmp_path / "train.txt.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert (load_extreme(tmp_path / "train.txt.gz").X != data.X).nnz == 0
    model = SDLGMClassifier(hidden=(4,), max_iter=2, random_state=0).fit(data.X, data.Y)
    assert model.predict(data.X).shape == (3, 4)


def test__load_extreme__svmlight_file__is_read_as_scikit_learn_does(tmp_path):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.4), rng.random((30, 5)) < 0.3
    Y[:, 0], X[0, 7] = True, 1.0
    dump_svmlight_file(X, Y, str(tmp_path / "rows.svm"), multilabel=True, zero_based=True)
    expected, labels = load_svmlight_file(str(tmp_path / "rows.svm"), multilabel=True, zero_based=True)
    data = load_extreme(tmp_path / "rows.svm", n_labels=9)
    np.testing.assert_allclose(data.X.toarray(), expected.toarray())
    assert [tuple(np.flatnonzero(row)) for row in data.Y.toarray()] == [tuple(map(int, row)) for row in labels]
    assert data.Y.shape == (30, 9)
    SGDClassifier(max_iter=5, tol=None).fit(data.X, data.Y[:, [1]].toarray()[:, 0])  # takes indices of 32 bits only


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        ("2 3 2\n0 1:1\n", "states 2 rows in its first line, and has 1"),
        ("1 3 2\n0 3:1\n", "has the feature 3, and there are 3, numbered from 0"),
        ("1 3 2\n2 1:1\n", "has the label 2, and there are 2, numbered from 0"),
        ("0 1:1\n0 1:one\n", "line 2: 'one' is not a finite number"),
        ("0 1:nan\n", "line 1: 'nan' is not a finite number"),
        ("0 1:1e999\n", "line 1: '1e999' is not a finite number"),
        ("0,-1 1:1\n", "line 1: '-1' is not a whole number"),
        ("0 1:1 2\n", "line 1: '2' is not a feature"),
        ("0 99999999999:1\n", "line 1: '99999999999' is not a whole number"),
        ("0 1:1 1:2\n", "a row has a feature twice"),
        ("1,1 1:1\n", "a row has a label twice"),
        ("0 1:1\x80\n", "is not text in ASCII"),
    ],
)
def test__load_extreme__damaged_file__says_where(tmp_path, text, message):
    (tmp_path / "rows.txt").write_bytes(text.encode("latin1"))
    with pytest.raises(DataError, match=message):
        load_extreme(tmp_path / "rows.txt")


def test__load_extreme__line_without_end__is_refused_before_it_is_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("SDLGM_MAX_MEMORY", "1M")
    (tmp_path / "rows.txt.gz").write_bytes(gzip.compress(b"0 1:1" + b"0" * 10**6))
    with pytest.raises(DataError, match="of memory to read"):
        load_extreme(tmp_path / "rows.txt.gz")


def test__load_extreme__no_file__is_a_named_error(tmp_path):
    with pytest.raises(DataError, match="rows.txt"):
        load_extreme(tmp_path / "rows.txt")


def test__load_extreme__many_labels__are_not_mixed_up_by_scikit_learn(tmp_path):
    lines = [f"{label} 0:{label}.5" for label in range(300)]
    data = load_extreme(write(tmp_path / "train.txt", "\n".join(["300 1 300", *lines]) + "\n"))
    binary = LabelBinarizer(sparse_output=True).fit_transform(data.Y.toarray())
    np.testing.assert_array_equal(binary.toarray(), np.eye(300))
