"""The model with labels: labels are features of the code that are known in training.

- ``dis``: q(y given x) from the encoder, and nothing else.
- ``gen``: also p(x given y) from a decoder, which rows without labels can train as well.
- ``con``: the decoder also gets latent features u, q(u given x) from the encoder.

Training maximises, for a row with labels,

    log q(y | x) + weight * (E_{q(u | x)} log p(x | y, u) - KL(q(u | x), p(u)) + bound),

and ``weight * bound`` for a row without, where bound = E_{q(y | x) q(u | x)} log p(x | y, u) - KL(q(y | x), p(y)) -
KL(q(u | x), p(u)) is the bound on log p(x) of a model whose labels are latent. Through that term the decoder trains the
encoder. ``dis`` has the first term only. With ``monte_carlo``, the paper's form, the draws are relaxed.
"""

from dataclasses import asdict

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes import label_sets
from sdlgm.model.codes.base import KL
from sdlgm.model.codes.priors import SlotPrior
from sdlgm.model.codes.set_distribution import SetDistribution
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import SubsetDistribution
from sdlgm.model.likelihoods import Gaussian
from sdlgm.model.modules.base import Batch, Objective, Step, TemperedModule, Watched
from sdlgm.model.networks.members import for_each_member
from sdlgm.model.networks.multilabel import (
    LabelDecoder,
    LabelEncoder,
    LabelPosterior,
    MultiLabelConfig,
    slot_probabilities,
)
from sdlgm.model.noise import Noise

# Initial probabilities of the labels are their frequencies, within these limits.
RAREST, MOST_FREQUENT = 1e-3, 0.9


class LabelPrior(nn.Module):
    """p(y), from the frequencies of the labels in the data, and p(u), learned."""

    def __init__(self, config: MultiLabelConfig):
        super().__init__()
        self.labels = SlotPrior(config.n_labels, config.n_slots, 0.5)
        self.unnamed = SlotPrior(config.n_unnamed, config.n_slots, 0.5, learn=True) if config.n_unnamed else None

    @torch.no_grad()
    def start_at(self, frequencies: Float[Tensor, " K"]) -> None:
        """Set p(y) to the given frequencies."""
        symbols = slot_probabilities(frequencies, self.labels.n_slots)
        self.labels.gate_logit.copy_(torch.logit(symbols.sum()))
        self.labels.feature_logits.copy_(symbols.log())


class MultiLabelModule(TemperedModule):
    """Encoder, prior and decoder of the model with labels, for all members at once."""

    config: MultiLabelConfig
    posterior: LabelEncoder
    prior: LabelPrior

    def __init__(self, config: MultiLabelConfig):
        super().__init__()
        self.config = config
        self.posterior = LabelEncoder(config)
        self.prior = LabelPrior(config)
        self.decoder = LabelDecoder(config) if config.variant != "dis" else None
        self.likelihood = Gaussian(config.n_inputs) if config.variant != "dis" else None
        self._add_temperatures(config.gate_temperature, config.feature_temperature)

    @property
    def n_logits(self) -> int:
        return self.posterior.n_logits

    def settings(self) -> dict[str, object]:
        return asdict(self.config)

    @torch.no_grad()
    def adapt_to(self, frequencies: Float[Tensor, " K"], varies: Tensor) -> None:
        """Start at the frequencies of the labels, and take note of constant inputs."""
        frequencies = frequencies.clamp(RAREST, MOST_FREQUENT)
        self.posterior.start_at(frequencies)
        self.prior.start_at(frequencies)
        if self.likelihood is not None:
            self.likelihood.adapt_to(varies)

    def inference(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> LabelPosterior:
        """Return q(y, u given x), with dropout if there is a generator for it."""
        return self.posterior(x, generator)

    def presence(self, x: Float[Tensor, "batch D"], *, n_samples: int, noise: Noise) -> Float[Tensor, "rows K"]:
        """Return the probability of each label.

        For ``monte_carlo`` it is that of relaxed slots, with the same noise for all rows.
        """
        return self.presence_of(self.inference(x).labels, n_samples=n_samples, noise=noise)

    def number_of_labels(
        self, x: Float[Tensor, "batch D"], *, n_samples: int, noise: Noise
    ) -> Float[Tensor, "rows numbers"]:
        """Return the distribution of the number of labels."""
        return self.number_of_labels_of(self.inference(x).labels, n_samples=n_samples, noise=noise)

    def sets(self, x: Float[Tensor, "batch D"], *, n_samples: int, noise: Noise) -> tuple[SetDistribution, ...]:
        """Return the distribution over sets of labels of each member.

        For ``monte_carlo`` labels are independent given x, with the probabilities of `presence`.
        """
        return self.sets_of(self.inference(x).labels, len(x), n_samples=n_samples, noise=noise)

    def number_of_labels_of(
        self, labels: SlotDistribution | SubsetDistribution, *, n_samples: int, noise: Noise
    ) -> Float[Tensor, "rows numbers"]:
        """Return the distribution of the number of labels of a posterior."""
        presence = self.presence_of(labels, n_samples=n_samples, noise=noise)
        return label_sets.number_of_labels(labels, self.config.form, presence)

    def sets_of(
        self, labels: SlotDistribution | SubsetDistribution, n_rows: int, *, n_samples: int, noise: Noise
    ) -> tuple[SetDistribution, ...]:
        """Return the distribution over sets of labels of each member, from the posterior of ``n_rows`` rows."""
        presence = self.presence_of(labels, n_samples=n_samples, noise=noise)
        sets = label_sets.set_distribution(labels, self.config.form, presence)
        return tuple(sets[start : start + n_rows] for start in range(0, len(presence), n_rows))

    def presence_of(
        self, labels: SlotDistribution | SubsetDistribution, *, n_samples: int, noise: Noise
    ) -> Float[Tensor, "rows K"]:
        """Return the probability of each label of a posterior."""
        if self.config.form == "monte_carlo":
            assert isinstance(labels, SlotDistribution)
            return label_sets.repeatable_presence(labels, self.temperatures, n_samples, noise)
        return labels.presence

    def loss(self, batch: Batch, step: Step) -> Objective:
        """Return the objective of a batch: infer, draw, decode, cost.

        Gradients are pathwise here, so the surrogate of a value is its mean over the draws.
        """
        assert step.gradient.pathwise
        y, known = batch.targets
        posterior = self.inference(batch.x, step.noise.generator)
        x, y, known = (for_each_member(part, self.config.n_members) for part in (batch.x, y, known))
        log_q = known * self._label_log_prob(posterior, y, step)
        if self.decoder is None:
            return Objective(log_q, torch.zeros_like(log_q), log_q)
        latent_kl = self._latent_kl(posterior)
        labels_kl = posterior.labels.kl(self.prior.labels(), step.kl)
        # The labels drawn, as for rows without labels; then, where they are known, the labels themselves.
        latent, labels = self._draw(posterior.unnamed, step), self._draw(posterior.labels, step)
        log_likelihood = self.log_likelihood(x, join_features(labels, latent)).mean(0)
        latent = self._draw(posterior.unnamed, step)
        given_labels = self.log_likelihood(x, join_features(y.unsqueeze(0), latent)).mean(0)
        log_likelihood = log_likelihood + known * given_labels
        divergence = labels_kl + (1 + known) * latent_kl
        weight = self.config.reconstruction_weight
        value = log_q + weight * (log_likelihood - step.kl_weight * divergence)
        return Objective(value, divergence, log_likelihood)

    def _draw(
        self, distribution: SlotDistribution | SubsetDistribution | None, step: Step
    ) -> Float[Tensor, "S rows K"] | None:
        if distribution is None:
            return None
        return step.gradient.draw(
            distribution, n_samples=step.n_samples, temperatures=self.temperatures, noise=step.noise
        ).codes

    def watch(self, batch: Batch, *, kl: KL, noise: Noise, n_relaxed: int) -> Watched:
        y, _ = batch.targets
        n = len(y)
        labels = self.inference(batch.x).labels
        y = for_each_member(y, self.config.n_members)
        presence = labels.presence
        discrete = label_sets.label_log_prob(labels, self.config.form, y)
        relaxed = discrete  # only the paper's form relaxes anything
        if self.config.form == "monte_carlo" and isinstance(labels, SlotDistribution):
            presence = label_sets.relaxed_presence(labels, self.temperatures, 1, noise)
            relaxed = label_sets.relaxed_log_prob(presence, y)
        numbers = label_sets.number_of_labels(labels, self.config.form, presence)
        expected = numbers @ torch.arange(numbers.shape[-1], dtype=numbers.dtype, device=numbers.device)
        return Watched(
            n_rows=n,
            discrete=n * float(discrete.mean()),
            relaxed=n * float(relaxed.mean()),
            n_relaxed=n,
            kl=n * float(labels.kl(self.prior.labels(), kl).mean()),
            n_active=n * float(expected.mean()),
            row_divergence=n * float(_row_divergence(labels.presence.unflatten(0, (self.config.n_members, n))).mean()),
        )

    def _label_log_prob(self, posterior: LabelPosterior, y: Tensor, step: Step) -> Tensor:
        if self.config.form == "monte_carlo":
            assert isinstance(posterior.labels, SlotDistribution)
            presence = label_sets.relaxed_presence(posterior.labels, self.temperatures, step.n_samples, step.noise)
            return label_sets.relaxed_log_prob(presence, y)
        return label_sets.label_log_prob(posterior.labels, self.config.form, y)

    def _latent_kl(self, posterior: LabelPosterior) -> Tensor:
        if posterior.unnamed is None or self.prior.unnamed is None:
            return torch.zeros(())
        return posterior.unnamed.kl(self.prior.unnamed(), "exact")

    def log_likelihood(self, x: Float[Tensor, "rows D"], codes: Float[Tensor, "S rows K"]) -> Float[Tensor, "S rows"]:
        """Return log p(x given z) for S codes of each row."""
        assert self.decoder is not None
        assert self.likelihood is not None
        return torch.stack([self.likelihood.log_prob(x, self.decoder(code)) for code in codes])


def _row_divergence(presence: Float[Tensor, "members rows K"]) -> Float[Tensor, "members rows"]:
    """Return the KL between the labels of each row and those of the next, each label by itself."""
    info = torch.finfo(presence.dtype)
    own = presence.clamp(info.tiny, 1 - info.eps)
    other = own.roll(1, dims=1)
    return (own * (own / other).log() + (1 - own) * ((1 - own) / (1 - other)).log()).sum(-1)


def join_features(
    labels: Float[Tensor, "#S rows K"] | None, latent: Float[Tensor, "S rows U"] | None
) -> Float[Tensor, "S rows Z"]:
    """Return labels and latent features side by side, the input of the decoder."""
    assert labels is not None
    if latent is None:
        return labels
    return torch.cat([labels.expand(len(latent), *labels.shape[1:]), latent], dim=-1)
