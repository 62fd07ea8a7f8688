"""What training with targets asks of a module."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.elbo import Objective
from sdlgm.model.slots import KL, Temperatures

TargetExpectation = Callable[[Any, Callable[[Tensor], Tensor]], Tensor]
"""E_q f(z), by a gradient estimator, for a posterior over targets or over further features."""


@dataclass(frozen=True)
class Step:
    """What a step of training is made with."""

    expectation: TargetExpectation
    kl: KL
    kl_weight: float
    n_samples: int
    generator: torch.Generator


@dataclass(frozen=True)
class Watched:
    """What is noted of a run, for each row."""

    discrete: Float[Tensor, " rows"]
    """Log-probability of the targets, exactly."""
    relaxed: Float[Tensor, " rows"]
    """The same with relaxed draws where a model is trained with them; not a probability of anything discrete."""
    kl: Float[Tensor, " rows"]
    n_active: Float[Tensor, " rows"]
    """Expected number of targets."""


class SupervisedModule(nn.Module):
    """A module that is trained with rows and their targets; ``posterior`` is its encoder."""

    config: Any
    posterior: Any

    @property
    def temperatures(self) -> Temperatures:
        """Of relaxed draws; one if nothing is relaxed."""
        one = torch.ones(())
        return Temperatures(one, one)

    def objective(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], known: Float[Tensor, " batch"], step: Step
    ) -> Objective:
        """What training maximises; ``known`` is 1 for rows whose targets are, otherwise 0."""
        raise NotImplementedError

    def watched(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], kl: KL, generator: torch.Generator
    ) -> Watched:
        """What is noted of rows whose targets are known."""
        raise NotImplementedError
