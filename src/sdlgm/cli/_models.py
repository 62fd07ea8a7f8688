"""Check and load the models that commands work with."""

from pathlib import Path
from typing import TypeVar

from sdlgm._fileheader import MODEL, peek
from sdlgm.errors import DataError

Estimator = TypeVar("Estimator")

_COMMANDS = {"SDLGM": "sdlgm", "SDLGMClassifier": "sdlgm classify", "SDLGMCounter": "sdlgm count"}


def check_model(path: Path, kind: str) -> None:
    """Raise for a file that is missing or of another kind, without torch, whose import takes seconds.

    Parameters
    ----------
    path : Path
        The model file.
    kind : str
        Name of the estimator that the command needs.

    """
    found = peek(path, MODEL).get("estimator")
    if found in _COMMANDS and found != kind:
        raise _wrong_kind(path, str(found), kind)


def load_model(path: Path, kind: type[Estimator]) -> Estimator:
    """Load a model. Raise `DataError` if it is not of the kind that the command needs."""
    from sdlgm import load

    model = load(path)
    if isinstance(model, kind):
        return model
    raise _wrong_kind(path, type(model).__name__, kind.__name__)


def _wrong_kind(path: Path, found: str, kind: str) -> DataError:
    return DataError(f"{path}: is an {found}, and an {kind} is needed; see '{_COMMANDS[found]} --help'")
