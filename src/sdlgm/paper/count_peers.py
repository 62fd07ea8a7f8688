"""What else a user would try to count with: forests, and networks that regress the counts.

The networks have the encoders, the training and the settings of `SDLGMCounter`; only what they are trained for differs.
All have ``fit(X, counts)`` and ``predict_mean(X)``.
"""

from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from torch import Tensor

from sdlgm import SDLGMCounter
from sdlgm.model.counting import CountConfig, CountModule, FlatEncoder
from sdlgm.model.elbo import Objective
from sdlgm.model.slots import KL
from sdlgm.model.supervised import Step, Watched

N_TREES = 100


class _MeanModule(CountModule):
    """A network for the expected counts, trained with some loss of its own; nothing is known about slots."""

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        raise NotImplementedError

    def loss(self, mean: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
        return (mean - y).square().sum(-1)

    def objective(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], known: Float[Tensor, " batch"], step: Step
    ) -> Objective:
        value = -self.loss(self.mean(self.moved(x, step.generator), step.generator), y)
        return Objective(value, torch.zeros_like(value), value)

    def watched(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], kl: KL, generator: torch.Generator
    ) -> Watched:
        mean = self.mean(x)
        value = -self.loss(mean, y)
        return Watched(value, value, torch.zeros_like(value), mean.sum(-1))


class RegressionModule(_MeanModule):
    """Expected counts straight from the last layer, by least squares."""

    def __init__(self, config: CountConfig):
        super().__init__(config)
        assert isinstance(self.posterior, FlatEncoder)

    @torch.no_grad()
    def adapt_to(self, mean_counts: Float[Tensor, " K"]) -> None:
        self.posterior.out.bias[1:].copy_(self.link(mean_counts))

    def link(self, mean_counts: Tensor) -> Tensor:
        """What the last layer has to give for these expected counts."""
        return mean_counts

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return self.posterior.logits(x, generator)[:, 1:]


class PoissonModule(RegressionModule):
    """Poisson regression: the last layer gives the logarithms of the expected counts."""

    def link(self, mean_counts: Tensor) -> Tensor:
        return mean_counts.clamp(min=1e-3).log()

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return super().mean(x, generator).clamp(max=5).exp()

    def loss(self, mean: Float[Tensor, "batch K"], y: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
        return (mean - torch.xlogy(y, mean)).sum(-1)


class VotesModule(_MeanModule):
    """The patches' votes of the SDLGM, by least squares: what the likelihood adds to them is the difference."""

    def mean(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> Float[Tensor, "batch K"]:
        return self.config.n_slots * self.posterior(x, generator).probs[:, 1:]


class NetworkRegression:
    """A network with the encoder and the training of an `SDLGMCounter`, and with a loss of its own."""

    def __init__(self, module: type[_MeanModule], counter: SDLGMCounter):
        self.counter = counter
        counter._module_class = module

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.counter.fit(X, counts)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        counter = self.counter
        rows = counter._validated(X.reshape(len(X), -1), reset=False)
        with torch.inference_mode():
            return torch.cat([counter.module_.mean(x) for x in counter._batches(rows)]).double().numpy()


class MeanCounter:
    """Expects of every picture what the training pictures have on average: no system should be worse."""

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.mean_ = counts.mean(axis=0)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return np.tile(self.mean_, (len(X), 1))


class ForestCounter:
    """A forest of scikit-learn on all pixels, for all counts together."""

    def __init__(self, *, extra: bool, max_features: Any, random_state: int):
        kind = ExtraTreesRegressor if extra else RandomForestRegressor
        self.forest: Any = kind(N_TREES, max_features=max_features, random_state=random_state)

    def fit(self, X: np.ndarray, counts: np.ndarray) -> Self:
        self.forest.fit(X.reshape(len(X), -1), counts)
        return self

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return self.forest.predict(X.reshape(len(X), -1))
