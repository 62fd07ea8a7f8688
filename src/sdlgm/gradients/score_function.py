"""The score function, or REINFORCE, with the baselines of NVIL."""

from torch import nn

from sdlgm.gradients.base import ANY, Draw, GradientEstimator, drawn_symbols, register, with_gradient_of
from sdlgm.gradients.signal import RunningSignal


@register
class ScoreFunction(GradientEstimator):
    """(log p(x given z) - b(x) - c) d log q(z given x), as in NVIL (Mnih and Gregor, ICML 2014).

    b is a small network that predicts the signal and c a running mean of the rest. Neither depends on the draw, so the
    estimator is unbiased. The input of b is the parameters of q in place of x. The KL is part of the signal only where
    it is a function of the draw (codes that are sets); elsewhere it has a closed form. NVIL also divides the signal by
    its running standard deviation. To scale the KL alike, the gradient of the encoder is divided (`encoder_divisor`).
    """

    name = "score_function"
    defined_for = ANY
    shareable = False
    unbiased = True
    pathwise = False

    HIDDEN = 100  # as in NVIL

    def __init__(self, n_logits: int):
        super().__init__(n_logits)
        self.signal = RunningSignal()
        self.baseline = nn.Sequential(nn.Linear(n_logits, self.HIDDEN), nn.Tanh(), nn.Linear(self.HIDDEN, 1))

    @property
    def encoder_divisor(self) -> float:
        return self.signal.scale

    def draw(self, posterior, *, n_samples, temperatures, noise):
        symbols = posterior.sample_symbols(n_samples, noise)
        return Draw(posterior.counts(symbols), symbols)

    def surrogate(self, posterior, draw, value, control=None):
        predicted = self.baseline(posterior.summary.detach()).squeeze(-1)
        unpredicted = self.signal.centred(value.detach() - predicted.detach())
        # The baseline learns by least squares from its error; its gradient reaches nothing else.
        error = (predicted.detach() + unpredicted - predicted).square()
        return with_gradient_of(value, unpredicted * posterior.log_prob_of(drawn_symbols(draw)) - error).mean(0)
