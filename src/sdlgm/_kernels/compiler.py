"""Compile kernels with numba and cache their machine code on disk."""

from collections.abc import Callable
from typing import Final, TypeVar

from numba import njit
from numba.core.dispatcher import Dispatcher

from sdlgm._kernels.cache import KernelCache

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered. The flags "nnan" and "ninf" are left out, since with them a NaN could get lost.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
ERROR_MODEL: Final = "numpy"


def compiled(function: _Function) -> "Dispatcher[_Function]":
    """Compile a function at its first call, release the GIL while it runs, and cache it if a folder is writable."""
    kernel = njit(fastmath=FASTMATH, error_model=ERROR_MODEL, nogil=True)(function)
    if isinstance(kernel, Dispatcher):  # it is the function itself under NUMBA_DISABLE_JIT
        kernel._cache = KernelCache(function)  # pyright: ignore[reportAttributeAccessIssue]
    return kernel


def inlined(function: _Function) -> "Dispatcher[_Function]":
    """Compile a function into each of its callers."""
    return njit(fastmath=FASTMATH, error_model=ERROR_MODEL, inline="always")(function)
