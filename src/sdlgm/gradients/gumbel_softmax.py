"""Gumbel-Softmax, the paper's estimator."""

from sdlgm.gradients.base import GradientEstimator, register


@register
class GumbelSoftmax(GradientEstimator):
    """Replace the hard slots by relaxed ones, omega ~ 2-d and z ~ K-d Gumbel-Softmax, and differentiate those.

    The paper's ``equ:mc_ELL_sample``; Jang, Gu and Poole, ICLR 2017; Maddison, Mnih and Teh, ICLR 2017. The decoder
    never sees a code that a user could get, and with forty slots the sum of relaxed draws is close to its mean, so
    more information passes in training than the hard code can carry. Time and memory grow with L0 x K.
    """

    name = "gumbel_softmax"
    discrete = False

    def __call__(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        return log_likelihood(posterior.relaxed_sample(n_samples, temperatures, generator)).mean(0)
