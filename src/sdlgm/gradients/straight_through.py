"""Straight-through: hard counts forward, the gradient of the mean backward."""

from sdlgm.gradients.base import register
from sdlgm.gradients.hard_draws import HardDraws


@register
class StraightThrough(HardDraws):
    """Differentiate drawn symbols as if they were their mean, d symbols = d (n p) for n draws.

    Bengio, Léonard and Courville, 2013. First-order: exact if log p(x given z) is linear in z. Needs no noise and no
    temperature, and its cost does not depend on L0 x K.
    """

    name = "straight_through"

    @staticmethod
    def to_log_probs(gradient, drawn, probs, n_draws):  # noqa: ARG004
        return n_draws * probs * gradient
