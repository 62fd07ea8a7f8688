"""Sparse discrete representations with a hard budget.

Every observation is described by at most ``max_active`` out of ``n_components`` features, and the model learns how many
each one needs. Start with `SDLGM`, with `SDLGMClassifier` if there are labels, or with `SDLGMCounter` if
there are counts.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sdlgm._version import __version__
from sdlgm.errors import (
    BudgetError,
    CheckpointError,
    DataError,
    DownloadError,
    FitInterruptedWarning,
    MissingDependencyError,
    ModelFileError,
    NumericalError,
    ProcessLostError,
    SDLGMError,
    TrainingDivergedError,
    WriteError,
)

if TYPE_CHECKING:
    from sdlgm.estimators import (
        PAPER,
        SDLGM,
        Contributions,
        CountEvaluation,
        Evaluation,
        LabelEvaluation,
        LabelNumbers,
        PosteriorProbs,
        SDLGMClassifier,
        SDLGMCounter,
        SDLGMDetector,
        load,
    )

_ESTIMATORS = (
    "PAPER",
    "SDLGM",
    "Contributions",
    "CountEvaluation",
    "Evaluation",
    "LabelEvaluation",
    "LabelNumbers",
    "PosteriorProbs",
    "SDLGMClassifier",
    "SDLGMCounter",
    "SDLGMDetector",
    "load",
)
__all__ = [
    "PAPER",
    "SDLGM",
    "BudgetError",
    "CheckpointError",
    "Contributions",
    "CountEvaluation",
    "DataError",
    "DownloadError",
    "Evaluation",
    "FitInterruptedWarning",
    "LabelEvaluation",
    "LabelNumbers",
    "MissingDependencyError",
    "ModelFileError",
    "NumericalError",
    "PosteriorProbs",
    "ProcessLostError",
    "SDLGMClassifier",
    "SDLGMCounter",
    "SDLGMDetector",
    "SDLGMError",
    "TrainingDivergedError",
    "WriteError",
    "__version__",
    "load",
]


def __getattr__(name: str) -> object:
    """Import the estimators, and with them torch, when one is first used."""
    if name in _ESTIMATORS:
        return getattr(import_module("sdlgm.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
