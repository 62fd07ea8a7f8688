"""The commands compress, decompress and info."""

import base64
import binascii
import csv
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from sdlgm._files import write_atomic
from sdlgm._progress import Progress
from sdlgm._user_errors import is_user_error
from sdlgm.cli._arguments import AsJson, LabelColumn, TableOut
from sdlgm.cli._errors import handle_errors
from sdlgm.cli._models import check_folder, check_model, load_model
from sdlgm.cli._output import print_line, print_table
from sdlgm.cli._parts import Engine, EngineOption, Workers, make_parts, n_workers, rows_for_folder
from sdlgm.cli._tables import write_decoded
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGM
    from sdlgm.data import RowFiles

app = typer.Typer()

STDIO = Path("-")

ModelOption = Annotated[Path, typer.Option("--model", help="A model file written by 'sdlgm fit'.", show_default=False)]
Checksum = Annotated[bool, typer.Option("--checksum", help="With --follow, two bytes more that find damage.")]


@app.command()
@handle_errors
def compress(
    data: Annotated[
        str,
        typer.Argument(
            help="Data as for 'sdlgm encode'. With --follow, CSV lines: a file, or - for the standard input."
        ),
    ],
    model: ModelOption,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="A .sdl file, or a folder for them. With --follow, a file of lines, or - for the standard output.",
        ),
    ],
    follow: Annotated[
        bool, typer.Option("--follow", help="Write a message for each line as it comes, as a line of base64.")
    ] = False,
    checksum: Checksum = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Write the rows themselves, which have to be zeros and ones.")
    ] = False,
    max_error: Annotated[
        float | None, typer.Option(help="Write also what codes leave out, so that no value differs by more than this.")
    ] = None,
    label_column: LabelColumn = None,
    stride: Annotated[
        int | None, typer.Option(help="Rows from a window to the next; none for that of the fit.", min=1)
    ] = None,
    engine: EngineOption = Engine.LOCAL,
    workers: Workers = 0,
) -> None:
    """Compress data: the codes of its rows, as short as the prior of the model says.

    A name without an ending is a folder. Each row group of the data is then written to a file of its own, and a command
    that was interrupted continues when it is run again.

    $ sdlgm compress measurements.parquet --model model.sdlgm --out measurements.sdl

    $ sdlgm compress measurements/ --model model.sdlgm --out compressed/

    $ sdlgm compress - --follow --model model.sdlgm --out -
    """
    check_model(model, "SDLGM")
    if lossless and follow:
        raise typer.BadParameter("--lossless is for files; leave out --follow.")
    if max_error is not None and (lossless or follow):
        raise typer.BadParameter(
            f"--max-error is for files with loss; leave out {'--follow' if follow else '--lossless'}."
        )
    if max_error is not None and not 0 < max_error < math.inf:
        raise typer.BadParameter("--max-error has to be a finite number above 0.")
    if follow:
        if engine is Engine.RAY:
            raise typer.BadParameter("--engine ray writes to a folder; leave out --follow.")
        _compress_lines(data, model, out, checksum=checksum)
        return
    if checksum:
        raise typer.BadParameter("--checksum is for messages; give --follow as well. Files always have checksums.")
    from sdlgm.data import check_source, check_writable, open_for_model

    check_source(data)
    writing = Writing(lossless, max_error)
    if out.is_dir() or not out.suffix:
        check_folder(out)
        _compress_parts(model, data, out, writing, label_column, n_workers(engine, workers))
        return
    if engine is Engine.RAY:
        raise typer.BadParameter("--engine ray writes to a folder; give --out a name without an ending.")
    check_writable(out, (".sdl",), inputs=[model, data])
    from sdlgm import SDLGM

    estimator = load_model(model, SDLGM)
    rows = open_for_model(data, estimator, label_column, stride)
    written = Written(0)

    def write(path: Path) -> None:
        nonlocal written
        written = writing(estimator, rows.batches, path)

    with Progress(f"compress {data}"):
        write_atomic(out, write)
    n_bytes = out.stat().st_size
    size = f"{n_bytes} bytes, {8 * n_bytes / max(written.n_rows, 1):.1f} bits each{written.note}"
    print_line(f"compressed: {out} ({written.n_rows} rows, {size})")


@dataclass(frozen=True)
class Written:
    """What is in a file."""

    n_rows: int
    note: str = ""


@dataclass(frozen=True)
class Writing:
    """What is written of rows."""

    lossless: bool
    max_error: float | None

    def __call__(self, estimator: "SDLGM", batches: Iterable[Any], path: Path) -> Written:
        """Write rows to a file."""
        with path.open("wb") as file:
            if self.max_error is not None:
                n_rows = estimator.write_bounded(file, batches, self.max_error)
                return Written(n_rows, f", no error above {self.max_error:g}")
            if self.lossless:
                n_rows, n_first_bits = estimator.write_lossless(file, batches)
                return Written(n_rows, f", with {n_first_bits} first bits")
            return Written(estimator.codec_.write(file, estimator.transform_batches(batches)))


@dataclass(frozen=True)
class PartWriting:
    """Write the rows of a part."""

    writing: Writing

    def __call__(self, estimator: "SDLGM", rows: "RowFiles", path: Path) -> None:
        """Write rows to a file."""
        self.writing(estimator, [rows], path)


def _compress_parts(
    model: Path, data: str, folder: Path, writing: Writing, label_column: str | None, n_workers: int
) -> None:
    """Compress into a folder: with workers of a Ray cluster, or in this process if ``n_workers`` is 0."""
    rows = rows_for_folder(data, folder, label_column, "compressed into a folder; name a .sdl file")
    from sdlgm import SDLGM
    from sdlgm.data import CompressedParts, checksum

    estimator = load_model(model, SDLGM)
    settings = {"model": checksum(model), **asdict(writing)}
    parts = CompressedParts(folder, rows, estimator.module_.config.n_features, settings)
    make_parts("compress", model, estimator, parts, PartWriting(writing), n_workers)
    n_bytes = sum(parts.path(number).stat().st_size for number in range(len(rows.parts)))
    size = f"{n_bytes} bytes, {8 * n_bytes / len(rows):.1f} bits each"
    print_line(f"compressed: {folder} ({len(rows)} rows in {len(rows.parts)} files, {size})")


@app.command()
@handle_errors
def decompress(
    data: Annotated[
        Path,
        typer.Argument(
            help="A .sdl file, or a folder of them as 'sdlgm compress' makes it. With --follow, lines of messages: a "
            "file, or - for the standard input."
        ),
    ],
    model: ModelOption,
    out: TableOut,
    follow: Annotated[bool, typer.Option("--follow", help="Read messages, and write a CSV line for each.")] = False,
    checksum: Checksum = False,
) -> None:
    """Decompress a .sdl file into rows, as 'sdlgm decode' decodes codes.

    Of a file that is cut short, the rows before are written, and the exit code is 2.

    $ sdlgm decompress measurements.sdl --model model.sdlgm --out decoded.npy
    """
    check_model(model, "SDLGM")
    if follow:
        _decompress_lines(data, model, out, checksum=checksum)
        return
    import numpy as np

    from sdlgm.data import TABLES, check_writable, compressed_files

    paths = compressed_files(data) if data.is_dir() else [data]
    for path in paths:
        _check_file(path)
    check_writable(out, TABLES, inputs=[model, *paths])
    from sdlgm import SDLGM
    from sdlgm.codec import CODES, ROWS, joined, within_memory

    estimator = load_model(model, SDLGM)
    if (kind := estimator.codec_.kind_of(paths[0])) != CODES:
        with Progress("decompress"):
            row_bytes = (1 if kind == ROWS else 8) * estimator.n_features_in_
            blocks = within_memory(map(estimator.decompress, paths), paths, row_bytes)
            written = write_decoded(out, estimator, np.concatenate(list(blocks)))
        print_line(f"data: {out} ({written})")
        return
    parts, damage = [estimator.codec_.no_codes], None
    with Progress("decompress"):
        try:
            blocks = chain.from_iterable(map(estimator.codec_.read, paths))
            for part in within_memory(blocks, paths, 8 * estimator.n_features_in_):
                parts.append(part)  # noqa: PERF402 - those before an error are kept
        except DataError as error:
            if len(parts) == 1:
                raise
            damage = error
        written = write_decoded(out, estimator, estimator.inverse_transform(joined(parts), encoded=True))
    print_line(f"data: {out} ({written})")
    if damage is not None:
        raise damage


@app.command()
@handle_errors
def info(
    data: Annotated[Path, typer.Argument(help="A .sdl file.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say what a .sdl file holds, without its model.

    $ sdlgm info measurements.sdl
    """
    _check_file(data)
    from sdlgm.codec import describe

    numbers = describe(data)
    if as_json:
        typer.echo(json.dumps(numbers))
    else:
        print_table({name.replace("_", " "): str(value) for name, value in numbers.items()}, data.name)


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")


# Lines


def _compress_lines(data: str, model: Path, out: Path, *, checksum: bool) -> None:
    from sdlgm.estimators._checks import without_names_warning

    estimator = _of_lines(data, model, out)
    with without_names_warning(), _Opened(Path(data), "r") as lines, _Opened(out, "w") as messages:
        for number, row in _rows(lines, estimator, data):
            try:
                (message,) = estimator.to_messages(row, checksum=checksum)
            except ValueError as error:
                if not is_user_error(error):
                    raise
                raise DataError(f"{data}, line {number}: {error}") from error
            messages.write(base64.b64encode(message).decode() + "\n")
            messages.flush()  # whoever waits for it need not wait for the next


def _decompress_lines(data: Path, model: Path, out: Path, *, checksum: bool) -> None:
    estimator = _of_lines(data, model, out)
    with _Opened(data, "r") as messages, _Opened(out, "w") as lines:
        for number, line in enumerate(messages, 1):
            try:
                message = base64.b64decode(line.strip().encode(), validate=True)
                row = estimator.from_messages([message], checksum=checksum)[0]
            except (DataError, binascii.Error) as error:
                raise DataError(f"{data}, line {number}: {error}") from error
            lines.write(",".join(repr(float(value)) for value in row) + "\n")
            lines.flush()


def _of_lines(data: str | Path, model: Path, out: Path) -> "SDLGM":
    """Return the model, if its rows are lines, and if neither it nor the data would be overwritten."""
    from sdlgm import SDLGM
    from sdlgm.data import check_no_input

    check_no_input(out, [model, data])
    estimator = load_model(model, SDLGM)
    if estimator.schema_ is not None:
        raise DataError(f"{model}: was fitted to a table or to windows, whose rows are not lines; leave out --follow")
    return estimator


def _rows(lines: IO[str], estimator: "SDLGM", where: str) -> Iterator[tuple[int, Any]]:
    """Yield the number of each line and its values, as a row. The first line may have the names of the columns."""
    import numpy as np

    from sdlgm.data import MISSING_SYMBOLS

    def value_of(text: str) -> float:
        return math.nan if text.strip() in MISSING_SYMBOLS else float(text)

    names = [str(name) for name in getattr(estimator, "feature_names_in_", ())]
    for number, texts in enumerate(csv.reader(lines), 1):
        if number == 1 and texts and (texts == names or not any(_is_number(text) for text in texts)):
            if names and texts != names:
                raise DataError(
                    f"{where}, line 1: has the columns {', '.join(texts)}, and the model needs {', '.join(names)}, in "
                    "this order"
                )
            continue
        try:
            row = np.array([[value_of(text) for text in texts]])
        except ValueError as error:
            raise DataError(f"{where}, line {number}: {error}") from error
        if row.shape[1] != estimator.n_features_in_:
            raise DataError(
                f"{where}, line {number}: has {row.shape[1]} values, and the model needs {estimator.n_features_in_}"
            )
        yield number, row


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Opened:
    """A file of lines, or the standard input or output, which stays open."""

    def __init__(self, path: Path, mode: str):
        self._path, self._mode, self._file = path, mode, None

    def __enter__(self) -> IO[str]:
        if self._path == STDIO:
            return sys.stdin if self._mode == "r" else sys.stdout
        try:
            # A line that is not text is reported where it is used.
            self._file = self._path.open(self._mode, encoding="utf-8", errors="replace", newline="")
        except OSError as error:
            raise DataError(f"{self._path}: cannot be opened ({error.strerror})") from error
        return self._file

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
