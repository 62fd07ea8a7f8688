"""Images of several digits, with the count of each digit."""

from typing import Literal

import numpy as np

from sdlgm.data.dataset import CountDataset
from sdlgm.data.named import load_named
from sdlgm.errors import DataError

N_DIGITS = 10
DEFAULT_IMAGES = {"train": 5000, "test": 1000}  # as in the paper

Source = Literal["mnist", "digits"]


def digit_columns(
    split: str = "train",
    n_images: int | None = None,
    *,
    n_columns: int = 5,
    empty: float = 0.5,
    source: Source = "mnist",
    random_state: int = 0,
) -> CountDataset:
    """Make images of columns side by side, each with a random digit or empty, as in the paper.

    Training images are made of training digits only, and test images of test digits. The paper does not state how
    often a column is empty. With 0.5 a random forest scores about 0.16, which the paper prints for one; see
    ``docs/results/counts.md``.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which digits to use.
    n_images : int or None, default=None
        Number of images; 5,000 for training and 1,000 for test if None, as in the paper.
    n_columns : int, default=5
        Columns of an image, and so the largest number of digits in it.
    empty : float, default=0.5
        Probability that a column is empty.
    source : {"mnist", "digits"}, default="mnist"
        Data set of the digits. ``"digits"`` comes with scikit-learn.
    random_state : int, default=0
        Seed. Training and test images differ for every seed.

    Returns
    -------
    CountDataset

    """
    digits, labels = _load_digits(source, split)
    n, rng = _check_size(split, n_images, n_columns, empty), _generator(random_state, split)
    chosen = rng.integers(len(digits), size=(n, n_columns))
    full = rng.random((n, n_columns)) >= empty
    cells = digits[chosen] * full[..., None, None]
    images = cells.transpose(0, 2, 1, 3).reshape(n, digits.shape[1], n_columns * digits.shape[2])
    return CountDataset(f"digit_columns:{split}", images, _count_digits(labels[chosen], full))


def scattered_digits(
    split: str = "train",
    n_images: int | None = None,
    *,
    n_digits: int = 5,
    empty: float = 0.5,
    source: Source = "mnist",
    random_state: int = 0,
) -> CountDataset:
    """Make images of digits at random places, where they may overlap.

    An image is two digits high and three wide. Where digits overlap, the brighter pixel is kept.

    Parameters
    ----------
    split : {"train", "test"}, default="train"
        Which digits to use.
    n_images : int or None, default=None
        Number of images; 5,000 for training and 1,000 for test if None.
    n_digits : int, default=5
        Largest number of digits in an image.
    empty : float, default=0.5
        Probability that a digit is left out.
    source : {"mnist", "digits"}, default="mnist"
        Data set of the digits. ``"digits"`` comes with scikit-learn.
    random_state : int, default=0
        Seed. Training and test images differ for every seed.

    Returns
    -------
    CountDataset

    """
    digits, labels = _load_digits(source, split)
    n, rng = _check_size(split, n_images, n_digits, empty), _generator(random_state, split)
    side = digits.shape[1]
    height, width = 2 * side, 3 * side
    chosen = rng.integers(len(digits), size=(n, n_digits))
    full = rng.random((n, n_digits)) >= empty
    tops = rng.integers(height - side + 1, size=(n, n_digits))
    lefts = rng.integers(width - side + 1, size=(n, n_digits))
    images = np.zeros((n, height, width), np.float32)
    for row, place in zip(*np.nonzero(full), strict=True):
        top, left = tops[row, place], lefts[row, place]
        part = images[row, top : top + side, left : left + side]
        np.maximum(part, digits[chosen[row, place]], out=part)
    return CountDataset(f"scattered_digits:{split}", images, _count_digits(labels[chosen], full))


def _load_digits(source: str, split: str) -> tuple[np.ndarray, np.ndarray]:
    if source not in ("mnist", "digits"):
        raise DataError(f"{source}: unknown source of digits; name 'mnist' or 'digits'")
    if split not in DEFAULT_IMAGES:
        raise DataError(f"{split}: unknown split; the splits are train and test")
    dataset = load_named(f"{source}:{split}")
    side = round(dataset.X.shape[1] ** 0.5)
    return np.asarray(dataset.X, np.float32).reshape(-1, side, side), np.asarray(dataset.labels)


def _check_size(split: str, n_images: int | None, n_places: int, empty: float) -> int:
    n = DEFAULT_IMAGES[split] if n_images is None else n_images
    if n < 1 or n_places < 1:
        raise DataError(f"n_images={n} with room for {n_places} digits; both are at least 1")
    if not 0 <= empty <= 1:
        raise DataError(f"empty={empty} is not a probability; choose a number from 0 to 1")
    return n


def _generator(seed: int, split: str) -> np.random.Generator:
    return np.random.default_rng([seed, list(DEFAULT_IMAGES).index(split)])


def _count_digits(labels: np.ndarray, full: np.ndarray) -> np.ndarray:
    """Return the count of each digit in each image."""
    return (np.eye(N_DIGITS, dtype=np.int64)[labels] * full[..., None]).sum(axis=1)
