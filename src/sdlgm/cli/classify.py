"""The commands classify fit, predict, evaluate and report."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from sdlgm._progress import Progress
from sdlgm.cli._arguments import AsJson, ModelOut, TableOut, split_names
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_model, exit_if_interrupted, load_model
from sdlgm.cli._options import with_settings
from sdlgm.cli._output import print_line, print_table
from sdlgm.cli._reports import MaxRows, check_report_dependencies
from sdlgm.errors import DataError

if TYPE_CHECKING:
    import numpy as np

    from sdlgm import SDLGMClassifier
    from sdlgm.data import MultiLabelDataset

app = typer.Typer(no_args_is_help=True, help="Multi-label classification: fit, predict, evaluate, report.")

LabelledData = Annotated[
    str,
    typer.Argument(
        help="A .csv, .parquet or .arff file, or a name such as birds:train, emotions or cal500.", show_default=False
    ),
]
Decided = Annotated[
    Literal["f1", "mode", "count", "threshold"] | None,
    typer.Option(help="How labels are decided on; by default as the model was fitted.", show_default=False),
]
Classifier = Annotated[Path, typer.Argument(help="A model file written by 'sdlgm classify fit'.", show_default=False)]


@app.command()
@handle_errors
@with_settings("SDLGMClassifier")
def fit(
    data: LabelledData,
    model: ModelOut,
    settings: dict[str, Any],
    labels: Annotated[
        str, typer.Option(help="Columns of a .csv or .parquet file that are labels, with commas.", show_default=False)
    ] = "",
) -> None:
    """Fit a classifier to rows with labels.

    $ sdlgm classify fit songs.csv --labels happy,calm,sad --out model.sdlgm
    """
    from sdlgm.data import check_writable, read_labelled

    check_writable(model, inputs=[data])
    with Progress(f"load {data}"):
        dataset = read_labelled(data, split_names(labels))
    if not dataset.label_names:
        raise DataError(f"{data}: name the columns that are labels with --labels a,b,c")
    from sdlgm import SDLGMClassifier

    estimator = SDLGMClassifier(**settings).fit(dataset.table, dataset.labels)
    estimator.save(model)
    print_line(f"model: {model} ({len(dataset.label_names)} labels, at most {estimator.max_active_} in a row)")
    exit_if_interrupted(estimator)


@app.command()
@handle_errors
def predict(
    model: Classifier,
    data: LabelledData,
    table: TableOut,
    proba: Annotated[bool, typer.Option("--proba", help="Write probabilities instead of 0 and 1.")] = False,
    decision: Decided = None,
) -> None:
    """Predict the labels of rows. Write a table with one column for each label.

    Label columns of the data are ignored.

    $ sdlgm classify predict model.sdlgm new.csv --out predicted.csv
    """
    from sdlgm.data import TABLES, check_source, check_writable, read_labelled, write_table

    check_writable(table, TABLES, inputs=[model, data])
    check_model(model, "SDLGMClassifier")
    check_source(data)
    from sdlgm import SDLGMClassifier

    estimator = load_model(model, SDLGMClassifier)
    if estimator.single_label_:
        raise DataError(f"{model}: was fitted with one class for each row; use it in Python")
    names = tuple(str(name) for name in estimator.classes_)
    with Progress("predict"):
        dataset = read_labelled(data, names, optional=True, values=False, n_features=estimator.n_features_in_)
        if proba:
            predicted = estimator.predict_proba(dataset.table)
        else:
            found = estimator.predict(dataset.table, decision=decision, sparse_output=False)
            predicted = cast("np.ndarray", found)
        write_table(table, predicted, names)
    print_line(f"labels: {table} ({len(predicted)} rows, {len(names)} columns)")


@app.command()
@handle_errors
def evaluate(model: Classifier, data: LabelledData, as_json: AsJson = False, decision: Decided = None) -> None:
    """Evaluate a classifier on rows with known labels.

    $ sdlgm classify evaluate model.sdlgm birds:test
    """
    from sdlgm.data import check_source

    check_model(model, "SDLGMClassifier")
    check_source(data)
    from sdlgm import SDLGMClassifier

    estimator = load_model(model, SDLGMClassifier)
    with Progress(f"load {data}"):
        dataset = load_known_labels(data, estimator)
    with Progress("evaluate"):
        evaluation = estimator.evaluate(dataset.table, dataset.Y, decision=decision)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), allow_nan=False))
        return
    rows = {
        "micro F1": f"{evaluation.micro_f1:.4f}",
        "macro F1": f"{evaluation.macro_f1:.4f} ({evaluation.macro_f1_present:.4f} over labels that occur)",
        "rows with all labels right": f"{evaluation.exact_match:.4f}",
        "Hamming loss": f"{evaluation.hamming_loss:.4f}",
        "log loss": f"{evaluation.log_loss:.4f} nats per row",
        "labels per row": f"{evaluation.n_labels_true:.2f} true, {evaluation.n_labels_predicted:.2f} predicted, "
        f"{evaluation.n_labels_expected:.2f} expected (budget {evaluation.max_active})",
    }
    print_table(rows, f"{evaluation.n_rows} rows of {dataset.name}")


@app.command()
@handle_errors
def report(
    model: Classifier,
    data: LabelledData,
    page: Annotated[Path, typer.Option("--out", help="File for the report.")] = Path("report.html"),
    max_rows: MaxRows = 10_000,
) -> None:
    """Write a report on a classifier as one HTML page: quality by label, numbers of labels, calibration, hardest rows.

    $ sdlgm classify report model.sdlgm birds:test --out report.html
    """
    from sdlgm.data import check_source, check_writable

    check_writable(page, inputs=[model, data])
    check_model(model, "SDLGMClassifier")
    check_source(data)
    check_report_dependencies()
    from sdlgm import SDLGMClassifier
    from sdlgm.report import write_label_report

    estimator = load_model(model, SDLGMClassifier)
    with Progress(f"load {data}"):
        dataset = load_known_labels(data, estimator)
    options: dict[str, Any] = {"name": dataset.name, "max_rows": max_rows or None, "verbose": 1}
    write_label_report(estimator, dataset.table, dataset.Y, page, **options)
    print_line(f"report: {page}")


def load_known_labels(data: str, estimator: "SDLGMClassifier") -> "MultiLabelDataset":
    """Return rows with the labels of a model, in its order."""
    from sdlgm.data import read_labelled

    names = tuple(str(name) for name in estimator.classes_)
    dataset = read_labelled(data, names, optional=True, n_features=estimator.n_features_in_)
    missing = set(names) - set(dataset.label_names)
    if missing:
        raise DataError(f"{data}: has no label {sorted(missing)[0]!r}, which the model predicts")
    order = [dataset.label_names.index(name) for name in names]
    return replace(dataset, Y=dataset.Y[:, order], label_names=names)
