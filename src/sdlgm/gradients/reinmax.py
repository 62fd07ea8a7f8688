"""ReinMax for slots, in closed form."""

from sdlgm.gradients.base import GradientEstimator, register


@register
class ReinMax(GradientEstimator):
    r"""Hard counts forward, a second-order accurate gradient backward.

    ReinMax (Liu et al., NeurIPS 2023) turns a drawn one-hot D of a categorical with probabilities p and logits a into
    the Jacobian 2 J((p + D) / 2) - J(p) / 2 with J(p) = diag(p) - p p'. Summed over L0 slots that share p and were
    drawn independently, everything but the drawn counts n drops out:

        d n / d a = 1/2 [L0 diag(p) + diag(n) - p n' - n p'],

    so it costs as much as one softmax, whatever L0 is, and no (batch, L0, K) tensor exists. Written with d log p:
    d n_k = 1/2 [n_k d log p_k + p_k (L0 d log p_k - sum_j n_j d log p_j)]. Exact (unbiased) if log p(x given z) is
    quadratic in z, where `StraightThrough` is exact only if it is linear.
    """

    name = "reinmax"
    discrete = True

    def __call__(self, posterior, log_likelihood, *, n_samples, temperatures, generator):
        counts = posterior.sample_symbols(n_samples, generator)
        probs = posterior.log_probs.detach().exp()
        change = posterior.log_probs - posterior.log_probs.detach()  # zero, with the gradient of log p
        drawn_change = counts * change
        expected_change = probs * (posterior.n_slots * change - drawn_change.sum(-1, keepdim=True))
        return log_likelihood((counts + 0.5 * (drawn_change + expected_change))[..., 1:]).mean(0)
