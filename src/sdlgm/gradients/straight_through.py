"""Straight-through: hard counts forward, the gradient of the mean counts backward."""

from sdlgm.gradients.base import GradientEstimator, register


@register
class StraightThrough(GradientEstimator):
    """Treat the drawn counts as if they were their mean, d counts = d (L0 p).

    Bengio, Léonard and Courville, 2013, for the sum of L0 slots. First-order: exact if log p(x given z) is linear in
    z. Needs no noise and no temperature, and its cost does not depend on L0 x K.
    """

    name = "straight_through"
    discrete = True

    def __call__(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        counts = posterior.sample_symbols(n_samples, generator)
        mean = posterior.n_slots * posterior.probs
        return log_likelihood((counts + (mean - mean.detach()))[..., 1:]).mean(0)
