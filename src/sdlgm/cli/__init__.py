"""The command line. Commands import torch and the estimators when they run, so that help appears at once."""

import io
import sys
from typing import Annotated, cast

import typer

from sdlgm import __version__
from sdlgm.cli import classify, compress, count, data, unsupervised
from sdlgm.cli._output import print_line
from sdlgm.cli.demo import demo
from sdlgm.cli.detect import detect

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Sparse discrete codes with a hard budget: at most max-active of n-components features for each row.\n\n"
    "$ sdlgm demo\n\n"
    "$ sdlgm fit data.csv --out model.sdlgm\n\n"
    "$ sdlgm encode model.sdlgm data.csv --out codes.npz",
)
app.command()(demo)
app.add_typer(unsupervised.app)
app.add_typer(compress.app)
app.command()(detect)
app.add_typer(classify.app, name="classify")
app.add_typer(count.app, name="count")
app.add_typer(data.app, name="data")


def _print_version(value: bool) -> None:
    if value:
        print_line(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: ARG001 - see its callback
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[  # noqa: ARG001 - read by `handle_errors`
        bool, typer.Option("--debug", help="Show the traceback of an error.", envvar="SDLGM_DEBUG")
    ] = False,
) -> None:
    # File names can have bytes that are not UTF-8, and a terminal may know less than UTF-8.
    cast(io.TextIOWrapper, sys.stdout).reconfigure(errors="backslashreplace")
