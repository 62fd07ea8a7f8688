"""The families of q(z given x), by name, and the small interface that they share.

To add a family: a distribution with the methods of `Posterior` and, for each gradient that it is to be trained with,
what that estimator asks of it (`sdlgm.gradients.base.Slots`); a network with `centre_on` and `compile_networks` that
makes one from a batch of observations; and a line in `POSTERIORS`.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdlgm.model.networks import Encoder
from sdlgm.model.slots import KL, PriorTerms, SlotDistribution, Temperatures


@runtime_checkable
class Posterior(Protocol):
    """What the bound, the estimators and the codes need of q(z given x) for a batch of observations."""

    @property
    def gate_prob(self) -> Float[Tensor, " batch"]: ...
    @property
    def feature_probs(self) -> Float[Tensor, "batch K"]: ...
    @property
    def presence(self) -> Float[Tensor, "batch K"]: ...
    def sample(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch K"]: ...
    def relaxed_sample(
        self, n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> Float[Tensor, "S batch K"]: ...
    def mode(self) -> Int[Tensor, "batch K"]: ...
    def log_prob(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]: ...
    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]: ...
    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms: ...


class SharedPosterior(nn.Module):
    """The paper's family: all slots of an observation share one gate probability and one feature distribution."""

    def __init__(
        self,
        n_inputs: int,
        n_features: int,
        n_slots: int,
        *,
        hidden: Sequence[int],
        gate_hidden: Sequence[int],
        activation: str,
        share_layers: bool,
        normalize_logits: bool,
    ):
        super().__init__()
        self.n_slots = n_slots
        self.encoder = Encoder(
            n_inputs,
            n_features,
            hidden=hidden,
            gate_hidden=gate_hidden,
            activation=activation,
            share_layers=share_layers,
            normalize_logits=normalize_logits,
        )

    def centre_on(self, data_mean: Float[Tensor, " D"]) -> None:
        """Let the networks see differences from the data's mean."""
        self.encoder.location.copy_(data_mean)

    def compile_networks(self) -> None:
        self.encoder.compile()

    def forward(self, x: Float[Tensor, "batch D"]) -> SlotDistribution:
        gate_logit, feature_logits = self.encoder(x)
        return SlotDistribution(gate_logit, feature_logits, self.n_slots)


POSTERIORS = {"shared": SharedPosterior}
