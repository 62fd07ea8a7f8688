"""Sparse discrete representations with a hard budget.

Every observation is described by at most ``max_active`` out of ``n_components`` features, and the model learns how many
each one needs. Start with `SDLGM`, or with `SDLGMClassifier` if there are labels.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sdlgm.errors import (
    BudgetError,
    DataError,
    DownloadError,
    ModelFileError,
    SDLGMError,
    TrainingDivergedError,
)

if TYPE_CHECKING:
    from sdlgm.estimators import SDLGM, Evaluation, LabelEvaluation, LabelNumbers, PosteriorProbs, SDLGMClassifier, load

__version__ = "0.1.0"
_ESTIMATORS = ("SDLGM", "Evaluation", "LabelEvaluation", "LabelNumbers", "PosteriorProbs", "SDLGMClassifier", "load")
__all__ = [
    "SDLGM",
    "BudgetError",
    "DataError",
    "DownloadError",
    "Evaluation",
    "LabelEvaluation",
    "LabelNumbers",
    "ModelFileError",
    "PosteriorProbs",
    "SDLGMClassifier",
    "SDLGMError",
    "TrainingDivergedError",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    """Import the estimators, and with them torch, when they are first asked for."""
    if name in _ESTIMATORS:
        return getattr(import_module("sdlgm.estimators"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
