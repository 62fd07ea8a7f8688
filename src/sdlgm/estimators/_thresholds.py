"""Thresholds on the probabilities of labels, chosen by cross-validation on the training rows."""

from collections.abc import Callable, Iterator

import numpy as np

GRID = np.round(np.arange(0.02, 0.96, 0.01), 2)
"""Candidate thresholds."""
POWERS = (0.0, 0.25, 0.5, 0.75)
"""Candidate powers by which the thresholds of single labels follow the frequencies of the labels."""
_HIGHEST = 0.95


def label_folds(indicator: np.ndarray, n_folds: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Return folds in which every label is about as frequent as in all rows (Sechidis et al., ECML 2011)."""
    from iterstrat.ml_stratifiers import MultilabelStratifiedKFold

    folds = MultilabelStratifiedKFold(n_folds, shuffle=True, random_state=seed)
    if indicator.shape[1] == 1:  # it needs at least two columns
        indicator = np.hstack([indicator, 1 - indicator])
    return folds.split(np.zeros((len(indicator), 1)), indicator)


def out_of_fold(
    fit_predict: Callable[[np.ndarray, np.ndarray], np.ndarray], indicator: np.ndarray, n_folds: int, seed: int
) -> np.ndarray:
    """Return the probabilities of every row from a model that was not fitted to it.

    ``fit_predict(train, held_out)`` takes row numbers.
    """
    probs = np.zeros(indicator.shape)
    for train, held_out in label_folds(indicator, n_folds, seed):
        probs[held_out] = fit_predict(train, held_out)
    return probs


def labels_at(probs: np.ndarray, thresholds: float | np.ndarray, max_active: int | None) -> np.ndarray:
    """Return whether each label is predicted: those at or above the threshold, at most the ``max_active`` likeliest."""
    chosen = probs >= thresholds
    if max_active is not None and max_active < probs.shape[1]:
        rank = np.argsort(np.argsort(-probs, axis=1, kind="stable"), axis=1, kind="stable")
        chosen &= rank < max_active
    return chosen


def best_threshold(
    indicator: np.ndarray, probs: np.ndarray, max_active: int | None = None, weights: np.ndarray | None = None
) -> float:
    """Return the threshold with the largest micro F1, the median of ties."""
    scores = [f1(indicator, labels_at(probs, level, max_active), "micro", weights) for level in GRID]
    return float(np.median(GRID[_largest(scores)]))


def best_thresholds(
    indicator: np.ndarray, probs: np.ndarray, max_active: int | None = None, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return a threshold for each label, c * frequency ** power, with the largest macro F1.

    Most labels have too few positives for a threshold of their own. These two numbers are chosen on all labels
    together, and still let a rare label have a lower threshold than a frequent one.
    """
    shares = indicator.mean(axis=0) if weights is None else np.average(indicator, axis=0, weights=weights)
    frequency = np.maximum(shares, 0.5 / len(indicator))
    best, chosen = -1.0, np.full(indicator.shape[1], 0.5)
    for power in POWERS:
        relative = (frequency / frequency.mean()) ** power
        tried = [np.minimum(level * relative, _HIGHEST) for level in GRID]
        scores = [f1(indicator, labels_at(probs, thresholds, max_active), "macro", weights) for thresholds in tried]
        if max(scores) > best + 1e-12:
            best = max(scores)
            chosen = np.minimum(np.median(GRID[_largest(scores)]) * relative, _HIGHEST)
    return chosen


def _largest(scores: list[float]) -> np.ndarray:
    """Return the places of the first run of largest scores."""
    best = np.flatnonzero(np.array(scores) >= max(scores) - 1e-12)
    gaps = np.flatnonzero(np.diff(best) > 1)
    return best[: gaps[0] + 1] if len(gaps) else best


def f1(indicator: np.ndarray, predicted: np.ndarray, average: str, weights: np.ndarray | None = None) -> float:
    """Return the F1 of scikit-learn with zero_division=0, a hundred times faster on small matrices."""
    if weights is None:
        hits = (predicted & (indicator > 0)).sum(axis=0)
        total = predicted.sum(axis=0) + indicator.sum(axis=0)
    else:
        hits = weights @ (predicted & (indicator > 0))
        total = weights @ (predicted.astype(np.int64) + indicator)
    if average == "micro":
        return float(2 * hits.sum() / (total.sum() or 1))
    return float(np.mean(2 * hits / np.where(total > 0, total, 1)))
