"""Distinguish errors of users, who can do something about them, from bugs.

An error is the user's if it is

- an `SDLGMError`, an `OSError` (a file, a disk, a network) or a lack of memory, or
- a `ValueError` or `TypeError` from code that checks data and settings. The innermost frame in the traceback that is of
  sdlgm, scikit-learn or Lightning Fabric decides: it is in scikit-learn, Lightning Fabric or `sdlgm.data`, or it is a
  ``raise`` statement in `sdlgm.estimators`.
"""

import dis
from types import TracebackType

from sdlgm.errors import SDLGMError


def is_user_error(error: Exception) -> bool:
    """Return whether an error is due to data, settings or the machine, and not to a bug."""
    if isinstance(error, SDLGMError | OSError) or _is_lack_of_memory(error):
        return True
    if not isinstance(error, ValueError | TypeError):
        return False
    tracebacks = []
    entry = error.__traceback__
    while entry is not None:
        tracebacks.append(entry)
        entry = entry.tb_next
    for entry in reversed(tracebacks):
        package, _, rest = entry.tb_frame.f_globals.get("__name__", "").partition(".")
        if package in ("lightning_fabric", "sklearn"):
            return True
        if package == "sdlgm":
            part = rest.partition(".")[0]
            return part == "data" or (part == "estimators" and _is_raise(entry))
    return False


def _is_lack_of_memory(error: Exception) -> bool:
    """Return whether memory could not be allocated. torch raises RuntimeError then."""
    messages = ("can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(message in str(error) for message in messages)
    )


def _is_raise(entry: TracebackType) -> bool:
    """Return whether a traceback ends here, at a ``raise`` statement, and not in a function that is not Python's."""
    instruction = entry.tb_frame.f_code.co_code[entry.tb_lasti]
    return entry.tb_next is None and dis.opname[instruction] == "RAISE_VARARGS"
