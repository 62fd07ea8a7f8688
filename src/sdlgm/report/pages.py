"""Self-contained HTML pages: templates, and figures as text."""

from __future__ import annotations

import base64
import io
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sdlgm._optional import optional_import

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 10_000
"""Observations on which a report is based by default. The standard error of its means is a hundredth of the spread."""


def template(name: str) -> Any:
    """Return a template of this package.

    Raises
    ------
    MissingDependencyError
        If matplotlib or jinja2 is not installed.

    """
    jinja2 = optional_import("jinja2", "report")
    optional_import("matplotlib", "report")  # before an evaluation, which takes time
    loader = jinja2.FunctionLoader(lambda own: files("sdlgm.report").joinpath(own).read_text(encoding="utf-8"))
    return jinja2.Environment(loader=loader, autoescape=jinja2.select_autoescape(default=True)).get_template(name)


def as_png(figure: Figure) -> str:
    """Return a figure as PNG in base64."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    return base64.b64encode(buffer.getvalue()).decode("ascii")
