"""The commands fit, encode, decode, evaluate, sample and report."""

import json
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sdlgm._progress import Progress
from sdlgm.cli._arguments import AsJson, Data, LabelColumn, Model, ModelOut, OneFile, Seed, TableOut
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_folder, check_model, exit_if_interrupted, load_model
from sdlgm.cli._options import with_settings
from sdlgm.cli._output import print_line, print_message, print_table
from sdlgm.cli._parts import Engine, EngineOption, Workers, make_parts, n_workers, rows_for_folder
from sdlgm.cli._reports import MaxRows, check_report_dependencies
from sdlgm.cli._tables import check_decodable, with_table_options, write_decoded
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGM, Evaluation
    from sdlgm.data import TableOptions

app = typer.Typer()


@app.command()
@handle_errors
@with_settings("SDLGM")
@with_table_options
def fit(
    data: Data,
    model: ModelOut,
    settings: dict[str, Any],
    options: "TableOptions",
    label_column: LabelColumn = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Read the rows of a file as they are needed, as those of a folder are.")
    ] = False,
) -> None:
    """Fit a model to data.

    $ sdlgm fit measurements.parquet --out model.sdlgm --n-components 64 --max-active 8

    $ sdlgm fit folder_of_parquet_files/ --out model.sdlgm

    $ sdlgm fit trace.csv.gz --out model.sdlgm --time-column Timestamp --window 16 --drop CellID

    $ sdlgm fit folder_of_csv_files/ --out model.sdlgm --time-column Timestamp --window 16
    """
    from sdlgm.data import TableOptions, check_source, check_writable, is_series_folder, open_rows, read_for_fit

    check_writable(model, inputs=[data])
    check_source(data)
    from sdlgm import SDLGM

    estimator = SDLGM(**settings)
    if stream or (Path(data).is_dir() and not is_series_folder(data)):
        rows = open_rows(data, label_column=label_column)
        if rows is None:
            raise DataError(f"{data}: --stream needs a .parquet or .npy file, or a folder of them")
        if options != TableOptions():
            raise DataError(
                f"{data}: rows of folders and --stream are numbers that are all features, so that there are no options "
                "for their columns; join the files into one"
            )
        estimator.fit(rows)
    else:
        with Progress(f"load {data}"):
            table = read_for_fit(data, options, label_column)
        estimator.fit(table)
    estimator.save(model)
    print_line(f"model: {model} ({_likelihood(estimator)})")
    print_line(f"bound on log p(x): {_bounds(estimator)}, after {estimator.n_iter_:,} iterations")
    exit_if_interrupted(estimator)


def _bounds(model: "SDLGM") -> str:
    """Return the bounds of rows that a model was trained on, and of those held out, in words."""
    bounds = f"{model.training_bound_:.2f} nats on training rows"
    return bounds if model.validation_bound_ is None else f"{bounds}, {model.validation_bound_:.2f} on held-out rows"


def _likelihood(model: "SDLGM") -> str:
    """Return the likelihood of a model in words, with the number of columns of each kind if there are several."""
    columns = Counter(model.likelihoods_.tolist())
    kinds = f": {', '.join(f'{n} {name}' for name, n in columns.items())}" if len(columns) > 1 else ""
    return f"{model.likelihood_} likelihood{kinds}"


@app.command()
@handle_errors
def encode(
    model: Model,
    data: Data,
    codes: Annotated[Path, typer.Option("--out", help="A .npz file or a folder for the codes.", show_default=False)],
    n_candidates: Annotated[
        int, typer.Option(help="Draw this many more codes for each row and keep the best.", min=0)
    ] = 0,
    n_changes: Annotated[
        int | None,
        typer.Option(help="Most changes of a code by a model that searches; 0 for none, which is faster.", min=0),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Weight of a code's length in a search or with --n-candidates; none for that of the model."),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="Keep only the first features of each code (ordered posterior).", min=0)
    ] = None,
    label_column: LabelColumn = None,
    stride: Annotated[
        int | None, typer.Option(help="Rows from a window to the next; none for that of the fit.", min=1)
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    workers: Workers = 0,
) -> None:
    """Encode data as sparse counts: a CSR matrix in a .npz file, or a folder of parquet files.

    The data may be larger than memory. A name without an ending is a folder. Each row group of the data is
    then written to a file of its own, and a command that was interrupted continues when it is run again.

    $ sdlgm encode model.sdlgm mnist:test --out codes.npz

    $ sdlgm encode model.sdlgm measurements/ --out codes/
    """
    from sdlgm.data import CODES, CodesWriter, check_source, check_writable, open_for_model, origin_arrays

    if codes.suffix not in (*CODES, "") and not codes.is_dir():  # a folder that exists is continued
        raise DataError(f"{codes}: codes are written to a .npz file, or to a folder, whose name has no ending")
    if codes.suffix not in CODES:
        check_folder(codes)
    check_model(model, "SDLGM")
    check_source(data)
    if codes.suffix not in CODES:
        options = {"n_candidates": n_candidates, "rate": rate, "budget": budget}
        options |= {} if n_changes is None else {"n_changes": n_changes}  # which earlier folders do not name
        _encode_parts(model, data, codes, options, label_column, n_workers(engine, workers))
        return
    if engine is Engine.RAY:
        raise typer.BadParameter("--engine ray writes to a folder; give --out a name without an ending.")
    check_writable(codes, CODES, inputs=[model, data])
    from sdlgm import SDLGM

    estimator = load_model(model, SDLGM)
    rows = open_for_model(data, estimator, label_column, stride)
    writer = CodesWriter(codes, None if rows.windows is None else origin_arrays(rows.windows.origins))
    with writer, Progress("encode", rows.n_rows, unit="rows") as progress:
        for matrix in estimator.transform_batches(
            rows.batches, n_candidates=n_candidates, n_changes=n_changes, rate=rate, budget=budget
        ):
            writer.append(matrix)
            progress.advance(matrix.shape[0])
    n_active = f"{writer.n_active_total / writer.n_rows:.2f} active slots on average, {writer.n_active_max} at most"
    print_line(f"codes: {codes} ({writer.n_rows} rows, {n_active})")


def _encode_parts(
    model: Path, data: str, folder: Path, options: dict[str, Any], label_column: str | None, n_workers: int
) -> None:
    """Encode into a folder: with workers of a Ray cluster, or in this process if ``n_workers`` is 0."""
    rows = rows_for_folder(data, folder, label_column, "encoded into a folder; name a .npz file")
    from sdlgm import SDLGM
    from sdlgm.data import CodedParts, checksum
    from sdlgm.estimators._ray import Transform

    estimator = load_model(model, SDLGM)
    coded = CodedParts(folder, rows, estimator.module_.config.n_features, {"model": checksum(model), **options})
    make_parts("encode", model, estimator, coded, Transform(options), n_workers)
    print_line(f"codes: {folder} ({len(rows)} rows in {len(rows.parts)} files)")


@app.command()
@handle_errors
def decode(
    model: Model,
    codes: Annotated[Path, typer.Argument(help="Codes written by 'sdlgm encode'.", show_default=False)],
    data: TableOut,
) -> None:
    """Decode codes into data, with the columns and categories of the data. Windows become series again.

    $ sdlgm decode model.sdlgm codes.npz --out decoded.csv
    """
    from sdlgm.data import TABLES, check_writable, read_codes

    check_writable(data, TABLES, inputs=[model, codes])
    check_model(model, "SDLGM")
    with Progress("decode"):
        counts = read_codes(codes)
        from sdlgm import SDLGM

        estimator = load_model(model, SDLGM)
        check_decodable(data, estimator)
        decoded = estimator.inverse_transform(counts, encoded=True)
        written = write_decoded(data, estimator, decoded, codes)
    print_line(f"data: {data} ({written})")


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
    from sdlgm.data import check_source, is_series_folder, open_rows, read_for_model

    check_model(model, "SDLGM")
    check_source(data)
    is_folder_of_rows = Path(data).is_dir() and not is_series_folder(data)
    rows = open_rows(data, label_column=label_column) if is_folder_of_rows else None
    from sdlgm import SDLGM

    estimator = load_model(model, SDLGM)
    if rows is None:
        with Progress(f"load {data}"):
            rows = read_for_model(data, estimator, label_column)
    with Progress(f"evaluate {rows.shape[0]:,} rows"):
        evaluation = estimator.evaluate(rows, random_state=seed)
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
    from sdlgm.data import TABLES, check_writable

    check_writable(data, TABLES, inputs=[model])
    check_model(model, "SDLGM")
    with Progress(f"draw {n:,} rows"):
        from sdlgm import SDLGM

        estimator = load_model(model, SDLGM)
        check_decodable(data, estimator)
        drawn = estimator.sample(n, random_state=seed, encoded=True)
        written = write_decoded(data, estimator, drawn)
    print_line(f"data: {data} ({written})")


@app.command()
@handle_errors
def report(
    model: Model,
    data: OneFile,
    page: Annotated[Path, typer.Option("--out", help="File for the report.")] = Path("report.html"),
    max_rows: MaxRows = 10_000,
    seed: Seed = 0,
    label_column: LabelColumn = None,
) -> None:
    """Write a report of a model as one HTML file, with numbers and figures.

    $ sdlgm report model.sdlgm mnist:test --out report.html
    """
    from sdlgm.data import check_source, check_writable, load_for_model

    check_writable(page, inputs=[model, data])
    check_model(model, "SDLGM")
    check_source(data)
    check_report_dependencies()
    from sdlgm import SDLGM
    from sdlgm.report import write_report

    estimator = load_model(model, SDLGM)
    with Progress(f"load {data}"):
        dataset = load_for_model(data, estimator, label_column)
    write_report(estimator, dataset, page, random_state=seed, max_rows=max_rows or None, verbose=1)
    print_line(f"report: {page}")


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
