"""Report errors and warnings of commands.

An error that is the user's, who can do something about it, is reported on one line, and the exit code is 2. Any other
error is internal: a bug. The exit code is 1. `sdlgm._user_errors` distinguishes them. SIGINT and SIGTERM have the exit
codes 130 and 143, as in a shell.
"""

import functools
import inspect
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import typer

from sdlgm._signals import exit_code, sigterm_raises
from sdlgm._user_errors import is_user_error
from sdlgm.cli._commands import Command, set_signature
from sdlgm.cli._output import err, one_line, print_message

USER_ERROR, INTERNAL_ERROR = 2, 1
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def handle_errors(command: Command) -> Command:
    """Report errors and warnings of a command as messages. With ``--debug``, show tracebacks as well."""

    @functools.wraps(command)
    def wrapped(context: typer.Context, **arguments: Any) -> None:
        try:
            with warnings.catch_warnings(), sigterm_raises():
                warnings.showwarning = shows_once(lambda message: print_message("warning", message))
                command(**arguments)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt as error:
            hint = "a fit with --checkpoint-dir can be continued with --resume"
            print_message("interrupted", str(error) or hint)
            raise typer.Exit(exit_code(error)) from None
        except Exception as error:
            if context.find_root().params["debug"]:
                typer.echo(traceback.format_exc(), err=True)
            raise typer.Exit(_report(error)) from None

    set_signature(wrapped, [_CONTEXT, *inspect.signature(command).parameters.values()])
    return wrapped


def _report(error: Exception) -> int:
    """Print an error and return the exit code."""
    if is_user_error(error):
        print_message("error", error, style="bold red")
        return USER_ERROR
    print_message("internal error", f"{type(error).__name__}: {one_line(error)}", style="bold red")
    err.print("This is a bug. Run the command again as 'sdlgm --debug ...' and report the traceback.", soft_wrap=True)
    return INTERNAL_ERROR


def shows_once(show: Callable[[Warning | str], object]) -> Callable[..., None]:
    """Return a function for `warnings.showwarning` that shows each message once.

    The filters of Python do not always suffice: whatever changes them on the way makes it forget what was shown.
    """
    shown: set[str] = set()

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            show(message)

    return show_warning
