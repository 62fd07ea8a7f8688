"""Signs that a fit did not work, from its training curves."""

from collections.abc import Sequence

from sdlgm.train.monitor import Record

# In nats: below this, a code says nothing about its observation.
MIN_KL = MIN_ROW_DIVERGENCE = 0.05
# Of the features: below this share, most of the model is unused.
MIN_SHARE_USED = 0.5
# Codes have to be able to contain every feature several times before missing ones count as dead.
MIN_DRAWS_A_FEATURE = 20
# In nats and relative to the bound: a smaller fall is noise.
MIN_FALL, MIN_RELATIVE_FALL = 1.0, 0.02


def convergence_problem(
    history: Sequence[Record], *, n_features: int | None = None, n_watched: int = 0, held_out: bool = False
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
        Whether the watched rows are held out of training.

    """
    if not history or history[-1].kl_weight < 1.0:
        return None
    last = history[-1]
    if last.kl < MIN_KL:
        return (
            f"the KL is {last.kl:.2g} nats: the posterior equals the prior and carries no information about the "
            "data; check the scale of the data and the likelihood, or train longer"
        )
    # Posteriors over sets cannot equal the prior, so that their KL stays above zero.
    if last.row_divergence is not None and last.row_divergence < MIN_ROW_DIVERGENCE:
        return (
            "the posteriors of different rows are the same and carry no information about the data; check "
            "the scale of the data and the likelihood, or train longer"
        )
    if n_features is not None and last.features_used is not None:
        enough_draws = n_watched * last.n_active >= MIN_DRAWS_A_FEATURE * n_features
        if enough_draws and last.features_used < MIN_SHARE_USED * n_features:
            return (
                f"the codes use {last.features_used} of {n_features} features, and most are dead; "
                "lower n_components, or train longer"
            )
    return _overfitting(history) if held_out else None


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
