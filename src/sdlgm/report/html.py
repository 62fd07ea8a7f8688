"""One HTML file with the numbers and pictures of a fitted model; it needs no network."""

import base64
import io
import math
import os
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sdlgm import __version__
from sdlgm._files import write_text
from sdlgm.data import Dataset
from sdlgm.report import figures


@dataclass(frozen=True)
class _Section:
    title: str
    caption: str
    image: str
    """PNG in base64."""


def write_report(model: Any, data: Dataset, path: str | os.PathLike[str], *, random_state: int = 0) -> Path:
    """Write the report of a fitted `SDLGM` on some data, whole or not at all."""
    from jinja2 import Environment, select_autoescape

    template = files("sdlgm.report").joinpath("template.html").read_text(encoding="utf-8")
    page = Environment(autoescape=select_autoescape(default=True)).from_string(template)
    evaluation = model.evaluate(data.table, random_state=random_state)
    text = page.render(
        data=data.name,
        evaluation=evaluation,
        bits=evaluation.kl / math.log(2),
        model=model,
        settings={name: value for name, value in model.get_params().items() if value is not None},
        sections=_sections(model, data, evaluation.max_active, random_state),
        version=__version__,
    )
    return write_text(path, text)


def _sections(model: Any, data: Dataset, budget: int, random_state: int) -> list[_Section]:
    codes = model.transform(data.table)
    drawn = model.sample_codes(data.table, random_state=random_state)
    sections = [
        _section(
            "Originals and reconstructions",
            "Observations, and the mean of p(x given z) for the code that transform gives them.",
            figures.reconstructions(model, data, codes),
        )
    ]
    if data.image_shape is not None:
        sections.append(
            _section(
                "How to read a code",
                "From left to right: the observation; for each feature of its code (ten at most), with its number and "
                "how often it is present, what it adds to the picture (red: more ink, blue: less); the reconstruction.",
                figures.reading_a_code(model, data, codes),
            )
        )
    sections += [
        _section(
            "Learned sparsity",
            "Left: active slots of each observation beside the binomial prior; the dashed line is the budget, which no "
            "code exceeds. Drawn codes are samples of q(z given x), transform takes its mode. Right: the gate logits.",
            figures.sparsity(model, data, codes, drawn, budget),
        ),
        _section(
            "Map of the codes",
            "Each point is a code drawn for an observation, placed by t-SNE so that similar codes are close. "
            + ("Colour: label; the model never saw it." if data.labels is not None else "Colour: active slots."),
            figures.code_map(data, drawn, random_state),
        ),
        _section(
            "What each feature draws",
            f"The (at most {figures.ATLAS_FEATURES}) most used features by number: the mean change of the "
            "reconstruction when the feature is in the code compared with the same code without it (red: more, blue: "
            f"less; relative to the largest change of the {'feature' if data.image_shape else 'column'}).",
            figures.feature_atlas(model, data, codes),
        ),
        _section(
            "Feature usage",
            "Share of observations in which each feature is present. A long flat tail at zero means dead features.",
            figures.usage(codes, drawn),
        ),
        _section(
            "Training",
            "Left: both criteria on the rows that were watched (held out with early stopping, else training rows; the "
            "relaxed one on a hundred of them). Only the discrete one is true of the codes. Then nats that a code "
            "costs (near zero, the code has collapsed), the expected number of active slots (the dashed line is the "
            "budget), and how many features any of the rows uses.",
            figures.training_curves(model, budget),
        ),
    ]
    return sections


def _section(title: str, caption: str, figure: Figure) -> _Section:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return _Section(title, caption, base64.b64encode(buffer.getvalue()).decode("ascii"))
