"""Print results and tables."""

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
