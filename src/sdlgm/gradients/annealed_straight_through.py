"""Slope-annealed straight-through."""

from sdlgm.gradients.base import register
from sdlgm.gradients.straight_through import StraightThrough


@register
class AnnealedStraightThrough(StraightThrough):
    """`StraightThrough` with a slope: the posterior is softmax(logits / temperature), the temperature led towards zero.

    Chung, Ahn and Bengio, ICLR 2017, whose slope is 1 / temperature, as Jang, Gu and Poole compare it. The slope is
    part of the posterior: symbols are drawn from the steep probabilities, the KL is theirs, and the trained model keeps
    its last slope. Steeper probabilities are closer to the hard draws for which they stand in the backward pass. At
    temperature 1 it is `StraightThrough`; ``final_temperature`` leads it down.
    """

    name = "annealed_straight_through"
    steepens = True
