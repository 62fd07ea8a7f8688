"""The end of a fit, in which the model learns from codes that a local search finds (`sdlgm.model.modules.search`).

Draws from the posterior make decoder and prior good on average over the posterior's errors. The codes that people keep
are single ones, and searching for them removes most of those errors. In runs on tables, windows of series and pictures
(`docs/results/quality.md`) an end of a third to a half of the run gave a third fewer bits at the same error. The bounds
of held-out rows stay about the same, better with few rows and worse with many.
"""

from collections.abc import Sequence
from dataclasses import replace

from sdlgm import train
from sdlgm.estimators._base import Limits
from sdlgm.model.likelihoods import LIKELIHOODS

SHARE, MOST_FEATURES = 0.4, 4096
"""Share of a run that searches for codes by default, and the largest number of features with which it does so."""
BATCH, SLOWER = 100, 3.0
"""Rows of a batch at most, and by what the learning rate is divided."""
STEPS = 3
"""Changes of a code at most, in training."""
FIRST_ROWS = 16
"""Rows on which the search begins to learn how good its estimates are."""


def share_by_default(likelihoods: Sequence[str], n_features: int) -> float:
    """Return the share of a run that searches for codes, for a model that can do so."""
    continuous = sum(LIKELIHOODS[name].standardized for name in likelihoods)
    return SHARE if 2 * continuous > len(likelihoods) and n_features <= MOST_FEATURES else 0.0


def limits_before(limits: Limits, share: float) -> Limits:
    """Return the limits of the part of a run that comes before."""
    max_iter, max_time = limits["max_iter"], limits["max_time"]
    return {
        "max_iter": None if max_iter is None else max(1, round((1 - share) * max_iter)),
        "max_time": None if max_time is None else (1 - share) * max_time,
    }


def refining(
    config: train.TrainConfig, share: float, trainer: train.Trainer, learning_rate: float
) -> train.TrainConfig:
    """Return the options of the part that searches, after a run that may have stopped early.

    Parameters
    ----------
    config : TrainConfig
        The options of the run before.
    share : float
        Share of both together.
    trainer : Trainer
        The trainer of the run before.
    learning_rate : float
        That of batches of this size without a search.

    Returns
    -------
    TrainConfig
        Iterations count on from those of the run before.

    """
    done, of_before = trainer.iteration, share / (1 - share)
    n_iter = max(1, round(of_before * done))
    max_iter = None if config.max_iter is None else done + n_iter
    return replace(
        config,
        max_iter=max_iter,
        max_time=None if config.max_time is None else max(of_before * config.max_time, 1e-3),
        batch_size=min(config.batch_size, BATCH),
        learning_rate=learning_rate / SLOWER,
        lr_decay=1.0 if max_iter is None else n_iter / max_iter,
        kl_warmup=0.0,
        final_temperature=None,
        n_iter_no_change=None,
        n_search_steps=STEPS,
    )
