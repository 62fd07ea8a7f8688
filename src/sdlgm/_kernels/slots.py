"""Kernels of the slot posterior: probabilities of the K + 1 symbols of a slot, and the KL divergence from the prior.

Symbol 0 is "off", and symbol k is "on with feature k".
"""

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
        # numba checks whether an index such as k + 1 is negative, which prevents vectorisation. A view avoids that.
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
    """Return log-probabilities and probabilities of the symbols, and the probabilities of the features.

    Parameters
    ----------
    gate_logit : ndarray of shape (R,)
        Logit that a slot is on.
    feature_logits : ndarray of shape (R, K)
        Logits of the features of a slot that is on.

    Returns
    -------
    log_probs, probs : ndarray of shape (R, K + 1)
        Of the symbols.
    feature_probs : ndarray of shape (R, K)
        Of the features, given that the slot is on.

    """
    n_rows, n_features = feature_logits.shape
    log_probs = np.empty((n_rows, n_features + 1), feature_logits.dtype)
    probs, feature_probs = np.empty_like(log_probs), np.empty_like(feature_logits)
    _symbols(gate_logit, feature_logits, log_probs, probs, feature_probs)
    return log_probs, probs, feature_probs


def symbol_gradients(
    gate_logit: np.ndarray, feature_probs: np.ndarray, gradient: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradients of ``gate_logit`` and ``feature_logits`` from the gradient of the log-probabilities."""
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
        shift, scale, feature_kl = -largest - real(math.log(total)), one / total, real(0)
        for k in range(n_features):
            prob[k] *= scale
            to_feature[k] = logits[k] + shift - prior_log_probs[k]
            feature_kl += prob[k] * to_feature[k]
        logit = gate_logit[row]
        on = one / (one + real(math.exp(-logit)))
        difference = logit - prior_gate_logit
        gate_kl = on * difference + softplus(prior_gate_logit) - softplus(logit)
        if exact:
            opened[row] = n_slots * on
            kl[row] = n_slots * (gate_kl + on * feature_kl)
            to_gate[row] = n_slots * on * (one - on) * (difference + feature_kl)
        else:
            opened[row] = n_slots
            kl[row] = n_slots * (gate_kl + feature_kl)
            to_gate[row] = n_slots * on * (one - on) * difference
        n_open = opened[row]
        for k in range(n_features):
            to_feature[k] = n_open * prob[k] * (to_feature[k] - feature_kl)


@dataclass(frozen=True)
class Divergence:
    """KL divergence of each of R rows from the prior, and its derivatives."""

    kl: np.ndarray
    """(R,)."""
    gate_logit: np.ndarray
    """(R,): d kl / d gate_logit."""
    feature_logits: np.ndarray
    """(R, K): d kl / d feature_logits."""
    feature_probs: np.ndarray
    """(R, K): probabilities of the features. d kl / d prior_log_probs = -opened * feature_probs."""
    opened: np.ndarray
    """(R,): number of slots whose features enter the KL: L0 gate_prob if ``exact``, else L0."""


def divergence(
    gate_logit: np.ndarray,
    feature_logits: np.ndarray,
    prior_gate_logit: float,
    prior_log_probs: np.ndarray,
    *,
    n_slots: int,
    exact: bool,
) -> Divergence:
    """Return the KL divergence of slots from their prior, and its derivatives.

        exact:      L0 [KL(gate) + gate_prob KL(feature)]
        not exact:  L0 [KL(gate) + KL(feature)]            as in Xu et al. (2021)

    Parameters
    ----------
    gate_logit : ndarray of shape (R,)
        Logit that a slot is on.
    feature_logits : ndarray of shape (R, K)
        Logits of the features.
    prior_gate_logit : float
        Logit that a slot is on under the prior.
    prior_log_probs : ndarray of shape (K,)
        Log-probabilities of the features under the prior.
    n_slots : int
        Number of slots L0.
    exact : bool
        Whether the feature of a slot counts only if the slot is on.

    """
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
