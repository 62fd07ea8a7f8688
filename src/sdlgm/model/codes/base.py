"""The contract of a distribution over codes.

The letters in the shapes are the paper's: ``L0`` slots, ``K`` features, ``S`` samples. ``symbols`` is what a
distribution draws; its shape differs from family to family, and `CodeDistribution.counts` turns it into a code.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import ClassVar, Generic, Literal, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdlgm.model.noise import Noise

KL = Literal["exact", "paper"]


@runtime_checkable
class GradientRule(Protocol):
    """The way in which a gradient estimator differentiates hard draws."""

    def to_log_probs(self, gradient: Tensor, drawn: Tensor, probs: Tensor, n_draws: int, /) -> Tensor:
        """Return the gradient of the log-probabilities, given that of the drawn symbols."""
        ...

    def binary_slopes(self, drawn: Tensor, probs: Tensor, /) -> Tensor:
        """Return the derivative of drawn binary variables with respect to their log-odds."""
        ...


@dataclass(frozen=True)
class Temperatures:
    """Temperatures of the two relaxations: tau of the gates and tau_z of the features, both positive."""

    gate: Float[Tensor, ""]
    feature: Float[Tensor, ""]


@dataclass(frozen=True)
class PriorTerms:
    """The first four terms of the paper's ``equ:loglikelihood``, in nats for each observation."""

    log_prior_gates: Float[Tensor, "*batch"]  # E_q log p(omega | lambda_0)
    log_prior_features: Float[Tensor, "*batch"]  # E_q log p(z | alpha)
    entropy_gates: Float[Tensor, "*batch"]  # -E_q log q(omega)
    entropy_features: Float[Tensor, "*batch"]  # -E_q log q(z)

    @property
    def kl_gates(self) -> Float[Tensor, "*batch"]:
        return -(self.log_prior_gates + self.entropy_gates)

    @property
    def kl_features(self) -> Float[Tensor, "*batch"]:
        return -(self.log_prior_features + self.entropy_features)

    @property
    def kl(self) -> Float[Tensor, "*batch"]:
        """KL(q, p): the nats that a code carries at most."""
        return self.kl_gates + self.kl_features


Prior = TypeVar("Prior", bound="CodeDistribution")


class CodeDistribution(ABC, Generic[Prior]):
    """A distribution over codes for each observation of a batch: q(z given x), or without a batch p(z).

    Implementations are frozen dataclasses whose tensor fields are logits. ``Prior`` is the family of priors that the
    divergence is defined for.
    """

    n_slots: int
    """L0, the hard budget: no sample and no mode has more active slots."""
    has_closed_kl: ClassVar[bool] = True
    """Whether `kl` is exact. If not, it is an estimate, and `cost` gives the cost of drawn codes."""

    # Draws

    @property
    def n_draws(self) -> int:
        """How often each variable is drawn: L0 if all slots share their distribution, otherwise 1."""
        return 1

    @abstractmethod
    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch ..."]:
        """Draw symbols."""

    @abstractmethod
    def counts(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch K"]:
        """Return the code that drawn symbols, or their means, make; differentiable."""

    def sample(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch K"]:
        """Draw codes."""
        return self.counts(self.sample_symbols(n_samples, noise))

    @abstractmethod
    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        """Draw relaxed codes."""

    @abstractmethod
    def mode(self) -> Int[Tensor, "batch K"]:
        """Return a code of high probability, the most probable one where it can be found; on the CPU."""

    # Gradients

    @property
    @abstractmethod
    def summary(self) -> Float[Tensor, "batch logits"]:
        """All numbers that the distribution of an observation depends on."""

    @abstractmethod
    def log_prob_of(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch"]:
        """Return the log-probability of drawn symbols, up to a constant."""

    @abstractmethod
    def with_gradient(self, drawn: Float[Tensor, "S batch ..."], rule: GradientRule) -> Float[Tensor, "S batch ..."]:
        """Return drawn symbols with the gradient that ``rule`` makes of theirs."""

    def with_temperature(self, temperature: Float[Tensor, ""]) -> "CodeDistribution[Prior]":
        """Return the distribution with all its logits divided by a temperature."""
        assert is_dataclass(self)
        logits = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: x / temperature for name, x in logits.items() if isinstance(x, Tensor)})

    # Probabilities

    @property
    @abstractmethod
    def gate_prob(self) -> Float[Tensor, "*batch"]:
        """Expected share of the slots that are on."""

    @property
    @abstractmethod
    def feature_probs(self) -> Float[Tensor, "*batch K"]:
        """Distribution of the features over the slots that are on."""

    @cached_property
    def presence(self) -> Float[Tensor, "*batch K"]:
        """Probability that a feature is present in a code."""
        raise NotImplementedError(f"{type(self).__name__} has to define presence")

    # Divergence from a prior

    @abstractmethod
    def log_ratio(self, symbols: Float[Tensor, "S batch ..."], prior: Prior) -> Float[Tensor, "S batch"]:
        """Return log p(z) - log q(z) of drawn symbols."""

    @abstractmethod
    def prior_terms(self, prior: Prior, kl: KL) -> PriorTerms:
        """Return the terms of the divergence from ``prior``."""

    @abstractmethod
    def kl(self, prior: Prior, kl: KL) -> Float[Tensor, "*batch"]:
        """Return the divergence from ``prior``, in nats."""

    def cost(self, counts: Float[Tensor, "S batch K"], prior: Prior) -> Float[Tensor, "S batch"]:
        """Return the cost of drawn codes under ``prior``, in nats; its mean over draws is the KL.

        Differentiable in the counts too. Only where the KL has no closed form.
        """
        raise NotImplementedError


class PresenceCodes(CodeDistribution[Prior]):
    """Codes in which a feature is present or not: gates and features follow from the presence."""

    @property
    def gate_prob(self) -> Float[Tensor, "*batch"]:
        return self.presence.sum(-1) / self.n_slots

    @property
    def feature_probs(self) -> Float[Tensor, "*batch K"]:
        presence = self.presence.clamp(min=torch.finfo(self.presence.dtype).tiny)
        return presence / presence.sum(-1, keepdim=True)
