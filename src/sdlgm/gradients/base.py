"""What a gradient estimator is, and the registry of them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

LogLikelihood = Callable[[Float[Tensor, "S batch K"]], Float[Tensor, "S batch"]]

Kind = Literal["slots", "variables", "binary", "chain"]
"""What a code is drawn from: L0 draws of one symbol whose counts are all that is seen; single draws of independent
variables; the same with two symbols each; or binary variables that depend on those before them."""


@runtime_checkable
class Draws(Protocol):
    """What every estimator needs of a distribution over codes.

    Those that are not defined for chains also take ``log_probs`` and ``probs`` of shape (batch, *variables, symbols),
    and ``relaxed_parts`` and ``from_parts``: relaxed one-hot vectors of all that is drawn, and the code they make.
    """

    @property
    def n_draws(self) -> int:
        """How often each variable is drawn: L0 if all slots share their distribution, otherwise 1."""
        ...

    @property
    def summary(self) -> Float[Tensor, "batch logits"]:
        """All that the distribution depends on, as numbers for each observation."""
        ...

    def sample_symbols(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch ..."]: ...
    def counts(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch K"]:
        """The code that drawn symbols, or their means, make; differentiable."""
        ...

    def log_prob_of(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch"]:
        """Log-probability of drawn symbols, up to a constant."""
        ...

    def with_gradient(self, drawn: Float[Tensor, "S batch ..."], to_log_probs: Any) -> Float[Tensor, "S batch ..."]:
        """Drawn symbols with the gradient that ``to_log_probs`` makes of theirs."""
        ...


ANY: frozenset[Kind] = frozenset({"slots", "variables", "binary", "chain"})
INDEPENDENT: frozenset[Kind] = ANY - {"chain"}
SINGLE: frozenset[Kind] = INDEPENDENT - {"slots"}


class GradientEstimator(nn.Module, ABC):
    """One way to differentiate E_q log p(x given z) through the discrete z.

    A call returns a Monte Carlo estimate of that expectation for each observation, whose autograd gradient with
    respect to the posterior's parameters and the decoder's weights is the estimator. Estimators that learn something of
    their own, such as a baseline, keep it in their parameters and buffers; ``n_logits`` is how many numbers the
    ``summary`` of an observation has.
    """

    name: ClassVar[str]
    discrete: ClassVar[bool] = True
    """Whether the decoder sees hard counts, so that the training objective is the discrete bound itself."""
    unbiased: ClassVar[bool] = False
    """Whether the mean of the estimator is the exact gradient, whatever the likelihood."""
    defined_for: ClassVar[frozenset[Kind]]
    """What codes may be drawn from."""
    steepens: ClassVar[bool] = False
    """Whether the temperature is that of the posterior itself: all its logits are divided by it."""
    shareable: ClassVar[bool] = True
    """Whether several processes can each take a part of the batch: no noise but the draws, no averages over batches."""

    def __init__(self, n_logits: int):
        super().__init__()

    @property
    def encoder_divisor(self) -> float:
        """What the gradient of the encoder is to be divided by, KL and all, before the optimiser sees it."""
        return 1.0

    @abstractmethod
    def forward(
        self,
        posterior: Any,  # `Draws`, with more for those that are not defined for all
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


def with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """``value``, exactly, with the gradient of ``surrogate`` added to its own."""
    # The brackets matter: the difference is exactly zero, so hard counts stay exactly hard.
    return value + (surrogate - surrogate.detach())
