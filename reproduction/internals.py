"""The internals of `sdlgm` that the baselines, peers and measurements need, imported in one place."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import scipy.sparse as sp

from sdlgm import SDLGM, _tensorfile
from sdlgm.estimators import _evaluation
from sdlgm.estimators._compat import StrOptions
from sdlgm.estimators._migrations import added_since
from sdlgm.estimators._thresholds import GRID as THRESHOLDS
from sdlgm.estimators._thresholds import POWERS, best_threshold, best_thresholds, f1, labels_at, out_of_fold
from sdlgm.gradients import GRADIENTS, GradientEstimator
from sdlgm.model.codes import ChainDistribution, OrderedDistribution, SlotDistribution, SubsetDistribution
from sdlgm.model.codes.base import KL, CodeDistribution, GradientRule, PresenceCodes, PriorTerms, Temperatures
from sdlgm.model.codes.chain import Chain
from sdlgm.model.codes.coupling import DenseCoupling
from sdlgm.model.codes.independent import IndependentVariables
from sdlgm.model.codes.priors import ChainPrior, log_odds
from sdlgm.model.codes.subset import N_DRAWS
from sdlgm.model.codes.surrogate import symbols_with_gradient
from sdlgm.model.codes.under_chain import ChainUnderChain
from sdlgm.model.gradient import Kind
from sdlgm.model.modules import Batch, CountModule, ModelConfig, Objective, SDLGMModule, Step, Watched
from sdlgm.model.modules.counting import spaced_rows
from sdlgm.model.networks.counting import CountConfig, FlatEncoder
from sdlgm.model.networks.encoders import LogitEncoder
from sdlgm.model.networks.posteriors import EncoderOptions, PosteriorNetwork, logit_encoder
from sdlgm.model.noise import Noise
from sdlgm.model.shards import WHOLE_BATCH, Shard
from sdlgm.train import clock

__all__ = [
    "GRADIENTS",
    "KL",
    "N_DRAWS",
    "POWERS",
    "THRESHOLDS",
    "WHOLE_BATCH",
    "Batch",
    "Chain",
    "ChainDistribution",
    "ChainPrior",
    "ChainUnderChain",
    "CodeDistribution",
    "CountConfig",
    "CountModule",
    "DenseCoupling",
    "EncoderOptions",
    "FlatEncoder",
    "GradientEstimator",
    "GradientRule",
    "IndependentVariables",
    "Kind",
    "LogitEncoder",
    "ModelConfig",
    "Noise",
    "Objective",
    "OrderedDistribution",
    "PosteriorNetwork",
    "PresenceCodes",
    "PriorTerms",
    "SDLGMModule",
    "Shard",
    "SlotDistribution",
    "Step",
    "StrOptions",
    "SubsetDistribution",
    "Temperatures",
    "Watched",
    "added_since",
    "best_threshold",
    "best_thresholds",
    "checkpoint_iteration",
    "code_bits",
    "f1",
    "labels_at",
    "limited_by_processor_time",
    "log_odds",
    "logit_encoder",
    "out_of_fold",
    "spaced_rows",
    "symbols_with_gradient",
]


def code_bits(model: SDLGM, codes: sp.csr_matrix) -> float:
    """Return the mean -log2 p(z) of codes, as `SDLGM.evaluate` does for the codes of `SDLGM.transform`."""
    return _evaluation.code_bits(model._fitted, codes)


@contextmanager
def limited_by_processor_time() -> Iterator[None]:
    """Let ``max_time`` of fits be processor seconds of this process."""
    now = clock.now
    clock.now = time.process_time
    try:
        yield
    finally:
        clock.now = now


def checkpoint_iteration(path: Path) -> int:
    """Return the iteration at which a checkpoint was written."""
    return _tensorfile.read(path, "sdlgm-checkpoint").document["iteration"]
