"""What a gradient estimator is, and the registry of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

LogLikelihood = Callable[[Float[Tensor, "S batch K"]], Float[Tensor, "S batch"]]


@runtime_checkable
class Slots(Protocol):
    """What the estimators need of a distribution over the counts of L0 slots."""

    @property
    def n_slots(self) -> int: ...
    @property
    def log_probs(self) -> Float[Tensor, "batch symbols"]: ...
    @property
    def probs(self) -> Float[Tensor, "batch symbols"]: ...
    def sample_symbols(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch symbols"]: ...
    def relaxed_sample(
        self, n_samples: int, temperatures: Any, generator: torch.Generator
    ) -> Float[Tensor, "S batch K"]: ...
    def relaxed_slots(
        self, n_samples: int, temperatures: Any, generator: torch.Generator
    ) -> tuple[Float[Tensor, "S batch L0"], Float[Tensor, "S batch L0 K"]]: ...


class GradientEstimator(ABC):
    """One way to differentiate E_q log p(x given z) through the discrete z.

    A call returns a Monte Carlo estimate of that expectation for each observation, whose autograd gradient with
    respect to the posterior's parameters and the decoder's weights is the estimator.
    """

    name: ClassVar[str]
    discrete: ClassVar[bool]
    """Whether the decoder sees hard counts, so that the training objective is the discrete bound itself."""

    @abstractmethod
    def __call__(
        self,
        posterior: Slots,
        log_likelihood: LogLikelihood,
        *,
        n_samples: int,
        temperatures: Any,
        generator: torch.Generator,
    ) -> Float[Tensor, " batch"]: ...


GRADIENTS: dict[str, type[GradientEstimator]] = {}

_Estimator = TypeVar("_Estimator", bound=type[GradientEstimator])


def register(estimator: _Estimator) -> _Estimator:
    """Make an estimator known by its ``name``."""
    GRADIENTS[estimator.name] = estimator
    return estimator
