"""Results of estimators that consist of more than one array."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class PosteriorProbs(NamedTuple):
    """Parameters of q(z given x) for each row."""

    gate_prob: np.ndarray
    """(n,), the expected share of the slots that are on."""
    feature_probs: np.ndarray
    """(n, n_components), the distribution of the feature in a slot that is on."""


@dataclass(frozen=True)
class Evaluation:
    """Quality of a model on some rows. Bounds and their parts are means in nats a row."""

    n_rows: int
    max_active: int
    n_components: int
    discrete: float
    """Lower bound on log p(x) from hard codes: the number to compare models by."""
    relaxed: float
    """The paper's criterion from relaxed samples. Not a bound on log p(x), and not true of the codes."""
    kl: float
    """KL(q, p): the information that a drawn code carries at most."""
    kl_gates: float
    """The part of ``kl`` for the number of slots that are on; 0 for posteriors that do not separate it."""
    kl_features: float
    """The part of ``kl`` for the features that they hold."""
    n_active_expected: float
    """Mean of L_i under q(z given x), max_active * gate_prob: active slots of a drawn code."""
    n_active_mean: float
    """Active slots of the codes that `transform` gives."""
    n_active_max: int
    code_bits: float
    """Mean -log2 p(z) of the codes that `transform` gives: the length of an ideal entropy code under the prior."""
    features_used: int
    """Features that occur in at least one of these codes."""
    features_alive: int
    """Features that a drawn code contains with probability 1/1000 or more, on average over the rows."""
    reconstruction_error: float
    """Mean squared difference an entry between the rows and what their codes decode to; 1 for a wrong category. Missing
    entries are left out.
    """
    problem: str | None = None
    """A sentence if the codes carry no information about these rows; None if they do."""

    @property
    def discrete_bits(self) -> float:
        return self.discrete / math.log(2)


@dataclass(frozen=True)
class LabelNumbers:
    """Number of labels of each row."""

    mean: np.ndarray
    """Expected number, (n_samples,)."""
    probs: np.ndarray
    """Probability of each number from 0 to max_active, (n_samples, max_active + 1)."""


@dataclass(frozen=True)
class LabelEvaluation:
    """Scores of a classifier on rows with known labels; F1 between 0 and 1."""

    n_rows: int
    max_active: int
    micro_f1: float
    macro_f1: float
    """Labels that no row has and that were not predicted count as 0, as in scikit-learn."""
    macro_f1_present: float
    """The same over the labels that some row has."""
    exact_match: float
    """Share of rows whose labels are all right."""
    hamming_loss: float
    """Share of wrong entries of the indicator matrix."""
    log_loss: float
    """Nats a row, each label by itself."""
    n_labels_true: float
    n_labels_predicted: float
    n_labels_expected: float


@dataclass(frozen=True)
class CountEvaluation:
    """Scores of a counter on rows with known counts."""

    n_rows: int
    max_active: int
    mse_expected: float
    """Mean squared error of `SDLGMCounter.predict_mean`, for each class and row."""
    mse_rounded: float
    """The same of `SDLGMCounter.predict`."""
    exact_match: float
    """Share of rows whose counts are all right."""
    log_likelihood: float | None
    """Mean log-probability of the count vectors, in nats; None if some row is beyond the budget (probability 0)."""
    n_beyond_budget: int
    """Number of rows whose counts add up to more than the budget."""
    total_true: float
    """Mean sum of a row's counts."""
    total_expected: float
