"""Relaxed counts with a gradient written by hand: one (batch, L0, K) array in training, none otherwise."""

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order
from sdlgm.model.codes.base import Temperatures
from sdlgm.model.noise import Noise


def relaxed_counts(
    gate_logit: Float[Tensor, " batch"],
    feature_logits: Float[Tensor, "batch K"],
    temperatures: Temperatures,
    *,
    n_slots: int,
    n_samples: int,
    noise: Noise,
) -> Float[Tensor, "S batch K"]:
    """Return the sum over the slots of relaxed gate times relaxed feature, on the CPU."""
    inputs = gate_logit, feature_logits, temperatures.gate, temperatures.feature
    keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    keys = noise.block_keys(n_samples * len(gate_logit))
    return _RelaxedCounts.apply(*inputs, n_slots, n_samples, keys, keep)


class _RelaxedCounts(torch.autograd.Function):
    r"""Z = sum_l omega_l z_l with omega_l = sigmoid(v_l), z_l = softmax(y_l), and for the noise of a slot

        v_l = (gate_logit + logistic) / gate_temperature,  y_l = (feature_logits + gumbel) / feature_temperature.

    With g = d loss / d Z and u_l = g' z_l the gradients are

        d / d gate_logit          =  sum_l u_l omega_l (1 - omega_l) / gate_temperature
        d / d gate_temperature    = -sum_l u_l omega_l (1 - omega_l) v_l / gate_temperature
        d / d feature_logits_k    =  sum_l omega_l z_lk (g_k - u_l) / feature_temperature
        d / d feature_temperature = -sum_lk omega_l z_lk (g_k - u_l) y_lk / feature_temperature.

    The last is split into sum_k g_k (sum_l omega_l z_lk y_lk) - sum_l omega_l u_l (sum_k z_lk y_lk). The forward pass
    adds up both brackets.
    """

    @staticmethod
    def forward(
        ctx, gate_logit, feature_logits, gate_temperature, feature_temperature, n_slots, n_samples, keys, keep
    ) -> Tensor:
        ctx.options = {
            "n_samples": n_samples,
            "gate_temperature": float(gate_temperature),
            "feature_temperature": float(feature_temperature),
            "n_threads": torch.get_num_threads(),
        }
        draw = _kernels.relaxed_counts(
            keys,
            as_array(gate_logit),
            as_array(feature_logits),
            n_slots=n_slots,
            keep=keep,
            **ctx.options,
        )
        ctx.save_for_backward(*(torch.from_numpy(part) for part in vars(draw).values()))  # freed by the backward pass
        return torch.from_numpy(draw.counts).view(n_samples, *feature_logits.shape)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor):
        draw = _kernels.RelaxedCounts(*(part.numpy() for part in ctx.saved_tensors))
        parts = _kernels.relaxed_gradients(as_array(gradients[0].flatten(0, 1)), draw, **ctx.options)
        return (
            torch.from_numpy(parts.gate_logit),
            torch.from_numpy(parts.feature_logits),
            torch.from_numpy(parts.gate_temperature).sum() if ctx.needs_input_grad[2] else None,
            torch.from_numpy(parts.feature_temperature).sum() if ctx.needs_input_grad[3] else None,
            None,
            None,
            None,
            None,
        )
