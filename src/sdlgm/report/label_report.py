"""Write a report on a fitted classifier."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdlgm import __version__
from sdlgm._files import remove_abandoned_files, write_text
from sdlgm._progress import Progress
from sdlgm.report import label_figures
from sdlgm.report.figures import dense, evenly_spaced
from sdlgm.report.label_figures import Predictions
from sdlgm.report.pages import MAX_ROWS, Section, drawn, template

if TYPE_CHECKING:
    from sdlgm import SDLGMClassifier

HARDEST = 20
"""Rows in the table of the hardest ones."""


@dataclass(frozen=True)
class HardRow:
    """A row whose labels the model finds improbable."""

    number: int
    """Counted from 0."""
    loss: float
    """Log loss in nats, summed over the labels."""
    true: list[str]
    predicted: list[str]


SECTIONS: tuple[Section[Predictions], ...] = (
    Section(
        "Quality by label",
        f"F1, precision and recall of the labels that most rows have, at most {label_figures.NAMED}; with more labels, "
        "F1 against the number of rows that have the label.",
        label_figures.quality_by_label,
    ),
    Section(
        "Number of labels",
        "Left: how many labels rows have, how many are predicted, and the distribution that the model expects. Right: "
        "the expected number against the true one, means of tenths of the rows; on the diagonal, the model knows how "
        "many labels a row has.",
        label_figures.numbers_of_labels,
    ),
    Section(
        "Calibration",
        "The share of the labels that rows have, against their predicted probability. On the diagonal, probabilities "
        "mean what they say.",
        label_figures.calibration,
    ),
    Section(
        "Co-occurrence",
        "How often rows with the label of the line have the label of the column: in the data, and in the predictions. "
        f"The labels that most rows have, at most {label_figures.CROSSED}.",
        label_figures.co_occurrence,
    ),
)


def write_label_report(
    model: SDLGMClassifier,
    X,
    y,
    path: str | os.PathLike[str],
    *,
    name: str = "the rows",
    max_rows: int | None = MAX_ROWS,
    verbose: int = 0,
) -> Path:
    """Write a report on a classifier: quality by label, numbers of labels, calibration and the hardest rows.

    Parameters
    ----------
    model : SDLGMClassifier
        Fitted model of several labels a row.
    X : array-like or CSR matrix of shape (n_samples, n_features_in_)
        Rows to report on.
    y : labels as for `SDLGMClassifier.fit`
        The labels that these rows have. Labels that the model does not know are an error.
    path : path
        HTML file to write. It is replaced only once the report is complete.
    name : str, default="the rows"
        What to call the data.
    max_rows : int or None, default=10000
        Report on at most this many rows, evenly spaced; the page says how many there are. None for all.
    verbose : int, default=0
        If positive, show progress on the standard error.

    Returns
    -------
    path : Path
        The file written.

    Raises
    ------
    MissingDependencyError
        If matplotlib or jinja2 is not installed.
    ValueError
        If the model has one class for each row, or X and y do not fit each other or the model.

    """
    page = template("labels.html")
    true = _indicator(model, X, y)
    n_rows = len(true)
    rows = evenly_spaced(n_rows, n_rows if max_rows is None else max_rows)
    X, true = _rows_of(X, rows), true[rows]
    with Progress("report", 2 + len(SECTIONS), visible=bool(verbose)) as progress:
        progress.update(0, "evaluation")
        evaluation = model.evaluate(X, true)
        progress.update(1, "predictions")
        predictions = Predictions.of(model, X, true)
        text = page.render(
            data=name,
            n_rows=n_rows,
            n_labels=len(model.classes_),
            evaluation=evaluation,
            model=model,
            hardest=hardest_rows(predictions, rows),
            settings={name: value for name, value in model.get_params().items() if value is not None},
            sections=[*drawn(SECTIONS, predictions, progress, first=2)],
            version=__version__,
        )
        written = write_text(path, text)
    remove_abandoned_files(written)
    return written


def hardest_rows(predictions: Predictions, numbers: np.ndarray) -> list[HardRow]:
    """Return the rows with the largest log loss, the hardest first.

    Parameters
    ----------
    predictions : Predictions
    numbers : ndarray of int of shape (n_rows,)
        Numbers of the rows.

    """
    loss = predictions.log_loss

    def named(indicator: np.ndarray) -> list[str]:
        return [predictions.names[k] for k in np.flatnonzero(indicator)]

    return [
        HardRow(int(numbers[i]), float(loss[i]), named(predictions.true[i]), named(predictions.predicted[i]))
        for i in np.argsort(-loss, kind="stable")[:HARDEST]
    ]


def _indicator(model: SDLGMClassifier, X: Any, y: Any) -> np.ndarray:
    """Return known labels as an indicator matrix, or raise."""
    if model.single_label_:
        raise ValueError("the model has one class for each row; use sklearn.metrics.classification_report")
    true = dense(model.to_indicator(y))
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if len(true) != n_rows:
        raise ValueError(f"X has {n_rows} rows, and y has {len(true)}")
    if not n_rows:
        raise ValueError("X has no rows")
    return true


def _rows_of(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of a matrix or of a table."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):  # pyarrow, which may not be installed
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]
