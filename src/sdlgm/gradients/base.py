"""The registry of gradient estimators, and helpers that they share."""

from typing import TypeVar

from torch import Tensor

from sdlgm.model.codes.base import CodeDistribution
from sdlgm.model.codes.independent import IndependentSymbols
from sdlgm.model.gradient import Draw, GradientEstimator, Kind

__all__ = ["ANY", "GRADIENTS", "INDEPENDENT", "SINGLE", "Draw", "GradientEstimator", "Kind", "register"]

ANY: frozenset[Kind] = frozenset({"slots", "variables", "binary", "chain"})
INDEPENDENT: frozenset[Kind] = ANY - {"chain"}
SINGLE: frozenset[Kind] = INDEPENDENT - {"slots"}

GRADIENTS: dict[str, type[GradientEstimator]] = {}

_Estimator = TypeVar("_Estimator", bound=type[GradientEstimator])


def register(estimator: _Estimator) -> _Estimator:
    """Make an estimator known by its ``name``, as ``SDLGM(gradient=name)``."""
    GRADIENTS[estimator.name] = estimator
    return estimator


def with_gradient_of(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return ``value``, exactly, with the gradient of ``surrogate`` added to its own."""
    # The brackets matter: the difference is exactly zero, so hard counts stay exactly hard.
    return value + (surrogate - surrogate.detach())


def independent(posterior: CodeDistribution) -> IndependentSymbols:
    """Return the posterior as one of independent symbols, which ``defined_for`` guarantees."""
    assert isinstance(posterior, IndependentSymbols), f"{type(posterior).__name__} has no independent symbols"
    return posterior


def drawn_symbols(draw: Draw) -> Tensor:
    """Return the symbols of a draw, which score function estimators always keep."""
    assert draw.symbols is not None
    return draw.symbols
