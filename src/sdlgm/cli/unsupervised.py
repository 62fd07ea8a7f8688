"""The commands fit, encode, decode, evaluate, sample and report."""

import json
import os
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdlgm._optional import optional_import
from sdlgm.cli._arguments import AsJson, Data, LabelColumn, Model, ModelOut, OneFile, Seed, TableOut
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import exit_if_interrupted, load_model
from sdlgm.cli._options import with_settings
from sdlgm.cli._output import print_line, print_message, print_table, rows_bar
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGM, Evaluation

app = typer.Typer()


class Engine(StrEnum):
    """Programs that can encode a folder of files."""

    LOCAL = "local"
    RAY = "ray"


@app.command()
@handle_errors
@with_settings("SDLGM")
def fit(
    data: Data,
    model: ModelOut,
    settings: dict[str, Any],
    label_column: LabelColumn = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the rows of a file as they are needed, as those of a folder are.")
    ] = False,
) -> None:
    """Fit a model to data.

    $ sdlgm fit measurements.parquet --out model.sdlgm --n-components 64 --max-active 8

    $ sdlgm fit folder_of_parquet_files/ --out model.sdlgm
    """
    from sdlgm import SDLGM
    from sdlgm.data import check_writable, load_data, open_rows

    check_writable(model, inputs=[data])
    estimator = SDLGM(**settings)
    if stream or Path(data).is_dir():
        rows = open_rows(data, label_column=label_column)
        if rows is None:
            raise DataError(f"{data}: --stream needs a .parquet or .npy file, or a folder of them")
        estimator.fit(rows)
    else:
        estimator.fit(load_data(data, label_column=label_column).table)
    estimator.save(model)
    print_line(f"model: {model} ({estimator.likelihood_} likelihood)")
    exit_if_interrupted(estimator)


@app.command()
@handle_errors
def encode(
    model: Model,
    data: Data,
    codes: Annotated[Path, typer.Option("--out", help="A .npz file or a folder for the codes.", show_default=False)],
    n_candidates: Annotated[
        int, typer.Option(help="Draw this many more codes for each row and keep the best.", min=0)
    ] = 0,
    rate: Annotated[
        float | None,
        typer.Option(help="With --n-candidates, the weight of a code's length; none for that of the model."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Keep only the first features of each code (ordered posterior).", min=0)
    ] = None,
    label_column: LabelColumn = None,
    engine: Annotated[
        Engine, typer.Option(help="Encode a folder in this process, or on a Ray cluster.")
    ] = Engine.LOCAL,
    workers: Annotated[int, typer.Option(help="Workers of the cluster; 0 for one on each core.", min=0)] = 0,
) -> None:
    """Encode data as sparse counts: a CSR matrix in a .npz file, or a folder of parquet files.

    The data may be larger than memory. A name without an ending is a folder. Each row group of the data is
    then written to a file of its own, and a command that was interrupted continues when it is run again.

    $ sdlgm encode model.sdlgm mnist:test --out codes.npz

    $ sdlgm encode model.sdlgm measurements/ --out codes/
    """
    from sdlgm import SDLGM
    from sdlgm.data import CODES, CodesWriter, check_writable, open_batches

    if codes.suffix not in (*CODES, "") and not codes.is_dir():  # a folder that exists is continued
        raise DataError(f"{codes}: codes are written to a .npz file, or to a folder, whose name has no ending")
    if codes.suffix not in CODES:
        n_workers = (workers or os.cpu_count() or 1) if engine is Engine.RAY else 0
        options = {"n_candidates": n_candidates, "rate": rate, "budget": budget}
        _encode_parts(model, data, codes, options, label_column, n_workers)
        return
    if engine is Engine.RAY:
        raise typer.BadParameter("--engine ray writes to a folder; give --out a name without an ending.")
    check_writable(codes, CODES, inputs=[model, data])
    writer = CodesWriter(codes)
    estimator = load_model(model, SDLGM)
    rows = open_batches(data, label_column=label_column)
    with writer, rows_bar(rows.n_rows) as advance:
        for matrix in estimator.transform_batches(rows, n_candidates=n_candidates, rate=rate, budget=budget):
            writer.append(matrix)
            advance(matrix.shape[0])
    n_active = f"{writer.n_active_total / writer.n_rows:.2f} active slots on average, {writer.n_active_max} at most"
    print_line(f"codes: {codes} ({writer.n_rows} rows, {n_active})")


def _encode_parts(
    model: Path, data: str, folder: Path, options: dict[str, Any], label_column: str | None, n_workers: int
) -> None:
    """Encode into a folder: with workers of a Ray cluster, or in this process if ``n_workers`` is 0."""
    from sdlgm import SDLGM
    from sdlgm.data import CodedParts, checksum, open_rows
    from sdlgm.estimators._ray import encode_with_ray

    rows = open_rows(data, label_column=label_column)
    if rows is None:
        raise DataError(
            f"{data}: only .parquet and .npy files and folders of them are encoded into a folder; name a .npz file"
        )
    if Path(data).absolute() in folder.absolute().parents:
        raise DataError(f"{folder}: is inside the folder of the data, where codes would be read as data")
    estimator = load_model(model, SDLGM)
    coded = CodedParts(folder, rows, estimator.module_.config.n_features, {"model": checksum(model), **options})
    with rows_bar(len(rows)) as advance:
        if n_workers:
            encode_with_ray(model, coded, options, n_workers=n_workers, advance=advance)
        else:
            coded.encode(lambda part: estimator.transform(part, **options), advance)
    print_line(f"codes: {folder} ({len(rows)} rows in {len(rows.parts)} files)")


@app.command()
@handle_errors
def decode(
    model: Model,
    codes: Annotated[Path, typer.Argument(help="Codes written by 'sdlgm encode'.", show_default=False)],
    data: TableOut,
) -> None:
    """Decode codes into data.

    $ sdlgm decode model.sdlgm codes.npz --out decoded.csv
    """
    from sdlgm import SDLGM
    from sdlgm.data import TABLES, check_writable, read_codes, write_table

    check_writable(data, TABLES, inputs=[model, codes])
    estimator = load_model(model, SDLGM)
    decoded = estimator.inverse_transform(read_codes(codes))
    write_table(data, decoded, _column_names(estimator))
    print_line(f"data: {data} ({decoded.shape[0]} rows, {decoded.shape[1]} columns)")


@app.command()
@handle_errors
def evaluate(
    model: Model,
    data: Data,
    as_json: AsJson = False,
    seed: Seed = 0,
    label_column: LabelColumn = None,
) -> None:
    """Evaluate a model: bounds, information and length of the codes, sparsity, reconstruction error.

    $ sdlgm evaluate model.sdlgm mnist:test --json
    """
    from sdlgm import SDLGM
    from sdlgm.data import load_data, open_rows

    rows = open_rows(data, label_column=label_column) if Path(data).is_dir() else None
    if rows is None:
        rows = load_data(data, label_column=label_column).table
    evaluation = load_model(model, SDLGM).evaluate(rows, random_state=seed)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation) | {"discrete_bits": evaluation.discrete_bits}, allow_nan=False))
    else:
        print_evaluation(evaluation, Path(data).name)
    if evaluation.problem is not None:
        print_message("warning", evaluation.problem)


@app.command()
@handle_errors
def sample(
    model: Model,
    data: TableOut,
    n: Annotated[int, typer.Option("-n", help="Number of rows.", min=1)] = 16,
    seed: Seed = 0,
) -> None:
    """Draw new rows from a model.

    $ sdlgm sample model.sdlgm -n 100 --out new.npy
    """
    from sdlgm import SDLGM
    from sdlgm.data import TABLES, check_writable, write_table

    check_writable(data, TABLES)
    estimator = load_model(model, SDLGM)
    write_table(data, estimator.sample(n, random_state=seed), _column_names(estimator))
    print_line(f"data: {data} ({n} rows)")


@app.command()
@handle_errors
def report(
    model: Model,
    data: OneFile,
    page: Annotated[Path, typer.Option("--out", help="File for the report.")] = Path("report.html"),
    seed: Seed = 0,
    label_column: LabelColumn = None,
) -> None:
    """Write a report of a model as one HTML file, with numbers and figures.

    $ sdlgm report model.sdlgm mnist:test --out report.html
    """
    check_report_dependencies()
    from sdlgm import SDLGM
    from sdlgm.data import check_writable, load_data
    from sdlgm.report import write_report

    check_writable(page, inputs=[model, data])
    write_report(load_model(model, SDLGM), load_data(data, label_column=label_column), page, random_state=seed)
    print_line(f"report: {page}")


def check_report_dependencies() -> None:
    """Raise `MissingDependencyError` if a dependency of the report is not installed."""
    for module in ("jinja2", "matplotlib"):
        optional_import(module, "report")


def print_evaluation(evaluation: "Evaluation", name: str) -> None:
    """Print the table of an evaluation on the data of this name."""
    rows = {
        "discrete bound on log p(x)": f"{evaluation.discrete:.2f} nats = {evaluation.discrete_bits:.2f} bits",
        "relaxed criterion (not a bound)": f"{evaluation.relaxed:.2f} nats",
        "information in a drawn code (KL)": f"{evaluation.kl:.2f} nats",
        "length of a code": f"{evaluation.code_bits:.1f} bits",
        "active slots, mean": f"{evaluation.n_active_mean:.2f} ({evaluation.n_active_expected:.2f} in drawn codes)",
        "active slots, largest": f"{evaluation.n_active_max} (budget {evaluation.max_active})",
        "features used": f"{evaluation.features_used} of {evaluation.n_components}",
        "features alive": f"{evaluation.features_alive} of {evaluation.n_components}",
        "reconstruction error": f"{evaluation.reconstruction_error:.4g}",
    }
    print_table(rows, f"{evaluation.n_rows} rows of {name}")


def _column_names(estimator: "SDLGM") -> tuple[str, ...] | None:
    return tuple(getattr(estimator, "feature_names_in_", ())) or None
