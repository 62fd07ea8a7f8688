"""Gumbel-Softmax, the paper's estimator."""

from sdlgm.gradients.base import INDEPENDENT, Draw, GradientEstimator, register


@register
class GumbelSoftmax(GradientEstimator):
    """Replace the hard draws by relaxed ones, softmax((log p + Gumbel noise) / temperature), and differentiate those.

    Jang, Gu and Poole, ICLR 2017; Maddison, Mnih and Teh, ICLR 2017; for slots the paper's ``equ:mc_ELL_sample``,
    omega ~ 2-d and z ~ K-d Gumbel-Softmax. The decoder is never trained on a code that a user could get. With forty
    slots the sum of relaxed draws is close to its mean, so training passes more information than the hard code can
    carry. Time and memory grow with L0 x K if slots share their distribution.
    """

    name = "gumbel_softmax"
    defined_for = INDEPENDENT
    discrete = False

    def draw(self, posterior, *, n_samples, temperatures, noise):
        return Draw(posterior.relaxed_sample(n_samples, temperatures, noise))
