import numpy as np
import pytest

from sdlgm.data import digit_columns, scattered_digits
from sdlgm.data.named import load_named
from sdlgm.errors import DataError


@pytest.mark.parametrize("make", [digit_columns, scattered_digits])
def test__pictures__same_seed__are_the_same_and_counts_within_the_budget(make):
    first, second = (make("train", 60, source="digits", random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.counts, second.counts)
    assert not np.array_equal(first.X, make("train", 60, source="digits", random_state=4).X)
    assert first.X.dtype == np.float32
    assert 0 <= first.X.min() <= first.X.max() <= 1
    assert first.counts.shape == (60, 10)
    assert first.counts.sum(axis=1).max() <= 5


def test__digit_columns__each_column__is_a_digit_of_its_class_or_empty():
    data = digit_columns("test", 50, n_columns=3, source="digits")
    digits = load_named("digits:test")
    known = {image.tobytes(): label for image, label in zip(digits.X, digits.labels, strict=True)}
    for image, counts in zip(data.X, data.counts, strict=True):
        found = np.zeros(10, dtype=int)
        for column in np.split(image, 3, axis=1):
            if column.any():
                found[known[np.ascontiguousarray(column).reshape(-1).tobytes()]] += 1
        np.testing.assert_array_equal(found, counts)


@pytest.mark.parametrize("make", [digit_columns, scattered_digits])
def test__empty__probability__is_that_of_a_place(make):
    assert make("train", 50, empty=1.0, source="digits").X.max() == 0
    assert make("train", 50, empty=0.0, source="digits").counts.sum() == 250
    mean = make("train", 2000, empty=0.3, source="digits").counts.sum(axis=1).mean()
    assert mean == pytest.approx(3.5, abs=0.1)


def test__scattered_digits__places__are_all_over_the_picture():
    images = scattered_digits("train", 500, source="digits").X
    assert images.shape[1:] == (16, 24)
    assert (images.max(axis=0) > 0).mean() > 0.95


@pytest.mark.parametrize(
    "wrong", [{"split": "all"}, {"source": "letters"}, {"empty": 1.5}, {"n_images": 0}, {"n_columns": 0}]
)
def test__wrong_settings__are_refused(wrong):
    with pytest.raises(DataError):
        digit_columns(**{"source": "digits", **wrong})
