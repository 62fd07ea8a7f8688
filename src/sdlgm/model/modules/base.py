"""The contract of a module that can be trained."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes.base import KL, Temperatures
from sdlgm.model.gradient import GradientEstimator
from sdlgm.model.noise import Noise
from sdlgm.model.shards import Shard


@dataclass(frozen=True)
class Batch:
    """Observations and, for models with targets, their labels or counts."""

    x: Float[Tensor, "batch D"]
    y: Float[Tensor, "batch K"] | None = None
    known: Float[Tensor, " batch"] | None = None
    """1 for rows whose targets are known, otherwise 0."""
    weight: Float[Tensor, " batch"] | None = None
    """Weights of the rows in the loss, 1 on average over the data; None for equal ones."""

    def part(self, shard: Shard) -> "Batch":
        """Return the rows of one of several processes."""
        if shard.size == 1:
            return self
        optional = (self.y, self.known, self.weight)
        y, known, weight = (None if values is None else shard.part(values) for values in optional)
        return Batch(shard.part(self.x), y, known, weight)

    @property
    def targets(self) -> tuple[Float[Tensor, "batch K"], Float[Tensor, " batch"]]:
        """Targets and which of them are known."""
        assert self.y is not None
        assert self.known is not None
        return self.y, self.known


@dataclass(frozen=True)
class Step:
    """The arguments of one training step, except the batch."""

    gradient: GradientEstimator
    kl: KL
    kl_weight: float
    n_samples: int
    noise: Noise
    n_search_steps: int = 0
    """Steps of the local search that improves the codes of the posterior; 0 for draws."""


@dataclass(frozen=True)
class Objective:
    """The function that training maximises, for each observation of a batch, and its two parts."""

    value: Float[Tensor, " batch"]
    """log_likelihood - kl_weight * kl, with the gradient of an estimator."""
    kl: Float[Tensor, " batch"]
    log_likelihood: Float[Tensor, " batch"]
    penalty: Float[Tensor, ""] | None = None
    """Added to the mean loss, and not a part of the bound that is reported."""


@dataclass(frozen=True)
class Watched:
    """Sums over the rows of a batch, for the training curves."""

    n_rows: int
    discrete: float
    """Bound on log p(x), or log-probability of the targets, from hard codes."""
    relaxed: float
    """The same from relaxed draws, over ``n_relaxed`` rows. Not a bound."""
    n_relaxed: int
    kl: float
    n_active: float
    """Expected number of active slots."""
    usage: Float[Tensor, " K"] | None = None
    """Number of drawn codes that contain each feature."""
    row_divergence: float | None = None
    """KL between the posterior of each row and that of the next; 0 if codes carry no information about the rows."""


class TrainableModule(nn.Module, ABC):
    """A module that `sdlgm.train` can fit: it has an encoder, called ``posterior``, a ``prior`` and a loss.

    Only ``config`` and the ``state_dict`` change what a module computes.
    """

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Return the config by the names of its fields."""

    def encoder_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters of the encoder."""
        return self.get_submodule("posterior").parameters()

    def prior_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the parameters of the prior, which are frozen during the KL warm-up."""
        return self.get_submodule("prior").parameters()

    def weight_penalty(self, n_rows: int) -> Tensor | None:
        """Return the penalty of the weights, a part of the mean loss of ``n_rows`` rows; None if there is none."""
        return None

    @property
    @abstractmethod
    def n_logits(self) -> int:
        """Input size of a learned baseline; see `GradientEstimator`."""

    @abstractmethod
    def loss(self, batch: Batch, step: Step) -> Objective:
        """Return the objective of a batch: infer, draw, decode, cost, surrogate."""

    @abstractmethod
    def watch(self, batch: Batch, *, kl: KL, noise: Noise, n_relaxed: int) -> Watched:
        """Evaluate rows for the training curves, the relaxed criterion on the first ``n_relaxed`` of them."""

    @property
    def temperatures(self) -> Temperatures:
        """Temperatures of relaxed draws; 1 if nothing is relaxed."""
        one = torch.ones(())
        return Temperatures(one, one)

    def temperature_parameters(self) -> Iterator[nn.Parameter]:
        """Iterate over the logarithms of the temperatures."""
        yield from ()

    def schedule_temperatures(self, schedule: Callable[[float], float]) -> None:
        """Set each temperature to ``schedule`` of its initial value."""


class TemperedModule(TrainableModule):
    """A module with two temperatures, stored as logarithms so that they stay positive."""

    def _add_temperatures(self, gate: float, feature: float) -> None:
        self._initial_temperatures = gate, feature
        self.log_gate_temperature = nn.Parameter(torch.tensor(_log(gate)))
        self.log_feature_temperature = nn.Parameter(torch.tensor(_log(feature)))

    @property
    def temperatures(self) -> Temperatures:
        return Temperatures(self.log_gate_temperature.exp(), self.log_feature_temperature.exp())

    def temperature_parameters(self) -> Iterator[nn.Parameter]:
        yield from (self.log_gate_temperature, self.log_feature_temperature)

    @torch.no_grad()
    def schedule_temperatures(self, schedule: Callable[[float], float]) -> None:
        for parameter, initial in zip(self.temperature_parameters(), self._initial_temperatures, strict=True):
            parameter.fill_(math.log(schedule(initial)))


def _log(temperature: float) -> float:
    """Return a logarithm in single precision, computed on the CPU: on the meta device torch imports its compiler."""
    return torch.tensor(temperature, device="cpu").log().item()
