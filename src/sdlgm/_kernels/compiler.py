"""How the loops are compiled, and run on several threads."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from numba import njit

# The compiler may change the order of sums, but nothing that hides a NaN.
OPTIONS: Any = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}


def compiled(function: Callable[..., Any]) -> Any:
    """Compile without the interpreter's lock, and keep the machine code where there is a place for it."""
    try:
        return njit(**OPTIONS, nogil=True, cache=True)(function)
    except RuntimeError:  # neither the package nor a cache folder can be written to
        return njit(**OPTIONS, nogil=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    return njit(**OPTIONS, inline="always")(function)


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sdlgm")


def in_parts(n: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Do ``work(first, last)`` for contiguous parts of ``range(n)``, side by side."""
    n_parts = min(n, n_threads)
    if n_parts <= 1:
        work(0, n)
        return
    edges = [n * part // n_parts for part in range(n_parts + 1)]
    list(_pool(n_threads).map(work, edges[:-1], edges[1:]))
