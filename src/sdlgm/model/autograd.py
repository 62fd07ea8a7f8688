"""Helpers for autograd functions with hand-written derivatives."""

from collections.abc import Callable
from typing import Any

from torch.autograd.function import once_differentiable


def first_order(backward: Callable[..., Any]) -> Any:
    """Mark the backward pass of an autograd function as one that cannot be differentiated itself."""
    return once_differentiable(backward)
