"""Compiled loops for the CPU: noise, draws, modes, subsets, sets, trees, sparse rows.

Each kernel replaces a chain of tensor operations that takes several times as long; docs/performance.md has the numbers.
Kernels take and return numpy arrays, and `sdlgm.model` connects them with autograd. Other devices use the torch
operations next to each call, except that codes of a chain are always drawn on the CPU.

numba takes half a second to import, so the kernels are imported when one of them is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdlgm._kernels.functions import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        if not name.startswith("_"):
            functions = import_module("sdlgm._kernels.functions")
            if name in functions.__all__:
                globals().update({kernel: getattr(functions, kernel) for kernel in functions.__all__})
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
