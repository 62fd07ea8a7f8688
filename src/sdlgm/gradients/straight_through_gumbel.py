"""Straight-through Gumbel-Softmax."""

import torch.nn.functional as F

from sdlgm.gradients.base import GradientEstimator, register


@register
class StraightThroughGumbel(GradientEstimator):
    """Hard slots forward, the gradient of the relaxed slots drawn with the same noise backward.

    Jang, Gu and Poole, ICLR 2017, section 2.2, applied to the gate and to the feature of every slot. The forward pass
    is a true draw of the code; the gradient is biased. Time and memory grow with L0 x K.
    """

    name = "straight_through_gumbel"
    discrete = True

    def __call__(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        gates, features = posterior.relaxed_slots(n_samples, temperatures, generator)
        hard_gates = (gates > 0.5).to(gates.dtype)
        hard_features = F.one_hot(features.argmax(-1), features.shape[-1]).to(features.dtype)
        # The brackets matter: the difference is exactly zero, so the forward pass stays exactly hard.
        gates = hard_gates + (gates - gates.detach())
        features = hard_features + (features - features.detach())
        return log_likelihood((gates.unsqueeze(-2) @ features).squeeze(-2)).mean(0)
