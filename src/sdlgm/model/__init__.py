"""The mathematics of the model, and nothing else: slots, prior, posteriors, likelihoods, networks, bounds."""

from sdlgm.model.elbo import Elbo, Objective
from sdlgm.model.module import ModelConfig, SDLGMModule, discrete_expectation, relaxed_expectation
from sdlgm.model.slots import PriorTerms, SlotDistribution, Temperatures

__all__ = [
    "Elbo",
    "ModelConfig",
    "Objective",
    "PriorTerms",
    "SDLGMModule",
    "SlotDistribution",
    "Temperatures",
    "discrete_expectation",
    "relaxed_expectation",
]
