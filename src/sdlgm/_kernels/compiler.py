"""Compile kernels with numba and cache their machine code on disk."""

import contextlib
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher

_Function = TypeVar("_Function", bound=Callable[..., object])

# Sums may be reordered. The flags "nnan" and "ninf" are left out, since with them a NaN could get lost.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}
ERROR_MODEL: Final = "numpy"


@cache
def source_hash(package: str) -> str:
    """Return the SHA-256 of the names and contents of all Python files of a package."""
    digest = hashlib.sha256()
    sources = {entry.name: entry for entry in files(package).iterdir() if entry.name.endswith(".py")}
    for name in sorted(sources):
        content = sources[name].read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


class KernelCache(FunctionCache):
    """Cache of a compiled function that is valid while its whole package is unchanged.

    numba compares cached code with the source file of the function alone. The code of a kernel also contains functions
    inlined from other files of the package, and constants that numpy computed at import. The stamp covers all of them.
    An outdated entry is not loaded, and the next compilation overwrites it.

    numba chooses the folder: ``NUMBA_CACHE_DIR``, ``__pycache__`` or, if that is read-only, the user's cache folder.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(function)
        package = function.__module__.rpartition(".")[0]
        stamp = self._impl.locator.get_source_stamp(), source_hash(package), np.__version__
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, stamp)

    def save_overload(self, sig: object, data: CompileResult) -> None:
        """Save compiled code. If the disk is full or the folder has gone, the next process compiles again."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def compiled(function: _Function) -> "Dispatcher[_Function]":
    """Compile a function at its first call, release the GIL while it runs, and cache it if a folder is writable."""
    kernel = njit(fastmath=FASTMATH, error_model=ERROR_MODEL, nogil=True)(function)
    if isinstance(kernel, Dispatcher):  # it is the function itself under NUMBA_DISABLE_JIT
        with contextlib.suppress(RuntimeError):  # no writable folder
            kernel._cache = KernelCache(function)  # pyright: ignore[reportAttributeAccessIssue]
    return kernel


def inlined(function: _Function) -> "Dispatcher[_Function]":
    """Compile a function into each of its callers."""
    return njit(fastmath=FASTMATH, error_model=ERROR_MODEL, inline="always")(function)
