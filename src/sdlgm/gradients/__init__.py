"""Ways to differentiate through a discrete draw: one file each, one registry, `GRADIENTS`."""

from sdlgm.gradients.annealed_straight_through import AnnealedStraightThrough
from sdlgm.gradients.base import GRADIENTS, Draw, GradientEstimator, register
from sdlgm.gradients.darn import DARN
from sdlgm.gradients.disarm import DisARM
from sdlgm.gradients.gumbel_rao import GumbelRao
from sdlgm.gradients.gumbel_softmax import GumbelSoftmax
from sdlgm.gradients.leave_one_out import LeaveOneOut
from sdlgm.gradients.muprop import MuProp
from sdlgm.gradients.reinmax import ReinMax
from sdlgm.gradients.score_function import ScoreFunction
from sdlgm.gradients.straight_through import StraightThrough
from sdlgm.gradients.straight_through_gumbel import StraightThroughGumbel

__all__ = [
    "DARN",
    "GRADIENTS",
    "AnnealedStraightThrough",
    "DisARM",
    "Draw",
    "GradientEstimator",
    "GumbelRao",
    "GumbelSoftmax",
    "LeaveOneOut",
    "MuProp",
    "ReinMax",
    "ScoreFunction",
    "StraightThrough",
    "StraightThroughGumbel",
    "register",
]
