"""Find fits whose codes say next to nothing about the data, and the remedy that fits the cause."""

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.stats import rankdata

from sdlgm.data import RowFiles
from sdlgm.estimators._fitted import FittedSDLGM
from sdlgm.train import TrainConfig
from sdlgm.train.batches import Rows, dense

MAX_SHARE = 0.95
"""Share of the rows with one code, from which on codes do not tell rows apart."""
MAX_SHARE_OF_ROWS = 0.9
"""Share of equal rows, from which on equal codes are what the data are."""
MIN_GAIN = 0.25
"""In nats: codes that raise the bound by less than this carry next to nothing."""
MIN_ITERATIONS = 200
"""Shorter runs are trials, about which nothing is said."""
FEW_ITERATIONS = 2000
FEW_ROWS = 30
SLOW, FAST = 1e-4, 3e-2
"""Learning rates that are low and high for Adam."""
SHORT_WARM_UP = 0.1
MOST_ROWS, MOST_COLUMNS = 1000, 200
"""Of the data, for dependences between columns."""
PERMUTATIONS = 39
"""Tables of permuted columns, each of which has to be less dependent than the data."""


@dataclass(frozen=True)
class Causes:
    """Possible causes of empty codes, of data and settings."""

    likelihood: str
    is_grey: bool
    """Whether the Bernoulli likelihood has values other than 0 and 1."""
    n_rows: int
    is_constant: bool
    is_independent: bool
    """Whether no columns depend on each other by more than chance."""
    n_features: int
    n_iter: int
    """Iterations that the limits of the run allow: ``max_iter``, or those done in ``max_time``."""
    config: TrainConfig

    @classmethod
    def of(cls, fitted: FittedSDLGM, rows: Rows, n_rows: int, config: TrainConfig) -> "Causes":
        """Look for causes in the settings and in rows, of which there are ``n_rows`` in all."""
        values = _some(rows)
        varies = values.max(axis=0) > values.min(axis=0)
        return cls(
            likelihood=fitted.likelihood,
            is_grey=fitted.likelihood == "bernoulli" and not bool(np.isin(values, (0, 1)).all()),
            n_rows=n_rows,
            is_constant=not varies.any(),
            is_independent=is_independent(values[:, varies]),
            n_features=fitted.module.config.n_features,
            n_iter=config.max_iter if config.max_iter is not None and config.max_time is None else fitted.n_iter,
            config=config,
        )

    @property
    def urgent_remedy(self) -> str | None:
        """Remedy if a setting, or data without content, make learning impossible."""
        config, remedies = self.config, []
        if self.is_constant:
            return "the rows are all the same, so that there is nothing to learn; check the columns"
        if config.learning_rate > FAST:
            remedies.append(f"lower learning_rate, which is {config.learning_rate:g}")
        if config.learning_rate < SLOW:
            remedies.append(f"raise learning_rate, which is {config.learning_rate:g}")
        if config.rate > 1:
            remedies.append(f"lower rate, which is {config.rate:g}")
        return "; ".join(remedies) or None

    @property
    def remedy(self) -> str:
        """Remedy for codes that say next to nothing, the likeliest cause first."""
        config = self.config
        if self.urgent_remedy is not None:
            return self.urgent_remedy
        if self.n_rows < FEW_ROWS:
            return f"{self.n_rows} rows are few to learn from; give more rows, or lower n_components"
        if self.is_independent:
            return (
                "no two columns depend on each other by more than chance, so that a code has nothing to learn; "
                "check that the columns belong together and that each row is in its place"
            )
        remedies = []
        if self.is_grey:
            remedies.append(
                "the data have values between 0 and 1, which the Bernoulli likelihood takes for odds of coins; "
                "for measurements set a likelihood for continuous values, such as likelihood='gaussian'"
            )
        if self.n_iter < FEW_ITERATIONS:
            limit = "max_iter" if config.max_time is None else "max_time"
            remedies.append(f"train longer, {limit} is {getattr(config, limit):g}")
        if config.kl_warmup < SHORT_WARM_UP:
            remedies.append(f"raise kl_warmup to 0.3 or more, it is {config.kl_warmup:g}")
        if self.n_features > self.n_rows:
            remedies.append(f"lower n_components, which is {self.n_features} with {self.n_rows} rows")
        return "; ".join(remedies) or "train longer, raise kl_warmup, or set rate below 1"


def no_gain(bound: float, uninformed: float) -> str | None:
    """Return a message if codes raise the bound by next to nothing."""
    if not math.isfinite(uninformed) or bound - uninformed >= MIN_GAIN:
        return None
    return (
        f"the codes carry next to nothing: with them the bound is {bound:.4g} nats, and that of a model that is the "
        f"same for all rows is {uninformed:.4g}"
    )


def same_codes(codes: sp.csr_matrix, rows: Rows | RowFiles) -> str | None:
    """Return a message if nearly all rows have the same code although they are not the same."""
    places = _places(rows)
    of_rows = cast(np.ndarray, codes[places].toarray())
    share, code = _most_common(of_rows)
    if share < MAX_SHARE or len(of_rows) < 2:
        return None
    if _most_common(dense(cast(Rows, rows[: len(places)] if isinstance(rows, RowFiles) else rows[places])))[0] > (
        MAX_SHARE_OF_ROWS
    ):
        return None
    which = "an empty code" if not code.any() else "the same code"
    return f"{share:.0%} of the rows have {which}, although the rows differ ({of_rows.sum(axis=1).mean():.2f} active)"


def effective_budget(max_active: int, n_components: int) -> str:
    """Return a message for a budget that no code can use."""
    return (
        f"max_active={max_active} is above n_components={n_components}, and codes are sets of features: no code can "
        f"have more than {n_components} of them, which is the budget in effect; lower max_active, or raise n_components"
    )


def is_independent(values: np.ndarray) -> bool:
    """Return whether the columns depend on each other by no more than chance.

    Ranks of the values, and of their distances from the median, are compared with those of columns that are permuted
    independently of each other: no tail, however heavy, and no rare value looks like a dependence. What is compared is
    the largest eigenvalue of their correlation matrix.
    """
    n_rows, n_columns = values.shape
    if n_columns < 2 or n_rows < 3:
        return False
    ranks = np.stack([_ranks(values), _ranks(np.abs(values - np.median(values, axis=0)))], axis=-1)
    rng, found = np.random.default_rng(0), _largest_eigenvalue(ranks)
    return any(_largest_eigenvalue(_permuted(ranks, rng)) >= found for _ in range(PERMUTATIONS))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the ranks of the values in each column, equal ones for equal values, standardised."""
    ranks = rankdata(values, axis=0)
    ranks -= ranks.mean(axis=0)
    norms = np.sqrt((ranks**2).sum(axis=0))
    return ranks / np.where(norms > 0, norms, 1.0)


def _permuted(ranks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Permute the rows of each column; both ranks of a value stay together."""
    order = rng.permuted(np.broadcast_to(np.arange(len(ranks))[:, None], ranks.shape[:2]), axis=0)
    return np.take_along_axis(ranks, order[:, :, None], axis=0)


def _largest_eigenvalue(ranks: np.ndarray) -> float:
    of_rows = ranks.reshape(len(ranks), -1)
    gram = of_rows @ of_rows.T if len(of_rows) < of_rows.shape[1] else of_rows.T @ of_rows
    last = len(gram) - 1
    return float(eigh(gram, eigvals_only=True, subset_by_index=(last, last))[0])


def _places(rows: Any) -> np.ndarray:
    """Return the places of rows spread over the data, or the first ones of files."""
    n_rows = min(MOST_ROWS, rows.shape[0])
    if isinstance(rows, RowFiles):
        return np.arange(n_rows)
    return np.unique(np.linspace(0, rows.shape[0] - 1, n_rows).astype(np.intp))


def _some(rows: Rows) -> np.ndarray:
    """Return some rows and columns in double precision, with columns' means where values are missing."""
    values = dense(cast(Rows, rows[_places(rows)])).astype(np.float64)
    missing = np.isnan(values)
    if missing.any():
        n_known = np.maximum((~missing).sum(axis=0), 1)
        values = np.where(missing, np.nansum(values, axis=0) / n_known, values)
    n_columns = values.shape[1]
    if n_columns <= MOST_COLUMNS:
        return values
    return values[:, np.unique(np.linspace(0, n_columns - 1, MOST_COLUMNS).astype(np.intp))]


def _most_common(values: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of the most common row, and the row."""
    found, numbers = np.unique(values, axis=0, return_counts=True)
    return float(numbers.max() / len(values)), found[numbers.argmax()]
