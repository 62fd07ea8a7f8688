"""Peers for counting: forests, and networks that regress the counts.

The networks have the encoders, the training and the settings of `SDLGMCounter`, with another loss. All peers have
``fit(X, counts)`` and ``predict_mean(X)``.
"""

from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from torch import Tensor

from reproduction.internals import (
    KL,
    Batch,
    CountModule,
    FlatEncoder,
    Noise,
    Objective,
    Step,
    Watched,
    spaced_rows,
)
from sdlgm import SDLGMCounter

N_TREES = 100


class _MeanModule(CountModule):
    """A network that predicts expected counts, without slots. Subclasses define `mean` and may define `error`."""

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        """Return the expected counts."""
        raise NotImplementedError

    def error(self, mean: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
        """Return the squared error of each observation."""
        return (mean - y).square().sum(-1)

    def loss(self, batch: Batch, step: Step) -> Objective:
        y, _ = batch.targets
        generator = step.noise.generator
        value = -self.error(self.mean(self.augment(spaced_rows(batch.x), generator), generator), y)
        return Objective(value, torch.zeros_like(value), value)

    def watch(self, batch: Batch, *, kl: KL, noise: Noise, n_relaxed: int) -> Watched:
        y, _ = batch.targets
        mean = self.mean(spaced_rows(batch.x))
        n, value = len(y), -float(self.error(mean, y).mean())
        return Watched(
            n_rows=n,
            discrete=n * value,
            relaxed=n * value,
            n_relaxed=n,
            kl=0.0,
            n_active=n * float(mean.sum(-1).mean()),
        )


class RegressionModule(_MeanModule):
    """Least squares: the last layer gives the expected counts."""

    @property
    def encoder(self) -> FlatEncoder:
        """The encoder, which has a layer for the counts."""
        assert isinstance(self.posterior, FlatEncoder)
        return self.posterior

    @torch.no_grad()
    def adapt_to(self, mean_counts: Float[Tensor, " K"]) -> None:
        self.encoder.out.bias[1:].copy_(self.link(mean_counts))

    def link(self, mean_counts: Tensor) -> Tensor:
        """Return the output of the last layer for given expected counts."""
        return mean_counts

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return self.encoder.logits(x, generator)[:, 1:]


class PoissonModule(RegressionModule):
    """Poisson regression: the last layer gives the logarithm of the expected counts."""

    def link(self, mean_counts: Tensor) -> Tensor:
        return mean_counts.clamp(min=1e-3).log()

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return super().mean(x, generator).clamp(max=5).exp()

    def error(self, mean: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
        return (mean - torch.xlogy(y, mean)).sum(-1)


class VotesModule(_MeanModule):
    """The patch encoder of `SDLGMCounter`, trained by least squares instead of by its likelihood."""

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return self.config.n_slots * self.posterior(x, generator).probs[:, 1:]


class NetworkRegression:
    """A network with the encoder and the training of an `SDLGMCounter`, and the loss of ``module``."""

    def __init__(self, module: type[_MeanModule], counter: SDLGMCounter):
        self.counter = counter
        counter._module_class = module

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.counter.fit(X, counts)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        counter = self.counter
        rows = counter._validate_rows(X.reshape(len(X), -1), reset=False)
        module = counter.module_
        assert isinstance(module, _MeanModule)
        with torch.inference_mode():
            return torch.cat([module.mean(x) for x in counter._fitted.scaled_batches(rows)]).double().numpy()


class MeanCounter:
    """Predict the mean counts of the training pictures for every picture."""

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.mean_ = counts.mean(axis=0)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.mean_, (len(X), 1))


class ForestCounter:
    """A forest of scikit-learn on all pixels, for all counts at once."""

    def __init__(self, *, extra: bool, max_features: Any, random_state: int):
        kind = ExtraTreesRegressor if extra else RandomForestRegressor
        self.forest: Any = kind(N_TREES, max_features=max_features, random_state=random_state)

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.forest.fit(X.reshape(len(X), -1), counts)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return self.forest.predict(X.reshape(len(X), -1))
