"""The baselines of the paper: variational autoencoders with 200 Bernoulli or 20 categorical latent variables.

They are SDLGMs with another code and another prior. Data, networks, training and bounds are the same for all systems of
a table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from reproduction.internals import (
    KL,
    N_DRAWS,
    WHOLE_BATCH,
    Chain,
    ChainPrior,
    ChainUnderChain,
    CodeDistribution,
    DenseCoupling,
    EncoderOptions,
    GradientRule,
    IndependentVariables,
    LogitEncoder,
    ModelConfig,
    Noise,
    PosteriorNetwork,
    PresenceCodes,
    PriorTerms,
    SDLGMModule,
    Shard,
    StrOptions,
    Temperatures,
    log_odds,
    logit_encoder,
    symbols_with_gradient,
)
from sdlgm import SDLGM

Latent = Literal["bernoulli", "categorical"]


@dataclass(frozen=True)
class LatentVector(PresenceCodes["LatentVector"], IndependentVariables["LatentVector"]):
    """V independent variables with W symbols each. The code of a binary variable is 0 or 1, of others one-hot."""

    logits: Float[Tensor, "*batch V W"]
    latent: Latent

    @cached_property
    def log_probs(self) -> Float[Tensor, "*batch V W"]:
        return self.logits.log_softmax(-1)

    def counts(self, symbols: Float[Tensor, "*batch V W"]) -> Float[Tensor, "*batch K"]:
        return symbols[..., 1] if self.latent == "bernoulli" else symbols.flatten(-2)

    @cached_property
    def presence(self) -> Float[Tensor, "*batch K"]:
        return self.counts(self.probs)

    @property
    def n_slots(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return the number of variables. Categorical variables are always active."""
        return self.logits.shape[-2]

    def mode(self) -> Int[Tensor, "batch K"]:
        return self.counts(F.one_hot(self.logits.argmax(-1), self.logits.shape[-1])).cpu()

    def conditional_log_probs(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "*batch V W"]:
        """Return the log-probabilities of each variable, which do not depend on the others."""
        return self.log_probs

    def log_ratio(self, symbols: Float[Tensor, "S batch V W"], prior: "LatentVector") -> Float[Tensor, "S batch"]:
        return prior.log_prob_of(symbols) - self.log_prob_of(symbols)

    def kl(self, prior: "LatentVector", kl: KL) -> Float[Tensor, "*batch"]:
        return (self.probs * (self.log_probs - prior.log_probs)).sum((-1, -2))

    def prior_terms(self, prior: "LatentVector", kl: KL) -> PriorTerms:
        """Return the terms of the KL. There are no gates, so all of it belongs to the features."""
        cross = (self.probs * prior.log_probs).sum((-1, -2))
        entropy = -(self.probs * self.log_probs).sum((-1, -2))
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, cross, zero, entropy)


@dataclass(frozen=True)
class CoupledBernoulli(Chain[LatentVector]):
    """Bernoulli variables, each conditioned on the variables before it: the chain of the SDLGM without a budget."""

    def log_ratio(self, symbols: Float[Tensor, "S batch K"], prior: LatentVector) -> Float[Tensor, "S batch"]:
        return prior.log_prob_of(torch.stack([1 - symbols, symbols], dim=-1)) - self.log_prob(symbols)

    def terms_given(self, counts: Float[Tensor, "S batch K"], prior: LatentVector) -> PriorTerms:
        logits = self.conditional_logits(counts)
        present = torch.sigmoid(logits)
        entropy = (F.softplus(logits) - present * logits).sum(-1)
        off, on = prior.log_probs.unbind(-1)
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, (present * on + (1 - present) * off).sum(-1), zero, entropy)


@dataclass(frozen=True)
class CategoricalChain:
    """Categorical variables, each conditioned on the variables before it through a hidden layer: a chain prior."""

    bias: Float[Tensor, "V W"]
    reads: Float[Tensor, "V W H"]
    writes: Float[Tensor, "V W H"]
    start: Float[Tensor, " H"]

    def conditional_log_probs(self, counts: Float[Tensor, "*codes K"]) -> Float[Tensor, "*codes V W"]:
        """Return the log-probabilities of each variable given the variables before it."""
        written = torch.einsum("...vw,vwh->...vh", counts.unflatten(-1, self.bias.shape), self.writes)
        units = torch.relu(self.start + written.cumsum(-2) - written)
        return (self.bias + torch.einsum("...vh,vwh->...vw", units, self.reads)).log_softmax(-1)

    def log_prob_of(self, symbols: Float[Tensor, "*codes V W"]) -> Float[Tensor, "*codes"]:
        """Return the log-probability of drawn symbols."""
        return (symbols * self.conditional_log_probs(symbols.flatten(-2))).sum((-1, -2))


@dataclass(frozen=True)
class CoupledCategorical(PresenceCodes[Any]):
    """Categorical variables, each conditioned on the variables before it through one matrix for all observations."""

    logits: Float[Tensor, "batch V W"]
    """The logits of each variable before the coupling is added."""
    coupling: Float[Tensor, "K K"]
    """The effect of a symbol of one variable on the logits of later variables; zero for earlier ones."""

    has_closed_kl = False

    @property
    def n_slots(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The number of variables."""
        return self.logits.shape[-2]

    @property
    def summary(self) -> Float[Tensor, "batch K"]:
        return self.logits.flatten(1)

    def counts(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch K"]:
        return symbols.flatten(-2)

    def conditional_log_probs(self, counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch V W"]:
        """Return the log-probabilities of each variable given the variables before it."""
        shape = self.logits.shape[1:]
        return (self.logits + (counts @ self.coupling).unflatten(-1, shape)).log_softmax(-1)

    def _sequentially(self, n_samples: int, draw: Callable[[int, Tensor], Tensor]) -> Float[Tensor, "S batch V W"]:
        """Draw the variables in order. ``draw`` takes the index of a variable and its conditional log-probabilities."""
        batch, n_variables, width = self.logits.shape
        steps = self.coupling.unflatten(0, (n_variables, width))
        current = self.logits.flatten(1).expand(n_samples, batch, -1)
        symbols = []
        for v in range(n_variables):
            here = slice(v * width, (v + 1) * width)
            symbols.append(draw(v, current[..., here].log_softmax(-1)))
            current = current + symbols[-1] @ steps[v]
        return torch.stack(symbols, dim=-2)

    def sample_symbols(self, n_samples: int, noise: Noise) -> Float[Tensor, "S batch V W"]:
        def draw(_: int, log_probs: Tensor) -> Tensor:
            drawn = torch.multinomial(log_probs.flatten(0, 1).exp(), 1, generator=noise.generator)
            return F.one_hot(drawn[:, 0], log_probs.shape[-1]).to(log_probs.dtype).view_as(log_probs)

        with torch.no_grad():
            return self._sequentially(n_samples, draw)

    def relaxed_sample(self, n_samples: int, temperatures: Temperatures, noise: Noise) -> Float[Tensor, "S batch K"]:
        """Draw relaxed variables. Later variables are conditioned on the relaxed values of earlier ones."""

        def draw(_: int, log_probs: Tensor) -> Tensor:
            gumbel = noise.gumbel(tuple(log_probs.shape), log_probs)
            return ((log_probs + gumbel) / temperatures.feature).softmax(-1)

        return self.counts(self._sequentially(n_samples, draw))

    def with_gradient(self, drawn: Float[Tensor, "S batch V W"], rule: GradientRule) -> Float[Tensor, "S batch V W"]:
        def draw(v: int, log_probs: Tensor) -> Tensor:
            # `symbols_with_gradient` sums over its first dimension, so the samples become part of the batch.
            flat = log_probs.flatten(0, 1)
            symbols = drawn[:, :, v].flatten(0, 1).unsqueeze(0)
            return symbols_with_gradient(flat, flat.detach().exp(), symbols, 1, rule)[0].view_as(log_probs)

        return self._sequentially(len(drawn), draw)

    def log_prob_of(self, symbols: Float[Tensor, "S batch V W"]) -> Float[Tensor, "S batch"]:
        return (symbols * self.conditional_log_probs(self.counts(symbols))).flatten(2).sum(-1)

    def log_ratio(
        self, symbols: Float[Tensor, "S batch V W"], prior: LatentVector | CategoricalChain
    ) -> Float[Tensor, "S batch"]:
        return prior.log_prob_of(symbols) - self.log_prob_of(symbols)

    def mode(self) -> Int[Tensor, "batch K"]:
        """Return the most probable symbol of each variable, given the chosen symbols of earlier ones."""

        def draw(_: int, log_probs: Tensor) -> Tensor:
            return F.one_hot(log_probs.argmax(-1), log_probs.shape[-1]).to(log_probs.dtype)

        return self.counts(self._sequentially(1, draw))[0].long().cpu()

    def cost(
        self, counts: Float[Tensor, "S batch K"], prior: LatentVector | CategoricalChain
    ) -> Float[Tensor, "S batch"]:
        log_probs = self.conditional_log_probs(counts)
        return (log_probs.exp() * (log_probs - prior.conditional_log_probs(counts))).flatten(2).sum(-1)

    @cached_property
    def _fixed_draws(self) -> Float[Tensor, "S batch K"]:
        return self.sample(N_DRAWS, Noise.seeded(0, self.logits.device))

    def kl(self, prior: LatentVector | CategoricalChain, kl: KL) -> Float[Tensor, " batch"]:
        return self.cost(self._fixed_draws, prior).mean(0)

    def prior_terms(self, prior: LatentVector | CategoricalChain, kl: KL) -> PriorTerms:
        drawn = self._fixed_draws
        probs = self.conditional_log_probs(drawn).exp()
        entropy = torch.special.entr(probs).flatten(2).sum(-1).mean(0)
        cross = (probs * prior.conditional_log_probs(drawn)).flatten(2).sum(-1).mean(0)
        zero = torch.zeros_like(entropy)
        return PriorTerms(zero, cross, zero, entropy)

    @cached_property
    def presence(self) -> Float[Tensor, "batch K"]:
        return self.conditional_log_probs(self._fixed_draws).exp().flatten(-2).mean(0)

    @property
    def gate_prob(self) -> Float[Tensor, " batch"]:
        return torch.ones_like(self.logits[:, 0, 0])


class LatentVectorPrior(nn.Module):
    """Independent variables: uniform as in the paper, or learned. Bernoulli variables start at ``gate_prior``."""

    logits: Tensor

    def __init__(self, n_variables: int, n_symbols: int, latent: Latent, *, gate_prior: float, learn: bool):
        super().__init__()
        self.latent: Latent = latent
        logits = torch.zeros(n_variables, n_symbols)
        if latent == "bernoulli":
            logits[:, 1] = log_odds(gate_prior)
        if learn:
            self.logits = nn.Parameter(logits)
        else:
            self.register_buffer("logits", logits)

    def forward(self) -> LatentVector:
        return LatentVector(self.logits, self.latent)


class CategoricalChainPrior(nn.Module):
    """The `ChainPrior` of categorical variables, with a hidden layer. At first all symbols are equally probable."""

    def __init__(self, n_variables: int, n_symbols: int, n_units: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n_variables, n_symbols))
        self.reads = nn.Parameter(torch.zeros(n_variables, n_symbols, n_units))
        self.writes = nn.Parameter(torch.randn(n_variables, n_symbols, n_units) / math.sqrt(n_units))
        self.start = nn.Parameter(torch.zeros(n_units))

    def forward(self) -> CategoricalChain:
        return CategoricalChain(self.bias, self.reads, self.writes, self.start)


class LatentVectorPosterior(PosteriorNetwork):
    """The encoder of the SDLGM. Its outputs are the logits of the variables."""

    latent: Latent

    def make_encoder(self, n_inputs: int, options: EncoderOptions) -> LogitEncoder:
        bias = log_odds(options.gate_prior) if self.latent == "bernoulli" else 0.0
        return logit_encoder(n_inputs, self.n_features, options, bias=bias)

    @property
    def n_logits(self) -> int:
        return 2 * self.n_features if self.latent == "bernoulli" else self.n_features

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> CodeDistribution:
        logits = self.encoder(x, shard).unflatten(-1, (self.n_slots, -1))
        if self.latent == "bernoulli":
            logits = F.pad(logits, (1, 0))  # only the difference of the two logits matters
        return LatentVector(logits, self.latent)


class BernoulliPosterior(LatentVectorPosterior):
    kind = "binary"
    latent = "bernoulli"


class CategoricalPosterior(LatentVectorPosterior):
    kind = "variables"
    latent = "categorical"


class CoupledBernoulliPosterior(LatentVectorPosterior):
    """The Bernoulli baseline with the coupling of the SDLGM's chain, as a control."""

    kind = "chain"
    latent = "bernoulli"
    draws_sets = True
    takes_chain_prior = True

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__(n_inputs, n_features, n_slots, options)
        self.coupling = nn.Parameter(torch.zeros(n_features, n_features))

    @property
    def n_logits(self) -> int:
        return self.n_features

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> Chain:
        family = ChainUnderChain if self.chain_prior else CoupledBernoulli
        return family(self.encoder(x, shard), DenseCoupling(torch.triu(self.coupling, 1)), self.n_slots)


class CoupledCategoricalPosterior(LatentVectorPosterior):
    """The categorical baseline with the coupling of the SDLGM's chain, as a control."""

    kind = "chain"
    latent = "categorical"
    draws_sets = True
    takes_chain_prior = True
    later: Tensor

    def __init__(self, n_inputs: int, n_features: int, n_slots: int, options: EncoderOptions):
        super().__init__(n_inputs, n_features, n_slots, options)
        self.coupling = nn.Parameter(torch.zeros(n_features, n_features))
        variable = torch.arange(n_features) // (n_features // n_slots)
        self.register_buffer("later", (variable > variable[:, None]).float())

    def forward(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> CoupledCategorical:
        logits = self.encoder(x, shard).unflatten(-1, (self.n_slots, -1))
        return CoupledCategorical(logits, self.coupling * self.later)


POSTERIORS: dict[str, type[LatentVectorPosterior]] = {
    "bernoulli": BernoulliPosterior,
    "categorical": CategoricalPosterior,
    "coupled_bernoulli": CoupledBernoulliPosterior,
    "coupled_categorical": CoupledCategoricalPosterior,
}


class DiscreteVAEModule(SDLGMModule):
    """`SDLGMModule` with the code and the prior of a baseline. ``n_slots`` is the number of variables."""

    posteriors = POSTERIORS

    prior: LatentVectorPrior | ChainPrior | CategoricalChainPrior  # pyright: ignore[reportIncompatibleVariableOverride]

    @staticmethod
    def _new_prior(config: ModelConfig) -> Any:
        latent = POSTERIORS[config.posterior].latent
        n_symbols = 2 if latent == "bernoulli" else config.n_features // config.n_slots
        if config.prior == "slots":
            return LatentVectorPrior(
                config.n_slots, n_symbols, latent, gate_prior=config.gate_prior, learn=config.learn_prior
            )
        if latent == "bernoulli":
            return SDLGMModule._new_prior(config)
        assert config.prior_hidden is not None
        return CategoricalChainPrior(config.n_slots, n_symbols, config.prior_hidden)

    def log_prior(self, counts: Float[Tensor, "batch K"]) -> Float[Tensor, " batch"]:
        prior = self.prior()
        if isinstance(prior, Chain):
            return prior.log_prob(counts)
        posterior = POSTERIORS[self.config.posterior]
        if posterior.latent == "bernoulli":
            symbols = torch.stack([1 - counts, counts], dim=-1)
        else:
            symbols = counts.unflatten(-1, (self.config.n_slots, -1))
        return prior.log_prob_of(symbols.unsqueeze(0))[0]


class DiscreteVAE(SDLGM):
    """A baseline as an estimator: `SDLGM` with another code.

    It can be fitted and measured. It cannot be saved, sampled from, or trained by several processes.

    Parameters
    ----------
    posterior : {"bernoulli", "categorical", "coupled_bernoulli", "coupled_categorical"}
        The latent variables. Coupled variables are conditioned on the variables before them.
    n_components : int
        The length of the code.
    max_active : int
        The number of variables: ``n_components`` Bernoulli variables, or categorical variables with
        ``n_components / max_active`` symbols each.
    gate_prior : float
        The initial probability that a Bernoulli variable is 1.
    prior : {"slots", "chain"}
        Independent variables, or a chain with the hidden layer of the SDLGM's for coupled variables.
    **params
        Further parameters of `SDLGM`.

    """

    _module_class = DiscreteVAEModule
    _parameter_constraints = SDLGM._parameter_constraints | {"posterior": [StrOptions(set(POSTERIORS))]}

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.devices * self.num_nodes > 1:
            raise ValueError("baselines are trained by one process: set devices=1 and num_nodes=1")
        latent = POSTERIORS[str(self.posterior)].latent
        if latent == "bernoulli" and self.max_active != self.n_components:
            raise ValueError(f"max_active must be n_components, {self.n_components}, for Bernoulli variables")
        if latent == "categorical" and (
            self.prior_rank is not None or (self.prior == "chain" and not self.prior_hidden)
        ):
            raise ValueError("the chain prior of categorical variables has a hidden layer; set prior_hidden")
        if self.n_components % self.max_active:
            raise ValueError(f"n_components={self.n_components} is not a multiple of max_active={self.max_active}")

    def _publish_prior(self, module: SDLGMModule) -> None:
        if module.config.prior == "slots":
            super()._publish_prior(module)

    def save(self, path: Any) -> None:
        raise NotImplementedError("baselines cannot be saved to a file")

    def sample(self, n_samples: int = 1, *, random_state: Any = None, encoded: bool = False) -> Any:
        raise NotImplementedError("baselines cannot be sampled from")
