import io

import pytest
from rich.console import Console

from sdlgm.cli import _output
from sdlgm.cli._output import one_line, print_line, print_table, rows_bar


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("one", "one"),
        ("one\ntwo", "one"),
        (ValueError("  one\n\ntwo"), "one"),
        (ValueError(), "ValueError"),
        ("The feature names should match those.\nUnseen:\n- x\n", "The feature names should match those. Unseen: - x"),
    ],
)
def test__one_line__message__is_its_first_line(message, expected):
    assert one_line(message) == expected


def test__print_line__long_text__is_not_wrapped(capsys):
    print_line("digits:train " * 30)
    assert capsys.readouterr().out == "digits:train " * 30 + "\n"


def test__print_table__rows__are_printed(capsys):
    print_table({"bound": "1.0 nats"}, "3 rows")
    printed = capsys.readouterr().out
    assert "3 rows" in printed
    assert "bound" in printed
    assert "1.0 nats" in printed


@pytest.mark.parametrize("n_rows", [10, None])
@pytest.mark.parametrize("terminal", [True, False])
def test__rows_bar__terminal__shows_the_rows(monkeypatch, n_rows, terminal):
    stream = io.StringIO()
    monkeypatch.setattr(_output, "err", Console(file=stream, force_terminal=terminal, width=80))
    with rows_bar(n_rows) as advance:
        advance(10)
    assert ("10 rows" in stream.getvalue()) is terminal
