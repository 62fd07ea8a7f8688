"""The internals of `sdlgm` that the baselines, peers and measurements need, imported in one place."""

from pathlib import Path

from sdlgm import _tensorfile
from sdlgm.gradients import GRADIENTS, GradientEstimator
from sdlgm.gradients.base import Kind
from sdlgm.model import (
    ModelConfig,
    PriorTerms,
    SDLGMModule,
    SlotDistribution,
    Temperatures,
    discrete_expectation,
    relaxed_expectation,
)
from sdlgm.model.chain import N_DRAWS, ChainDistribution
from sdlgm.model.counting import CountConfig, CountModule, FlatEncoder
from sdlgm.model.draws import ToLogProbs, symbols_with_gradient
from sdlgm.model.elbo import Objective
from sdlgm.model.noise import gumbel
from sdlgm.model.ordered import OrderedDistribution
from sdlgm.model.posteriors import EncoderOptions, PosteriorNetwork, logit_encoder
from sdlgm.model.posteriors import steeper as with_temperature
from sdlgm.model.presence import FromPresence
from sdlgm.model.prior import log_odds
from sdlgm.model.slots import KL
from sdlgm.model.subset import SubsetDistribution
from sdlgm.model.supervised import Step, Watched
from sdlgm.model.variables import IndependentVariables
from sdlgm.thresholds import GRID as THRESHOLDS
from sdlgm.thresholds import POWERS, best_threshold, best_thresholds, f1, labels_at, out_of_fold

__all__ = [
    "GRADIENTS",
    "KL",
    "N_DRAWS",
    "POWERS",
    "THRESHOLDS",
    "ChainDistribution",
    "CountConfig",
    "CountModule",
    "EncoderOptions",
    "FlatEncoder",
    "FromPresence",
    "GradientEstimator",
    "IndependentVariables",
    "Kind",
    "ModelConfig",
    "Objective",
    "OrderedDistribution",
    "PosteriorNetwork",
    "PriorTerms",
    "SDLGMModule",
    "SlotDistribution",
    "Step",
    "SubsetDistribution",
    "Temperatures",
    "ToLogProbs",
    "Watched",
    "best_threshold",
    "best_thresholds",
    "checkpoint_iteration",
    "discrete_expectation",
    "f1",
    "gumbel",
    "labels_at",
    "log_odds",
    "logit_encoder",
    "out_of_fold",
    "relaxed_expectation",
    "symbols_with_gradient",
    "with_temperature",
]


def checkpoint_iteration(path: Path) -> int:
    """Return the iteration at which a checkpoint was written."""
    header, _ = _tensorfile.read(path, "sdlgm-checkpoint")
    return header["iteration"]
