"""Figures of a fitted classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdlgm.report.figures import BLUE, GREY, ORANGE, dense, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sdlgm import SDLGMClassifier

NAMED = 30
"""Labels whose quality is shown by name."""
CROSSED = 25
"""Labels in the table of co-occurrence."""
PARTS = 10
"""Bins of a calibration curve."""
LEAST = 1e-12
"""Least probability in a log loss."""


@dataclass(frozen=True)
class Predictions:
    """What a classifier says of rows whose labels are known."""

    true: np.ndarray
    """Indicator matrix of the labels, (n_rows, n_labels)."""
    predicted: np.ndarray
    """Indicator matrix of `SDLGMClassifier.predict`."""
    probs: np.ndarray
    """Probability of each label."""
    numbers: np.ndarray
    """Probability of each number of labels, (n_rows, budget + 1)."""
    names: list[str]

    @classmethod
    def of(cls, model: SDLGMClassifier, X: Any, true: np.ndarray) -> Predictions:
        """Predict the labels of rows."""
        return cls(
            true=true > 0,
            predicted=dense(model.predict(X)) > 0,
            probs=model.predict_proba(X),
            numbers=model.predict_sparsity(X).probs,
            names=[str(name) for name in model.classes_],
        )

    @property
    def frequent(self) -> np.ndarray:
        """Labels in decreasing order of the rows that have them."""
        return np.argsort(-self.true.sum(axis=0), kind="stable")

    @property
    def log_loss(self) -> np.ndarray:
        """Log loss of each row, in nats, summed over the labels."""
        return -np.log(np.clip(np.where(self.true, self.probs, 1 - self.probs), LEAST, 1.0)).sum(axis=1)


@dataclass(frozen=True)
class Quality:
    """Scores of each label; zero where they are not defined, as in scikit-learn."""

    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray
    n_rows: np.ndarray
    """Rows that have the label."""

    @classmethod
    def of(cls, predictions: Predictions) -> Quality:
        """Compare predicted with true labels."""
        both = (predictions.true & predictions.predicted).sum(axis=0)
        n_true, n_predicted = predictions.true.sum(axis=0), predictions.predicted.sum(axis=0)
        return cls(
            precision=both / np.maximum(n_predicted, 1),
            recall=both / np.maximum(n_true, 1),
            f1=2 * both / np.maximum(n_true + n_predicted, 1),
            n_rows=n_true,
        )


def quality_by_label(predictions: Predictions) -> Figure:
    """Plot F1, precision and recall of the most frequent labels, and F1 of all against their frequency."""
    quality, labels = Quality.of(predictions), predictions.frequent[:NAMED]
    many = len(predictions.names) > NAMED
    figure = new_figure(9, 1.2 + 0.21 * max(len(labels), 4))
    left, *right = figure.subplots(1, 2 if many else 1, squeeze=False)[0]
    places = np.arange(len(labels))
    left.barh(places, quality.f1[labels], color=BLUE, alpha=0.8, label="F1")
    left.plot(quality.precision[labels], places, "o", color=ORANGE, ms=4, label="precision")
    left.plot(quality.recall[labels], places, "d", color="black", ms=4, label="recall")
    names = [f"{predictions.names[k]} ({quality.n_rows[k]:,})" for k in labels]
    left.set_yticks(places, names, fontsize=7)
    left.invert_yaxis()
    left.set(xlim=(0, 1.02), xlabel="score (rows with the label in parentheses)")
    figure.legend(frameon=False, fontsize=7, loc="outside upper left", ncols=3)
    for axis in right:
        axis.plot(np.maximum(quality.n_rows, 0.5), quality.f1, ".", color=BLUE, alpha=0.6)
        axis.set(xscale="log", xlabel="rows with the label (0 at the left edge)", ylabel="F1", ylim=(-0.02, 1.02))
    return figure


def numbers_of_labels(predictions: Predictions) -> Figure:
    """Plot distributions of the number of labels, and the expected number against the true one."""
    figure = new_figure(9, 3)
    left, right = figure.subplots(1, 2)
    true, predicted = predictions.true.sum(axis=1), predictions.predicted.sum(axis=1)
    values = np.arange(max(int(true.max(initial=0)), predictions.numbers.shape[1] - 1) + 1)
    for number, name, colour, offset in ((true, "rows have", BLUE, -0.22), (predicted, "predicted", ORANGE, 0.22)):
        share = np.bincount(number, minlength=len(values)) / len(number)
        left.bar(values + offset, share, width=0.44, color=colour, alpha=0.8, label=name)
    expected = predictions.numbers.mean(axis=0)
    left.plot(np.arange(len(expected)), expected, color="black", lw=1, marker=".", label="expected by the model")
    left.set(xlabel="number of labels", ylabel="share of rows")
    left.legend(frameon=False, fontsize=7)
    mean = predictions.numbers @ np.arange(predictions.numbers.shape[1])
    _against_diagonal(right, *means_of_parts(mean, true), "expected number of labels", "true number, mean")
    return figure


def calibration(predictions: Predictions) -> Figure:
    """Plot the share of labels that are there against their predicted probability."""
    figure = new_figure(9, 3)
    left, right = figure.subplots(1, 2)
    probs, true = predictions.probs.ravel(), predictions.true.ravel()
    part = np.minimum((probs * PARTS).astype(int), PARTS - 1)
    n = np.bincount(part, minlength=PARTS)
    kept = np.flatnonzero(n)
    mean, share = (np.bincount(part, values, PARTS)[kept] / n[kept] for values in (probs, true))
    _against_diagonal(left, mean, share, "predicted probability, mean", "share of labels that are there")
    right.bar((np.arange(PARTS) + 0.5) / PARTS, n, width=0.9 / PARTS, color=GREY)
    right.set(yscale="log", xlabel="predicted probability", ylabel="labels of rows", xlim=(0, 1))
    return figure


def co_occurrence(predictions: Predictions) -> Figure:
    """Plot how often a row with one label has another, in the data and in the predictions."""
    labels = predictions.frequent[:CROSSED]
    names = [predictions.names[k] for k in labels]
    figure = new_figure(9, 5.3)
    axes = figure.subplots(1, 2, sharey=True)
    drawn = ((predictions.true, "in the data"), (predictions.predicted, "predicted"))
    images = []
    for axis, (indicator, title) in zip(axes, drawn, strict=True):
        images.append(axis.imshow(conditional_shares(indicator[:, labels]), vmin=0, vmax=1, cmap="viridis"))
        axis.set_title(title, fontsize=9)
        axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        axis.set_yticks(range(len(names)), names, fontsize=6)
    figure.colorbar(images[0], ax=axes, label="share of rows of the line", shrink=0.8)
    return figure


def conditional_shares(indicator: np.ndarray) -> np.ndarray:
    """Return the share of the rows with label j that have label k, for all j and k; NaN if no row has label j."""
    own = indicator.astype(np.float64)
    n_rows = own.sum(axis=0)
    return own.T @ own / np.where(n_rows > 0, n_rows, np.nan)[:, None]


def means_of_parts(predicted: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the means of predicted and of true numbers in up to ten parts of equal size, by the predicted ones."""
    parts = np.array_split(np.argsort(predicted, kind="stable"), min(PARTS, len(predicted)))
    return np.array([predicted[part].mean() for part in parts]), np.array([true[part].mean() for part in parts])


def _against_diagonal(axis: Any, x: np.ndarray, y: np.ndarray, x_label: str, y_label: str) -> None:
    low, high = min(x.min(), y.min()), max(x.max(), y.max())
    margin = 0.05 * (high - low) or 0.5
    axis.plot([low - margin, high + margin], [low - margin, high + margin], color=GREY, ls="--", lw=1)
    axis.plot(x, y, "o-", color=BLUE, ms=4, lw=1)
    axis.set(xlabel=x_label, ylabel=y_label)
