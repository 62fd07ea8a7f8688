"""From the logits of a slot to the probabilities of its K + 1 symbols, in one pass forward and one backward."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from sdlgm import _kernels
from sdlgm.model import arrays
from sdlgm.model.arrays import as_array
from sdlgm.model.autograd import first_order


def slot_symbols(
    gate_logit: Float[Tensor, "*batch"], feature_logits: Float[Tensor, "*batch K"]
) -> tuple[Float[Tensor, "*batch symbols"], Float[Tensor, "*batch symbols"]]:
    """Return log-probabilities and probabilities of "off", which comes first, and of the features."""
    if arrays.has_kernels(feature_logits) and feature_logits.ndim == 2:
        return _Symbols.apply(gate_logit, feature_logits)
    off = F.logsigmoid(-gate_logit).unsqueeze(-1)
    on = F.logsigmoid(gate_logit).unsqueeze(-1)
    log_probs = torch.cat([off, on + feature_logits.log_softmax(-1)], dim=-1)
    return log_probs, log_probs.exp()


class _Symbols(torch.autograd.Function):
    """With g = d loss / d log_probs + probs * d loss / d probs, and t the sum of g over the features,

    d / d gate_logit = (1 - gate_prob) t - gate_prob g_off,  d / d feature_logits = g - t feature_probs.
    """

    @staticmethod
    def forward(ctx, gate_logit: Tensor, feature_logits: Tensor):
        parts = _kernels.symbols(as_array(gate_logit), as_array(feature_logits))
        log_probs, probs, feature_probs = (torch.from_numpy(part) for part in parts)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(gate_logit, probs, feature_probs)
        return log_probs, probs

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor | None):
        to_log_probs, to_probs = gradients
        gate_logit, probs, feature_probs = ctx.saved_tensors
        gradient = to_log_probs
        if to_probs is not None:
            gradient = to_probs * probs if gradient is None else torch.addcmul(gradient, to_probs, probs)
        if gradient is None:
            return None, None
        parts = _kernels.symbol_gradients(as_array(gate_logit), as_array(feature_probs), as_array(gradient))
        return tuple(torch.from_numpy(part) for part in parts)
