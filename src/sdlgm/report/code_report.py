"""Write one self-contained HTML file with the numbers and figures of a fitted model."""

from __future__ import annotations

import copy
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sdlgm import __version__
from sdlgm._files import remove_abandoned_files, write_text
from sdlgm._progress import Progress
from sdlgm.data import Dataset
from sdlgm.report import figures
from sdlgm.report.pages import MAX_ROWS, Section, drawn, template

if TYPE_CHECKING:
    from sdlgm import SDLGM, Evaluation


def write_report(
    model: SDLGM,
    data: Dataset,
    path: str | os.PathLike[str],
    *,
    random_state: int = 0,
    max_rows: int | None = MAX_ROWS,
    verbose: int = 0,
) -> Path:
    """Write a report on a fitted model.

    Parameters
    ----------
    model : SDLGM
        Fitted model.
    data : Dataset
        Observations to report on. With ``image_shape``, they are shown as images.
    path : path
        HTML file to write. It is replaced only once the report is complete.
    random_state : int
        Seed of the sampled codes and of t-SNE.
    max_rows : int or None, default=10000
        Report on at most this many observations, evenly spaced; the page says how many there are. None for all.
    verbose : int, default=0
        If positive, show progress on the standard error.

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    MissingDependencyError
        If matplotlib or jinja2 is not installed.

    """
    page = template("codes.html")
    model = _with_sparse_output(model)
    n_rows = data.X.shape[0]
    if max_rows is not None and n_rows > max_rows:
        data = _some_rows(data, figures.evenly_spaced(n_rows, max_rows))
    sections = _sections(model, data)
    with Progress("report", 2 + len(sections), visible=bool(verbose)) as progress:
        progress.update(0, "evaluation")
        evaluation = model.evaluate(data.table, random_state=random_state)
        progress.update(1, "codes")
        codes = figures.Codes.of(model, data, evaluation.max_active, random_state)
        text = page.render(
            data=data.name,
            n_rows=n_rows,
            evaluation=evaluation,
            problems=_problems(model, evaluation),
            bits=evaluation.kl / math.log(2),
            model=model,
            kinds=Counter(model.likelihoods_.tolist()),
            settings={name: value for name, value in model.get_params().items() if value is not None},
            sections=[*drawn(sections, codes, progress, first=2)],
            version=__version__,
        )
        written = write_text(path, text)
    remove_abandoned_files(written)
    return written


def _some_rows(data: Dataset, rows: np.ndarray) -> Dataset:
    return replace(data, X=data.X[rows], labels=None if data.labels is None else data.labels[rows])


def _with_sparse_output(model: SDLGM) -> SDLGM:
    """Return the model with codes as matrices, whatever ``set_output`` has been called with."""
    model = copy.copy(model)
    vars(model)["_sklearn_output_config"] = {}
    return model.set_output(transform="default")


def _problems(model: SDLGM, evaluation: Evaluation) -> list[str]:
    """Return what is wrong with the codes, for the top of the page."""
    found = [
        f"The fit: {model.problem_}" if model.problem_ else None,
        f"These data: {evaluation.problem}" if evaluation.problem else None,
    ]
    return [problem for problem in found if problem is not None]


def _sections(model: SDLGM, data: Dataset) -> list[Section[figures.Codes]]:
    sections: list[Section[figures.Codes]] = [
        Section(
            "Reconstructions",
            "Observations and the mean of p(x | z) for their codes from transform.",
            lambda codes: figures.reconstructions(model, data, codes.best),
        )
    ]
    if data.image_shape is not None:
        sections.append(
            Section(
                "Features of single codes",
                "Each row shows an observation, the effect of each feature in its code on the reconstruction (title: "
                "feature × count; red: pixel value increases, blue: decreases), and the reconstruction.",
                lambda codes: figures.reading_a_code(model, data, codes.best),
            )
        )
    n_mapped = min(data.X.shape[0], figures.MAP_ROWS)
    further: list[Section[figures.Codes]] = [
        Section(
            "Sparsity",
            "Left: distribution of the number of active slots, for codes sampled from q(z | x) and for codes from "
            "transform; right: distribution of the gate logits over the observations.",
            lambda codes: figures.sparsity(model, data, codes.best, codes.drawn, codes.budget),
        ),
        Section(
            "Map of the codes",
            f"t-SNE embedding of {n_mapped:,} sampled codes, coloured by "
            + ("label (not used in training)." if data.labels is not None else "the number of active slots."),
            lambda codes: figures.code_map(data, codes.drawn, codes.random_state),
        ),
        Section(
            "Effect of each feature",
            f"Mean difference between the reconstructions of codes with and without each of the (at most "
            f"{figures.ATLAS_FEATURES}) most used features, relative to the largest difference of the "
            f"{'feature' if data.image_shape else 'column'} (red: increase, blue: decrease).",
            lambda codes: figures.feature_atlas(model, data, codes.best),
        ),
        Section(
            "Feature usage",
            "Fraction of observations whose code contains each feature, in decreasing order.",
            lambda codes: figures.usage(codes.best, codes.drawn),
        ),
        Section(
            "Training",
            "Negative ELBO with discrete and with relaxed codes, KL divergence from the prior, expected number of "
            "active slots and number of features in use, on held-out rows with early stopping and on training rows "
            "otherwise.",
            lambda codes: figures.training_curves(model, codes.budget),
        ),
    ]
    return [*sections, *further]
