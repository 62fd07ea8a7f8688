"""The unsupervised model: inference, generative, loss, and the bounds on log p(x)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes import usage
from sdlgm.model.codes.base import KL, CodeDistribution, PriorTerms
from sdlgm.model.codes.found import FoundCodes
from sdlgm.model.codes.priors import ChainPrior, SlotPrior, share_present
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import Subsets, log_repetitions
from sdlgm.model.codes.under_chain import UnderChainPrior
from sdlgm.model.likelihoods import ColumnStatistics, Layout, Likelihood, likelihood_of
from sdlgm.model.modules import search
from sdlgm.model.modules.base import Batch, Objective, Step, TemperedModule, Watched
from sdlgm.model.networks.code_layer import MANY_FEATURES, CodeLayer
from sdlgm.model.networks.inputs import EncoderInputs, with_mean
from sdlgm.model.networks.layers import mlp
from sdlgm.model.networks.posteriors import POSTERIORS, EncoderOptions, PosteriorNetwork
from sdlgm.model.noise import Noise
from sdlgm.model.shards import WHOLE_BATCH, Shard, sum_over_processes

# Codes of each observation that the importance-weighted bound decodes at a time.
IMPORTANCE_CHUNK = 16
SEARCH_ROWS, SEARCH_SHARE = 2, 0.05
"""Rows of a batch that measure what estimates of the search overstate, and the share of the new value in the mean."""

Bound = Literal["discrete", "relaxed"]


@dataclass(frozen=True)
class ModelConfig:
    """The settings that fix the shapes and families of an `SDLGMModule`."""

    n_inputs: int
    n_features: int = 200
    n_slots: int = 40
    gate_prior: float = 0.5
    learn_prior: bool = True
    prior: str = "slots"
    prior_rank: int | None = None
    """Rank of the coupling of a chain prior."""
    prior_hidden: int | None = None
    """Width of the hidden layer of a chain prior, which then has no rank."""
    hidden: tuple[int, ...] = (512, 384, 256)
    gate_hidden: tuple[int, ...] = (64,)
    activation: str = "silu"
    share_layers: bool = True
    normalize_logits: bool = True
    posterior: str = "chain"
    posterior_rank: int | None = None
    """Rank of the coupling of a chain posterior; None for full rank."""
    likelihood: str = "bernoulli"
    layout: Layout | None = None
    """The likelihood of each column, where ``likelihood`` does not say it all: columns of several kinds, categories,
    or missing values."""
    deviation: float | None = None
    """Deviation of Gaussian columns given the code, in units of the data; None if it is learned."""
    gate_temperature: float = 1.0
    feature_temperature: float = 1.0
    temper_posterior: bool = False
    """Whether all logits of the posterior are divided by the feature temperature."""
    searches: bool = False
    """Whether a local search improves the codes that the posterior proposes; see `sdlgm.model.modules.search`."""

    @property
    def n_levels(self) -> int:
        """Number of levels of all categorical columns."""
        return 0 if self.layout is None else sum(self.layout.n_levels)

    @property
    def widest_row(self) -> int:
        """Length of the longest vector that encoder or decoder make of a row, hidden layers included."""
        n_columns = self.n_inputs + self.n_levels
        return max(n_columns + (0 if self.layout is None else len(self.layout.with_missing)), *self.hidden, 1)


@dataclass(frozen=True)
class Elbo(PriorTerms):
    """The paper's ``equ:loglikelihood`` in nats for each observation of a batch, one field for each of its terms."""

    log_likelihood: Float[Tensor, " batch"]  # E_q log p(x | z, theta), equ:mc_ELL

    @property
    def value(self) -> Float[Tensor, " batch"]:
        return self.log_likelihood - self.kl


class SDLGMModule(TemperedModule):
    """Sparse deep latent generative model (Xu et al., IJCNN 2021).

    Generative process: L0 gates omega ~ Bernoulli(gate_prior) and L0 features z ~ Categorical(feature_prior);
    counts = sum of omega * z over the slots; x ~ p(x given decoder(counts)). Where the posterior draws sets, the
    decoder gets which features are present, whatever their counts. With ``prior="chain"`` the set of features is drawn
    from a `ChainPrior`.
    """

    posteriors: ClassVar[Mapping[str, type[PosteriorNetwork]]] = POSTERIORS

    config: ModelConfig
    posterior: PosteriorNetwork
    prior: SlotPrior | ChainPrior
    likelihood: Likelihood
    inputs: EncoderInputs | None
    """Input of the encoder; None where that is x, centred by the encoder itself."""
    overstated: Tensor
    """What estimates of the local search overstate for each feature, zeros before the search has begun. Only if the
    config says that the model searches."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        n_inputs, n_features, n_slots = config.n_inputs, config.n_features, config.n_slots
        self.prior = self._new_prior(config)
        options = EncoderOptions(
            hidden=config.hidden,
            gate_hidden=config.gate_hidden,
            activation=config.activation,
            share_layers=config.share_layers,
            normalize_logits=config.normalize_logits,
            gate_prior=config.gate_prior,
            chain_prior=config.prior == "chain",
            rank=config.posterior_rank,
        )
        inputs = None if config.layout is None else EncoderInputs(config.layout)
        n_seen = n_inputs if inputs is None else inputs.n_outputs
        self.posterior = self.posteriors[config.posterior](n_seen, n_features, n_slots, options)
        likelihood = likelihood_of(
            config.likelihood, n_inputs, config.layout, fixed_deviation=config.deviation is not None
        )
        sizes = [n_features, *reversed(config.hidden), likelihood.n_outputs]
        self.decoder = mlp(sizes, config.activation)
        if n_features >= MANY_FEATURES:
            self.decoder[0] = CodeLayer(sizes[0], sizes[1])
        self.likelihood = likelihood
        self.inputs = inputs
        self._add_temperatures(config.gate_temperature, config.feature_temperature)
        if config.searches:
            self.register_buffer("overstated", torch.zeros(n_features))

    @staticmethod
    def _new_prior(config: ModelConfig) -> SlotPrior | ChainPrior:
        n_features, n_slots, gate_prior = config.n_features, config.n_slots, config.gate_prior
        if config.prior == "slots":
            return SlotPrior(n_features, n_slots, gate_prior, learn=config.learn_prior)
        n_units = config.prior_hidden or config.prior_rank
        assert n_units is not None
        return ChainPrior(n_features, n_slots, gate_prior, n_units, hidden=config.prior_hidden is not None)

    @property
    def n_logits(self) -> int:
        return self.posterior.n_logits

    def weight_penalty(self, n_rows: int) -> Tensor | None:
        """Return the penalty of a chain prior, which could memorise the codes of a few hundred rows.

        With w the number of reads, it is w / (2 n²) times the sum over k of |reads_k|² and the mean over j of
        |writes_j|².
        It is a product, since with a sum one factor could grow while the other shrinks, and the writes would shrink
        before the first reads are learned. The square of n was chosen by measurements: with w / n weights for each row
        a penalty of that order is needed, and for large data it vanishes.
        """
        if not isinstance(self.prior, ChainPrior):
            return None
        reads, writes = self.prior.reads, self.prior.writes
        return reads.numel() / (2 * n_rows**2) * reads.square().sum() * writes.square().sum() / len(writes)

    def settings(self) -> dict[str, object]:
        layout = self.config.layout
        settings: dict[str, object] = asdict(self.config)
        del settings["layout"]
        return settings if layout is None else {**settings, "layout": layout.as_json()}

    @torch.no_grad()
    def adapt_to(self, statistics: ColumnStatistics) -> None:
        """Centre the encoder on the data, start the decoder at their mean, and take note of constant entries."""
        if self.inputs is None:
            self.posterior.centre_on(statistics.mean)
        else:
            self.inputs.adapt_to(statistics)
        output = self.decoder[-1]
        assert isinstance(output, nn.Linear)
        output.bias.copy_(self.likelihood.start(statistics))

    def compile_networks(self) -> None:
        """Let torch.compile fuse the layers of encoder and decoder."""
        self.posterior.compile_networks()
        if not isinstance(self.decoder[0], CodeLayer):
            self.decoder.compile()
            return
        for layer in list(self.decoder)[1:]:  # the first one calls kernels
            layer.compile()

    # Inference and generative process

    def inference(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> CodeDistribution:
        """Return q(z given x). Missing entries of x are NaN."""
        seen = with_mean(x, self.posterior.encoder.location) if self.inputs is None else self.inputs(x)
        posterior = self.posterior(seen, shard)
        return posterior.with_temperature(self.temperatures.feature) if self.config.temper_posterior else posterior

    @property
    def is_searching(self) -> bool:
        """Whether codes are those that a search finds: it has begun, at the end of a fit."""
        return self.config.searches and bool(self.overstated.any())

    def inference_of_codes(self, x: Float[Tensor, "batch D"], shard: Shard = WHOLE_BATCH) -> CodeDistribution:
        """Return q(z given x) of the bounds: the codes that the search finds, or without one that of `inference`."""
        posterior = self.inference(x, shard)
        if not self.is_searching:
            return posterior
        codes = self.improved(x, posterior.mode().to(x), 1.0, search.MOST_STEPS)
        return FoundCodes(codes, self.config.n_slots)

    def generative(self, codes: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch O"]:
        """Return the parameters of p(x given z), beta = g(z), for inputs of the decoder."""
        return self.decoder(codes)

    def decoder_input(self, counts: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch K"]:
        """Return the input of the decoder for any counts: the counts, or where codes are sets, the presence."""
        return counts.clamp(max=1) if self.posterior.draws_sets else counts

    def log_prior(self, counts: Float[Tensor, "*batch K"]) -> Float[Tensor, "*batch"]:
        """Return log p(z) of codes, in nats; where slots make sets, a lower bound that is nearly equal."""
        prior, code = self.prior(), self.decoder_input(counts)
        log_prob = prior.log_prob(code)
        if isinstance(prior, SlotDistribution) and self.posterior.draws_sets:
            return log_prob + log_repetitions(code, prior)
        return log_prob

    def log_likelihood(
        self, x: Float[Tensor, "batch D"], codes: Float[Tensor, "S batch K"]
    ) -> Float[Tensor, "S batch"]:
        """Return log p(x given z) for S codes of each observation."""
        return self.likelihood.log_prob(x, self._outputs(codes))

    def entry_log_likelihood(
        self, x: Float[Tensor, "batch D"], codes: Float[Tensor, "S batch K"]
    ) -> Float[Tensor, "S batch D"]:
        """Return log p(x given z) of each entry; `log_likelihood` is the sum over the entries."""
        return self.likelihood.entry_log_probs(x, self._outputs(codes))

    def _outputs(self, codes: Float[Tensor, "S batch K"]) -> Float[Tensor, "S batch O"]:
        # All codes in one batch: linear layers take two dimensions with fewer operations than three.
        return self.generative(codes.flatten(0, 1)).unflatten(0, codes.shape[:2])

    def uninformed_log_prob(self, x: Float[Tensor, "batch D"]) -> Float[Tensor, " batch"]:
        """Return log p(x) with the decoder's last bias as its output, whatever the code; at first that is the mean."""
        output = self.decoder[-1]
        assert isinstance(output, nn.Linear)
        return self.likelihood.log_prob(x, output.bias.expand(len(x), -1))

    # Training

    def loss(self, batch: Batch, step: Step) -> Objective:
        """Return the objective of a batch, the bound with a weight for the KL: infer, draw, cost, decode, surrogate.

        Where the divergence is a function of the drawn code, like the likelihood, it is part of the surrogate.
        """
        if step.n_search_steps:
            return self._search_loss(batch, step)
        x, prior, weight = batch.x, self.prior(), step.kl_weight
        posterior = self.inference(x, step.noise.shard)
        draw = step.gradient.draw(posterior, n_samples=step.n_samples, temperatures=self.temperatures, noise=step.noise)
        if posterior.has_closed_kl:
            kl = posterior.kl(prior, step.kl)
            log_likelihood = self.log_likelihood(x, draw.codes)
            control = None if draw.control is None else self.log_likelihood(x, draw.control)
            expected = step.gradient.surrogate(posterior, draw, log_likelihood, control)
            return Objective(expected - (kl if weight == 1.0 else weight * kl), kl, expected)
        cost = posterior.cost(draw.codes, prior)
        value = self.log_likelihood(x, draw.codes) - weight * cost
        control = None
        if draw.control is not None:
            control_cost = posterior.cost(draw.control, prior)
            control = self.log_likelihood(x, draw.control) - weight * control_cost
        total = step.gradient.surrogate(posterior, draw, value, control)
        kl = cost.detach().mean(0)
        penalty = self._rarity_penalty(posterior, draw.codes, step.noise.shard)
        return Objective(total, kl, total.detach() + weight * kl, penalty)

    def _search_loss(self, batch: Batch, step: Step) -> Objective:
        """Return the objective of a batch whose codes are searched for: infer, search, decode.

        log p(x given z) + rate log p(z) is a function of decoder and prior. The posterior learns to propose the codes
        that were found: -log q(z given x) is the penalty.
        """
        x, shard = batch.x, step.noise.shard
        posterior = self.inference(x, shard)
        assert isinstance(posterior, Subsets), "only codes that are sets can be searched for"
        proposed = posterior.mode().to(x)
        few = slice(SEARCH_ROWS)
        self._update_overstated(x[few], proposed[few], step.kl_weight, SEARCH_SHARE, shard)
        codes = self.improved(x, proposed, step.kl_weight, step.n_search_steps)
        log_likelihood, kl = self.log_likelihood(x, codes[None])[0], -self.log_prior(codes)
        propose = -posterior.log_prob(codes[None])[0]
        if batch.weight is not None:
            propose = batch.weight * propose
        return Objective(log_likelihood - step.kl_weight * kl, kl, log_likelihood, propose.mean())

    def improved(
        self, x: Float[Tensor, "batch D"], codes: Float[Tensor, "batch K"], rate: float, n_steps: int
    ) -> Float[Tensor, "batch K"]:
        """Return codes after at most ``n_steps`` changes, each of which improves log p(x given z) + rate log p(z)."""
        return search.improved(
            self.score_with(rate),
            x,
            codes,
            self.overstated,
            n_slots=self.config.n_slots,
            n_steps=n_steps,
            width=self._search_width,
        )

    @property
    def _search_width(self) -> int:
        return max(self.config.widest_row, self.config.n_features)

    def begin_search(self, x: Float[Tensor, "batch D"], rate: float) -> None:
        """Measure on some rows what the estimates of the search overstate."""
        with torch.no_grad():
            self._update_overstated(x, self.inference(x).mode().to(x), rate, 1.0)

    def _update_overstated(
        self, x: Tensor, codes: Tensor, rate: float, share: float, shard: Shard = WHOLE_BATCH
    ) -> None:
        found = search.overstatements(self.score_with(rate), x, codes, width=self._search_width)
        if shard.size > 1:
            found = sum_over_processes(found) / shard.size
        self.overstated.lerp_(found, share)

    def score_with(self, rate: float) -> search.Score:
        """Return the function from rows and codes to log p(x given z) + rate log p(z)."""
        return lambda x, codes: self.log_likelihood(x, codes) + rate * self.log_prior(codes)

    def _rarity_penalty(
        self, posterior: CodeDistribution, codes: Float[Tensor, "S batch K"], shard: Shard
    ) -> Float[Tensor, ""] | None:
        """Return the penalty that keeps many features in use; see `sdlgm.model.codes.usage`."""
        config = self.config
        if not (isinstance(posterior, UnderChainPrior) and config.n_features >= usage.MANY):
            return None
        presence = torch.sigmoid(posterior.conditional_logits(codes)) * posterior.within_budget(codes.detach())
        mean = presence.mean((0, 1))
        if shard.size > 1:
            mean = sum_over_processes(mean) / shard.size
        share = share_present(config.gate_prior, config.n_slots, config.n_features)
        return usage.rarity_penalty(mean, usage.LEAST * share)

    def watch(self, batch: Batch, *, kl: KL, noise: Noise, n_relaxed: int) -> Watched:
        x = batch.x
        posterior = self.inference_of_codes(x)
        symbols = posterior.sample_symbols(1, noise)
        codes = posterior.counts(symbols)
        elbo = self.elbo_of(posterior, x, codes, kl)
        # Summed over the rows, this estimates the KL from each row to the next: log p(z) cancels.
        prior = self.prior()
        divergence = posterior.log_ratio(symbols.roll(1, dims=1), prior) - posterior.log_ratio(symbols, prior)
        few = x[:n_relaxed]
        if self.is_searching:  # codes that are found are their own relaxation
            relaxed = float(elbo.value[: len(few)].sum())
        else:
            relaxed = float(self.elbo(few, bound="relaxed", noise=noise, kl=kl).value.sum()) if len(few) else 0.0
        return Watched(
            n_rows=len(x),
            discrete=float(elbo.value.sum()),
            relaxed=relaxed,
            n_relaxed=len(few),
            kl=float(elbo.kl.sum()),
            n_active=float(posterior.gate_prob.sum()) * self.config.n_slots,
            usage=(codes > 0).sum((0, 1)).to(x.dtype),
            row_divergence=float(divergence.sum()),
        )

    # Bounds

    def elbo(
        self,
        x: Float[Tensor, "batch D"],
        *,
        bound: Bound = "discrete",
        n_samples: int = 1,
        noise: Noise,
        kl: KL = "exact",
    ) -> Elbo:
        """Return the terms of the bound with E_q log p(x given z) estimated from samples.

        ``"discrete"`` takes hard codes: a bound on log p(x). ``"relaxed"`` takes relaxed ones: the paper's criterion,
        which is not a bound.
        """
        posterior = self.inference_of_codes(x)
        return self.elbo_of(posterior, x, self.draw(posterior, bound=bound, n_samples=n_samples, noise=noise), kl)

    def draw(
        self, posterior: CodeDistribution, *, bound: Bound, n_samples: int, noise: Noise
    ) -> Float[Tensor, "S batch K"]:
        """Draw the codes of a bound: hard or relaxed ones."""
        if bound == "relaxed":
            return posterior.relaxed_sample(n_samples, self.temperatures, noise)
        return posterior.sample(n_samples, noise)

    def elbo_of(
        self,
        posterior: CodeDistribution,
        x: Float[Tensor, "batch D"],
        codes: Float[Tensor, "S batch K"],
        kl: KL = "exact",
    ) -> Elbo:
        """Return the terms of the bound for a posterior and codes drawn from it."""
        terms = posterior.prior_terms(self.prior(), kl)
        return Elbo(**vars(terms), log_likelihood=self.log_likelihood(x, codes).mean(0))

    def importance_weighted_bound(
        self, x: Float[Tensor, "batch D"], n_importance: int, noise: Noise
    ) -> Float[Tensor, " batch"]:
        """Return log 1/M sum_m p(x, z_m) / q(z_m given x) with M hard samples (Burda et al., ICLR 2016).

        With M = 1 this is an unbiased estimate of the discrete bound with ``kl="exact"``. It grows with M to log p(x),
        or, where slots make sets, to slightly less: their prior is bounded too (`log_repetitions`).
        """
        return self.importance_weighted_bound_of(self.inference_of_codes(x), x, n_importance, noise)

    def importance_weighted_bound_of(
        self, posterior: CodeDistribution, x: Float[Tensor, "batch D"], n_importance: int, noise: Noise
    ) -> Float[Tensor, " batch"]:
        """Return the importance-weighted bound for a posterior."""
        prior, log_weights = self.prior(), []
        for start in range(0, n_importance, IMPORTANCE_CHUNK):  # memory does not grow with M
            symbols = posterior.sample_symbols(min(IMPORTANCE_CHUNK, n_importance - start), noise)
            log_likelihood = self.log_likelihood(x, posterior.counts(symbols))
            log_weights.append(log_likelihood + posterior.log_ratio(symbols, prior))
        return torch.cat(log_weights).logsumexp(0) - math.log(n_importance)
