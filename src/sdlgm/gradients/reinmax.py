"""ReinMax, for variables and for slots in closed form."""

import torch

from sdlgm.gradients.base import register
from sdlgm.gradients.hard_draws import HardDraws


@register
class ReinMax(HardDraws):
    r"""Hard counts forward, a second-order accurate gradient backward.

    ReinMax (Liu et al., NeurIPS 2023) turns a drawn one-hot D of a categorical with probabilities p and logits a into
    the Jacobian 2 J((p + D) / 2) - J(p) / 2 with J(p) = diag(p) - p p'. Summed over n draws that share p and are
    independent, such as the L0 slots, everything but the drawn counts c drops out:

        d c / d a = 1/2 [n diag(p) + diag(c) - p c' - c p'],

    so it costs as much as one softmax, whatever L0 is, and no (batch, L0, K) tensor exists. Written with d log p:
    d c_k = 1/2 [c_k d log p_k + p_k (n d log p_k - sum_j c_j d log p_j)]. Exact (unbiased) for independent variables if
    log p(x given z) is quadratic in z, where `StraightThrough` is exact only if it is linear. For a variable with two
    symbols it is `DARN`.
    """

    name = "reinmax"

    @staticmethod
    def to_log_probs(gradient, drawn, probs, n_draws):
        # The formula above, transposed: 1/2 [(c + n p) * g - c (p' g)].
        mean = (probs * gradient).sum(-1, keepdim=True)
        return 0.5 * (torch.add(drawn, probs, alpha=n_draws).mul_(gradient) - drawn * mean)

    @classmethod
    def binary_slopes(cls, drawn, probs):
        # Half the probability of the value that was not drawn: the formula above for two symbols.
        return (drawn - probs).abs_().mul_(0.5)
