"""Checks of settings and arguments that scikit-learn's parameter constraints cannot express."""

import math
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real

import torch


def check_count(name: str, value: object, least: int) -> None:
    """Raise if an argument is not a whole number of at least ``least``."""
    if not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"{name}={value!r}; it has to be a whole number, at least {least}")


def check_positive(name: str, value: object) -> None:
    """Raise if an argument is not a positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name}={value!r}; it has to be a positive, finite number")


def usable_device(name: str) -> torch.device:
    """Return a torch device, or raise if it cannot be used here."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"device={name!r} cannot be used here ({reason}); try device='cpu'") from None
    return device


def has_compiler(device: str) -> bool:
    """Return whether torch.compile can work: for the CPU it needs a C++ compiler."""
    candidates = [os.environ.get("CXX"), "g++", "clang++", "c++", "cl"]
    return not device.startswith("cpu") or any(name and shutil.which(name) for name in candidates)


@contextmanager
def without_names_warning() -> Iterator[None]:
    """Ignore scikit-learn's warning about rows without feature names in a block, because it was given before.

    Python would repeat it: scikit-learn changes the filters in between, which makes Python forget what was shown.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
