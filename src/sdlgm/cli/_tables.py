"""Options that say what the columns of a table mean, and what depends on them."""

import inspect
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdlgm.cli._arguments import split_names
from sdlgm.cli._commands import Command, set_signature
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sdlgm import SDLGM
    from sdlgm.data import TableOptions

_PANEL = "Tables and series"
# Those of sdlgm.data.series, which a command imports only when it runs: help must appear at once.
LONGEST_WINDOW, MAX_GAP = 100_000, 5.0


def _names(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel=_PANEL, metavar="<names>")


def _table_options(
    columns: Annotated[str | None, _names("Columns that are features, separated by commas; all by default.")] = None,
    drop: Annotated[str | None, _names("Columns to leave out, separated by commas.")] = None,
    categorical: Annotated[
        str | None, _names("Columns of numbers that are categories, separated by commas. Text always is.")
    ] = None,
    na_values: Annotated[
        str | None, _names("Symbols of missing values beside the usual ones (NA, nan, -, nothing, ...).")
    ] = None,
    time_column: Annotated[
        str | None, typer.Option(help="Column with the times of the rows.", rich_help_panel=_PANEL)
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(
            help="Encode windows of this many rows, in the order of time.",
            rich_help_panel=_PANEL,
            min=1,
            max=LONGEST_WINDOW,
        ),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(
            help="With --window, rows from a window to the next; 1 by default.", rich_help_panel=_PANEL, min=1
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="With --window, column that says which series a row is of.", rich_help_panel=_PANEL),
    ] = None,
    max_gap: Annotated[
        float,
        typer.Option(
            help="With --window, longest step between two rows of a window, in median steps; 0 for any.",
            rich_help_panel=_PANEL,
            min=0,
        ),
    ] = MAX_GAP,
) -> "TableOptions":
    from sdlgm.data import TableOptions

    if window is None:
        for flag, value in {"--stride": stride, "--group": group}.items():
            if value is not None:
                raise typer.BadParameter(f"{flag} is for windows of series; give --window as well.")
    if 0 < max_gap < 1:
        raise typer.BadParameter("--max-gap is in median steps: at least 1, or 0 for any gap.")
    lists = {"columns": columns, "drop": drop, "categorical": categorical, "na_values": na_values}
    return TableOptions(
        **{name: split_names(text or "") for name, text in lists.items()},
        time_column=time_column,
        window=window,
        stride=stride,
        group=group,
        max_gap=max_gap,
    )


def with_table_options(command: Command) -> Command:
    """Give a command the options that say what columns mean. It receives them as ``options: TableOptions``."""
    own = inspect.signature(_table_options).parameters

    @wraps(command)
    def wrapped(**arguments: Any) -> None:
        options = _table_options(**{name: arguments.pop(name) for name in own})
        command(**arguments, options=options)

    given = [p for p in inspect.signature(command).parameters.values() if p.name != "options"]
    set_signature(wrapped, [*given, *own.values()])
    return wrapped


def check_decodable(path: Path, estimator: "SDLGM") -> None:
    """Raise if a file of this kind cannot have the columns of the data. Call this before work."""
    from sdlgm.data import Schema

    schema: Schema | None = estimator.schema_
    if path.suffix != ".npy" or schema is None:
        return
    for column in schema.columns:
        if column.kind == "category":
            raise DataError(
                f"{path}: column {column.name!r} of the data is a category, not a number; write .csv or .parquet"
            )


def write_decoded(path: Path, estimator: "SDLGM", matrix: "np.ndarray", codes: Path | None = None) -> str:
    """Write decoded rows with the columns of the data, and return a description of the file.

    Windows become series again if the file of their codes says where they come from.
    """
    from sdlgm.data import read_origins, write_columns, write_table

    schema = estimator.schema_
    if schema is None:
        names = tuple(getattr(estimator, "feature_names_in_", ())) or None
        write_table(path, matrix, names)
        return f"{matrix.shape[0]} rows, {matrix.shape[1]} columns"
    schema = replace(schema, container="arrow")
    origins = None
    if schema.window is not None and codes is not None:
        origins = read_origins(codes, schema.window.length, len(schema.columns))
    table: pa.Table = schema.decode(matrix) if origins is None else origins.join(schema, matrix)
    write_columns(path, table)
    size = f"{table.num_rows} rows, {table.num_columns} columns"
    if schema.window is None:
        return size
    return f"{size}; windows, one in each row" if origins is None else f"{size}; series of {len(matrix)} windows"
