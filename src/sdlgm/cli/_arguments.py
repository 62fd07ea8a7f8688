"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

_FILE = "A .npy, .npz, .csv, .parquet, .arff or IDX file"
_NAME = "or a name such as digits:test (see 'sdlgm data list')."

Model = Annotated[Path, typer.Argument(help="A model file written by 'sdlgm fit'.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(
        help=f"{_FILE}, a folder of .parquet or .npy files, or with --window of CSV files, {_NAME}", show_default=False
    ),
]
OneFile = Annotated[str, typer.Argument(help=f"{_FILE}, {_NAME}", show_default=False)]
ModelOut = Annotated[Path, typer.Option("--out", help="File for the model.", show_default=False)]
TableOut = Annotated[Path, typer.Option("--out", help="File for the rows: .npy, .csv or .parquet.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed. The same seed gives the same result.")]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a .csv or .parquet file that is a label, not a feature.")
]


def split_names(text: str) -> tuple[str, ...]:
    """Split names at commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
