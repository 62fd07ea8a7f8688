"""Straight-through Gumbel-Softmax."""

import torch.nn.functional as F

from sdlgm.gradients.base import INDEPENDENT, Draw, GradientEstimator, independent, register, with_gradient_of


@register
class StraightThroughGumbel(GradientEstimator):
    """Use hard draws forward, and the gradient of relaxed draws with the same noise backward.

    Jang, Gu and Poole, ICLR 2017, section 2.2; for slots applied to the gate and to the feature of every slot. The
    forward pass is a true draw of the code; the gradient is biased. Time and memory grow with L0 x K if slots share
    their distribution.
    """

    name = "straight_through_gumbel"
    defined_for = INDEPENDENT

    def draw(self, posterior, *, n_samples, temperatures, noise):
        symbols = independent(posterior)
        parts = symbols.relaxed_parts(n_samples, temperatures, noise)
        hard = [F.one_hot(part.argmax(-1), part.shape[-1]).to(part.dtype) for part in parts]
        mixed = [with_gradient_of(*pair) for pair in zip(hard, parts, strict=True)]
        return Draw(symbols.from_parts(*mixed))
