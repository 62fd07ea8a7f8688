"""The mathematics of the model, and nothing else: codes, networks, likelihoods, modules."""

from sdlgm.model.codes import CodeDistribution, PriorTerms, SlotDistribution, Temperatures
from sdlgm.model.modules import Batch, Elbo, ModelConfig, Objective, SDLGMModule
from sdlgm.model.noise import Noise

__all__ = [
    "Batch",
    "CodeDistribution",
    "Elbo",
    "ModelConfig",
    "Noise",
    "Objective",
    "PriorTerms",
    "SDLGMModule",
    "SlotDistribution",
    "Temperatures",
]
