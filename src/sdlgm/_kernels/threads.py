"""Run kernels on several threads."""

import functools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

_Result = TypeVar("_Result")


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sdlgm")


if hasattr(os, "register_at_fork"):  # a forked process inherits the pool without its threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def run_in_threads(n: int, n_threads: int, work: Callable[[int, int], _Result]) -> list[_Result]:
    """Call ``work(first, last)`` for contiguous parts of ``range(n)``, each on a thread of its own.

    Parameters
    ----------
    n : int
        Number of items.
    n_threads : int
        Largest number of parts.
    work : callable
        Function of the first item of a part and the one after its last.

    Returns
    -------
    list
        Results of the parts, in order.

    """
    n_parts = min(n, n_threads)
    if n_parts <= 1:
        return [work(0, n)]
    edges = [n * part // n_parts for part in range(n_parts + 1)]
    return list(_pool(n_threads).map(work, edges[:-1], edges[1:]))


def summed(parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Return the sums of the arrays that several threads have filled."""
    return tuple(functools.reduce(np.add, arrays) for arrays in zip(*parts, strict=True))
