"""A gate that lets at most L0 of K elements through."""

import torch
from torch import Tensor, nn

from sdlgm.nn._choice import ChoosingLayer, check_budget, check_expected, choose, rule_named


class SubsetGate(ChoosingLayer):
    r"""Choose at most ``max_active`` elements by their scores, and as few as they call for.

    The sets S of at most L0 of K elements have the distribution

        q(S) = prod_{k in S} exp(score_k + r) / Z,   r = log-odds of an element under the prior.

    So a score is the evidence for an element: with scores of zero q is the prior, whatever K is. In training a set is
    drawn, with the gradient of ``gradient``; in evaluation it is the most probable one, which has the largest of the
    log-odds score + r that are positive.

    Parameters
    ----------
    max_active : int
        L0, the largest number of elements of a set.
    prior_active : float, optional
        Number of elements that the prior expects, half the budget by default. It is spread evenly over the elements
        that are not masked, at most one half each.
    learn_prior : bool, default=False
        Learn the number from the data, with the rest of the network. It then has no pull of its own to fewer elements.
    prior_shape : tuple of int, default=()
        Shape of several numbers, one for each head for instance. It has to broadcast to that of the scores without
        their last dimension.
    gradient : {"reinmax", "straight_through", "darn"}, default="reinmax"
        Gradient estimator for the drawn set.
    eval_kl : bool, default=False
        Compute ``kl`` in evaluation too, which takes longer than the choice itself.

    Attributes
    ----------
    kl : Tensor or None
        Divergence of the last call from the prior, in nats, for each set. Add its mean, times a weight, to the loss.
    n_active : Tensor or None
        Number of elements of each set of the last call.

    Examples
    --------
    >>> import torch
    >>> from sdlgm.nn import SubsetGate
    >>> gate = SubsetGate(max_active=2, prior_active=1.0).eval()
    >>> gate(torch.tensor([[5.0, -1.0, 4.0, 3.0], [-5.0, -5.0, -5.0, -5.0]]))
    tensor([[1., 0., 1., 0.],
            [0., 0., 0., 0.]])

    """

    prior_logit: Tensor

    def __init__(
        self,
        max_active: int,
        *,
        prior_active: float | None = None,
        learn_prior: bool = False,
        prior_shape: tuple[int, ...] = (),
        gradient: str = "reinmax",
        eval_kl: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.max_active = check_budget(max_active)
        self.gradient = gradient
        rule_named(gradient)  # raises if there is none
        self.eval_kl = eval_kl
        share = check_expected(prior_active, max_active) / max_active
        logit = torch.full(prior_shape, share, device=device, dtype=dtype).logit()
        if learn_prior:
            self.prior_logit = nn.Parameter(logit)
        else:
            self.register_buffer("prior_logit", logit)

    @property
    def prior_active(self) -> Tensor:
        """Number of elements that the prior expects."""
        return self.max_active * torch.sigmoid(self.prior_logit)

    def forward(
        self, scores: Tensor, mask: Tensor | None = None, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Choose a set for each row.

        Parameters
        ----------
        scores : Tensor of shape (..., K)
        mask : Tensor of bool that broadcasts to the scores, optional
            True for elements that may be chosen.
        generator : torch.Generator, optional
            Source of random numbers; torch's own by default.

        Returns
        -------
        Tensor of shape (..., K)
            1 for members of the set and 0 for all others.

        """
        choice = choose(
            scores,
            mask,
            self.prior_active,
            max_active=self.max_active,
            gradient=self.gradient,
            draw=self.training,
            with_kl=self.training or self.eval_kl,
            generator=generator,
        )
        self.kl, self.n_active = choice.kl, choice.n_active
        return choice.members

    def extra_repr(self) -> str:
        """Describe the layer.

        Returns
        -------
        str
            The settings that tell one layer from another.

        """
        return f"max_active={self.max_active}, gradient={self.gradient!r}"
