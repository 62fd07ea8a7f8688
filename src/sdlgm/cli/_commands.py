"""Change the parameters of commands."""

import inspect
from collections.abc import Callable, Iterable

Command = Callable[..., None]


def set_signature(command: Command, parameters: Iterable[inspect.Parameter]) -> None:
    """Set the parameters from which typer makes options and arguments."""
    # Keyword-only, because then any order is valid. typer passes everything by name.
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    vars(command)["__signature__"] = inspect.Signature(keywords)
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
