"""Slope-annealed straight-through."""

from sdlgm.gradients.base import INDEPENDENT, GradientEstimator, register, with_gradient_of


@register
class AnnealedStraightThrough(GradientEstimator):
    """Straight-through with a slope: d symbols = d softmax(log p / temperature), the temperature led towards zero.

    Chung, Ahn and Bengio, ICLR 2017, whose slope is 1 / temperature, as Jang, Gu and Poole compare it. At temperature
    1 it is `StraightThrough`; led down (``final_temperature``), the backward pass comes closer to the hard draw.
    """

    name = "annealed_straight_through"
    defined_for = INDEPENDENT

    def forward(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        drawn = posterior.sample_symbols(n_samples, generator)
        steep = (posterior.log_probs / temperatures.feature).softmax(-1)
        return log_likelihood(posterior.counts(with_gradient_of(drawn, posterior.n_draws * steep))).mean(0)
