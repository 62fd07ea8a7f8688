"""Ways to differentiate through a discrete draw: one file each, one registry, `GRADIENTS`."""

from sdlgm.gradients.base import GRADIENTS, GradientEstimator
from sdlgm.gradients.gumbel_softmax import GumbelSoftmax
from sdlgm.gradients.reinmax import ReinMax
from sdlgm.gradients.straight_through import StraightThrough
from sdlgm.gradients.straight_through_gumbel import StraightThroughGumbel

__all__ = ["GRADIENTS", "GradientEstimator", "GumbelSoftmax", "ReinMax", "StraightThrough", "StraightThroughGumbel"]
