"""Print results, tables and progress bars."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.table import Table

# Without markup and emoji: a name such as digits:train must be printed as it is.
out = Console(markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)


def print_line(text: str) -> None:
    """Print a line without wrapping it, so that it can be read by other programs."""
    out.print(text, highlight=False, soft_wrap=True)


def print_message(kind: str, message: object, *, style: str = "") -> None:
    """Print a message on one line of the standard error, such as ``error: ...``."""
    err.print(f"{kind}:", style=style, end=" ", highlight=False)
    err.print(one_line(message), highlight=False, soft_wrap=True)


def one_line(message: object) -> str:
    """Return the first line of a message, which in scikit-learn is followed by advice for programmers.

    A message about different feature names is returned whole, because the lines that follow name them.
    """
    lines = [line.strip() for line in str(message).strip().splitlines()]
    if not lines:
        return type(message).__name__
    return " ".join(lines) if "The feature names should match" in lines[0] else lines[0]


def print_table(rows: dict[str, str], title: str) -> None:
    """Print a table with a description and a value in each row."""
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="dim")
    table.add_column(justify="right")
    for description, value in rows.items():
        table.add_row(description, value)
    out.print(table)


@contextlib.contextmanager
def rows_bar(n_rows: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on the standard error if it is a terminal. Yield a function that advances it by rows.

    The bar disappears at the end. If the number of rows is not known, it is None, and the bar shows a count.
    """
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
