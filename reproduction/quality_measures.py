"""What is measured of codes: the error of decoded rows, what can be predicted from them, and their length."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, average_precision_score, r2_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from reproduction.code_lengths import feature_values, independent_supports, pooled_values, shortest
from reproduction.quality_data import QualityData, Task

View = tuple[Any, Any, Any]
"""Codes of the rows for training, validation and testing, arrays or CSR matrices."""

INVERSE_PENALTIES = (0.01, 0.1, 1.0, 10.0)
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
NEIGHBOURS = ((5, "euclidean"), (20, "euclidean"), (5, "cosine"), (20, "cosine"))
ITERATIONS = 200
LEVELS = (4, 8, 16, 32, 64, 128, 256)  # of a rounded coefficient, over the range of all coefficients
ROUNDING_COST = 1.05  # choose the fewest levels that raise the validation error by at most this factor


def unexplained(decoded: np.ndarray, X: np.ndarray, mean: np.ndarray) -> float:
    """Return the squared error of decoded rows as a fraction of that of the mean of the training rows."""
    error, variance = (np.square(np.subtract(X, other, dtype=np.float64)).sum() for other in (decoded, mean))
    return float(error / variance)


def score(task: Task, y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the accuracy of classes, the mean average precision of labels, or the R² of a number.

    Labels that no row has, or that all rows have, are left out of the mean.
    """
    if task == "classes":
        return float(accuracy_score(y, predicted))
    if task == "number":
        return float(r2_score(y, predicted))
    varied = (y.min(axis=0) == 0) & (y.max(axis=0) == 1)
    return float(
        np.mean([average_precision_score(y[:, label], predicted[:, label]) for label in np.nonzero(varied)[0]])
    )


def linear_probe(data: QualityData, views: Sequence[View]) -> float:
    """Return the score of a linear model of the codes; the validation rows choose its penalty, and the view."""
    return _best(data, [_scaled(view) for view in views], _linear_models(data.task))


def neighbours(data: QualityData, views: Sequence[View]) -> float:
    """Return the score of nearest neighbours; the validation rows choose number and distance, and the view."""
    return _best(data, views, [lambda n=n, d=distance: _Neighbours(data.task, n, d) for n, distance in NEIGHBOURS])


def _best(data: QualityData, views: Sequence[View], models: Sequence[Callable[[], Any]]) -> float:
    best, best_score = (lambda: 0.0), -np.inf
    for train, validation, test in views:
        for make in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the score says how good it is
                model = make().fit(train, data.train.y)
            found = score(data.task, data.validation.y, model.predict(validation))
            if found > best_score:
                best_score = found
                best = lambda model=model, test=test: score(data.task, data.test.y, model.predict(test))  # noqa: E731
    return best()


def _scaled(view: View) -> View:
    """Divide codes by one number, so that a penalty means the same for all of them."""
    train = view[0]
    squared = (
        np.square(train.data).sum() / np.prod(train.shape)
        if isinstance(train, sp.csr_matrix)
        else np.square(train, dtype=np.float64).mean()
    )
    size = float(np.sqrt(squared)) or 1.0
    first, second, third = (part / size for part in view)
    return first, second, third


def _linear_models(task: Task) -> list[Callable[[], Any]]:
    if task == "number":
        return [lambda alpha=alpha: Ridge(alpha) for alpha in PENALTIES]
    kind = _LabelWise if task == "labels" else _logistic
    return [lambda c=c: kind(c) for c in INVERSE_PENALTIES]


def _logistic(c: float) -> LogisticRegression:
    return LogisticRegression(C=c, max_iter=ITERATIONS, tol=1e-3)


class _LabelWise:
    """A logistic regression for each label; labels that do not vary in training get their frequency."""

    def __init__(self, c: float):
        self.c = c

    def fit(self, X: Any, Y: np.ndarray) -> "_LabelWise":
        self.models = [
            _logistic(self.c).fit(X, label) if label.min() < label.max() else float(label.mean()) for label in Y.T
        ]
        return self

    def predict(self, X: Any) -> np.ndarray:
        columns = [
            np.full(X.shape[0], model) if not isinstance(model, LogisticRegression) else model.predict_proba(X)[:, 1]
            for model in self.models
        ]
        return np.stack(columns, axis=1)


class _Neighbours:
    """Nearest neighbours; of labels, the share of the neighbours that have them."""

    def __init__(self, task: Task, n: int, distance: str):
        self.task, self.n, self.distance = task, n, distance

    def fit(self, X: Any, y: np.ndarray) -> "_Neighbours":
        kind = KNeighborsClassifier if self.task == "classes" else KNeighborsRegressor
        self.model = kind(min(self.n, len(y)), metric=self.distance, algorithm="brute").fit(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(X)


# Lengths of codes


def support_bits(train: np.ndarray, test: np.ndarray) -> float:
    """Return the mean bits of which features are present, by the frequency of each in the training rows."""
    return float(independent_supports(train)(test).mean())


def index_bits(train: np.ndarray, test: np.ndarray, n_words: int) -> float:
    """Return the mean bits of indices, by their smoothed frequencies in each book in the training rows."""
    bits = 0.0
    for known, given in zip(train.T, test.T, strict=True):
        counts = np.bincount(known, minlength=n_words) + 0.5
        bits += float(-np.log2(counts / counts.sum())[given].mean())
    return bits


def value_bits(codes: tuple[np.ndarray, np.ndarray, np.ndarray], decode: Callable, target: np.ndarray) -> float:
    """Return the mean bits of rounded coefficients of the test rows: of which are not zero, and of their values.

    They are rounded to as few levels as raise the error of the validation rows by at most `ROUNDING_COST`.

    Parameters
    ----------
    codes : tuple of ndarray
        Coefficients of the rows for training, validation and testing.
    decode : callable
        From coefficients to rows.
    target : ndarray
        The validation rows.

    Returns
    -------
    float

    """
    known, held_out, given = codes
    step = _step(known, held_out, decode, target)
    lowest, highest = (int(np.rint(value / step)) for value in (known.min(), known.max()))
    levels = [np.rint(part / step).astype(int).clip(lowest, highest) for part in (known, held_out, given)]
    if not levels[0].any():
        return 0.0
    lengths = {"pooled": pooled_values(levels[0]), "by feature": feature_values(levels[0])}
    values = lengths[shortest(lengths, levels[1])](levels[2])
    return float((independent_supports(levels[0])(levels[2]) + values).mean())


def _step(known: np.ndarray, codes: np.ndarray, decode: Callable, target: np.ndarray) -> float:
    def error(of: np.ndarray) -> float:
        return float(np.square(decode(of.astype(codes.dtype)) - target).mean())

    allowed = ROUNDING_COST * error(codes)
    span = float(known.max() - known.min()) or 1.0
    steps = [span / (levels - 1) for levels in LEVELS]
    return next((step for step in steps if error(np.rint(codes / step) * step) <= allowed), steps[-1])
