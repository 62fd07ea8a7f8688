"""Signs that a fit did not work, from its training curves."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from sdlgm.train.batches import TargetMatrix
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

# Of what the model gains on rows that were trained on, over one that is the same for all rows: below this share on
# held-out rows, it overfits.
MIN_SHARE_KEPT = 0.5

CHECK_DATA = "check the scale of the data and the likelihood, or train longer"
TRAIN_SLOWLY = "train longer, or lower learning_rate"


@dataclass(frozen=True)
class Gain:
    """What a model knows about some rows, in nats."""

    bound: float
    uninformed: float
    """Bound of a model that is the same for all rows."""

    @property
    def gain(self) -> float:
        return self.bound - self.uninformed


def convergence_problem(
    history: Sequence[Record],
    *,
    n_features: int | None = None,
    n_watched: int = 0,
    held_out: bool = False,
    trained: Gain | None = None,
    baseline: float | None = None,
    uninformed: float | None = None,
    rate: float = 1.0,
    remedy: str | None = None,
    urgent_remedy: str | None = None,
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
    trained : Gain or None, default=None
        If watched rows are held out, the same of rows that were trained on, at the end of the fit.
    baseline : float or None, default=None
        With targets, their mean log-probability without x; see `frequency_log_prob`.
    uninformed : float or None, default=None
        Bound of a model that is the same for all rows: the means of the columns, or the frequencies of the targets.
    rate : float, default=1.0
        Weight of the KL in training. Bounds are judged with this weight, since training improves nothing else.
    remedy : str or None, default=None
        What to do about codes without information, if it is known.
    urgent_remedy : str or None, default=None
        What to do about a model that has learned nothing, if a setting is known to be the cause.

    """
    remedies = remedy or CHECK_DATA, urgent_remedy or TRAIN_SLOWLY
    weighted = history if rate == 1.0 else [_weighted(record, rate) for record in history]
    overfitting = None
    if trained is not None and uninformed is not None and held_out and history[-1].kl_weight >= rate:
        kept = max(history, key=lambda record: record.objective(rate))
        overfitting = _overfitting(kept, uninformed, trained)
        # The model has learned, and what it has learned does harm to other rows.
        if overfitting and kept.discrete < uninformed and _is_fall(trained.bound, trained.uninformed):
            return overfitting
    problem = _problem(weighted, n_features, n_watched, held_out, baseline, uninformed, remedies)
    if problem is not None:
        return problem if rate == 1.0 else f"{problem} (bounds are with the weight of the KL, rate={rate:g})"
    return overfitting


def _weighted(record: Record, rate: float) -> Record:
    """Return a point with the KL of its bounds multiplied by ``rate``, and the weight as a share of ``rate``."""
    return replace(
        record,
        discrete=record.objective(rate),
        relaxed=record.relaxed - (rate - 1.0) * record.kl,
        kl_weight=record.kl_weight / rate,
    )


def _problem(
    history: Sequence[Record],
    n_features: int | None,
    n_watched: int,
    held_out: bool,
    baseline: float | None,
    uninformed: float | None,
    remedies: tuple[str, str],
) -> str | None:
    """Return a message if a fit with the KL as it is did not work."""
    if not history or history[-1].kl_weight < 1.0:
        return None
    kept = max(history, key=lambda record: record.discrete) if held_out else history[-1]
    problem = _worse_than_uninformed(kept, uninformed, remedies[1])
    if problem is None and not held_out:
        problem = _fallen(history)
    if problem is not None:
        return problem
    if baseline is not None:
        return _unlearned_targets(kept, baseline)
    return _collapse(kept, remedies[0]) or _dead_features(kept, n_features, n_watched)


def _is_fall(from_bound: float, to_bound: float) -> bool:
    """Return whether a bound is lower than another one by more than noise."""
    return from_bound - to_bound >= max(MIN_FALL, MIN_RELATIVE_FALL * abs(from_bound))


def _worse_than_uninformed(record: Record, uninformed: float | None, remedy: str) -> str | None:
    """Return a message if the model is worse than one that is the same for all rows."""
    if uninformed is None or not _is_fall(uninformed, record.discrete):
        return None
    remedy = f"nothing was learned; {remedy}"
    if not _is_fall(uninformed, record.relaxed):
        remedy = (
            f"with relaxed codes it is {record.relaxed:.4g}, so that the information is in the relaxation and not in "
            "the codes; use another gradient, such as 'reinmax'"
        )
    return (
        f"the bound is {record.discrete:.4g} nats, and that of a model that is the same for all rows is "
        f"{uninformed:.4g}: {remedy}"
    )


def _fallen(history: Sequence[Record]) -> str | None:
    """Return a message if the bound of rows that were trained on ends far below its best value."""
    curve = [record for record in history if record.kl_weight == 1.0]
    best, last = max(curve, key=lambda record: record.discrete), curve[-1]
    if not _is_fall(best.discrete, last.discrete):
        return None
    return (
        f"the bound fell from {best.discrete:.4g} nats at iteration {best.iteration} to {last.discrete:.4g} at "
        f"{last.iteration}: training is not stable; lower learning_rate"
    )


def _is_constant(record: Record) -> bool:
    """Return whether the posteriors of different rows are the same.

    Posteriors over sets cannot equal the prior of the slots, so their KL stays above zero when they collapse.
    """
    return record.row_divergence is not None and record.row_divergence < MIN_ROW_DIVERGENCE


def _unlearned_targets(record: Record, baseline: float) -> str | None:
    """Return a message if predictions do not depend on x, although the targets could be better predicted."""
    learned = record.discrete > MIN_GAIN * baseline or baseline > -MIN_KL
    if learned or not (_is_constant(record) or record.kl < MIN_KL):
        return None
    return "the predictions do not depend on the data; check the features and the targets, or train longer"


def _collapse(record: Record, remedy: str) -> str | None:
    """Return a message if codes carry no information about the data."""
    if record.kl < MIN_KL:
        return (
            f"the KL is {record.kl:.2g} nats: the posterior equals the prior and carries no information about the "
            f"data; {remedy}"
        )
    if record.features_used == 0:
        return f"the codes are empty and carry no information about the data; {remedy}"
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


def frequency_log_prob(targets: TargetMatrix, watched: TargetMatrix, weights: np.ndarray | None = None) -> float:
    """Return the mean log-probability of watched targets under the frequencies of all, each column by itself.

    ``weights`` are those of all rows; the watched ones are chosen in proportion to them.
    """
    total_weight = targets.shape[0] if weights is None else weights.sum()
    if not (isinstance(targets, np.ndarray) and isinstance(watched, np.ndarray)):  # zeros and ones
        share = (np.ones(targets.shape[0]) if weights is None else weights) @ targets / total_weight
        own = np.asarray(watched.sum(axis=0)) / watched.shape[0]
        return float((xlogy(own, share) + xlogy(1 - own, 1 - share)).sum())
    total = 0.0
    for column, own in zip(targets.T, watched.T, strict=True):
        values, places = np.unique(column, return_inverse=True)
        counts = np.bincount(places, weights)
        total += float(np.log(counts / total_weight)[np.searchsorted(values, own)].mean())
    return total


def _overfitting(record: Record, uninformed: float, trained: Gain) -> str | None:
    """Return a message if held-out rows gain much less from the model than rows that were trained on."""
    gain = record.discrete - uninformed
    if gain >= MIN_SHARE_KEPT * trained.gain or not _is_fall(trained.gain, gain):
        return None
    return (
        f"the model overfits: rows that were trained on gain {trained.gain:.4g} nats over a model that is the same for "
        f"all rows (their bound is {trained.bound:.4g}), and held-out rows {gain:.4g} (their bound is "
        f"{record.discrete:.4g}); use more rows, smaller networks (hidden), fewer features (n_components) or rate "
        "above 1"
    )
