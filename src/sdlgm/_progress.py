"""Progress of long work on the standard error: a bar on a terminal, a line now and then elsewhere.

Nothing is shown in the first seconds, so that short work stays silent, and the bar is gone at the end. A thread does
the showing: the work only sets numbers, and may be inside a call that reports nothing.
"""

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console

DELAY = 3.0
"""Seconds before anything is shown."""
BETWEEN_LINES = 30.0
"""Seconds between two lines if the standard error is no terminal."""
_BETWEEN_UPDATES = 0.2


class Progress:
    """Show how far a piece of work is; use it in a ``with`` statement.

    Parameters
    ----------
    what : str
        The work, such as ``"fit"``.
    total : int or None, default=None
        Units of work; None if they are not known.
    unit : str, default=""
        Name of the units, such as ``"rows"``, of which each takes the same time. If it is empty, the time so far is
        shown, and not that left.
    completed : int, default=0
        Units that were done before.
    visible : bool, default=True
        Whether to show anything.

    """

    def __init__(
        self, what: str, total: int | None = None, *, unit: str = "", completed: int = 0, visible: bool = True
    ):
        self.what, self.total, self.unit, self.visible = what, total, unit, visible
        self.completed, self.state = completed, ""
        self._done_before, self._start = completed, time.monotonic()
        self._finished = threading.Event()
        self._thread: threading.Thread | None = None

    def advance(self, n: int = 1) -> None:
        """Count units as done."""
        self.completed += n

    def update(self, completed: int, state: str = "") -> None:
        """Set the number of units that are done, and a text about the last of them."""
        self.completed, self.state = completed, state

    def __enter__(self) -> Self:
        if self.visible:
            self._start = time.monotonic()
            self._thread = threading.Thread(target=self._show, name="sdlgm-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finished.set()
        if self._thread is not None:
            self._thread.join()

    def line(self) -> str:
        """Return how far the work is, on one line."""
        elapsed = f"{time.monotonic() - self._start:.0f} s so far"
        parts = [self._numbers(), self.state, self._left() if self.unit else elapsed]
        return f"{self.what}: {', '.join(part for part in parts if part)}"

    def _numbers(self) -> str:
        if not self.unit:
            return ""
        of = "" if self.total is None else f" of {self.total:,}"
        return f"{self.completed:,}{of} {self.unit}"

    def _left(self) -> str:
        done = self.completed - self._done_before
        if not self.total or done <= 0:
            return ""
        seconds = (time.monotonic() - self._start) / done * max(0, self.total - self.completed)
        minutes, seconds = divmod(round(seconds), 60)
        return f"{minutes} min {seconds} s left" if minutes else f"{seconds} s left"

    def _show(self) -> None:
        if self._finished.wait(DELAY):
            return
        from rich.console import Console

        console = Console(stderr=True, markup=False, emoji=False)
        if console.is_terminal or console.is_jupyter:
            self._show_bar(console)
            return
        while True:
            console.print(self.line(), highlight=False, soft_wrap=True)
            if self._finished.wait(BETWEEN_LINES):
                return

    def _show_bar(self, console: "Console") -> None:
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar

        measured = [BarColumn(bar_width=14), TaskProgressColumn()] if self.total else [SpinnerColumn()]
        # The standard output is left alone: it may be a file, or another program.
        bar = Bar(*measured, TextColumn("{task.description}"), console=console, transient=True, redirect_stdout=False)
        with bar:
            task = bar.add_task(self.line(), total=self.total, completed=self.completed)
            while not self._finished.wait(_BETWEEN_UPDATES):
                bar.update(task, completed=self.completed, description=self.line())
