"""Signs that a fit did not work, from its training curves."""

from collections.abc import Sequence

import numpy as np

from sdlgm.train.monitor import Record

# In nats: below this, a code says nothing about its observation.
MIN_KL = MIN_ROW_DIVERGENCE = 0.05
# Of the features: below this share, most of the model is unused.
MIN_SHARE_USED = 0.5
# Codes have to be able to contain every feature several times before missing ones count as dead.
MIN_DRAWS_PER_FEATURE = 20
# Of the log-probability of the targets without x: a model above it has learned.
MIN_GAIN = 0.9
# In nats and relative to the bound: a smaller fall is noise.
MIN_FALL, MIN_RELATIVE_FALL = 1.0, 0.02


def convergence_problem(
    history: Sequence[Record],
    *,
    n_features: int | None = None,
    n_watched: int = 0,
    held_out: bool = False,
    baseline: float | None = None,
) -> str | None:
    """Return a message with the remedy if a fit did not work, or None.

    Parameters
    ----------
    history : sequence of Record
    n_features : int or None, default=None
        K, if unused features are a problem.
    n_watched : int, default=0
        Number of watched rows.
    held_out : bool, default=False
        Whether the watched rows are held out of training, and the best parameters kept.
    baseline : float or None, default=None
        With targets, their mean log-probability without x; see `frequency_log_prob`.

    """
    if not history or history[-1].kl_weight < 1.0:
        return None
    kept = max(history, key=lambda record: record.discrete) if held_out else history[-1]
    if baseline is not None:
        return _unlearned_targets(kept, baseline)
    problem = _collapse(kept) or _dead_features(kept, n_features, n_watched)
    return _overfitting(history) if problem is None and held_out else problem


def _is_constant(record: Record) -> bool:
    """Return whether the posteriors of different rows are the same.

    Posteriors over sets cannot equal the prior, so their KL stays above zero when they collapse.
    """
    return record.row_divergence is not None and record.row_divergence < MIN_ROW_DIVERGENCE


def _unlearned_targets(record: Record, baseline: float) -> str | None:
    """Return a message if predictions do not depend on x, although the targets could be better predicted."""
    learned = record.discrete > MIN_GAIN * baseline or baseline > -MIN_KL
    if learned or not (_is_constant(record) or record.kl < MIN_KL):
        return None
    return "the predictions do not depend on the data; check the features and the targets, or train longer"


def _collapse(record: Record) -> str | None:
    """Return a message if codes carry no information about the data."""
    remedy = "check the scale of the data and the likelihood, or train longer"
    if record.kl < MIN_KL:
        return (
            f"the KL is {record.kl:.2g} nats: the posterior equals the prior and carries no information about the "
            f"data; {remedy}"
        )
    if _is_constant(record):
        return f"the posteriors of different rows are the same and carry no information about the data; {remedy}"
    return None


def _dead_features(record: Record, n_features: int | None, n_watched: int) -> str | None:
    """Return a message if most features are never used, although there were enough draws to use them."""
    if n_features is None or record.features_used is None:
        return None
    enough_draws = n_watched * record.n_active >= MIN_DRAWS_PER_FEATURE * n_features
    if not enough_draws or record.features_used >= MIN_SHARE_USED * n_features:
        return None
    return (
        f"the codes use {record.features_used} of {n_features} features, and most are dead; "
        "lower n_components, or train longer"
    )


def frequency_log_prob(targets: np.ndarray, watched: np.ndarray) -> float:
    """Return the mean log-probability of watched targets under the frequencies of all, each column by itself."""
    total = 0.0
    for column, own in zip(targets.T, watched.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        total += float(np.log(counts / len(column))[np.searchsorted(values, own)].mean())
    return total


def _overfitting(history: Sequence[Record]) -> str | None:
    """Return a message if the validation bound fell from its best value while the training bound rose."""
    curve = [record for record in history if record.kl_weight == 1.0 and record.training is not None]
    if not curve:
        return None
    best, last = max(curve, key=lambda record: record.discrete), curve[-1]
    fall = best.discrete - last.discrete
    if best.training is None or last.training is None or last.training <= best.training:
        return None
    if fall < max(MIN_FALL, MIN_RELATIVE_FALL * abs(best.discrete)):
        return None
    return (
        f"the validation bound fell from {best.discrete:.1f} nats at iteration {best.iteration} to "
        f"{last.discrete:.1f} at {last.iteration} while the training bound rose: the model overfits; the best "
        "parameters are kept, but use more rows, smaller networks or fewer iterations"
    )
