"""Load the models that commands work with."""

from pathlib import Path
from typing import TypeVar

from sdlgm.errors import DataError

Estimator = TypeVar("Estimator")

_COMMANDS = {"SDLGM": "sdlgm", "SDLGMClassifier": "sdlgm classify", "SDLGMCounter": "sdlgm count"}


def load_model(path: Path, kind: type[Estimator]) -> Estimator:
    """Load a model. Raise `DataError` if it is not of the kind that the command needs."""
    from sdlgm import load

    model = load(path)
    if isinstance(model, kind):
        return model
    found = type(model).__name__
    raise DataError(f"{path}: is an {found}, and an {kind.__name__} is needed; see '{_COMMANDS[found]} --help'")
