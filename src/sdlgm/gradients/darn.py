"""The estimator of DARN."""

from sdlgm.gradients.base import register
from sdlgm.gradients.hard_draws import HardDraws


@register
class DARN(HardDraws):
    """Score function with a baseline from the Taylor expansion of log p(x given z) at the drawn symbol.

    Gregor, Danihelka, Mnih, Blundell and Wierstra, ICML 2014. For a drawn one-hot D of W symbols the baseline is
    f(D) + f'(D) (k - D) with k = 1 / W, so that the signal is f'(D) (D - k), times d log p(D). With two symbols the
    bias vanishes if f is quadratic (the "1/2" estimator; the same as `ReinMax`). With more there is no such k, and
    a bias remains.
    """

    name = "darn"

    @staticmethod
    def to_log_probs(gradient, drawn, probs, n_draws):  # noqa: ARG004
        possible = (probs > 0).to(gradient.dtype)  # padding has no probability
        mean = (gradient * possible).sum(-1, keepdim=True) / possible.sum(-1, keepdim=True)
        return drawn * (gradient - mean)
