"""Write one self-contained HTML file with the numbers and figures of a fitted model."""

from __future__ import annotations

import base64
import copy
import io
import math
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from sdlgm import __version__
from sdlgm._files import remove_abandoned_files, write_text
from sdlgm._optional import optional_import
from sdlgm.data import Dataset
from sdlgm.report import figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from sdlgm import SDLGM, Evaluation


@dataclass(frozen=True)
class _Section:
    title: str
    caption: str
    image: str
    """PNG in base64."""


def write_report(model: SDLGM, data: Dataset, path: str | os.PathLike[str], *, random_state: int = 0) -> Path:
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

    Returns
    -------
    Path
        The file written.

    Raises
    ------
    MissingDependencyError
        If matplotlib or jinja2 is not installed.

    """
    jinja2 = optional_import("jinja2", "report")
    optional_import("matplotlib", "report")  # before the evaluation, which takes time
    template = files("sdlgm.report").joinpath("template.html").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=jinja2.select_autoescape(default=True)).from_string(template)
    model = _with_sparse_output(model)
    evaluation = model.evaluate(data.table, random_state=random_state)
    text = page.render(
        data=data.name,
        evaluation=evaluation,
        problems=_problems(model, evaluation),
        bits=evaluation.kl / math.log(2),
        model=model,
        settings={name: value for name, value in model.get_params().items() if value is not None},
        sections=_sections(model, data, evaluation.max_active, random_state),
        version=__version__,
    )
    written = write_text(path, text)
    remove_abandoned_files(written)
    return written


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


def _sections(model: SDLGM, data: Dataset, budget: int, random_state: int) -> list[_Section]:
    codes = model.transform(data.table)
    drawn = model.sample_codes(data.table, random_state=random_state)
    sections = [
        _section(
            "Reconstructions",
            "Observations and the mean of p(x | z) for their codes from transform.",
            figures.reconstructions(model, data, codes),
        )
    ]
    if data.image_shape is not None:
        sections.append(
            _section(
                "Features of single codes",
                "Each row shows an observation, the effect of each feature in its code on the reconstruction (title: "
                "feature × count; red: pixel value increases, blue: decreases), and the reconstruction.",
                figures.reading_a_code(model, data, codes),
            )
        )
    sections += [
        _section(
            "Sparsity",
            "Left: distribution of the number of active slots, for codes sampled from q(z | x) and for codes from "
            "transform; right: distribution of the gate logits over the observations.",
            figures.sparsity(model, data, codes, drawn, budget),
        ),
        _section(
            "Map of the codes",
            "t-SNE embedding of sampled codes, coloured by "
            + ("label (not used in training)." if data.labels is not None else "the number of active slots."),
            figures.code_map(data, drawn, random_state),
        ),
        _section(
            "Effect of each feature",
            f"Mean difference between the reconstructions of codes with and without each of the (at most "
            f"{figures.ATLAS_FEATURES}) most used features, relative to the largest difference of the "
            f"{'feature' if data.image_shape else 'column'} (red: increase, blue: decrease).",
            figures.feature_atlas(model, data, codes),
        ),
        _section(
            "Feature usage",
            "Fraction of observations whose code contains each feature, in decreasing order.",
            figures.usage(codes, drawn),
        ),
        _section(
            "Training",
            "Negative ELBO with discrete and with relaxed codes, KL divergence from the prior, expected number of "
            "active slots and number of features in use, on held-out rows with early stopping and on training rows "
            "otherwise.",
            figures.training_curves(model, budget),
        ),
    ]
    return sections


def _section(title: str, caption: str, figure: Figure) -> _Section:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return _Section(title, caption, base64.b64encode(buffer.getvalue()).decode("ascii"))
