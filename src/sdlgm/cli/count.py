"""The commands count fit, count predict and count evaluate."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdlgm._progress import Progress
from sdlgm.cli._arguments import AsJson, ModelOut, TableOut, split_names
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_model, exit_if_interrupted, load_model
from sdlgm.cli._options import with_settings
from sdlgm.cli._output import print_line, print_table
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGMCounter

app = typer.Typer(no_args_is_help=True, help="Counts of repeated classes: fit, predict, evaluate.")

CountData = Annotated[
    str,
    typer.Argument(
        help="A .csv or .parquet file, a .npz file with the arrays X (rows or images) and counts, or a name such as "
        "digit_columns:train.",
        show_default=False,
    ),
]
Counter = Annotated[Path, typer.Argument(help="A model file written by 'sdlgm count fit'.", show_default=False)]


@app.command()
@handle_errors
@with_settings("SDLGMCounter")
def fit(
    data: CountData,
    model: ModelOut,
    settings: dict[str, Any],
    classes: Annotated[
        str, typer.Option(help="Columns of a .csv or .parquet file that are counts, with commas.", show_default=False)
    ] = "",
) -> None:
    """Fit a counter to rows or images with counts.

    $ sdlgm count fit baskets.csv --classes apples,bread,milk --out model.sdlgm
    """
    from sdlgm.data import check_writable, read_counted

    check_writable(model, inputs=[data])
    with Progress(f"load {data}"):
        dataset = read_counted(data, split_names(classes))
    if not dataset.counts.shape[1]:
        raise DataError(
            f"{data}: has no counts; name the columns of a table with --classes a,b,c, or add an array called counts "
            "to a .npz file"
        )
    from sdlgm import SDLGMCounter

    estimator = SDLGMCounter(**settings).fit(dataset.table, dataset.targets)
    estimator.save(model)
    n_classes = dataset.counts.shape[1]
    print_line(
        f"model: {model} ({n_classes} classes, at most {estimator.max_active_} in a row, encoder {estimator.encoder_})"
    )
    exit_if_interrupted(estimator)


@app.command()
@handle_errors
def predict(
    model: Counter,
    data: CountData,
    table: TableOut,
    mean: Annotated[bool, typer.Option("--mean", help="Write expected counts, which are not rounded.")] = False,
) -> None:
    """Predict the counts of rows. Write a table with one column for each class.

    $ sdlgm count predict model.sdlgm new.csv --out counts.csv
    """
    from sdlgm.data import GENERATED, TABLES, check_source, check_writable, read_counted, write_table

    check_writable(table, TABLES, inputs=[model, data])
    check_model(model, "SDLGMCounter")
    check_source(data, names=GENERATED)
    from sdlgm import SDLGMCounter

    estimator = load_model(model, SDLGMCounter)
    names = tuple(str(name) for name in estimator.classes_)
    columns, n_features = _column_names(estimator), estimator.n_features_in_
    with Progress("predict"):
        dataset = read_counted(data, columns, optional=True, values=False, n_features=n_features)
        predicted = estimator.predict_mean(dataset.table) if mean else estimator.predict(dataset.table)
        write_table(table, predicted.reshape(len(predicted), -1), names)
    print_line(f"counts: {table} ({len(predicted)} rows, {len(names)} columns)")


@app.command()
@handle_errors
def evaluate(model: Counter, data: CountData, as_json: AsJson = False) -> None:
    """Evaluate a counter on rows with known counts.

    $ sdlgm count evaluate model.sdlgm digit_columns:test
    """
    from sdlgm.data import GENERATED, check_source, read_counted

    check_model(model, "SDLGMCounter")
    check_source(data, names=GENERATED)
    from sdlgm import SDLGMCounter

    estimator = load_model(model, SDLGMCounter)
    with Progress(f"load {data}"):
        dataset = read_counted(data, _column_names(estimator), optional=True, n_features=estimator.n_features_in_)
    n_classes = len(estimator.classes_)
    if dataset.counts.shape[1] != n_classes:
        raise DataError(f"{data}: has no counts for some of the {n_classes} classes that the model predicts")
    with Progress("evaluate"):
        evaluation = estimator.evaluate(dataset.table, dataset.targets)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), allow_nan=False))
        return
    rows = {
        "squared error, expected counts": f"{evaluation.mse_expected:.4f} per class",
        "squared error, rounded counts": f"{evaluation.mse_rounded:.4f} per class",
        "rows with all counts right": f"{evaluation.exact_match:.4f}",
        "log-likelihood": f"none: {evaluation.n_beyond_budget} rows exceed the budget"
        if evaluation.log_likelihood is None
        else f"{evaluation.log_likelihood:.4f} nats per row",
        "sum of the counts of a row": f"{evaluation.total_true:.2f} true, {evaluation.total_expected:.2f} expected "
        f"(budget {evaluation.max_active})",
    }
    print_table(rows, f"{evaluation.n_rows} rows of {dataset.name}")


def _column_names(estimator: "SDLGMCounter") -> tuple[str, ...]:
    """Return the classes that have names. Those of an array have numbers, which are not columns of a table."""
    return tuple(name for name in estimator.classes_ if isinstance(name, str))
