"""Slope-annealed straight-through."""

from sdlgm.gradients.base import register
from sdlgm.gradients.straight_through import StraightThrough


@register
class AnnealedStraightThrough(StraightThrough):
    """`StraightThrough` with a slope: the posterior is softmax(logits / temperature), the temperature falls.

    Chung, Ahn and Bengio, ICLR 2017, whose slope is 1 / temperature, as Jang, Gu and Poole compare it. The slope is
    part of the posterior: symbols are drawn from the steep probabilities, the KL is theirs, and the trained model keeps
    its last slope. Steep probabilities are closer to the hard draws that they replace in the backward pass. At
    temperature 1 it is `StraightThrough`; ``final_temperature`` sets where the temperature ends.
    """

    name = "annealed_straight_through"
    tempers_posterior = True
