"""Distributions over codes behind one contract: slots, subset, chain, ordered; priors over codes."""

from sdlgm.model.codes.base import KL, CodeDistribution, PriorTerms, Temperatures
from sdlgm.model.codes.chain import ChainDistribution
from sdlgm.model.codes.ordered import OrderedDistribution
from sdlgm.model.codes.priors import SlotPrior
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import SubsetCodes, SubsetDistribution

__all__ = [
    "KL",
    "ChainDistribution",
    "CodeDistribution",
    "OrderedDistribution",
    "PriorTerms",
    "SlotDistribution",
    "SlotPrior",
    "SubsetCodes",
    "SubsetDistribution",
    "Temperatures",
]
