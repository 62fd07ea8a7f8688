"""The scikit-learn estimators."""

from sdlgm.estimators._classifier import SDLGMClassifier
from sdlgm.estimators._counter import SDLGMCounter
from sdlgm.estimators._detector import Contributions, SDLGMDetector
from sdlgm.estimators._modelfile import load
from sdlgm.estimators._presets import PAPER
from sdlgm.estimators._results import CountEvaluation, Evaluation, LabelEvaluation, LabelNumbers, PosteriorProbs
from sdlgm.estimators._sdlgm import SDLGM

__all__ = [
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
]
