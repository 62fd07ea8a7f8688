"""Progress: nothing for short work, a bar on a terminal, lines elsewhere; always on the standard error."""

import io
import sys
import threading
import time

import pytest

from sdlgm import _progress
from sdlgm._progress import Progress


@pytest.fixture
def quick(monkeypatch):
    """Show progress at once, and often."""
    monkeypatch.setattr(_progress, "DELAY", 0.0)
    monkeypatch.setattr(_progress, "BETWEEN_LINES", 0.01)
    monkeypatch.setattr(_progress, "_BETWEEN_UPDATES", 0.01)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def wait_for(text: str, stream) -> str:
    """Wait until a text has been written, and return everything written."""
    seen = ""
    for _ in range(12_000):
        seen += stream()
        if text in seen:
            return seen
        time.sleep(0.005)
    raise AssertionError(f"{text!r} was not written, only {seen!r}")


def test__progress__short_work__is_silent(capsys):
    with Progress("fit", 10, unit="iterations") as progress:
        progress.advance(5)
    assert capsys.readouterr() == ("", "")
    assert "sdlgm-progress" not in {thread.name for thread in threading.enumerate()}


def test__progress__invisible__starts_no_thread(quick, capsys):
    with Progress("fit", 10, visible=False):
        assert "sdlgm-progress" not in {thread.name for thread in threading.enumerate()}
    assert capsys.readouterr().err == ""


def test__progress__no_terminal__is_lines_of_the_standard_error(quick, capsys):
    with Progress("encode", 4000, unit="rows", completed=1000) as progress:
        first = wait_for("1,000 of 4,000 rows\n", lambda: capsys.readouterr().err)
        progress.advance(1500)
        second = wait_for("2,500 of 4,000 rows, ", lambda: capsys.readouterr().err)
        progress.update(3000, "bound -98.0 nats")
        third = wait_for("3,000 of 4,000 rows, bound -98.0 nats, 0 s left", lambda: capsys.readouterr().err)
    assert "\x1b" not in first + second + third
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("total", "expected"), [(10, "25%"), (None, "so far")])
def test__progress__terminal__is_a_bar_that_goes_away(quick, monkeypatch, capsys, total, expected):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Progress("report", total and 4) as progress:
        progress.update(1, "codes")
        for text in (expected, "report: codes"):
            wait_for(text, terminal.getvalue)
        sys.stdout.write("a result\n")
    assert "a result" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the line of the bar is erased
    assert capsys.readouterr().out == "a result\n"


def test__progress__error_in_the_work__ends_the_thread(quick):
    with pytest.raises(ZeroDivisionError), Progress("fit"):
        _ = 1 / 0
    assert "sdlgm-progress" not in {thread.name for thread in threading.enumerate()}


def test__line__time_left__is_that_of_the_units_so_far(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    progress = Progress("fit", 1100, unit="iterations", completed=100)
    assert progress.line() == "fit: 100 of 1,100 iterations"
    now[0] = 110.0
    progress.update(200)
    assert progress.line() == "fit: 200 of 1,100 iterations, 1 min 30 s left"
    assert Progress("load x.csv").line() == "load x.csv: 0 s so far"
