"""The K + 1 symbols of a slot: their probabilities, and their divergence from the prior's."""

import math
from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.arithmetic import softmax_weights, softplus
from sdlgm._kernels.compiler import compiled


@compiled
def _symbols(gate_logit, feature_logits, log_probs, probs, feature_probs):
    real = log_probs.dtype.type
    one = real(1)
    n_rows, n_features = feature_logits.shape
    for row in range(n_rows):
        logits, feature_prob = feature_logits[row], feature_probs[row]
        largest, total = softmax_weights(logits, feature_prob)
        logit = gate_logit[row]
        log_on = -real(softplus(-logit))
        on = one / (one + real(math.exp(-logit)))
        log_probs[row, 0] = -real(softplus(logit))
        probs[row, 0] = one / (one + real(math.exp(logit)))
        shift, scale = log_on - largest - real(math.log(total)), one / total
        # An index such as k + 1 would be checked for being negative, and the loop not be put into vectors.
        features, log_features = probs[row, 1:], log_probs[row, 1:]
        for k in range(n_features):
            feature_prob[k] *= scale
            features[k] = on * feature_prob[k]
            log_features[k] = logits[k] + shift


@compiled
def _symbols_backward(gate_logit, feature_probs, gradient, gate_gradient, feature_gradient):
    real = gradient.dtype.type
    n_rows, n_features = feature_probs.shape
    for row in range(n_rows):
        total, g = real(0), gradient[row, 1:]
        for k in range(n_features):
            total += g[k]
        for k in range(n_features):
            feature_gradient[row, k] = g[k] - total * feature_probs[row, k]
        on = real(1) / (real(1) + real(math.exp(-gate_logit[row])))
        gate_gradient[row] = (real(1) - on) * total - on * gradient[row, 0]


def symbols(gate_logit: np.ndarray, feature_logits: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log-probabilities and probabilities of the K + 1 symbols of a slot, and those of the features if it is on."""
    n_rows, n_features = feature_logits.shape
    log_probs = np.empty((n_rows, n_features + 1), feature_logits.dtype)
    probs, feature_probs = np.empty_like(log_probs), np.empty_like(feature_logits)
    _symbols(gate_logit, feature_logits, log_probs, probs, feature_probs)
    return log_probs, probs, feature_probs


def symbol_gradients(
    gate_logit: np.ndarray, feature_probs: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """From the gradient of the log-probabilities to that of ``gate_logit`` and ``feature_logits``."""
    to_gate, to_features = np.empty_like(gate_logit), np.empty_like(feature_probs)
    _symbols_backward(gate_logit, feature_probs, gradient, to_gate, to_features)
    return to_gate, to_features


@compiled
def _divergence(
    gate_logit,
    feature_logits,
    prior_gate_logit,
    prior_log_probs,
    n_slots,
    exact,
    kl,
    to_gate,
    to_features,
    feature_probs,
    opened,
):
    real = kl.dtype.type
    one = real(1)
    n_rows, n_features = feature_logits.shape
    for row in range(n_rows):
        logits, prob, to_feature = feature_logits[row], feature_probs[row], to_features[row]
        largest, total = softmax_weights(logits, prob)
        shift, scale, of_feature = -largest - real(math.log(total)), one / total, real(0)
        for k in range(n_features):
            prob[k] *= scale
            to_feature[k] = logits[k] + shift - prior_log_probs[k]
            of_feature += prob[k] * to_feature[k]
        logit = gate_logit[row]
        on = one / (one + real(math.exp(-logit)))
        difference = logit - prior_gate_logit
        of_gate = on * difference + softplus(prior_gate_logit) - softplus(logit)
        if exact:
            opened[row] = n_slots * on
            kl[row] = n_slots * (of_gate + on * of_feature)
            to_gate[row] = n_slots * on * (one - on) * (difference + of_feature)
        else:
            opened[row] = n_slots
            kl[row] = n_slots * (of_gate + of_feature)
            to_gate[row] = n_slots * on * (one - on) * difference
        charge = opened[row]
        for k in range(n_features):
            to_feature[k] = charge * prob[k] * (to_feature[k] - of_feature)


@dataclass(frozen=True)
class Divergence:
    """KL of each of the R rows from the prior, and its derivatives."""

    kl: np.ndarray
    """(R,)."""
    gate_logit: np.ndarray
    """(R,): d kl / d gate_logit."""
    feature_logits: np.ndarray
    """(R, K): d kl / d feature_logits."""
    feature_probs: np.ndarray
    """(R, K): times -``opened`` it is d kl / d log of the prior's feature probabilities."""
    opened: np.ndarray
    """(R,): slots that are charged for their feature."""


def divergence(
    gate_logit: np.ndarray,
    feature_logits: np.ndarray,
    prior_gate_logit: float,
    prior_log_probs: np.ndarray,
    *,
    n_slots: int,
    exact: bool,
) -> Divergence:
    """The KL of `sdlgm.model.slots.SlotDistribution.kl`."""
    result = Divergence(
        np.empty_like(gate_logit),
        np.empty_like(gate_logit),
        np.empty_like(feature_logits),
        np.empty_like(feature_logits),
        np.empty_like(gate_logit),
    )
    real = gate_logit.dtype.type
    _divergence(
        gate_logit,
        feature_logits,
        real(prior_gate_logit),
        prior_log_probs,
        real(n_slots),
        exact,
        *vars(result).values(),
    )
    return result
