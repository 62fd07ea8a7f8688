"""How the loops are compiled, and run on several threads."""

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

_Result = TypeVar("_Result")

# The compiler may change the order of sums, but nothing that hides a NaN.
OPTIONS: Any = {"fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy"}


def _forget_stale_code(folder: Path) -> None:
    """Remove machine code that is older than any of the sources.

    numba compares it with the file of its function alone, but what is inlined into it comes from other files too.
    """
    newest = max(path.stat().st_mtime_ns for path in folder.glob("*.py"))
    for index in folder.glob("__pycache__/*.nbi"):
        with contextlib.suppress(OSError):  # another process may do the same, or the folder be read-only
            if index.stat().st_mtime_ns < newest:
                index.unlink()


_forget_stale_code(Path(__file__).parent)


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


if hasattr(os, "register_at_fork"):  # a forked process has the pool but not its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_parts(n: int, n_threads: int, work: Callable[[int, int], _Result]) -> list[_Result]:
    """Do ``work(first, last)`` for contiguous parts of ``range(n)``, side by side."""
    n_parts = min(n, n_threads)
    if n_parts <= 1:
        return [work(0, n)]
    edges = [n * part // n_parts for part in range(n_parts + 1)]
    return list(_pool(n_threads).map(work, edges[:-1], edges[1:]))
