"""The command line of the reproduction: ``python -m reproduction``. Heavy imports wait until a command needs them."""

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sdlgm._signals import exit_code, sigterm_raises
from sdlgm.data import check_writable
from sdlgm.errors import DataError, SDLGMError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Reproduce the tables and figures of the paper, and build the pages that show them.\n\n"
    "Every command but `pages` writes one file of results. It can be interrupted: the same command resumes it.",
)
out, err = Console(markup=False, emoji=False), Console(stderr=True, emoji=False)

ResultOut = Annotated[Path, typer.Option("--out", help="File for the results.")]
ImageData = Annotated[str, typer.Option(help="mnist or digits.")]
Systems = Annotated[str, typer.Option(help="Systems, separated by commas. Default: all.")]
Iterations = Annotated[int, typer.Option(help="Training iterations of a run.", min=1)]
Jobs = Annotated[int, typer.Option(help="Number of runs at the same time; 0 for one on each core.", min=0)]
LONG_ITERATIONS = 180_000
Work = Annotated[Path, typer.Option(help="Folder for finished runs and checkpoints, to resume from.")]


def _clear_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Turn expected errors into one line on stderr and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            with warnings.catch_warnings(), sigterm_raises():
                warnings.showwarning = _show_warning
                command(*args, **kwargs)
        except (SDLGMError, ValueError, OSError) as error:
            err.print(f"[bold red]error:[/] {_one_line(error)}", soft_wrap=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as error:
            err.print("interrupted; run the same command again to resume", soft_wrap=True)
            raise typer.Exit(exit_code(error)) from None

    return wrapped


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    err.print(f"warning: {_one_line(message)}", soft_wrap=True)


def _one_line(message: Exception | str) -> str:
    """Return the first line of a message."""
    lines = str(message).strip().splitlines()
    return escape(lines[0]) if lines else type(message).__name__


def _image_data(name: str) -> str:
    """Return the name of a data set that the networks of the paper can be trained on."""
    known = ("mnist", "digits")
    if name not in known:
        raise DataError(f"{name}: unknown data set; known are {' and '.join(known)}")
    return name


def _n_jobs(jobs: int) -> int:
    return jobs or os.cpu_count() or 1


def _chosen(names: str, known: Iterable[str], what: str) -> list[str]:
    """Split names at commas; return all known names if there are none."""
    chosen = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    unknown = set(chosen) - set(known)
    if unknown:
        raise DataError(f"{', '.join(sorted(unknown))}: no such {what}; known are {', '.join(known)}")
    return chosen


def _positive_numbers(text: str) -> list[float]:
    """Split numbers at commas."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(0 < number < float("inf") for number in numbers):
        raise DataError(f"{text}: not positive numbers, separated by commas")
    return numbers


@contextlib.contextmanager
def _results_in(path: Path) -> Iterator[None]:
    """Check that the results can be written before the work begins, and print their path at the end."""
    check_writable(path)
    yield
    out.print(f"results: {path}", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def table1(
    result: ResultOut = Path("table1.json"),
    data: ImageData = "mnist",
    rows: Annotated[str, typer.Option(help="Rows, separated by commas. Default: all.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each row; 0 for 10 of each SDLGM, 3 of others.", min=0)] = 0,
    iterations: Iterations = 10_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Train every estimator and baseline of Table I, and score them by the relaxed criterion and the discrete bound.

    The file is updated after each run, with a page of the same name in Markdown beside it. Runs that it already has are
    not repeated. The whole table is 162 runs of about five minutes on one core; `--seeds 1` does one of each row.

    `python -m reproduction table1 --out docs/results/table1.json`
    """
    from reproduction import table1
    from reproduction.pages.table1 import page

    with _results_in(result):
        table1.reproduce_table1(
            result,
            data=_image_data(data),
            rows=_chosen(rows, table1.ROWS, "row"),
            seeds=seeds or None,
            iterations=iterations,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
            page=page,
        )


@app.command()
@_clear_errors
def table2(
    result: ResultOut = Path("table2.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    systems: Systems = "",
    quick: Annotated[bool, typer.Option(help="One setting and one rerun of each system, for a trial.")] = False,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Measure Table II: multi-label classification of birds, emotions and music, with further peers.

    `python -m reproduction table2 --out docs/results/table2.json`
    """
    from reproduction import table2

    with _results_in(result):
        table2.reproduce_table2(
            result,
            data=_chosen(data, table2.DATA, "data set"),
            systems=_chosen(systems, table2.SYSTEMS, "system"),
            quick=quick,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def counts(
    result: ResultOut = Path("counts.json"),
    data: Annotated[str, typer.Option(help="columns or scattered. Default: both.")] = "",
    systems: Systems = "",
    seeds: Annotated[
        int, typer.Option(min=0, help="Runs of each system; 0 for 5 of the SDLGM with patches, fewer of others.")
    ] = 0,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Count the digits of a picture with each encoder, with forests, and with networks that regress the counts.

    `python -m reproduction counts --out docs/results/counts.json`
    """
    from reproduction import counts

    with _results_in(result):
        counts.reproduce_counts(
            result,
            data=_chosen(data, counts.DATA, "data set"),
            systems=_chosen(systems, counts.SYSTEMS, "system"),
            seeds=seeds or None,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def gradients(
    result: ResultOut = Path("gradients.json"),
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Measure bias and variance of every gradient estimator against exact enumeration. Takes minutes.

    `python -m reproduction gradients --out docs/results/gradients.json`
    """
    from reproduction.gradients import measure_gradients

    with _results_in(result):
        measure_gradients(result, n_jobs=_n_jobs(jobs), work_folder=work)


@app.command()
@_clear_errors
def figures(
    folder: Annotated[Path, typer.Option("--out", help="Folder for the pictures, the numbers and the page.")] = Path(
        "figures"
    ),
    data: ImageData = "mnist",
    iterations: Iterations = 10_000,
    jobs: Jobs = 0,
    work: Annotated[Path, typer.Option(help="Folder of the runs of table1, whose models are used.")] = Path("runs"),
) -> None:
    """Draw reconstructions, the map of the codes, sparsity and progressive codes, and compare codes with peers.

    `python -m reproduction figures --out docs/results/figures`
    """
    from reproduction import figures
    from reproduction.pages.figures import page
    from sdlgm._files import write_text

    options = {"data": _image_data(data), "iterations": iterations}
    result = figures.reproduce_figures(folder, **options, n_jobs=_n_jobs(jobs), work_folder=work)
    write_text(folder / "figures.md", page(result))
    out.print(f"figures: {folder / 'figures.md'}", highlight=False, soft_wrap=True)


@app.command()
@_clear_errors
def budgets(
    result: ResultOut = Path("budgets.json"),
    data: ImageData = "mnist",
    seeds: Annotated[int, typer.Option(help="Runs of each budget.", min=1)] = 2,
    iterations: Iterations = 10_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Measure the discrete bound of the default model with `max_active` from 5 to 80.

    `python -m reproduction budgets --out docs/results/budgets.json`
    """
    from reproduction import budgets

    with _results_in(result):
        budgets.reproduce_budgets(
            result,
            data=_image_data(data),
            iterations=iterations,
            seeds=seeds,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def priors(
    result: ResultOut = Path("priors.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all, MNIST if it is there.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs of each prior.", min=1)] = 3,
    iterations: Iterations = 2_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Compare priors over codes on small tables, digits and grey pictures, with and without early stopping.

    `python -m reproduction priors --out docs/results/priors.json`
    """
    from reproduction import priors

    with _results_in(result):
        priors.reproduce_priors(
            result,
            data=_chosen(data, priors.available_data(), "data set"),
            seeds=seeds,
            iterations=iterations,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def features(
    result: ResultOut = Path("features.json"),
    data: Annotated[str, typer.Option(help="mnist or files of rows, separated by commas.")] = "mnist",
    seeds: Annotated[int, typer.Option(help="Runs of each number of features.", min=1)] = 1,
    iterations: Iterations = 3_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Compare 4,096 features with 256: the bound of held-out rows, and how many features are in use.

    `python -m reproduction features --out docs/results/features.json`
    """
    from reproduction import features

    with _results_in(result):
        features.reproduce_features(
            result,
            data=[name.strip() for name in data.split(",")],
            seeds=seeds,
            iterations=iterations,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def codec(
    result: ResultOut = Path("codec.json"),
    data: Annotated[str, typer.Option(help="mnist or digits.")] = "mnist",
    iterations: Iterations = 10_000,
    tried: Annotated[int, typer.Option(help="Codes to try the ceiling of messages with.", min=1)] = 1_000_000,
    work: Work = Path("runs"),
) -> None:
    """Measure the size of codes on the wire, the speed, and the ceiling of messages.

    `python -m reproduction codec --out docs/results/codec.json`
    """
    from reproduction.codec import reproduce_codec

    with _results_in(result):
        reproduce_codec(result, data=data, iterations=iterations, tried=tried, work_folder=work)


@app.command()
@_clear_errors
def lossless(
    result: ResultOut = Path("lossless.json"),
    data: Annotated[str, typer.Option(help="mnist or digits.")] = "mnist",
    iterations: Iterations = 10_000,
    long_iterations: Annotated[
        int, typer.Option(help="Iterations of the long run; 0 leaves it out.", min=0)
    ] = LONG_ITERATIONS,
    work: Work = Path("runs"),
) -> None:
    """Compress binary pictures without loss, with the SDLGM and with other compressors.

    Most of the time is that of the long run, which is taken from the folder of runs if `long` has left it there.

    `python -m reproduction lossless --out docs/results/lossless.json`
    """
    from reproduction.lossless import reproduce_lossless

    with _results_in(result):
        reproduce_lossless(result, data=data, iterations=iterations, long_iterations=long_iterations, work_folder=work)


@app.command()
@_clear_errors
def imputation(
    result: ResultOut = Path("imputation.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    seeds: Annotated[int, typer.Option(help="Runs on each data set.", min=1)] = 3,
    iterations: Iterations = 1_000,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Fill missing values of small tables with the SDLGM and with the imputers of scikit-learn. Three minutes.

    `python -m reproduction imputation --out docs/results/imputation.json`
    """
    from reproduction import imputation

    with _results_in(result):
        imputation.reproduce_imputation(
            result,
            data=_chosen(data, imputation.DATA, "data set"),
            seeds=seeds,
            iterations=iterations,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def quality(
    result: ResultOut = Path("quality.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    systems: Systems = "",
    seconds: Annotated[str, typer.Option(help="Processor seconds of a fit, separated by commas.")] = "30,120,480",
    jobs: Jobs = 1,
    work: Work = Path("runs"),
) -> None:
    """Compare codes of nine data sets after the same time: error, what can be predicted from them, and length.

    The file is updated after each run, and its rows of other data sets, systems and times are kept. All of it takes 10
    hours of one core.

    `python -m reproduction quality --out docs/results/quality.json`
    """
    from reproduction import quality, quality_data

    with _results_in(result):
        quality.reproduce_quality(
            result,
            data=_chosen(data, quality_data.SOURCES, "data set"),
            systems=_chosen(systems, quality.SYSTEMS, "system"),
            seconds=_positive_numbers(seconds),
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def tags(
    result: ResultOut = Path("tags.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    systems: Systems = "",
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Compare decisions about the labels of a row, and peers with a threshold, with all defaults. A quarter of an hour.

    `python -m reproduction tags --out docs/results/tags.json`
    """
    from reproduction import tags

    with _results_in(result):
        tags.reproduce_tags(
            result,
            data=_chosen(data, tags.SOURCES, "data set"),
            systems=_chosen(systems, tags.SYSTEMS, "system"),
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def telemetry(
    result: ResultOut = Path("telemetry.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    systems: Systems = "",
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Compare ways to describe windows of measurements by few bits, the SDLGM among them: rate against quality.

    Peers need faiss-cpu, PyWavelets, pysz and zfpy.

    `python -m reproduction telemetry --out docs/results/telemetry.json`
    """
    from reproduction import telemetry, telemetry_data

    with _results_in(result):
        telemetry.reproduce_telemetry(
            result,
            data=_chosen(data, telemetry_data.SOURCES, "data set"),
            systems=_chosen(systems, telemetry.SYSTEMS, "system"),
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command()
@_clear_errors
def attention(
    result: ResultOut = Path("attention.json"),
    data: Annotated[str, typer.Option(help="Data sets, separated by commas. Default: all.")] = "",
    systems: Systems = "",
    seeds: Annotated[int, typer.Option(help="Runs of each system with the chosen setting.", min=1)] = 5,
    jobs: Jobs = 0,
    work: Work = Path("runs"),
) -> None:
    """Compare kinds of attention on texts and pictures: what they score, and how many tokens they use.

    The file is updated after each run, and its rows of other data sets and systems are kept. All of it takes an hour
    of one core. Needs the package entmax.

    `python -m reproduction attention --out docs/results/attention.json`
    """
    from reproduction import attention

    with _results_in(result):
        attention.reproduce_attention(
            result,
            data=_chosen(data, attention.SOURCES, "data set"),
            systems=_chosen(systems, attention.SYSTEMS, "system"),
            seeds=seeds,
            n_jobs=_n_jobs(jobs),
            work_folder=work,
        )


@app.command("long")
@_clear_errors
def long_(
    result: ResultOut = Path("long.json"),
    data: ImageData = "mnist",
    one_layer: Annotated[
        bool, typer.Option("--one-layer", help="The default networks instead of those of the paper.")
    ] = False,
    iterations: Iterations = LONG_ITERATIONS,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same seed gives the same result.")] = 0,
    work: Work = Path("runs"),
) -> None:
    """Train the model with the networks of the paper for a long time. Three quarters of an hour for MNIST.

    `python -m reproduction long --out docs/results/long.json`
    """
    from reproduction.long import long_run

    with _results_in(result):
        long_run(
            result,
            data=_image_data(data),
            one_layer=one_layer,
            iterations=iterations,
            seed=seed,
            work_folder=work,
            verbose=True,
        )


@app.command()
@_clear_errors
def pages(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if a page is not up to date or a link is broken.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option(help="A model of MNIST, to also draw the picture of README.md with it.")
    ] = None,
) -> None:
    """Build all generated pages and pictures of the documentation from docs/results.

    `python -m reproduction pages`
    """
    from reproduction.pages import ROOT, build, find_problems
    from reproduction.pages.readme import codes_picture

    if model is not None and not check:
        codes_picture(model).savefig(ROOT / "docs" / "images" / "codes.png", dpi=130)
    if not check:
        build()
    problems = find_problems()
    for problem in problems:
        err.print(problem, markup=False, highlight=False, soft_wrap=True)
    if problems:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m reproduction")
