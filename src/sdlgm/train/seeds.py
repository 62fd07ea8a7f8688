"""Initial weights from a seed."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

_Made = TypeVar("_Made")

# Held while networks are initialised, since torch uses its global generator for that.
_INITIALISING = threading.Lock()


def seeded(make: Callable[[], _Made], seed: int) -> _Made:
    """Return ``make()`` with the initial weights of a seed; the global generator is left as it was."""
    with _INITIALISING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()
