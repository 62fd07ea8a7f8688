"""The command line: a thin front on the library. Heavy imports wait until a command needs them."""

import contextlib
import functools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from sdlgm import __version__
from sdlgm.errors import DataError, SDLGMError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Sparse discrete codes with a hard budget: at most **max-active** of **n-components** features a row.\n\n"
    "Try `sdlgm demo`, or on your own table:\n\n"
    "`sdlgm fit data.csv --out model.sdlgm`\n\n"
    "`sdlgm encode model.sdlgm data.csv --out codes.npz`",
)
data_app = typer.Typer(no_args_is_help=True, help="Data sets that have a name.")
app.add_typer(data_app, name="data")
classify_app = typer.Typer(no_args_is_help=True, help="Multi-label classification: fit, predict, evaluate.")
app.add_typer(classify_app, name="classify")
count_app = typer.Typer(no_args_is_help=True, help="Counting repeated classes: fit, predict, evaluate.")
app.add_typer(count_app, name="count")
reproduce_app = typer.Typer(no_args_is_help=True, help="The published results, measured anew.")
app.add_typer(reproduce_app, name="reproduce")
# Data have names such as digits:train, and a text between colons may be the name of a picture.
out, err = Console(markup=False, emoji=False), Console(stderr=True, emoji=False)

FILE_HELP = "A .npy, .npz, .csv, .parquet, .arff or IDX file"
NAME_HELP = "or a name such as digits:test (see 'sdlgm data list')."
Model = Annotated[Path, typer.Argument(help="A model file of 'sdlgm fit'.", show_default=False)]
Data = Annotated[
    str, typer.Argument(help=f"{FILE_HELP}, a folder of .parquet or .npy files, {NAME_HELP}", show_default=False)
]
OneFile = Annotated[str, typer.Argument(help=f"{FILE_HELP}, {NAME_HELP}", show_default=False)]
LabelledData = Annotated[
    str,
    typer.Argument(
        help="A .csv, .parquet or .arff file, or a name: birds:train, emotions, cal500.", show_default=False
    ),
]
LabelNames = Annotated[str, typer.Option(help="Label columns of a .csv or .parquet file, with commas.")]
Classifier = Annotated[Path, typer.Argument(help="A model file of 'sdlgm classify fit'.", show_default=False)]
CountData = Annotated[
    str,
    typer.Argument(
        help="A .csv or .parquet file, a .npz file with X (rows or pictures) and counts, or digit_columns:train.",
        show_default=False,
    ),
]
Counter = Annotated[Path, typer.Argument(help="A model file of 'sdlgm count fit'.", show_default=False)]
ModelOut = Annotated[Path, typer.Option("--out", help="Where to write the model.", show_default=False)]
TableOut = Annotated[Path, typer.Option("--out", help="Where to write: .npy, .csv or .parquet.", show_default=False)]
ResultOut = Annotated[Path, typer.Option("--out", help="Where to write the results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
MaxIter = Annotated[int, typer.Option(help="Training iterations.")]
BatchSize = Annotated[int, typer.Option(help="Rows an iteration.")]
LearningRate = Annotated[float, typer.Option(help="Of Adam.")]
CheckpointDir = Annotated[Path | None, typer.Option(help="Folder for checkpoints.")]
CheckpointEvery = Annotated[int, typer.Option(help="Iterations between two checkpoints.")]
Resume = Annotated[bool, typer.Option(help="Go on from the checkpoint, if there is one.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same result.")]
PaperData = Annotated[str, typer.Option(help="mnist or digits.")]
Jobs = Annotated[int, typer.Option(help="Runs at a time; 0 for one on each core.", min=0)]
Work = Annotated[Path, typer.Option(help="Folder for finished runs and checkpoints; go on from there.")]
LabelColumn = Annotated[
    str | None, typer.Option(help="Column of a .csv or .parquet file that is a class, not a feature.")
]


def _clear_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn expected errors into one line and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
        except (SDLGMError, ValueError, OSError) as error:
            err.print(f"[bold red]error:[/] {_escaped(error)}", soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            goes_on = "a fit with --checkpoint-dir goes on with --resume, 'sdlgm reproduce' by the same command"
            err.print(f"interrupted; {goes_on}", soft_wrap=True)
            raise typer.Exit(130) from None

    return wrapped


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {_escaped(message)}", soft_wrap=True)


def _escaped(message: Exception | str) -> str:
    """A message on one line: the first, since what follows in scikit-learn's is mostly advice for programmers."""
    from rich.markup import escape

    lines = str(message).strip().splitlines()
    if lines and "The feature names should match" in lines[0]:  # what follows says which do not
        return escape(" ".join(line.strip() for line in lines))
    return escape(lines[0]) if lines else type(message).__name__


def _loaded(model: Path, estimator: str = "SDLGM") -> Any:
    """A model from a file, of the kind that a command can work with."""
    from sdlgm import load

    loaded = load(model)
    found = type(loaded).__name__
    if found != estimator:
        commands = {"SDLGM": "sdlgm", "SDLGMClassifier": "sdlgm classify", "SDLGMCounter": "sdlgm count"}
        raise DataError(
            f"{model}: holds an {found}; this command is for an {estimator}, see '{commands[found]} --help'"
        )
    return loaded


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise DataError(f"{text!r}: give layer sizes as whole numbers with commas, such as 512,384,256") from None


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        out.print(__version__, highlight=False)
        raise typer.Exit


@app.command()
@_clear_errors
def demo(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report, the model and the codes.")] = Path(
        "demo"
    ),
    max_iter: MaxIter = 4000,
    seed: Seed = 0,
) -> None:
    """Fit, encode, decode, evaluate and report on handwritten digits that come with scikit-learn.

    `sdlgm demo --out demo`
    """
    from sdlgm.demo import run_demo

    result = run_demo(folder, max_iter=max_iter, seed=seed, verbose=True)
    out.print(_evaluation_table(result.evaluation, "digits:test"))
    for what, path in result.files.items():
        out.print(f"{what:>8}: {path}", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def fit(
    data: Data,
    model: ModelOut,
    n_components: Annotated[int, typer.Option(help="Number of features, K.")] = 200,
    max_active: Annotated[int, typer.Option(help="Hard budget of active slots a row, L0.")] = 40,
    gate_prior: Annotated[float, typer.Option(help="Prior probability that a slot is on.")] = 0.5,
    learn_prior: Annotated[bool, typer.Option(help="Learn the prior, after the warm-up.")] = True,
    posterior: Annotated[str, typer.Option(help="Family of q(z given x): chain, subset, ordered or shared.")] = "chain",
    hidden: Annotated[
        str, typer.Option(help="Hidden layers of the encoder; the decoder reverses them.")
    ] = "512,384,256",
    gate_hidden: Annotated[str, typer.Option(help="Hidden layers of the gate network (shared posterior).")] = "64",
    activation: Annotated[str, typer.Option(help="Between the layers: silu or relu.")] = "silu",
    share_layers: Annotated[bool, typer.Option(help="Let the gate network continue from the encoder.")] = True,
    normalize_logits: Annotated[bool, typer.Option(help="Standardise the feature logits over a batch.")] = True,
    likelihood: Annotated[str, typer.Option(help="auto, bernoulli or gaussian.")] = "auto",
    binarize: Annotated[str, typer.Option(help="dynamic, threshold or probability, for values in [0, 1].")] = "dynamic",
    gradient: Annotated[
        str,
        typer.Option(help="How to differentiate through a draw: reinmax, leave_one_out, ...; a wrong name lists all."),
    ] = "reinmax",
    kl: Annotated[str, typer.Option(help="exact or paper.")] = "exact",
    n_samples: Annotated[int, typer.Option(help="Monte Carlo samples a row.")] = 1,
    gate_temperature: Annotated[float, typer.Option(help="Of relaxed gates, at the start.")] = 1.0,
    feature_temperature: Annotated[float, typer.Option(help="Of relaxed features, at the start.")] = 1.0,
    learn_temperature: Annotated[bool, typer.Option(help="Learn both temperatures.")] = False,
    final_temperature: Annotated[float | None, typer.Option(help="Lead both temperatures there.")] = None,
    kl_warmup: Annotated[float, typer.Option(help="Fraction of the run that phases the KL in.")] = 0.3,
    max_iter: MaxIter = 10_000,
    batch_size: BatchSize = 100,
    learning_rate: LearningRate = 3e-3,
    lr_decay: Annotated[float, typer.Option(help="Last fraction of the run that takes the rate to 0.")] = 0.5,
    early_stopping: Annotated[bool, typer.Option(help="Hold rows out, stop when their bound stops rising.")] = False,
    validation_fraction: Annotated[float, typer.Option(help="Rows held out for early stopping.")] = 0.1,
    n_iter_no_change: Annotated[int, typer.Option(help="Monitorings to wait before stopping early.")] = 10,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(help="A torch device, such as cpu or cuda.")] = "cpu",
    devices: Annotated[int, typer.Option(help="Processes on each machine that share every batch.")] = 1,
    num_nodes: Annotated[int, typer.Option(help="Machines.")] = 1,
    strategy: Annotated[str, typer.Option(help="How processes are started, as Lightning Fabric calls it.")] = "auto",
    compile: Annotated[bool, typer.Option(help="Let torch.compile fuse the networks.")] = False,  # noqa: A002
    checkpoint_dir: CheckpointDir = None,
    checkpoint_every: CheckpointEvery = 1000,
    resume: Resume = False,
    label_column: LabelColumn = None,
    stream: Annotated[
        bool, typer.Option(help="Do not load the file: read its rows as they are needed, as those of a folder are.")
    ] = False,
) -> None:
    """Fit a model to data.

    `sdlgm fit measurements.parquet --out model.sdlgm --n-components 64 --max-active 8`

    `sdlgm fit folder_of_parquet_files/ --out model.sdlgm`
    """
    from sdlgm import SDLGM
    from sdlgm.data import check_writable, load_data, open_rows

    if resume and checkpoint_dir is None:
        raise DataError("--resume needs --checkpoint-dir, to know where the checkpoint is")
    check_writable(model)
    estimator = SDLGM(
        n_components=n_components,
        max_active=max_active,
        gate_prior=gate_prior,
        learn_prior=learn_prior,
        posterior=posterior,
        hidden=_sizes(hidden),
        gate_hidden=_sizes(gate_hidden),
        activation=activation,
        share_layers=share_layers,
        normalize_logits=normalize_logits,
        likelihood=likelihood,
        binarize=binarize,
        gradient=gradient,
        kl=kl,
        n_samples=n_samples,
        gate_temperature=gate_temperature,
        feature_temperature=feature_temperature,
        learn_temperature=learn_temperature,
        final_temperature=final_temperature,
        kl_warmup=kl_warmup,
        max_iter=max_iter,
        batch_size=batch_size,
        learning_rate=learning_rate,
        lr_decay=lr_decay,
        early_stopping=early_stopping,
        validation_fraction=validation_fraction,
        n_iter_no_change=n_iter_no_change,
        random_state=seed,
        device=device,
        devices=devices,
        num_nodes=num_nodes,
        strategy=strategy,
        compile=compile,
        checkpoint_dir=checkpoint_dir,
        checkpoint_every=checkpoint_every,
        resume=resume,
        verbose=1,
    )
    in_files = open_rows(data, label_column=label_column) if stream or Path(data).is_dir() else None
    if stream and in_files is None:
        raise DataError(f"{data}: --stream is for .parquet and .npy files, and for folders of them")
    estimator.fit(load_data(data, label_column=label_column).table if in_files is None else in_files)
    estimator.save(model)
    out.print(f"model: {model} ({estimator.likelihood_} likelihood)", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def encode(
    model: Model,
    data: Data,
    codes: Annotated[
        Path, typer.Option("--out", help="Where to write the codes: a .npz file, or a folder.", show_default=False)
    ],
    n_candidates: Annotated[int, typer.Option(help="Also try this many drawn codes a row; keep the best.")] = 0,
    budget: Annotated[
        int | None, typer.Option(help="Keep the first so many features of each code (ordered posterior).", min=0)
    ] = None,
    label_column: LabelColumn = None,
    engine: Annotated[str, typer.Option(help="Who encodes into a folder: local, or ray, a cluster.")] = "local",
    workers: Annotated[int, typer.Option(help="Workers of the cluster; 0 for one on each core here.", min=0)] = 0,
) -> None:
    """Encode data into sparse counts: a CSR matrix in a .npz file, or a folder of parquet files.

    The data may be larger than memory. Into a folder (any name that does not end with .npz) every row group of the data
    is written by itself: killed and started again, the command does what is missing.

    `sdlgm encode model.sdlgm mnist:test --out codes.npz`

    `sdlgm encode model.sdlgm measurements/ --out codes/`
    """
    from sdlgm.data import CODES, CodesWriter, open_batches

    if engine not in ("local", "ray"):
        raise DataError(f"{engine}: no such engine; there are local and ray")
    if codes.suffix not in CODES:
        options = {"n_candidates": n_candidates, "budget": budget}
        return _encode_parts(model, data, codes, options, label_column, _n_jobs(workers) if engine == "ray" else 0)
    if engine == "ray":
        raise DataError(f"{codes}: --engine ray writes a folder; name one that does not end with .npz")
    writer = CodesWriter(codes)
    estimator = _loaded(model)
    rows = open_batches(data, label_column=label_column)
    with writer, _rows_bar(rows.n_rows) as advance:
        for matrix in estimator.transform_batches(rows, n_candidates=n_candidates, budget=budget):
            writer.append(matrix)
            advance(matrix.shape[0])
    n_active = f"{writer.n_active_total / writer.n_rows:.2f} active slots on average, {writer.n_active_max} at most"
    out.print(f"codes: {codes} ({writer.n_rows} rows, {n_active})", highlight=False, soft_wrap=True)
    return None


def _encode_parts(
    model: Path, data: str, folder: Path, options: dict[str, Any], label_column: str | None, n_workers: int
) -> None:
    """Into a folder, by this process or, if there are any, by the workers of a cluster."""
    from sdlgm.estimators._ray import encode_with_ray
    from sdlgm.data import CodedParts, checksum, open_rows

    rows = open_rows(data, label_column=label_column)
    if rows is None:
        raise DataError(f"{data}: is no .parquet or .npy file and no folder of them; write its codes to a .npz file")
    if Path(data).absolute() in folder.absolute().parents:
        raise DataError(f"{folder}: is in the folder of the data, where codes would be taken for data; name another")
    estimator = _loaded(model)
    coded = CodedParts(folder, rows, estimator.module_.config.n_features, {"model": checksum(model), **options})
    with _rows_bar(len(rows)) as advance:
        if n_workers:
            encode_with_ray(model, coded, options, n_workers=n_workers, advance=advance)
        else:
            coded.encode(lambda part: estimator.transform(part, **options), advance)
    out.print(f"codes: {folder} ({len(rows)} rows in {len(rows.parts)} files)", highlight=False, soft_wrap=True)


@contextlib.contextmanager
def _rows_bar(n_rows: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on the error output that goes when the work is done; without a total it counts."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = [
        BarColumn(bar_width=14),
        TextColumn("{task.completed:,.0f} rows"),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
        TextColumn("left"),
    ]
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("rows", total=n_rows)
        yield lambda n: progress.advance(task, n)


@app.command()
@_clear_errors
def decode(
    model: Model,
    codes: Annotated[Path, typer.Argument(help="Codes of 'sdlgm encode'.", show_default=False)],
    data: TableOut,
) -> None:
    """Decode codes back into data.

    `sdlgm decode model.sdlgm codes.npz --out decoded.csv`
    """
    from sdlgm.data import TABLES, check_writable, read_codes, write_table

    check_writable(data, TABLES)
    estimator = _loaded(model)
    decoded = estimator.inverse_transform(read_codes(codes))
    write_table(data, decoded, tuple(getattr(estimator, "feature_names_in_", ())) or None)
    out.print(f"data: {data} ({decoded.shape[0]} rows of {decoded.shape[1]})", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def evaluate(
    model: Model,
    data: Data,
    as_json: AsJson = False,
    seed: Seed = 0,
    label_column: LabelColumn = None,
) -> None:
    """Evaluate a model: bounds, what codes carry and cost, sparsity, reconstruction error.

    `sdlgm evaluate model.sdlgm mnist:test --json`
    """
    from sdlgm.data import load_data, open_rows

    in_files = open_rows(data, label_column=label_column) if Path(data).is_dir() else None
    rows = load_data(data, label_column=label_column).table if in_files is None else in_files
    evaluation = _loaded(model).evaluate(rows, random_state=seed)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation) | {"discrete_bits": evaluation.discrete_bits}, allow_nan=False))
    else:
        out.print(_evaluation_table(evaluation, Path(data).name))


@app.command()
@_clear_errors
def sample(
    model: Model,
    data: TableOut,
    n: Annotated[int, typer.Option("-n", help="How many.", min=1)] = 16,
    seed: Seed = 0,
) -> None:
    """Draw new observations from the model.

    `sdlgm sample model.sdlgm -n 100 --out new.npy`
    """
    from sdlgm.data import TABLES, check_writable, write_table

    check_writable(data, TABLES)
    estimator = _loaded(model)
    write_table(
        data, estimator.sample(n, random_state=seed), tuple(getattr(estimator, "feature_names_in_", ())) or None
    )
    out.print(f"data: {data} ({n} rows)", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def report(
    model: Model,
    data: OneFile,
    page: Annotated[Path, typer.Option("--out", help="Where to write the page.")] = Path("report.html"),
    seed: Seed = 0,
    label_column: LabelColumn = None,
) -> None:
    """Write one HTML page with the numbers and pictures of a model.

    `sdlgm report model.sdlgm mnist:test --out report.html`
    """
    from sdlgm.data import check_writable, load_data
    from sdlgm.report import write_report

    check_writable(page)
    write_report(_loaded(model), load_data(data, label_column=label_column), page, random_state=seed)
    out.print(f"report: {page}", highlight=False, soft_wrap=True)


@classify_app.command("fit")
@_clear_errors
def classify_fit(
    data: LabelledData,
    model: ModelOut,
    labels: LabelNames = "",
    variant: Annotated[str, typer.Option(help="dis, gen or con.")] = "dis",
    max_active: Annotated[int | None, typer.Option(help="Largest number of labels of a row; that of the data.")] = None,
    likelihood: Annotated[
        str, typer.Option(help="Of a set of labels: subset, closed_form, multinomial or monte_carlo.")
    ] = "subset",
    threshold: Annotated[str, typer.Option(help="A probability, cv or cv_per_label.")] = "cv",
    hidden: Annotated[str, typer.Option(help="Hidden layers of the encoder.")] = "256",
    dropout: Annotated[float, typer.Option(help="Of the hidden layers.")] = 0.5,
    input_dropout: Annotated[float, typer.Option(help="Of the inputs.")] = 0.3,
    weight_decay: Annotated[float, typer.Option(help="Of the optimiser.")] = 0.1,
    reconstruction_weight: Annotated[float, typer.Option(help="Of the model of x (gen and con).")] = 0.01,
    n_latent: Annotated[int, typer.Option(help="Features beside the labels (con).")] = 20,
    temperature: Annotated[float, typer.Option(help="Of relaxed slots (monte_carlo).")] = 1.0,
    n_members: Annotated[int, typer.Option(help="Networks whose probabilities are averaged.")] = 1,
    n_trees: Annotated[int, typer.Option(help="Trees that vote beside the networks.")] = 0,
    max_iter: MaxIter = 500,
    batch_size: BatchSize = 200,
    learning_rate: LearningRate = 3e-3,
    seed: Seed = 0,
    checkpoint_dir: CheckpointDir = None,
    checkpoint_every: CheckpointEvery = 1000,
    resume: Resume = False,
) -> None:
    """Fit a classifier to rows with labels.

    `sdlgm classify fit songs.csv --labels happy,calm,sad --out model.sdlgm`
    """
    from sdlgm import SDLGMClassifier
    from sdlgm.data import check_writable, read_labelled

    check_writable(model)
    dataset = read_labelled(data, _names(labels))
    if not dataset.label_names:
        raise DataError(f"{data}: which columns are labels? Name them with --labels a,b,c")
    estimator = SDLGMClassifier(
        variant=variant,
        max_active=max_active,
        likelihood=likelihood,
        threshold=_threshold(threshold),
        hidden=_sizes(hidden),
        dropout=dropout,
        input_dropout=input_dropout,
        weight_decay=weight_decay,
        reconstruction_weight=reconstruction_weight,
        n_latent=n_latent,
        temperature=temperature,
        n_members=n_members,
        n_trees=n_trees,
        max_iter=max_iter,
        batch_size=batch_size,
        learning_rate=learning_rate,
        random_state=seed,
        checkpoint_dir=checkpoint_dir,
        checkpoint_every=checkpoint_every,
        resume=resume,
        verbose=1,
    )
    estimator.fit(dataset.table, dataset.labels)
    estimator.save(model)
    out.print(
        f"model: {model} ({len(dataset.label_names)} labels, at most {estimator.max_active_} a row)",
        highlight=False,
        soft_wrap=True,
    )


@classify_app.command("predict")
@_clear_errors
def classify_predict(
    model: Classifier,
    data: LabelledData,
    table: TableOut,
    proba: Annotated[bool, typer.Option("--proba", help="Write probabilities instead of 0 and 1.")] = False,
) -> None:
    """Predict the labels of rows: a table with one column for each label. Columns with labels are not looked at.

    `sdlgm classify predict model.sdlgm new.csv --out predicted.csv`
    """
    from sdlgm.data import TABLES, check_writable, read_labelled, write_table

    check_writable(table, TABLES)
    estimator = _loaded(model, "SDLGMClassifier")
    if estimator.single_label_:
        raise DataError(f"{model}: was fitted with one class a row; predict with it in Python")
    names = tuple(str(name) for name in estimator.classes_)
    dataset = read_labelled(data, names, optional=True, values=False, n_features=estimator.n_features_in_)
    predicted = estimator.predict_proba(dataset.table) if proba else estimator.predict(dataset.table)
    write_table(table, predicted, names)
    out.print(f"labels: {table} ({len(predicted)} rows of {len(names)})", highlight=False, soft_wrap=True)


@classify_app.command("evaluate")
@_clear_errors
def classify_evaluate(
    model: Classifier,
    data: LabelledData,
    as_json: AsJson = False,
) -> None:
    """Score a classifier on rows whose labels are known.

    `sdlgm classify evaluate model.sdlgm birds:test`
    """
    from sdlgm.data import read_labelled

    estimator = _loaded(model, "SDLGMClassifier")
    names = tuple(str(name) for name in estimator.classes_)
    dataset = read_labelled(data, names, optional=True, n_features=estimator.n_features_in_)
    missing = set(names) - set(dataset.label_names)
    if missing:
        raise DataError(f"{data}: has no label {sorted(missing)[0]!r}, which the model predicts")
    order = [dataset.label_names.index(name) for name in names]
    evaluation = estimator.evaluate(dataset.table, dataset.Y[:, order])
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), allow_nan=False))
        return
    rows = {
        "micro F1": f"{evaluation.micro_f1:.4f}",
        "macro F1": f"{evaluation.macro_f1:.4f} ({evaluation.macro_f1_present:.4f} over labels that occur)",
        "rows with all labels right": f"{evaluation.exact_match:.4f}",
        "Hamming loss": f"{evaluation.hamming_loss:.4f}",
        "log loss": f"{evaluation.log_loss:.4f} nats a row",
        "labels a row": f"{evaluation.n_labels_true:.2f} true, {evaluation.n_labels_predicted:.2f} predicted, "
        f"{evaluation.n_labels_expected:.2f} expected (budget {evaluation.max_active})",
    }
    out.print(_table(rows, f"{evaluation.n_rows} rows of {dataset.name}"))


@count_app.command("fit")
@_clear_errors
def count_fit(
    data: CountData,
    model: ModelOut,
    classes: Annotated[str, typer.Option(help="Columns of a .csv or .parquet file that are counts, with commas.")] = "",
    max_active: Annotated[int | None, typer.Option(help="Largest sum of a row's counts; that of the data.")] = None,
    encoder: Annotated[str, typer.Option(help="auto, mlp, or for pictures cnn or patches.")] = "auto",
    hidden: Annotated[str, typer.Option(help="Widths of the fully connected layers.")] = "128",
    channels: Annotated[int, typer.Option(help="Of the first convolutions.")] = 24,
    patch_size: Annotated[int | None, typer.Option(help="Side of a patch in pixels; from area and budget.")] = None,
    patch_stride: Annotated[int | None, typer.Option(help="Pixels from one patch to the next.")] = None,
    dropout: Annotated[float, typer.Option(help="Of the hidden layers.")] = 0.3,
    max_shift: Annotated[int, typer.Option(help="Pixels to move pictures by while training.")] = 0,
    weight_decay: Annotated[float, typer.Option(help="Of the optimiser.")] = 0.01,
    max_iter: MaxIter = 1000,
    batch_size: BatchSize = 50,
    learning_rate: LearningRate = 3e-3,
    seed: Seed = 0,
    checkpoint_dir: CheckpointDir = None,
    checkpoint_every: CheckpointEvery = 1000,
    resume: Resume = False,
) -> None:
    """Fit a counter to rows, or pictures, with counts.

    `sdlgm count fit baskets.csv --classes apples,bread,milk --out model.sdlgm`
    """
    from sdlgm import SDLGMCounter
    from sdlgm.data import check_writable, read_counted
    from sdlgm.data.tables import kind_of

    check_writable(model)
    dataset = read_counted(data, _names(classes))
    if not dataset.counts.shape[1]:
        arrays = kind_of(Path(data)) in ("npy", "npz")
        where = "add an array called counts" if arrays else "name them with --classes a,b,c"
        raise DataError(f"{data}: which numbers are counts? {where.capitalize()}")
    estimator = SDLGMCounter(
        max_active=max_active,
        encoder=encoder,
        hidden=_sizes(hidden),
        channels=channels,
        patch_size=patch_size,
        patch_stride=patch_stride,
        dropout=dropout,
        max_shift=max_shift,
        weight_decay=weight_decay,
        max_iter=max_iter,
        batch_size=batch_size,
        learning_rate=learning_rate,
        random_state=seed,
        checkpoint_dir=checkpoint_dir,
        checkpoint_every=checkpoint_every,
        resume=resume,
        verbose=1,
    )
    estimator.fit(dataset.table, dataset.targets)
    estimator.save(model)
    what = f"{dataset.counts.shape[1]} classes, at most {estimator.max_active_} in all, encoder {estimator.encoder_}"
    out.print(f"model: {model} ({what})", highlight=False, soft_wrap=True)


@count_app.command("predict")
@_clear_errors
def count_predict(
    model: Counter,
    data: CountData,
    table: TableOut,
    mean: Annotated[bool, typer.Option("--mean", help="Expected counts, not rounded.")] = False,
) -> None:
    """Predict counts: one row for each of the data, one column for each class.

    `sdlgm count predict model.sdlgm new.csv --out counts.csv`
    """
    from sdlgm.data import TABLES, check_writable, read_counted, write_table

    check_writable(table, TABLES)
    estimator = _loaded(model, "SDLGMCounter")
    names = tuple(str(name) for name in estimator.classes_)
    classes, n_features = _named_classes(estimator), estimator.n_features_in_
    dataset = read_counted(data, classes, optional=True, values=False, n_features=n_features)
    predicted = estimator.predict_mean(dataset.table) if mean else estimator.predict(dataset.table)
    write_table(table, predicted.reshape(len(predicted), -1), names)
    out.print(f"counts: {table} ({len(predicted)} rows of {len(names)})", highlight=False, soft_wrap=True)


@count_app.command("evaluate")
@_clear_errors
def count_evaluate(
    model: Counter,
    data: CountData,
    as_json: AsJson = False,
) -> None:
    """Score a counter on rows whose counts are known.

    `sdlgm count evaluate model.sdlgm digit_columns:test`
    """
    from sdlgm.data import read_counted

    estimator = _loaded(model, "SDLGMCounter")
    dataset = read_counted(data, _named_classes(estimator), optional=True, n_features=estimator.n_features_in_)
    if dataset.counts.shape[1] != len(estimator.classes_):
        raise DataError(
            f"{data}: has not all of the {len(estimator.classes_)} columns of counts that the model predicts"
        )
    evaluation = estimator.evaluate(dataset.table, dataset.targets)
    if as_json:
        typer.echo(json.dumps(asdict(evaluation), allow_nan=False))
        return
    rows = {
        "squared error, expected counts": f"{evaluation.mse_expected:.4f} a class",
        "squared error, rounded counts": f"{evaluation.mse_rounded:.4f} a class",
        "rows with all counts right": f"{evaluation.exact_match:.4f}",
        "log-likelihood": f"none: {evaluation.n_beyond_budget} rows are beyond the budget"
        if evaluation.log_likelihood is None
        else f"{evaluation.log_likelihood:.4f} nats a row",
        "sum of a row's counts": f"{evaluation.total_true:.2f} true, {evaluation.total_expected:.2f} expected "
        f"(budget {evaluation.max_active})",
    }
    out.print(_table(rows, f"{evaluation.n_rows} rows of {dataset.name}"))


def _named_classes(estimator: Any) -> tuple[str, ...]:
    """Classes that a table can have columns of; numbers are those of an array."""
    return tuple(name for name in estimator.classes_ if isinstance(name, str))


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _threshold(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@data_app.command("list")
@_clear_errors
def data_list() -> None:
    """List the named data sets and where they are."""
    from sdlgm.data import DATASETS, find_file

    table = Table("name", "what", "where")
    for name, dataset in DATASETS.items():
        places = [find_file(name, file) for file in dataset.files]
        where = "embedded" if not places else f"run 'sdlgm data fetch {name}'" if None in places else str(places[0])
        table.add_row(name, dataset.description, where)
    out.print(table)


@data_app.command("fetch")
@_clear_errors
def data_fetch(name: Annotated[str, typer.Argument(help="Such as mnist.", show_default=False)]) -> None:
    """Download a named data set into the cache, and check it.

    `sdlgm data fetch mnist`
    """
    from sdlgm.data import fetch

    paths = fetch(name)
    for path in paths:
        out.print(str(path), highlight=False, soft_wrap=True)
    if not paths:
        out.print(f"{name} is embedded, there is nothing to fetch")


@reproduce_app.callback()
def _reproduce() -> None:
    """Each command writes one file of results, which the pages of the documentation are made from."""


def _image_data(name: str) -> str:
    """Named images that the networks of the paper are for."""
    known = ("mnist", "digits")
    if name not in known:
        raise DataError(f"{name}: not among the data sets of this command, {' and '.join(known)}")
    return name


def _n_jobs(jobs: int) -> int:
    return jobs or os.cpu_count() or 1


def _chosen(names: str, known: Iterable[str], what: str) -> list[str]:
    """Names with commas; all if there is none."""
    chosen = list(_names(names) or known)
    unknown = set(chosen) - set(known)
    if unknown:
        raise DataError(f"{', '.join(sorted(unknown))}: no such {what}; known are {', '.join(known)}")
    return chosen


@contextlib.contextmanager
def _results_in(path: Path) -> Iterator[None]:
    """Refuse a file that cannot be written before the work begins, and say where the results are when it is done."""
    from sdlgm.data import check_writable

    check_writable(path)
    yield
    out.print(f"results: {path}", highlight=False, soft_wrap=True)


@reproduce_app.command("table1")
@_clear_errors
def reproduce_table1(
    result: ResultOut = Path("table1.json"),
    data: PaperData = "mnist",
    rows: Annotated[str, typer.Option(help="Which rows, with commas; all if not given.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each row; 0 for 10 of each SDLGM, 3 of others.", min=0)] = 0,
    iterations: Annotated[int, typer.Option(help="Training iterations of a run.", min=1)] = 10_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Table I: every estimator and every baseline with one recipe, by the relaxed criterion and the discrete bound.

    The file has the table of all runs done so far, and is written anew after each, with a page of the same name in
    Markdown beside it. Runs that it has already are not done again. The whole table is 162 runs of about five minutes
    on one core each; `--seeds 1` makes one of each row.

    `sdlgm reproduce table1 --out docs/results/table1.json`
    """
    from sdlgm.paper import table1

    with _results_in(result):
        chosen = _chosen(rows, table1.ROWS, "row")
        table1.reproduce_table1(
            result,
            data=_image_data(data),
            rows=chosen,
            seeds=seeds or None,
            iterations=iterations,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@reproduce_app.command("table2")
@_clear_errors
def reproduce_table2(
    result: ResultOut = Path("table2.json"),
    data: Annotated[str, typer.Option(help="Which data sets, with commas; all if not given.")] = "",
    systems: Annotated[str, typer.Option(help="Which systems, with commas; all if not given.")] = "",
    quick: Annotated[bool, typer.Option(help="One setting and one rerun of each: to see that it works.")] = False,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Table II: multi-label classification of birds, emotions and music, with the peers beside the paper's systems.

    `sdlgm reproduce table2 --out docs/results/table2.json`
    """
    from sdlgm.paper import table2

    with _results_in(result):
        table2.reproduce_table2(
            result,
            data=_chosen(data, table2.DATA, "data set"),
            systems=_chosen(systems, table2.SYSTEMS, "system"),
            quick=quick,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@reproduce_app.command("counts")
@_clear_errors
def reproduce_counts(
    result: ResultOut = Path("counts.json"),
    data: Annotated[str, typer.Option(help="columns or scattered; both if not given.")] = "",
    systems: Annotated[str, typer.Option(help="Which systems, with commas; all if not given.")] = "",
    seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each; 0 for 5 of the SDLGM with patches, fewer of others.")
    ] = 0,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Counting the digits of a picture, with each encoder, beside forests and networks that regress the counts.

    `sdlgm reproduce counts --out docs/results/counts.json`
    """
    from sdlgm.paper import counts

    with _results_in(result):
        counts.reproduce_counts(
            result,
            data=_chosen(data, counts.DATA, "data set"),
            systems=_chosen(systems, counts.SYSTEMS, "system"),
            seeds=seeds or None,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@reproduce_app.command("gradients")
@_clear_errors
def reproduce_gradients(
    result: ResultOut = Path("gradients.json"),
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Bias and variance of every gradient estimator, against exact enumeration of a tiny model. Takes minutes.

    `sdlgm reproduce gradients --out docs/results/gradients.json`
    """
    from sdlgm.paper.gradients import measure_gradients

    with _results_in(result):
        measure_gradients(result, n_jobs=_n_jobs(jobs), work_folder=work)


@reproduce_app.command("figures")
@_clear_errors
def reproduce_figures(
    folder: Annotated[Path, typer.Option("--out", help="Folder for pictures, numbers and page.")] = Path("figures"),
    data: PaperData = "mnist",
    iterations: Annotated[int, typer.Option(help="Training iterations of the models.", min=1)] = 10_000,
    jobs: Jobs = 0,
    work: Annotated[Path, typer.Option(help="Folder of the runs of table1; they are not trained again.")] = Path(
        "runs"
    ),
) -> None:
    """Reconstructions, map of the codes, histograms of the sparsity, progressive codes, and the peers beside them.

    `sdlgm reproduce figures --out docs/results/figures`
    """
    from sdlgm.paper import figures

    figures.reproduce_figures(
        folder, data=_image_data(data), iterations=iterations, n_jobs=_n_jobs(jobs), work_folder=work
    )
    out.print(f"figures: {folder / 'figures.md'}", highlight=False, soft_wrap=True)


@reproduce_app.command("budgets")
@_clear_errors
def reproduce_budgets(
    result: ResultOut = Path("budgets.json"),
    data: PaperData = "mnist",
    seeds: Annotated[int, typer.Option(help="Runs of each budget.", min=1)] = 2,
    iterations: Annotated[int, typer.Option(help="Training iterations of a run.", min=1)] = 10_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """What a budget costs: the discrete bound of the default model with `max_active` from 5 to 80.

    `sdlgm reproduce budgets --out docs/results/budgets.json`
    """
    from sdlgm.paper import budgets

    with _results_in(result):
        budgets.reproduce_budgets(
            result,
            data=_image_data(data),
            iterations=iterations,
            seeds=seeds,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@reproduce_app.command("long")
@_clear_errors
def reproduce_long(
    result: ResultOut = Path("long.json"),
    data: PaperData = "mnist",
    iterations: Annotated[int, typer.Option(help="Training iterations.", min=1)] = 60_000,
    seed: Seed = 0,
    work: Annotated[Path, typer.Option(help="Folder for the checkpoint and the curve; go on from there.")] = Path(
        "runs"
    ),
) -> None:
    """One long run of the default model: the discrete bound against time. About half an hour for MNIST.

    `sdlgm reproduce long --out docs/results/long.json`
    """
    from sdlgm.paper.long import long_run

    with _results_in(result):
        long_run(result, data=_image_data(data), iterations=iterations, seed=seed, work_folder=work, verbose=True)


def _evaluation_table(evaluation: Any, name: str) -> Table:
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
    return _table(rows, f"{evaluation.n_rows} rows of {name}")


def _table(rows: dict[str, str], title: str) -> Table:
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column(justify="right")
    for what, value in rows.items():
        table.add_row(what, value)
    return table
