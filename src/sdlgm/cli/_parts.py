"""Commands that make a folder with a file for each part of a folder of data."""

import os
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdlgm._progress import Progress
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGM
    from sdlgm.data import PartFolder, RowFiles


class Engine(StrEnum):
    """Programs that can work on a folder of files."""

    LOCAL = "local"
    RAY = "ray"


EngineOption = Annotated[Engine, typer.Option(help="Work on a folder in this process, or on a Ray cluster.")]
Workers = Annotated[int, typer.Option(help="Workers of the cluster; 0 for one on each core.", min=0)]


def n_workers(engine: Engine, workers: int) -> int:
    """Return the number of workers of a cluster, or 0 for this process."""
    return (workers or os.cpu_count() or 1) if engine is Engine.RAY else 0


def rows_for_folder(data: str, folder: Path, label_column: str | None, otherwise: str) -> "RowFiles":
    """Return the rows whose parts become files of a folder.

    Parameters
    ----------
    data : str
        A file or a folder.
    folder : Path
        The folder to write to.
    label_column : str or None
        A column that is a class and not a feature.
    otherwise : str
        End of the message for data that have no parts.

    Returns
    -------
    RowFiles

    """
    from sdlgm.data import open_rows

    rows = open_rows(data, label_column=label_column)
    if rows is None:
        raise DataError(f"{data}: only .parquet and .npy files and folders of them are {otherwise}")
    if Path(data).absolute() in folder.absolute().parents:
        raise DataError(f"{folder}: is inside the folder of the data, where its files would be read as data")
    return rows


def make_parts(
    name: str, model: Path, estimator: "SDLGM", parts: "PartFolder", work: Callable[..., Any], n_workers: int
) -> None:
    """Make the parts that are missing: with workers of a Ray cluster, or in this process if ``n_workers`` is 0."""
    from sdlgm.estimators._ray import encode_with_ray

    with Progress(name, len(parts.rows), unit="rows") as progress:
        if n_workers:
            encode_with_ray(model, parts, work, n_workers=n_workers, advance=progress.advance)
        else:
            parts.encode(partial(work, estimator), progress.advance)
