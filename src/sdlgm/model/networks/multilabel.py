"""Encoder and decoder of the model with labels, for all members at once."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes.label_sets import LabelForm
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.codes.subset import SubsetDistribution
from sdlgm.model.networks.members import MemberLayers, MemberLinear

Variant = Literal["dis", "gen", "con"]


@dataclass(frozen=True)
class MultiLabelConfig:
    """The settings that fix the shapes and families of a `MultiLabelModule`."""

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
    linear_path: bool = False
    """Whether the log-odds of the labels have a linear function of the inputs added."""

    @property
    def n_unnamed(self) -> int:
        """Number of latent features in addition to the labels."""
        return self.n_latent if self.variant == "con" else 0


@dataclass(frozen=True)
class LabelPosterior:
    """q(y, u given x): labels and latent features, independent given x; rows are members times batch."""

    labels: SlotDistribution | SubsetDistribution
    unnamed: SubsetDistribution | None


class LabelEncoder(nn.Module):
    """Amortised inference of labels and latent features from shared hidden layers."""

    def __init__(self, config: MultiLabelConfig):
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
        self.linear = None
        if config.linear_path:
            self.linear = nn.Parameter(torch.zeros(config.n_members, config.n_inputs, config.n_labels))
        self.n_logits = config.n_labels + 1

    def forward(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> LabelPosterior:
        n_members, n_slots = self.config.n_members, self.config.n_slots
        of_members = x.expand(n_members, *x.shape)
        hidden = self.trunk(of_members, generator)
        logits = self.labels(hidden)
        if self.linear is not None:
            logits = torch.baddbmm(logits, of_members, self.linear)
        logits = logits.flatten(0, 1)
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
        """Set the biases so that the labels start with their frequencies in the data."""
        if self.gate is None:
            self.labels.bias.copy_(torch.logit(frequencies).expand_as(self.labels.bias))
            return
        symbols = slot_probabilities(frequencies, self.config.n_slots)
        self.labels.bias.copy_(symbols.log().expand_as(self.labels.bias))
        self.gate.bias.fill_(float(torch.logit(symbols.sum())))


def slot_probabilities(frequencies: Float[Tensor, " K"], n_slots: int) -> Float[Tensor, " K"]:
    """Return the probabilities of a slot at which labels have the given frequencies, if a slot can have them."""
    symbols = -torch.expm1(torch.log1p(-frequencies) / n_slots)
    return symbols * min(1.0, 0.95 / float(symbols.sum()))


class LabelDecoder(nn.Module):
    """p(x given labels and latent features), Gaussian."""

    def __init__(self, config: MultiLabelConfig):
        super().__init__()
        sizes = [config.n_labels + config.n_unnamed, *reversed(config.hidden)]
        self.n_members = config.n_members
        self.trunk = MemberLayers(config.n_members, sizes, activation=config.activation)
        self.out = MemberLinear(config.n_members, sizes[-1], config.n_inputs)

    def forward(self, codes: Float[Tensor, "rows K"]) -> Float[Tensor, "rows D"]:
        members = codes.unflatten(0, (self.n_members, -1))
        return self.out(self.trunk(members, None)).flatten(0, 1)
