"""Leave-one-out REINFORCE."""

from sdlgm.gradients.base import ANY, Draw, GradientEstimator, drawn_symbols, register, with_gradient_of


@register
class LeaveOneOut(GradientEstimator):
    """Score function in which each of S >= 2 draws has the mean of the others as its baseline.

    Kool, van Hoof and Welling, 2019: 1 / (S - 1) sum_s (f(z_s) - mean f) d log q(z_s). Unbiased, without a temperature
    or anything to learn; two draws are taken if ``n_samples`` is 1.
    """

    name = "leave_one_out"
    defined_for = ANY
    unbiased = True
    pathwise = False

    def draw(self, posterior, *, n_samples, temperatures, noise):
        symbols = posterior.sample_symbols(max(2, n_samples), noise)
        return Draw(posterior.counts(symbols), symbols)

    def surrogate(self, posterior, draw, value, control=None):
        n_samples = len(value)
        # (f_s - mean of all) S / (S - 1) is f_s less the mean of the others.
        signal = (value - value.mean(0)).detach() * (n_samples / (n_samples - 1))
        return with_gradient_of(value, signal * posterior.log_prob_of(drawn_symbols(draw))).mean(0)
