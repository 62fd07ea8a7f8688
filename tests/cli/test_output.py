import pytest

from sdlgm.cli._output import one_line, print_line, print_table


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
