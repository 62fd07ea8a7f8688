"""The score function, or REINFORCE, with the baselines of NVIL."""

from torch import nn

from sdlgm.gradients.base import ANY, GradientEstimator, register, with_gradient_of
from sdlgm.gradients.signal import RunningSignal


@register
class ScoreFunction(GradientEstimator):
    """(log p(x given z) - b(x) - c) d log q(z given x), as in NVIL (Mnih and Gregor, ICML 2014).

    b is a small network that predicts the signal and c a running mean of what it leaves; neither depends on the draw,
    so the estimator is unbiased. b sees the parameters of q in the place of x. The KL is part of the signal only where
    it is a function of the draw (codes that are sets); elsewhere it is in closed form. NVIL also divides the signal by
    its running standard deviation; to divide the KL alike, the gradient of the encoder is divided (`encoder_divisor`).
    """

    name = "score_function"
    defined_for = ANY
    shareable = False
    unbiased = True

    HIDDEN = 100  # as in NVIL

    def __init__(self, n_logits: int):
        super().__init__(n_logits)
        self.signal = RunningSignal()
        self.baseline = nn.Sequential(nn.Linear(n_logits, self.HIDDEN), nn.Tanh(), nn.Linear(self.HIDDEN, 1))

    @property
    def encoder_divisor(self) -> float:
        return self.signal.scale

    def forward(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        drawn = posterior.sample_symbols(n_samples, generator)
        value = log_likelihood(posterior.counts(drawn))
        predicted = self.baseline(posterior.summary.detach()).squeeze(-1)
        unpredicted = self.signal.centred(value.detach() - predicted.detach())
        # The baseline learns by least squares from what it left; its gradient touches nothing else.
        error = (predicted.detach() + unpredicted - predicted).square()
        return with_gradient_of(value, unpredicted * posterior.log_prob_of(drawn) - error).mean(0)
