"""Fitted models: everything that prediction, files and pickle need, and nothing of the training."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic

import numpy as np
import torch
from torch import Tensor

from sdlgm.estimators._forest import Forest
from sdlgm.estimators._preparation import Scaling, in_batches
from sdlgm.model.codes.base import KL
from sdlgm.model.modules import CountModule, MultiLabelModule, SDLGMModule
from sdlgm.train import Record, to_tensor
from sdlgm.train.batches import Binarize, Rows
from sdlgm.train.trainer import Module

# Rows that are encoded, decoded or predicted at a time.
BATCH = 1000


@dataclass(frozen=True)
class Fitted(Generic[Module]):
    """A trained module with the scaling of its data."""

    module: Module
    scaling: Scaling
    device: torch.device
    n_iter: int
    history: tuple[Record, ...]

    def scaled_batches(self, rows: Rows) -> Iterator[Tensor]:
        """Iterate over scaled rows as tensors; raise for values far beyond the training data."""
        for number, batch in enumerate(in_batches(rows, BATCH)):
            yield to_tensor(self.scaling.apply_checked(batch, first_row=number * BATCH), self.device)


@dataclass(frozen=True)
class FittedSDLGM(Fitted[SDLGMModule]):
    """A trained unsupervised model."""

    likelihood: str
    binarize: Binarize | None
    """How observations become binary, for the Bernoulli likelihood."""
    kl: KL
    n_samples: int
    gradient: str
    learn_temperature: bool


@dataclass(frozen=True)
class FittedClassifier(Fitted[MultiLabelModule]):
    """A trained classifier."""

    classes: np.ndarray
    single_label: bool
    threshold: float | np.ndarray
    forest: Forest | None


@dataclass(frozen=True)
class FittedCounter(Fitted[CountModule]):
    """A trained counter."""

    classes: np.ndarray
    single_class: bool
    shape: tuple[int, ...]
    """Shape of a row: (values,), or (height, width, channels)."""
    settings: dict[str, object]
    """Parameters of the estimator that the module depends on, as they were when it was fitted."""
