"""What estimators return when more than one array belongs together."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np


class PosteriorProbs(NamedTuple):
    """Parameters of q(z given x) for each row."""

    gate_prob: np.ndarray
    """(n,), the probability that a slot is on."""
    feature_probs: np.ndarray
    """(n, n_components), the distribution of the feature in a slot that is on."""


class PosteriorSetting(str):
    """The name of a posterior family, read from an estimator, that can be called to get the posterior of some rows.

    Setting and method share the name ``posterior``; this lets both be what users expect.
    """

    _probs: Callable[[Any], PosteriorProbs]

    def __new__(cls, name: str, probs: Callable[[Any], PosteriorProbs]) -> Self:
        setting = super().__new__(cls, name)
        setting._probs = probs
        return setting

    def __call__(self, X: Any) -> PosteriorProbs:
        return self._probs(X)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """A copy is the plain name: it belongs to no estimator."""
        return str, (str(self),)


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on some rows. Bounds and their parts are means in nats a row."""

    n_rows: int
    max_active: int
    n_components: int
    discrete: float
    """Lower bound on log p(x) from hard codes: the number to compare models by."""
    relaxed: float
    """The paper's criterion from relaxed samples. Not a bound on log p(x), and not true of the codes."""
    kl: float
    """The information that a drawn code carries at most: its cost under the prior, less what its noise gives back."""
    kl_gates: float
    """The part of ``kl`` that is paid for how many slots are on; 0 for posteriors that do not tell it from the rest."""
    kl_features: float
    """The part that is paid for which features they hold."""
    n_active_expected: float
    """Mean of L_i under q(z given x), max_active * gate_prob: active slots of a drawn code."""
    n_active_mean: float
    """Active slots of the codes that `transform` gives."""
    n_active_max: int
    code_bits: float
    """Bits of the codes that `transform` gives, -log2 p(z): what an ideal entropy coder with the prior needs."""
    features_used: int
    """Features that occur in at least one of these codes."""
    features_alive: int
    """Features that a drawn code contains with probability 1/1000 or more, on average over the rows."""
    reconstruction_error: float
    """Mean squared difference an entry between the rows and what their codes decode to."""

    @property
    def discrete_bits(self) -> float:
        return self.discrete / math.log(2)
