"""The families of q(z given x), by name, and the small interface that they share.

To add a family: a distribution with the methods of `Posterior` and, for each gradient that it is to be trained with,
what that estimator asks of it (`sdlgm.gradients.base`); a `PosteriorNetwork` that makes one from a batch of
observations; and a line in `POSTERIORS`.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdlgm.model.chain import ChainDistribution
from sdlgm.model.networks import Encoder, LogitEncoder, OrderedEncoder
from sdlgm.model.ordered import OrderedDistribution
from sdlgm.model.prior import SlotPrior, log_odds
from sdlgm.model.shards import current, own_part
from sdlgm.model.slots import KL, PriorTerms, SlotDistribution, Temperatures, log_binomial
from sdlgm.model.subset import SubsetCodes

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
"""Its multiples spread evenly between whole numbers."""


@runtime_checkable
class Posterior(Protocol):
    """What the bound, the estimators and the codes need of q(z given x) for a batch of observations."""

    has_closed_kl: ClassVar[bool]
    """Whether `kl` is exact. If not, it is estimated, and `cost` gives its value for drawn codes."""

    @property
    def gate_prob(self) -> Float[Tensor, " batch"]: ...
    @property
    def feature_probs(self) -> Float[Tensor, "batch K"]: ...
    @property
    def presence(self) -> Float[Tensor, "batch K"]: ...
    def sample(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch K"]: ...
    def sample_symbols(self, n_samples: int, generator: torch.Generator) -> Float[Tensor, "S batch ..."]: ...
    def counts(self, symbols: Float[Tensor, "S batch ..."]) -> Float[Tensor, "S batch K"]: ...
    def relaxed_sample(
        self, n_samples: int, temperatures: Temperatures, generator: torch.Generator
    ) -> Float[Tensor, "S batch K"]: ...
    def mode(self) -> Int[Tensor, "batch K"]: ...
    def log_ratio(self, symbols: Float[Tensor, "S batch ..."], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        """Log p(z) - log q(z given x) of drawn symbols."""
        ...

    def kl(self, prior: SlotDistribution, kl: KL) -> Float[Tensor, " batch"]: ...
    def prior_terms(self, prior: SlotDistribution, kl: KL) -> PriorTerms: ...


class SampledPosterior(Posterior, Protocol):
    """A posterior whose KL is no closed form."""

    def cost(self, counts: Float[Tensor, "S batch K"], prior: SlotDistribution) -> Float[Tensor, "S batch"]:
        """What drawn codes cost under the prior; the mean over draws is the KL. Differentiable in the counts, too."""
        ...


@dataclass(frozen=True)
class EncoderOptions:
    """What fixes an encoder beside the numbers of inputs, features and slots."""

    hidden: tuple[int, ...]
    gate_hidden: tuple[int, ...]
    activation: str
    share_layers: bool
    normalize_logits: bool
    gate_prior: float


class PosteriorNetwork(nn.Module):
    """Amortised inference: a network from observations to a `Posterior`."""

    kind: ClassVar[str]
    """What codes are drawn from, in the words of `sdlgm.gradients.base.Kind`."""
    draws_sets: ClassVar[bool] = False
    """Whether codes say which features are present, and not how often."""

    def __init__(self, encoder: Encoder | LogitEncoder | OrderedEncoder, n_slots: int, n_logits: int):
        super().__init__()
        self.encoder = encoder
        self.n_slots = n_slots
        self.n_logits = n_logits  # how many numbers the ``summary`` of a posterior has

    def centre_on(self, data_mean: Float[Tensor, " D"]) -> None:
        """Let the networks see differences from the data's mean."""
        self.encoder.location.copy_(data_mean)

    def compile_networks(self) -> None:
        self.encoder.compile()


class SharedPosterior(PosteriorNetwork):
    """The paper's family: all slots of an observation share one gate probability and one feature distribution."""

    kind = "slots"

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        encoder = Encoder(
            n_inputs,
            n_features,
            hidden=options.hidden,
            gate_hidden=options.gate_hidden,
            activation=options.activation,
            share_layers=options.share_layers,
            normalize_logits=options.normalize_logits,
        )
        super().__init__(encoder, n_slots, n_logits=n_features + 1)

    def forward(self, x: Float[Tensor, "batch D"]) -> SlotDistribution:
        gate_logit, feature_logits = self.encoder(x)
        return SlotDistribution(gate_logit, feature_logits, self.n_slots)


class SubsetPosterior(PosteriorNetwork):
    """Each feature is present or not, independently, up to the budget; see `sdlgm.model.subset`."""

    kind = "binary"
    draws_sets = True

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__(_subset_encoder(n_inputs, n_features, n_slots, options), n_slots, n_logits=2 * n_features)

    def forward(self, x: Float[Tensor, "batch D"]) -> SubsetCodes:
        return SubsetCodes(self.encoder(x), self.n_slots)


class ChainPosterior(PosteriorNetwork):
    """Each feature looks at those before it, through one matrix for all observations; see `sdlgm.model.chain`."""

    kind = "chain"
    draws_sets = True

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__(_subset_encoder(n_inputs, n_features, n_slots, options), n_slots, n_logits=n_features)
        self.coupling = nn.Parameter(torch.zeros(n_features, n_features))

    def forward(self, x: Float[Tensor, "batch D"]) -> ChainDistribution:
        return ChainDistribution(self.encoder(x), torch.triu(self.coupling, 1), self.n_slots)


def _subset_encoder(n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions) -> LogitEncoder:
    # As many features as the prior expects are present at first, or half of them if it expects more.
    share = min(options.gate_prior * n_slots / n_features, 0.5)
    return logit_encoder(n_inputs, n_features, options, bias=log_odds(share))


def logit_encoder(n_inputs: int, n_outputs: int, options: EncoderOptions, bias: float) -> LogitEncoder:
    return LogitEncoder(
        n_inputs,
        n_outputs,
        hidden=options.hidden,
        activation=options.activation,
        normalize_logits=options.normalize_logits,
        bias=bias,
    )


class OrderedPosterior(PosteriorNetwork):
    """How many features, and one distribution for each position; see `sdlgm.model.ordered`."""

    kind = "variables"

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        encoder = OrderedEncoder(
            n_inputs,
            n_features,
            n_slots,
            hidden=options.hidden,
            activation=options.activation,
            normalize_logits=options.normalize_logits,
            # Lengths start as the prior has them.
            length_bias=log_binomial(SlotPrior(1, n_slots, options.gate_prior)()),
        )
        super().__init__(encoder, n_slots, n_logits=n_slots + 1 + n_slots * n_features)

    def forward(self, x: Float[Tensor, "batch D"]) -> OrderedDistribution:
        posterior = OrderedDistribution(*self.encoder(x))
        return posterior.cut(_limits(posterior)) if self.training else posterior


def _limits(posterior: OrderedDistribution) -> Int[Tensor, " batch"]:
    """Where lists are cut while they are learned: every second one, somewhere within its expected length.

    It goes by the place of a row in the batch, which is shuffled, so that it needs no noise of its own.
    """
    length = posterior.open.detach().sum(-1)
    place = own_part(torch.arange(len(length) * current().size, device=length.device), 0)
    share = (place * GOLDEN_RATIO) % 1
    return torch.where(place % 2 == 0, posterior.n_slots, 1 + (share * length).long())


def steeper(posterior: Any, temperature: Float[Tensor, ""]) -> Any:
    """The posterior with all its logits divided by a temperature; all the tensors that make a posterior are logits."""
    values = {field.name: getattr(posterior, field.name) for field in fields(posterior)}
    return replace(
        posterior, **{name: value / temperature for name, value in values.items() if isinstance(value, Tensor)}
    )


POSTERIORS = {
    "shared": SharedPosterior,
    "subset": SubsetPosterior,
    "chain": ChainPosterior,
    "ordered": OrderedPosterior,
}
