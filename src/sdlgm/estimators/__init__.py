"""The scikit-learn face of the model."""

from sdlgm.estimators._classifier import LabelEvaluation, LabelNumbers, SDLGMClassifier
from sdlgm.estimators._counter import CountEvaluation, SDLGMCounter
from sdlgm.estimators._modelfile import load
from sdlgm.estimators._results import Evaluation, PosteriorProbs
from sdlgm.estimators._sdlgm import SDLGM

__all__ = [
    "SDLGM",
    "CountEvaluation",
    "Evaluation",
    "LabelEvaluation",
    "LabelNumbers",
    "PosteriorProbs",
    "SDLGMClassifier",
    "SDLGMCounter",
    "load",
]
