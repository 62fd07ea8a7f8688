"""Fitted models: everything that prediction, files and pickle need, and nothing of the training."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic

import numpy as np
import torch
from torch import Tensor

from sdlgm.errors import NumericalError
from sdlgm.estimators._columns import Supports
from sdlgm.estimators._decisions import Decision
from sdlgm.estimators._forest import Forest
from sdlgm.estimators._limits import MOST_VALUES
from sdlgm.estimators._preparation import Scaling, in_batches
from sdlgm.model.codes.base import KL
from sdlgm.model.modules import CountModule, MultiLabelModule, SDLGMModule
from sdlgm.model.networks.posteriors import PosteriorNetwork
from sdlgm.train import Record, to_tensor
from sdlgm.train.batches import Binarize, Rows
from sdlgm.train.trainer import Module

if TYPE_CHECKING:
    from sdlgm.codec import Codec

# Rows that are encoded, decoded or predicted at a time, if they have no more than MOST_VALUES numbers.
BATCH = 1000
# Numbers of the rows of a classifier that are computed at a time, with some copies in double precision.
_MOST_LABELLED_VALUES = 2**24


@dataclass(frozen=True)
class Fitted(Generic[Module]):
    """A trained module with the scaling of its data."""

    module: Module
    scaling: Scaling
    device: torch.device
    n_iter: int
    history: tuple[Record, ...]

    @property
    def row_values(self) -> int:
        """Length of the longest vector that is computed of a row."""
        return len(self.scaling.location)

    def rows_at_once(self, n_samples: int = 1, most: int = BATCH) -> int:
        """Return how many rows are computed at a time, with ``n_samples`` codes each: ``most``, if memory allows."""
        return max(1, min(most, MOST_VALUES // (n_samples * self.row_values)))

    def scaled_batches(self, rows: Rows) -> Iterator[Tensor]:
        """Iterate over scaled rows as tensors; raise for values far beyond the training data."""
        size = self.rows_at_once()
        for number, batch in enumerate(in_batches(rows, size)):
            yield to_tensor(self.scaling.apply_checked(batch, first_row=number * size), self.device)


@dataclass(frozen=True)
class FittedSDLGM(Fitted[SDLGMModule]):
    """A trained unsupervised model."""

    likelihood: str
    binarize: Binarize | None
    """How observations become binary, for the Bernoulli likelihood."""
    kl: KL
    rate: float
    n_samples: int
    gradient: str
    learn_temperature: bool
    refine: float = 0.0
    """Share of the fit that searched for codes; if above 0, `transform` does so too."""
    problem: str | None = None
    """Text of the warning of `fit`; None if there was none."""
    training_bound: float | None = None
    """Bound of rows that were trained on, in nats; None in files of earlier versions."""
    validation_bound: float | None = None
    """Bound of rows that were held out; None if there were none."""
    names: tuple[str, ...] | None = None
    """Names of the columns, if they have any."""

    @property
    def row_values(self) -> int:
        config = self.module.config
        of_code = code_values(type(self.module.posterior), config.n_features, config.n_slots)
        return max(config.widest_row, of_code)

    @cached_property
    def codec(self) -> "Codec":
        """Codes to bytes and back."""
        from sdlgm.codec import codec_of  # which imports numba

        return codec_of(self.module, {"location": self.scaling.location, "scale": self.scaling.scale})

    @cached_property
    def supports(self) -> Supports:
        """Columns that cannot have all values."""
        return Supports.of(self.module.config.layout)

    @property
    def likelihoods(self) -> tuple[str, ...]:
        """The likelihood of each column."""
        layout = self.module.config.layout
        return (self.likelihood,) * self.module.config.n_inputs if layout is None else layout.likelihoods


@dataclass(frozen=True)
class FittedClassifier(Fitted[MultiLabelModule]):
    """A trained classifier."""

    classes: np.ndarray
    single_label: bool
    threshold: float | np.ndarray
    decision: Decision
    forest: Forest | None

    def rows_at_once(self, n_samples: int = 1, most: int = BATCH) -> int:
        """Return how many rows are computed at a time. Of many columns or labels there are several copies."""
        return max(1, min(most, _MOST_LABELLED_VALUES // (n_samples * self.row_values)))

    @property
    def row_values(self) -> int:
        config = self.module.config
        of_labels = config.n_labels * (config.n_slots if config.form == "monte_carlo" else 1)
        return config.n_members * max(config.n_inputs, config.n_slots + 1, of_labels, *config.hidden)


@dataclass(frozen=True)
class FittedCounter(Fitted[CountModule]):
    """A trained counter."""

    classes: np.ndarray
    single_class: bool
    shape: tuple[int, ...]
    """Shape of a row: (values,), or (height, width, channels)."""
    settings: dict[str, object]
    """Parameters of the estimator that the module depends on, as they were when it was fitted."""


def code_values(family: type[PosteriorNetwork], n_features: int, n_slots: int) -> int:
    """Return how many numbers describe a drawn code: one for each feature, or for each feature at each position."""
    return n_features if family.kind != "variables" else (n_slots + 1) * max(n_slots + 1, n_features)


def check_finite(what: str, *values: Tensor | np.ndarray | float) -> None:
    """Raise if numbers that a model has computed are not finite.

    Every answer of an estimator goes through this: finite weights can be so large that their products are not finite.
    """
    for part in values:
        if isinstance(part, Tensor) and math.isfinite(part.sum()):  # fast, and no entry can be infinite then
            continue
        finite = torch.isfinite(part) if isinstance(part, Tensor) else np.isfinite(part)
        if not bool(finite.all()):
            raise NumericalError(
                f"{what} cannot be computed: the weights of the model, or the values of X, are so large that a number "
                "is not finite; restore the model from a copy, fit it again, or rescale X"
            )
