"""Handlers of signals."""

import signal

import pytest

from sdlgm._signals import Interrupted, exit_code, handled, sigterm_raises


@pytest.fixture
def restored():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test__handled__signal_that_is_ignored__stays_ignored(number, restored):
    signal.signal(number, signal.SIG_IGN)
    with handled(lambda *_: pytest.fail("it was handled"), number):
        signal.raise_signal(number)
    assert signal.getsignal(number) == signal.SIG_IGN


def test__sigterm_raises__in_the_block__has_the_code_of_the_signal(restored):
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as raised, sigterm_raises():
        signal.raise_signal(signal.SIGTERM)
    assert exit_code(raised.value) == 143
    assert exit_code(KeyboardInterrupt()) == 130
    assert signal.getsignal(signal.SIGTERM) == before
