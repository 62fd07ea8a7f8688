"""Check and load the models that commands work with."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import typer

from sdlgm._fileheader import MODEL, peek
from sdlgm._signals import exit_code
from sdlgm.errors import DataError

if TYPE_CHECKING:
    from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter

Estimator = TypeVar("Estimator")
Other = TypeVar("Other")


_COMMANDS = {
    "SDLGM": "sdlgm",
    "SDLGMDetector": "sdlgm detect",
    "SDLGMClassifier": "sdlgm classify",
    "SDLGMCounter": "sdlgm count",
}


def exit_if_interrupted(*estimators: "SDLGM | SDLGMClassifier | SDLGMCounter") -> None:
    """End a command with the exit code of SIGINT, after its files are written, if Ctrl-C has ended a fit early."""
    if any(estimator.interrupted_ for estimator in estimators):
        raise typer.Exit(exit_code(KeyboardInterrupt()))


def check_folder(path: Path) -> None:
    """Raise if a folder to write to is a file. Call this before work."""
    if path.exists() and not path.is_dir():
        raise DataError(f"{path}: is a file; name a folder")


def check_model(path: Path, kind: str) -> None:
    """Raise for a file that is missing or of another kind, without torch, whose import takes seconds.

    The file of a detector is that of its `SDLGM`.

    Parameters
    ----------
    path : Path
        The model file.
    kind : str
        Name of the estimator that the command needs.

    """
    found = peek(path, MODEL).get("estimator")
    if found in _COMMANDS and found != kind and (found, kind) != ("SDLGMDetector", "SDLGM"):
        raise _wrong_kind(path, str(found), kind)


@overload
def load_model(path: Path, kind: type[Estimator]) -> Estimator: ...
@overload
def load_model(path: Path, kind: type[Estimator], other: type[Other]) -> Estimator | Other: ...
def load_model(path: Path, kind: type[Any], other: type[Any] | None = None) -> Any:
    """Load a model. Raise `DataError` if it is not of a kind that the command needs.

    Commands that need an `SDLGM` take that of a detector.
    """
    from sdlgm import SDLGM, SDLGMDetector, load

    model = load(path)
    kinds = (kind,) if other is None else (kind, other)
    if isinstance(model, kinds):
        return model
    if isinstance(model, SDLGMDetector) and SDLGM in kinds:
        return model.model_
    raise _wrong_kind(path, type(model).__name__, kind.__name__)


def _wrong_kind(path: Path, found: str, kind: str) -> DataError:
    return DataError(f"{path}: is an {found}, and an {kind} is needed; see '{_COMMANDS[found]} --help'")
