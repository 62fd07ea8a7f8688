"""SIGINT and SIGTERM as exceptions, so that files and child processes are left in order."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


class Interrupted(KeyboardInterrupt):
    """A signal has stopped the work. The message says what was kept, if anything."""

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.number = number


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code of a program that a signal has stopped: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + (error.number if isinstance(error, Interrupted) else signal.SIGINT)


@contextlib.contextmanager
def handled(handler: Callable[[int, FrameType | None], object], *numbers: int) -> Iterator[None]:
    """Handle signals in a block.

    Signals that the caller of the program ignores, as of a job in the background, stay ignored, and handlers of other
    languages stay too. Do nothing outside the main thread, which alone may set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in numbers}
    previous = {number: old for number, old in previous.items() if old not in (signal.SIG_IGN, None)}
    for number in previous:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)


def sigterm_raises() -> contextlib.AbstractContextManager[None]:
    """Let SIGTERM raise `Interrupted` in a block, as SIGINT raises KeyboardInterrupt."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise Interrupted("", number)

    return handled(stop, signal.SIGTERM)
