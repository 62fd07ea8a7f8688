"""Machine code of compiled kernels on disk.

numba's own cache has an index for each function. Processes that compile the same function for different types at the
same time can write it so that it names the code of other types. Here the name of a file is a hash of all that its code
depends on, so that there is no index: a file is right, or it is not read. Files are replaced whole, and a checksum at
the end finds damaged ones.
"""

import contextlib
import hashlib
import inspect
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.compiler import CompileResult
from numba.misc.appdirs import AppDirs

logger = logging.getLogger("sdlgm")

PATIENCE = 3.0
"""Seconds of compilation after which a message says what is going on."""
OUTDATED = 30 * 24 * 3600.0
"""Seconds after which the code of other sources or versions is removed when a kernel is compiled anew."""
_CHECKSUM_BYTES = hashlib.sha256().digest_size


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

    The code of a kernel also contains functions inlined from other files of the package, and constants that numpy
    computed at import. All of them are part of the hash, as are the versions of Python, numpy and numba, the processor
    and the types of the arguments.

    Code is read from the first folder that has it, and written to the first one that can be written to: that of
    ``NUMBA_CACHE_DIR`` if it is set, or else ``__pycache__`` beside the source and the user's cache folder. So an
    installation that is read-only can bring its code with it. Without a folder, every process compiles.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        # Not that of the parent class, which looks for a writable folder at every import.
        self._name, self._py_func = repr(function), function
        self._impl = _Serialised(function)
        package, _, module = function.__module__.rpartition(".")
        version = f"py{sys.version_info[0]}{sys.version_info[1]}{getattr(sys, 'abiflags', '')}"
        base = f"{module}.{function.__qualname__}.{version}"
        stamp = source_hash(package), np.__version__, numba.__version__
        self._folders = [_KernelFiles(folder, base, stamp) for folder in _folders(inspect.getfile(function))]
        self._cache_path: str | None = None
        self.enable()

    def _load_overload(self, sig: object, target_context: object) -> CompileResult | None:
        if self._enabled:
            key = self._index_key(sig, target_context.codegen())  # pyright: ignore[reportAttributeAccessIssue]
            for folder in self._folders:
                content = folder.load(key)
                if content is not None:
                    self._cache_path = folder.path
                    return self._impl.rebuild(target_context, content)
        _compilation.begin()
        return None

    def save_overload(self, sig: object, data: CompileResult) -> None:
        """Save compiled code. If no folder can be written to, the next process compiles again."""
        _compilation.end()
        if not self._enabled or not self._impl.check_cachable(data):
            return
        key, content = self._index_key(sig, data.codegen), self._impl.reduce(data)
        for folder in self._folders:
            with contextlib.suppress(OSError):  # not writable, no space left, gone
                folder.save(key, content)
                self._cache_path = folder.path
                return
        _compilation.is_kept = False

    def flush(self) -> None:
        """Do nothing: the code of other sources is never read."""


class _Serialised(CompileResultCacheImpl):
    """How numba turns compiled code into data and back; where the data are is not its business here."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def check_cachable(self, cres: CompileResult) -> bool:
        """Return whether code can be kept: whether it is free of addresses of this process."""
        return not any(not lifted.can_cache for lifted in cres.lifted) and not cres.library.has_dynamic_globals


class _KernelFiles(IndexDataCacheFile):
    """The files of one function in one folder: one for each combination of types and processor."""

    def __init__(self, folder: "_Folder", base: str, stamp: tuple[str, ...]) -> None:
        super().__init__(folder.path, base, stamp)
        self.path, self._folder, self._base = folder.path, folder, base

    def load(self, key: tuple[object, ...]) -> object | None:
        """Return the content of the file of a key. None if there is none, if it is damaged or not to be trusted."""
        name = self._data_name(key)
        try:
            if not self._folder.is_safe():
                return None
            content = Path(self._data_path(name)).read_bytes()
            if hashlib.sha256(content[:-_CHECKSUM_BYTES]).digest() != content[-_CHECKSUM_BYTES:]:
                return None
            return self._load_data(name)  # which does not read beyond the end of the data
        except OSError:
            return None

    def save(self, key: tuple[object, ...], data: object) -> None:
        """Write the file of a key, and remove those of earlier versions."""
        os.makedirs(self.path, exist_ok=True)
        if not self._folder.is_safe():
            raise PermissionError(f"{self.path}: other users can write to it")
        name = self._data_name(key)
        self._save_data(name, data)
        _remove_outdated(Path(self.path).glob(f"{name.rsplit('.', 2)[0]}.*"))

    def _dump(self, obj: object) -> bytes:
        content = super()._dump(obj)
        return content + hashlib.sha256(content).digest()

    def _data_name(self, number: tuple[object, ...]) -> str:
        """Return the name of the file of a key: function, types and processor, source and versions."""
        signature, processor, code = number
        return f"{self._base}.{_short_hash(signature, processor)}.{_short_hash(code, self._source_stamp)}.nbc"


class _Folder:
    """A folder for machine code; ``own`` if it has to belong to the user (or to root), and to nobody else.

    The folder of the source need not: who can write there can change the source.
    """

    def __init__(self, path: str, *, own: bool) -> None:
        self.path, self._own = path, own

    def is_safe(self) -> bool:
        if not self._own or not hasattr(os, "geteuid"):
            return True
        status = os.stat(self.path)
        return status.st_uid in (0, os.geteuid()) and not status.st_mode & 0o002


def _folders(source: str) -> list[_Folder]:
    """Return the folders for the code of the functions of a file, the first choice first."""
    folder = Path(source).resolve().parent
    name = f"{folder.name}_{_short_hash(str(folder))}"
    chosen = getattr(config, "CACHE_DIR", "")
    if chosen:
        return [_Folder(os.path.join(chosen, name), own=True)]
    user = AppDirs(appname="numba", appauthor=False).user_cache_dir
    return [_Folder(str(folder / "__pycache__"), own=False), _Folder(os.path.join(user, name), own=True)]


def _short_hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _remove_outdated(paths: Iterable[Path]) -> None:
    """Remove files that nobody has written for a long time."""
    for path in paths:
        with contextlib.suppress(OSError):  # removed by another process, or not ours
            if time.time() - path.stat().st_mtime > OUTDATED:
                path.unlink()


class _Compilation:
    """The time that this process has spent on compilation. numba compiles one function at a time."""

    def __init__(self) -> None:
        self._began, self._depth, self._seconds, self._said = 0.0, 0, 0.0, False
        self.is_kept = True

    def begin(self) -> None:
        """Note that a kernel is being compiled, which may compile others that it calls."""
        if self._depth == 0:
            self._began = time.perf_counter()
        self._depth += 1
        so_far = self._seconds + time.perf_counter() - self._began
        if so_far > PATIENCE and not self._said:
            self._said = True
            further = "once for each version and machine; later runs load them from disk"
            if not self.is_kept:
                further = "as in every run: no folder for them can be written to; set NUMBA_CACHE_DIR to one that can"
            logger.warning("sdlgm: compiling kernels (%.0f seconds so far), %s", so_far, further)

    def end(self) -> None:
        """Note that a kernel has been compiled."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._began


_compilation = _Compilation()
