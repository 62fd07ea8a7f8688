import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import precision_recall_fscore_support

from sdlgm import SDLGMClassifier
from sdlgm.report import label_figures, write_label_report
from sdlgm.report.label_figures import Predictions, Quality, conditional_shares, means_of_parts
from sdlgm.report.label_report import HARDEST, hardest_rows

NAMES = np.array(["happy", "sad", "<b>loud</b>"])


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(120, 3))
    return X, (X + 0.3 > 0).astype(int)


@pytest.fixture(scope="module")
def model(rows) -> SDLGMClassifier:
    X, Y = rows
    fast = {"max_iter": 40, "hidden": (16,), "input_dropout": 0.0, "learning_rate": 0.03}
    sets = [set(NAMES[row > 0].tolist()) for row in Y]
    return SDLGMClassifier(**fast, random_state=0).fit(X, sets)


@pytest.fixture
def predictions(model, rows) -> Predictions:
    X, Y = rows
    return Predictions.of(model, X, Y[:, [NAMES.tolist().index(name) for name in model.classes_]])


def sets_of(Y: np.ndarray) -> list[set[str]]:
    return [set(NAMES[row > 0].tolist()) for row in Y]


def test__label_report__sets_of_labels__is_one_whole_page(model, rows, tmp_path):
    X, Y = rows
    path = write_label_report(model, X, sets_of(Y), tmp_path / "labels.html", name="the songs")
    page = path.read_text(encoding="utf-8")
    assert len(re.findall('src="data:image/png;base64,', page)) == 4
    assert "Labels of the songs" in page
    assert f"{model.evaluate(X, sets_of(Y)).micro_f1:.3f}" in page
    assert "&lt;b&gt;loud&lt;/b&gt;" in page
    assert "<b>loud" not in page
    assert "http" not in page.replace("https://www.w3.org", "")


def test__label_report__more_rows_than_most__is_of_evenly_spaced_ones_under_their_numbers(model, rows, tmp_path):
    X, Y = rows
    write = {"max_rows": 40, "verbose": 0}
    page = write_label_report(model, X, sets_of(Y), tmp_path / "labels.html", **write).read_text(encoding="utf-8")
    assert "40 rows" in page
    assert "evenly spaced among" in page
    numbers = [int(number) for number in re.findall(r"<tr><td>(\d+)</td>", page)]
    assert len(numbers) == HARDEST
    assert max(numbers) > 40


@pytest.mark.parametrize("matrix", [sp.csr_matrix, np.asarray])
def test__label_report__sparse_or_dense_rows__are_the_same_page(model, rows, tmp_path, matrix):
    X, Y = rows
    pages = [
        write_label_report(model, given, sets_of(Y), tmp_path / "labels.html", max_rows=50).read_bytes()
        for given in (X, matrix(X))
    ]
    assert pages[0] == pages[1]


def test__label_report__what_does_not_fit__is_an_error_and_no_file(model, rows, tmp_path):
    X, Y = rows
    one_class = SDLGMClassifier(max_iter=3, random_state=0).fit(X, Y[:, 0])
    with pytest.raises(ValueError, match="one class for each row"):
        write_label_report(one_class, X, Y[:, 0], tmp_path / "labels.html")
    with pytest.raises(ValueError, match="X has 120 rows, and y has 119"):
        write_label_report(model, X, sets_of(Y)[1:], tmp_path / "labels.html")
    with pytest.raises(ValueError, match="unknown"):
        write_label_report(model, X, [{"unknown"}] * len(X), tmp_path / "labels.html")
    assert not list(tmp_path.iterdir())


def test__quality__of_labels__is_that_of_scikit_learn(predictions):
    quality = Quality.of(predictions)
    expected = precision_recall_fscore_support(predictions.true, predictions.predicted, zero_division=0)
    for own, other in zip((quality.precision, quality.recall, quality.f1, quality.n_rows), expected, strict=True):
        np.testing.assert_allclose(own, other)


def test__hardest_rows__come_in_decreasing_log_loss(predictions):
    hardest = hardest_rows(predictions, np.arange(1000, 1120))
    losses = [row.loss for row in hardest]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == predictions.log_loss.max()
    assert hardest[0].number == 1000 + predictions.log_loss.argmax()
    true = predictions.true[predictions.log_loss.argmax()]
    assert hardest[0].true == [name for name, there in zip(predictions.names, true, strict=True) if there]


def test__conditional_shares__small_table__are_those_counted_by_hand():
    indicator = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=bool)
    np.testing.assert_allclose(conditional_shares(indicator), [[1, 2 / 3, 0], [2 / 3, 1, 0], [np.nan, np.nan, np.nan]])


def test__means_of_parts__sorted_by_prediction__keep_the_total():
    predicted, true = np.array([3.0, 1.0, 2.0, 4.0] * 5), np.array([3, 1, 2, 4] * 5)
    x, y = means_of_parts(predicted, true)
    np.testing.assert_allclose(x, y)
    np.testing.assert_allclose(x, np.repeat([1, 2, 3, 4], 5).reshape(10, 2).mean(axis=1))


def test__figures__many_labels__show_the_most_frequent_by_name():
    rng = np.random.default_rng(0)
    n_rows, n_labels = 60, label_figures.NAMED + 10
    true = rng.random((n_rows, n_labels)) < np.linspace(0.02, 0.4, n_labels)
    numbers = np.full((n_rows, 5), 0.2)
    many = Predictions(true, true, np.where(true, 0.9, 0.1), numbers, [f"tag {k}" for k in range(n_labels)])
    left, right = label_figures.quality_by_label(many).axes
    names = [text.get_text() for text in left.get_yticklabels()]
    assert len(names) == label_figures.NAMED
    assert names[0].startswith(f"tag {true.sum(axis=0).argmax()} ")
    assert len(right.lines[0].get_xdata()) == n_labels
    for drawing in (label_figures.numbers_of_labels, label_figures.calibration, label_figures.co_occurrence):
        assert drawing(many).axes


def test__calibration__shares__lie_where_they_were_put():
    probs = np.repeat([0.05, 0.95], 100)[:, None]
    true = np.concatenate([np.arange(100) < 20, np.arange(100) < 70])[:, None]
    drawn = label_figures.calibration(Predictions(true, true, probs, np.full((200, 2), 0.5), ["a"])).axes[0].lines[1]
    np.testing.assert_allclose(drawn.get_xdata(), [0.05, 0.95])
    np.testing.assert_allclose(drawn.get_ydata(), [0.2, 0.7])
