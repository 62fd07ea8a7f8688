"""Initial weights by a seed."""

import threading
from collections.abc import Callable
from typing import TypeVar

import torch

_Made = TypeVar("_Made")

# Held while networks are initialised: torch does that with its global generator.
_INITIALISING = threading.Lock()


def seeded(make: Callable[[], _Made], seed: int) -> _Made:
    """What is made with the initial weights of a seed; the global generator is left as it was."""
    with _INITIALISING, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return make()
