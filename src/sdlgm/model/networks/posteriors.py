"""The families of q(z given x), by name: networks from observations to distributions over codes.

To add a family, write a `CodeDistribution` and a `PosteriorNetwork` that makes one from a batch of observations, and
register the network with `register_posterior`. CONTRIBUTING.md has the recipe.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from sdlgm.model.codes import usage
from sdlgm.model.codes.base import CodeDistribution
from sdlgm.model.codes.chain import Chain, ChainDistribution
from sdlgm.model.codes.coupling import DenseCoupling, LowRankCoupling, PosteriorCoupling
from sdlgm.model.codes.ordered import OrderedDistribution
from sdlgm.model.codes.priors import SlotPrior, log_odds, share_present
from sdlgm.model.codes.slots import SlotDistribution, log_binomial
from sdlgm.model.codes.subset import IndependentSubsets, SubsetCodes
from sdlgm.model.codes.under_chain import ChainUnderChain, SubsetUnderChain
from sdlgm.model.gradient import Kind
from sdlgm.model.networks.encoders import Encoder, LogitEncoder, OrderedEncoder, SlotEncoder
from sdlgm.model.networks.layers import LogitNorm
from sdlgm.model.shards import WHOLE_BATCH, Shard

GOLDEN_RATIO = (math.sqrt(5) - 1) / 2
"""Its multiples are spread evenly modulo 1."""


@dataclass(frozen=True)
class EncoderOptions:
    """Settings of an encoder, except the numbers of inputs, features and slots."""

    hidden: tuple[int, ...]
    gate_hidden: tuple[int, ...]
    activation: str
    share_layers: bool
    normalize_logits: bool
    gate_prior: float
    chain_prior: bool = False
    """Whether the prior is a chain, and not that of the slots."""
    rank: int | None = None
    """Rank of the coupling of a chain; None for a matrix of full rank."""


class PosteriorNetwork(nn.Module, ABC):
    """Amortised inference: a network from observations to a `CodeDistribution`.

    Parameters
    ----------
    n_inputs : int
        D, the number of entries of an observation.
    n_features : int
        K.
    n_slots : int
        L0, the budget.
    options : EncoderOptions

    """

    kind: ClassVar[Kind]
    """The variables that codes are drawn from; decides which gradients are defined."""
    draws_sets: ClassVar[bool] = False
    """Whether a code is the set of features that are present, and not their counts."""
    takes_chain_prior: ClassVar[bool] = False
    """Whether `forward` returns a distribution with a chain as its prior if ``self.chain_prior``. Needs sets."""

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__()
        self.n_features = n_features
        self.n_slots = n_slots
        self.chain_prior = options.chain_prior
        self.encoder = self.make_encoder(n_inputs, options)

    @abstractmethod
    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> Encoder:
        """Return the network from an observation to logits."""

    @property
    @abstractmethod
    def n_logits(self) -> int:
        """Length of `CodeDistribution.summary`."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> CodeDistribution:
        """Return q(z given x) for a batch, or for the part of a batch that ``shard`` names."""

    def centre_on(self, data_mean: Float[Tensor, " D"]) -> None:
        """Let the encoder see differences from the mean of the data."""
        self.encoder.location.copy_(data_mean)

    def compile_networks(self) -> None:
        """Let torch.compile fuse the layers of the encoder."""
        self.encoder.compile()


POSTERIORS: dict[str, type[PosteriorNetwork]] = {}

_Network = TypeVar("_Network", bound=type[PosteriorNetwork])


def register_posterior(name: str) -> Callable[[_Network], _Network]:
    """Return a decorator that makes a family known as ``SDLGM(posterior=name)``."""

    def register(network: _Network) -> _Network:
        POSTERIORS[name] = network
        return network

    return register


@register_posterior("shared")
class SharedPosterior(PosteriorNetwork):
    """The paper's family: all slots of an observation share one gate probability and one feature distribution."""

    kind = "slots"

    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> SlotEncoder:
        return SlotEncoder(
            n_inputs,
            self.n_features,
            hidden=options.hidden,
            gate_hidden=options.gate_hidden,
            activation=options.activation,
            share_layers=options.share_layers,
            normalize_logits=options.normalize_logits,
        )

    @property
    def n_logits(self) -> int:
        return self.n_features + 1

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> SlotDistribution:
        gate_logit, feature_logits = self.encoder(x, shard)
        return SlotDistribution(gate_logit, feature_logits, self.n_slots)


@register_posterior("subset")
class SubsetPosterior(PosteriorNetwork):
    """Each feature is present or not, independently, up to the budget; see `sdlgm.model.codes.subset`."""

    kind = "binary"
    draws_sets = True
    takes_chain_prior = True

    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> LogitEncoder:
        return _presence_encoder(n_inputs, self.n_features, self.n_slots, options)

    @property
    def n_logits(self) -> int:
        return 2 * self.n_features

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> IndependentSubsets:
        family = SubsetUnderChain if self.chain_prior else SubsetCodes
        return family(self.encoder(x, shard), self.n_slots)


def _presence_encoder(n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions) -> LogitEncoder:
    share = share_present(options.gate_prior, n_slots, n_features)
    encoder = logit_encoder(n_inputs, n_features, options, bias=log_odds(share))
    if options.chain_prior and n_features >= usage.MANY:
        # As many features are present at first as the prior expects. Few features may start with more.
        gain = LogitNorm.INITIAL_GAIN if options.normalize_logits else 0.0
        with torch.no_grad():
            encoder.bias.copy_(usage.biases(usage.first_shares(n_features, share), gain))
    return encoder


def logit_encoder(n_inputs: int, n_outputs: int, options: EncoderOptions, bias: float) -> LogitEncoder:
    """Return a `LogitEncoder` with the given options."""
    return LogitEncoder(
        n_inputs,
        n_outputs,
        hidden=options.hidden,
        activation=options.activation,
        normalize_logits=options.normalize_logits,
        bias=bias,
    )


@register_posterior("chain")
class ChainPosterior(PosteriorNetwork):
    """Each feature depends on those before it, through one coupling for all observations.

    See `sdlgm.model.codes.chain`.
    """

    kind = "chain"
    draws_sets = True
    takes_chain_prior = True

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__(n_inputs, n_features, n_slots, options)
        if options.rank is None:
            self.coupling = nn.Parameter(torch.zeros(n_features, n_features))
        else:
            self.reads = nn.Parameter(torch.zeros(n_features, options.rank))
            self.writes = nn.Parameter(torch.randn(n_features, options.rank).div_(math.sqrt(options.rank)))
        self.rank = options.rank

    def _coupling(self) -> PosteriorCoupling:
        if self.rank is None:
            return DenseCoupling(torch.triu(self.coupling, 1))
        return LowRankCoupling(self.reads, self.writes)

    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> LogitEncoder:
        return _presence_encoder(n_inputs, self.n_features, self.n_slots, options)

    @property
    def n_logits(self) -> int:
        return self.n_features

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> Chain:
        family = ChainUnderChain if self.chain_prior else ChainDistribution
        return family(self.encoder(x, shard), self._coupling(), self.n_slots)


@register_posterior("ordered")
class OrderedPosterior(PosteriorNetwork):
    """A distribution over the number of features, and one over features for each position.

    See `sdlgm.model.codes.ordered`.
    """

    kind = "variables"

    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> OrderedEncoder:
        return OrderedEncoder(
            n_inputs,
            self.n_features,
            self.n_slots,
            hidden=options.hidden,
            activation=options.activation,
            normalize_logits=options.normalize_logits,
            # Lengths start at their prior.
            length_bias=log_binomial(SlotPrior(1, self.n_slots, options.gate_prior)()),
        )

    @property
    def n_logits(self) -> int:
        return self.n_slots + 1 + self.n_slots * self.n_features

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> OrderedDistribution:
        posterior = OrderedDistribution(*self.encoder(x, shard))
        return posterior.cut(_limits(posterior, shard)) if self.training else posterior


def _limits(posterior: OrderedDistribution, shard: Shard) -> Int[Tensor, " batch"]:
    """Return where lists are cut in training: every second one, within its expected length.

    The limit follows from the place of a row in the batch, which is shuffled, so it needs no noise of its own.
    """
    length = posterior.open.detach().sum(-1)
    place = shard.part(torch.arange(len(length) * shard.size, device=length.device))
    share = (place * GOLDEN_RATIO) % 1
    return torch.where(place % 2 == 0, posterior.n_slots, 1 + (share * length).long())
