"""What the commands that write a report have in common."""

from typing import Annotated

import typer

from sdlgm._optional import optional_import

MaxRows = Annotated[int, typer.Option(help="Report on at most this many rows, evenly spaced; 0 for all.", min=0)]


def check_report_dependencies() -> None:
    """Raise `MissingDependencyError` if a dependency of the report is not installed."""
    for module in ("jinja2", "matplotlib"):
        optional_import(module, "report")
