"""The KL between two distributions of slots, in one pass that finds its derivatives too."""

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order


def slot_divergence(
    gate_logit: Float[Tensor, " batch"],
    feature_logits: Float[Tensor, "batch K"],
    prior_gate_logit: Float[Tensor, ""],
    prior_log_probs: Float[Tensor, " K"],
    *,
    n_slots: int,
    exact: bool,
) -> Float[Tensor, " batch"]:
    """Return L0 [KL(gate) + gate_prob KL(feature)], or without ``exact`` L0 [KL(gate) + KL(feature)], on the CPU."""
    return _Divergence.apply(gate_logit, feature_logits, prior_gate_logit, prior_log_probs, n_slots, exact)


class _Divergence(torch.autograd.Function):
    """With d_k = log feature_probs_k - log prior_k and m their mean under feature_probs, and c open slots charged,

    d / d gate_logit     = L0 gate_prob (1 - gate_prob) [gate_logit - prior_gate_logit (+ m if exact)]
    d / d feature_logits = c feature_probs (d - m)
    d / d prior_gate_logit = L0 (prior_gate_prob - gate_prob),  d / d log prior = -c feature_probs.
    """

    @staticmethod
    def forward(ctx, gate_logit, feature_logits, prior_gate_logit, prior_log_probs, n_slots, exact) -> Tensor:
        result = _kernels.divergence(
            as_array(gate_logit),
            as_array(feature_logits),
            float(prior_gate_logit),
            as_array(prior_log_probs),
            n_slots=n_slots,
            exact=exact,
        )
        ctx.result = result
        ctx.save_for_backward(gate_logit, prior_gate_logit)
        ctx.n_slots = n_slots
        return torch.from_numpy(result.kl)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        (gradient,) = gradients
        result: _kernels.Divergence = ctx.result
        to_prior_gate = to_prior_features = None
        if ctx.needs_input_grad[2]:
            gate_logit, prior_gate_logit = ctx.saved_tensors
            excess = torch.sigmoid(prior_gate_logit) - torch.sigmoid(gate_logit)
            to_prior_gate = ctx.n_slots * (gradient * excess).sum()
        if ctx.needs_input_grad[3]:
            to_prior_features = -(gradient * torch.from_numpy(result.opened)) @ torch.from_numpy(result.feature_probs)
        return (
            gradient * torch.from_numpy(result.gate_logit),
            gradient.unsqueeze(-1) * torch.from_numpy(result.feature_logits),
            to_prior_gate,
            to_prior_features,
            None,
            None,
        )
