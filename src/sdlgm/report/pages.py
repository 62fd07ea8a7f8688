"""Self-contained HTML pages: templates, and figures as text."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sdlgm._optional import optional_import
from sdlgm._progress import Progress

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 10_000
"""Observations on which a report is based by default. The standard error of its means is a hundredth of the spread."""


Subject = TypeVar("Subject")
"""What the figures of a report are of."""


@dataclass(frozen=True)
class Section(Generic[Subject]):
    """A figure of a report, with its title and its caption."""

    title: str
    caption: str
    draw: Callable[[Subject], Figure]


@dataclass(frozen=True)
class Drawn:
    """A section as the templates need it."""

    title: str
    caption: str
    image: str
    """PNG in base64."""


def drawn(sections: Sequence[Section[Subject]], subject: Subject, progress: Progress, first: int) -> Iterator[Drawn]:
    """Draw sections, the steps of a progress bar from ``first`` on."""
    for number, section in enumerate(sections, start=first):
        progress.update(number, section.title.lower())
        yield Drawn(section.title, section.caption, as_png(section.draw(subject)))


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
