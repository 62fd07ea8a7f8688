"""Report errors and warnings of commands.

An error is the user's, who can do something about it, if it is

- an `SDLGMError`, an `OSError` (a file, a disk, a network) or a lack of memory, or
- a `ValueError` or `TypeError` from code that checks data and settings. The innermost frame in the traceback that is of
  sdlgm, scikit-learn or Lightning Fabric decides: it is in scikit-learn, Lightning Fabric or `sdlgm.data`, or it is a
  ``raise`` statement in `sdlgm.estimators`.

It is reported on one line, and the exit code is 2. Any other error is internal: a bug. The exit code is 1.
"""

import dis
import functools
import inspect
import traceback
import warnings
from types import TracebackType
from typing import Any

import typer

from sdlgm.cli._commands import Command, set_signature
from sdlgm.cli._output import err, one_line, print_message
from sdlgm.errors import SDLGMError

USER_ERROR, INTERNAL_ERROR, INTERRUPTED = 2, 1, 130
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def handle_errors(command: Command) -> Command:
    """Report errors and warnings of a command as messages. With ``--debug``, show tracebacks as well."""

    @functools.wraps(command)
    def wrapped(context: typer.Context, **arguments: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                command(**arguments)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            print_message("interrupted", "a fit with --checkpoint-dir can be continued with --resume")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            if context.find_root().params["debug"]:
                typer.echo(traceback.format_exc(), err=True)
            raise typer.Exit(_report(error)) from None

    set_signature(wrapped, [_CONTEXT, *inspect.signature(command).parameters.values()])
    return wrapped


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


def _report(error: Exception) -> int:
    """Print an error and return the exit code."""
    if is_user_error(error):
        print_message("error", error, style="bold red")
        return USER_ERROR
    print_message("internal error", f"{type(error).__name__}: {one_line(error)}", style="bold red")
    err.print("This is a bug. Run the command again as 'sdlgm --debug ...' and report the traceback.", soft_wrap=True)
    return INTERNAL_ERROR


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print_message("warning", message)
