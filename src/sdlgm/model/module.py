"""The model as one module: inference, generative, bound."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sdlgm.model.elbo import Elbo, Objective
from sdlgm.model.likelihoods import LIKELIHOODS, Gaussian
from sdlgm.model.networks import mlp
from sdlgm.model.posteriors import POSTERIORS, EncoderOptions, Posterior, SampledPosterior, steeper
from sdlgm.model.prior import SlotPrior
from sdlgm.model.slots import KL, Temperatures
from sdlgm.model.subset import log_repetitions

# Codes of each observation that the importance-weighted bound decodes at a time.
IMPORTANCE_CHUNK = 16

LogLikelihood = Callable[[Float[Tensor, "S batch K"]], Float[Tensor, "S batch"]]
Expectation = Callable[[Posterior, LogLikelihood], Float[Tensor, " batch"]]


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the shapes and families of an `SDLGMModule`."""

    n_inputs: int
    n_features: int = 200
    n_slots: int = 40
    gate_prior: float = 0.5
    learn_prior: bool = True
    hidden: tuple[int, ...] = (512, 384, 256)
    gate_hidden: tuple[int, ...] = (64,)
    activation: str = "silu"
    share_layers: bool = True
    normalize_logits: bool = True
    posterior: str = "chain"
    likelihood: Literal["bernoulli", "gaussian"] = "bernoulli"
    gate_temperature: float = 1.0
    feature_temperature: float = 1.0


class SDLGMModule(nn.Module):
    """Sparse deep latent generative model (Xu et al., IJCNN 2021).

    Generative process: L0 gates omega ~ Bernoulli(gate_prior) and L0 features z ~ Categorical(feature_prior);
    counts = sum of omega * z over the slots; x ~ p(x given decoder(counts)). Where the posterior draws sets, the
    decoder sees which features are present, whatever their counts.
    """

    posteriors: ClassVar[Mapping[str, Any]] = POSTERIORS

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        n_inputs, n_features, n_slots = config.n_inputs, config.n_features, config.n_slots
        self.prior = SlotPrior(n_features, n_slots, config.gate_prior, learn=config.learn_prior)
        options = EncoderOptions(
            hidden=config.hidden,
            gate_hidden=config.gate_hidden,
            activation=config.activation,
            share_layers=config.share_layers,
            normalize_logits=config.normalize_logits,
            gate_prior=config.gate_prior,
        )
        self.posterior = self.posteriors[config.posterior](n_inputs, n_features, n_slots, options)
        self.decoder = mlp([n_features, *reversed(config.hidden), n_inputs], config.activation)
        self.likelihood = LIKELIHOODS[config.likelihood](n_inputs)
        # Temperatures are kept as logarithms: positive by construction, whether learned or set by a schedule.
        self.log_gate_temperature = nn.Parameter(torch.tensor(config.gate_temperature).log())
        self.log_feature_temperature = nn.Parameter(torch.tensor(config.feature_temperature).log())
        # Set by the trainer: whether the gradient estimator is one that steepens the posterior.
        self.steep = False

    @torch.no_grad()
    def adapt_to(self, data_mean: Float[Tensor, " D"], varies: Bool[Tensor, " D"]) -> None:
        """Centre what the encoder sees, start the decoder at the data's mean, and note which entries are constant."""
        self.posterior.centre_on(data_mean)
        output = self.decoder[-1]
        assert isinstance(output, nn.Linear)
        output.bias.copy_(self.likelihood.initial_output(data_mean))
        if isinstance(self.likelihood, Gaussian):
            self.likelihood.varies.copy_(varies)

    def compile_networks(self) -> None:
        """Let torch.compile fuse the layers of encoder and decoder; what is between them has loops of its own."""
        self.posterior.compile_networks()
        self.decoder.compile()

    @property
    def temperatures(self) -> Temperatures:
        return Temperatures(self.log_gate_temperature.exp(), self.log_feature_temperature.exp())

    def inference(self, x: Float[Tensor, "batch D"]) -> Posterior:
        """q(z given x)."""
        posterior = self.posterior(x)
        return steeper(posterior, self.temperatures.feature) if self.steep else posterior

    def generative(self, counts: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch D"]:
        """Parameters of p(x given z), beta = g(z), of codes as the posterior draws them."""
        return self.decoder(counts)

    def seen(self, counts: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        """What the decoder sees of any counts."""
        return counts.clamp(max=1) if self.posterior.draws_sets else counts

    def log_prior(self, counts: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
        """Log p(z) of what the decoder sees of counts; with sets, a bound that is all but equal."""
        prior, code = self.prior(), self.seen(counts)
        log_prob = prior.log_prob(code)
        return log_prob + log_repetitions(code, prior) if self.posterior.draws_sets else log_prob

    def log_likelihood(
        self, x: Float[Tensor, "batch D"], counts: Float[Tensor, "S batch K"]
    ) -> Float[Tensor, "S batch"]:
        """Log p(x given z) for S codes of each observation."""
        # All codes in one batch: linear layers take two dimensions with fewer operations than three.
        output = self.generative(counts.flatten(0, 1)).unflatten(0, counts.shape[:2])
        return self.likelihood.log_prob(x, output)

    def elbo(self, x: Float[Tensor, "batch D"], expectation: Expectation, kl: KL = "exact") -> Elbo:
        """The bound, with E_q log p(x given z) taken by ``expectation``: discrete, relaxed, or a gradient estimator."""
        return self.elbo_given(self.inference(x), x, expectation, kl)

    def elbo_given(
        self, posterior: Posterior, x: Float[Tensor, "batch D"], expectation: Expectation, kl: KL = "exact"
    ) -> Elbo:
        """As `elbo`, for the posterior of x that `inference` gave: what it has computed is not computed again."""
        terms = posterior.prior_terms(self.prior(), kl)
        log_likelihood = expectation(posterior, lambda counts: self.log_likelihood(x, counts))
        return Elbo(**vars(terms), log_likelihood=log_likelihood)

    def objective(
        self, x: Float[Tensor, "batch D"], expectation: Expectation, kl: KL = "exact", kl_weight: float = 1.0
    ) -> Objective:
        """As `elbo`, with a weight for the KL and without its single terms: what training maximises."""
        posterior, prior = self.inference(x), self.prior()
        if posterior.has_closed_kl:
            log_likelihood = expectation(posterior, lambda counts: self.log_likelihood(x, counts))
            divergence = posterior.kl(prior, kl)
            weighted = divergence if kl_weight == 1.0 else kl_weight * divergence
            return Objective(log_likelihood - weighted, divergence, log_likelihood)
        # The divergence is a function of the drawn code, like the likelihood.
        sampled = cast(SampledPosterior, posterior)  # to ask whether it is one would evaluate its properties
        costs: list[Tensor] = []

        def value(counts: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch"]:
            costs.append(sampled.cost(counts, prior))
            return self.log_likelihood(x, counts) - kl_weight * costs[-1]

        total = expectation(posterior, value)
        divergence = costs[0].detach().mean(0)  # a second one, if there is one, is at no code but at their mean
        return Objective(total, divergence, total.detach() + kl_weight * divergence)

    def importance_weighted_bound(
        self, x: Float[Tensor, "batch D"], n_importance: int, generator: torch.Generator
    ) -> Float[Tensor, " batch"]:
        """Log 1/M sum_m p(x, z_m) / q(z_m given x) with M hard samples (Burda et al., ICLR 2016).

        With M = 1 this is an unbiased estimate of the discrete bound with ``kl="exact"``; it grows with M to log p(x),
        or, where q draws sets, to a little less: their prior is bounded too (`log_repetitions`).
        """
        posterior, prior = self.inference(x), self.prior()
        log_weights = []
        for start in range(0, n_importance, IMPORTANCE_CHUNK):  # memory does not grow with M
            symbols = posterior.sample_symbols(min(IMPORTANCE_CHUNK, n_importance - start), generator)
            log_likelihood = self.log_likelihood(x, posterior.counts(symbols))
            log_weights.append(log_likelihood + posterior.log_ratio(symbols, prior))
        return torch.cat(log_weights).logsumexp(0) - math.log(n_importance)


def discrete_expectation(n_samples: int, generator: torch.Generator) -> Expectation:
    """E_q log p(x given z) by hard samples: with it the bound is a bound on log p(x)."""

    def expectation(posterior: Posterior, log_likelihood: LogLikelihood) -> Tensor:
        return log_likelihood(posterior.sample(n_samples, generator)).mean(0)

    return expectation


def relaxed_expectation(n_samples: int, temperatures: Temperatures, generator: torch.Generator) -> Expectation:
    """The paper's criterion: relaxed samples in the likelihood. Not a bound on anything a user can decode."""

    def expectation(posterior: Posterior, log_likelihood: LogLikelihood) -> Tensor:
        return log_likelihood(posterior.relaxed_sample(n_samples, temperatures, generator)).mean(0)

    return expectation
