"""The model with labels: the features of a code are seen in training, alone or beside others that are not.

- ``dis``: q(y given x) from the encoder, and nothing else.
- ``gen``: also p(x given y) from a decoder, which rows without labels can learn from as well.
- ``con``: the decoder sees further features u that nobody has named, q(u given x) from the encoder.

Training maximises, for a row with labels,

    log q(y | x) + weight * (E_{q(u | x)} log p(x | y, u) - KL(q(u | x), p(u)) + bound),

and ``weight * bound`` for a row without, where bound = E_{q(y | x) q(u | x)} log p(x | y, u) - KL(q(y | x), p(y)) -
KL(q(u | x), p(u)) is the bound on log p(x) of a model whose labels are latent: it is through that term that the decoder
teaches the encoder. ``dis`` has the first term only. With ``monte_carlo``, the paper's form, the draws are relaxed.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model import labels as forms
from sdlgm.model.elbo import Objective
from sdlgm.model.labels import LabelForm
from sdlgm.model.likelihoods import Gaussian
from sdlgm.model.members import MemberLayers, MemberLinear, for_each_member
from sdlgm.model.prior import SlotPrior
from sdlgm.model.slots import KL, SlotDistribution, Temperatures
from sdlgm.model.subset import SubsetDistribution
from sdlgm.model.supervised import Step, SupervisedModule, TargetExpectation, Watched

Variant = Literal["dis", "gen", "con"]

# Labels are as frequent as in the data at first, but none certain to be there or not.
RAREST, MOST_FREQUENT = 1e-3, 0.9


@dataclass(frozen=True)
class LabelledConfig:
    """Everything that fixes the shapes and families of a `LabelledModule`."""

    n_inputs: int
    n_labels: int
    n_slots: int
    variant: Variant
    form: LabelForm
    n_latent: int
    hidden: tuple[int, ...]
    activation: str
    dropout: float
    input_dropout: float
    reconstruction_weight: float
    n_members: int
    gate_temperature: float
    feature_temperature: float

    @property
    def n_targets(self) -> int:
        return self.n_labels

    @property
    def n_unnamed(self) -> int:
        """Number of features beside the labels."""
        return self.n_latent if self.variant == "con" else 0


@dataclass(frozen=True)
class LabelPosterior:
    """q(y, u given x): labels and further features, independent given x; rows are members times batch."""

    labels: SlotDistribution | SubsetDistribution
    unnamed: SubsetDistribution | None


class LabelEncoder(nn.Module):
    """Amortised inference of labels and of further features, from the same hidden layers."""

    def __init__(self, config: LabelledConfig):
        super().__init__()
        self.config = config
        sizes = [config.n_inputs, *config.hidden]
        self.trunk = MemberLayers(
            config.n_members,
            sizes,
            activation=config.activation,
            dropout=config.dropout,
            input_dropout=config.input_dropout,
        )
        self.labels = MemberLinear(config.n_members, sizes[-1], config.n_labels)
        self.gate = MemberLinear(config.n_members, sizes[-1], 1) if config.form != "subset" else None
        self.unnamed = MemberLinear(config.n_members, sizes[-1], config.n_unnamed) if config.n_unnamed else None
        self.n_logits = config.n_labels + 1

    def forward(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> LabelPosterior:
        n_members, n_slots = self.config.n_members, self.config.n_slots
        hidden = self.trunk(x.expand(n_members, *x.shape), generator)
        logits = self.labels(hidden).flatten(0, 1)
        if self.gate is None:
            labels = SubsetDistribution(logits, n_slots)
        else:
            labels = SlotDistribution(self.gate(hidden).flatten(), logits, n_slots)
        unnamed = None
        if self.unnamed is not None:
            unnamed = SubsetDistribution(self.unnamed(hidden).flatten(0, 1), n_slots)
        return LabelPosterior(labels, unnamed)

    @torch.no_grad()
    def start_at(self, frequencies: Float[Tensor, " K"]) -> None:
        """Let the labels be as frequent at first as they are in the data."""
        if self.gate is None:
            self.labels.bias.copy_(torch.logit(frequencies).expand_as(self.labels.bias))
            return
        symbols = slot_probabilities(frequencies, self.config.n_slots)
        self.labels.bias.copy_(symbols.log().expand_as(self.labels.bias))
        self.gate.bias.fill_(float(torch.logit(symbols.sum())))


def slot_probabilities(frequencies: Float[Tensor, " K"], n_slots: int) -> Float[Tensor, " K"]:
    """What a slot has to hold for labels to be as frequent as given; no more than a slot can."""
    symbols = -torch.expm1(torch.log1p(-frequencies) / n_slots)
    return symbols * min(1.0, 0.95 / float(symbols.sum()))


class LabelPrior(nn.Module):
    """p(y), from the frequencies of the labels in the data, and p(u), learned."""

    def __init__(self, config: LabelledConfig):
        super().__init__()
        self.labels = SlotPrior(config.n_labels, config.n_slots, 0.5)
        self.unnamed = SlotPrior(config.n_unnamed, config.n_slots, 0.5, learn=True) if config.n_unnamed else None

    @torch.no_grad()
    def start_at(self, frequencies: Float[Tensor, " K"]) -> None:
        symbols = slot_probabilities(frequencies, self.labels.n_slots)
        self.labels.gate_logit.copy_(torch.logit(symbols.sum()))
        self.labels.feature_logits.copy_(symbols.log())


class LabelDecoder(nn.Module):
    """p(x given labels and further features), Gaussian."""

    def __init__(self, config: LabelledConfig):
        super().__init__()
        sizes = [config.n_labels + config.n_unnamed, *reversed(config.hidden)]
        self.n_members = config.n_members
        self.trunk = MemberLayers(config.n_members, sizes, activation=config.activation)
        self.out = MemberLinear(config.n_members, sizes[-1], config.n_inputs)

    def forward(self, codes: Float[Tensor, "rows K"]) -> Float[Tensor, "rows D"]:
        members = codes.unflatten(0, (self.n_members, -1))
        return self.out(self.trunk(members, None)).flatten(0, 1)


class LabelledModule(SupervisedModule):
    """Encoder, prior and decoder of the model with labels, for all members at once."""

    def __init__(self, config: LabelledConfig):
        super().__init__()
        self.config = config
        self.posterior = LabelEncoder(config)
        self.prior = LabelPrior(config)
        self.decoder = LabelDecoder(config) if config.variant != "dis" else None
        self.likelihood = Gaussian(config.n_inputs) if config.variant != "dis" else None
        self.log_gate_temperature = nn.Parameter(torch.tensor(config.gate_temperature).log())
        self.log_feature_temperature = nn.Parameter(torch.tensor(config.feature_temperature).log())

    @torch.no_grad()
    def adapt_to(self, frequencies: Float[Tensor, " K"], varies: Tensor) -> None:
        """Start at the frequencies of the labels, and note which inputs are constant."""
        frequencies = frequencies.clamp(RAREST, MOST_FREQUENT)
        self.posterior.start_at(frequencies)
        self.prior.start_at(frequencies)
        if self.likelihood is not None:
            self.likelihood.varies.copy_(varies)

    @property
    def temperatures(self) -> Temperatures:
        return Temperatures(self.log_gate_temperature.exp(), self.log_feature_temperature.exp())

    def inference(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> LabelPosterior:
        """q(y, u given x), with dropout if there is a generator for it."""
        return self.posterior(x, generator)

    def presence(
        self, x: Float[Tensor, "batch D"], *, n_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "rows K"]:
        """Probability of each label; for ``monte_carlo`` that of relaxed slots, with the same noise for all rows."""
        return self._presence_of(self.inference(x).labels, n_samples, generator)

    def number_of_labels(
        self, x: Float[Tensor, "batch D"], *, n_samples: int, generator: torch.Generator
    ) -> Float[Tensor, "rows numbers"]:
        """Distribution of the number of labels."""
        labels = self.inference(x).labels
        return forms.number_of_labels(labels, self.config.form, self._presence_of(labels, n_samples, generator))

    def _presence_of(
        self, labels: SlotDistribution | SubsetDistribution, n_samples: int, generator: torch.Generator
    ) -> Tensor:
        if self.config.form == "monte_carlo":
            assert isinstance(labels, SlotDistribution)
            return forms.repeatable_presence(labels, self.temperatures, n_samples, generator)
        return labels.presence

    def objective(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], known: Float[Tensor, " batch"], step: Step
    ) -> Objective:
        n_members = self.config.n_members
        posterior = self.inference(x, step.generator)
        x, y, known = (for_each_member(part, n_members) for part in (x, y, known))
        log_q = known * self._label_log_prob(posterior, y, step)
        if self.decoder is None:
            return Objective(log_q, torch.zeros_like(log_q), log_q)
        unnamed_kl = self._unnamed_kl(posterior)
        labels_kl = posterior.labels.kl(self.prior.labels(), step.kl)
        log_likelihood = self._log_likelihood(x, posterior, step.expectation, None)
        log_likelihood = log_likelihood + known * self._log_likelihood(x, posterior, step.expectation, y)
        divergence = labels_kl + (1 + known) * unnamed_kl
        weight = self.config.reconstruction_weight
        value = log_q + weight * (log_likelihood - step.kl_weight * divergence)
        return Objective(value, divergence, log_likelihood)

    def watched(
        self, x: Float[Tensor, "batch D"], y: Float[Tensor, "batch K"], kl: KL, generator: torch.Generator
    ) -> Watched:
        labels = self.inference(x).labels
        y = for_each_member(y, self.config.n_members)
        presence = labels.presence
        discrete = forms.label_log_prob(labels, self.config.form, y)
        relaxed = discrete  # nothing is relaxed but in the paper's form
        if self.config.form == "monte_carlo" and isinstance(labels, SlotDistribution):
            presence = forms.relaxed_presence(labels, self.temperatures, 1, generator)
            relaxed = forms.relaxed_log_prob(presence, y)
        numbers = forms.number_of_labels(labels, self.config.form, presence)
        expected = numbers @ torch.arange(numbers.shape[-1], dtype=numbers.dtype, device=numbers.device)
        return Watched(discrete, relaxed, labels.kl(self.prior.labels(), kl), expected)

    def _label_log_prob(self, posterior: LabelPosterior, y: Tensor, step: Step) -> Tensor:
        if self.config.form == "monte_carlo":
            assert isinstance(posterior.labels, SlotDistribution)
            presence = forms.relaxed_presence(posterior.labels, self.temperatures, step.n_samples, step.generator)
            return forms.relaxed_log_prob(presence, y)
        return forms.label_log_prob(posterior.labels, self.config.form, y)

    def _unnamed_kl(self, posterior: LabelPosterior) -> Tensor:
        if posterior.unnamed is None or self.prior.unnamed is None:
            return torch.zeros(())
        return posterior.unnamed.kl(self.prior.unnamed(), "exact")

    def _log_likelihood(
        self, x: Tensor, posterior: LabelPosterior, expectation: TargetExpectation, y: Tensor | None
    ) -> Tensor:
        """E log p(x given z) over what is not seen: the further features and, unless y is given, the labels."""

        def given_unnamed(unnamed: Tensor | None) -> Tensor:
            if y is not None:
                return self.log_likelihood(x, _joined(y.unsqueeze(0), unnamed))
            return expectation(
                posterior.labels, lambda drawn: self.log_likelihood(x, _joined(drawn, unnamed))
            ).unsqueeze(0)

        if posterior.unnamed is None:
            return given_unnamed(None)[0]
        return expectation(posterior.unnamed, given_unnamed)

    def log_likelihood(self, x: Float[Tensor, "rows D"], codes: Float[Tensor, "S rows K"]) -> Float[Tensor, "S rows"]:
        """Log p(x given z) for S codes of each row."""
        assert self.decoder is not None
        assert self.likelihood is not None
        return torch.stack([self.likelihood.log_prob(x, self.decoder(code)) for code in codes])


def _joined(labels: Float[Tensor, "S rows K"], unnamed: Float[Tensor, "S rows U"] | None) -> Float[Tensor, "S rows Z"]:
    """Labels and further features as the decoder sees them."""
    if unnamed is None:
        return labels
    return torch.cat([labels.expand(len(unnamed), *labels.shape[1:]), unnamed], dim=-1)
