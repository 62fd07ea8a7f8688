"""Encoders of counts.

- ``mlp``: fully connected layers on all values.
- ``cnn``: convolutions, then fully connected layers on their output.
- ``patches``: convolutions, then one vote for each patch of the picture, for one class or for none. The votes for a
  class add up to its expected count, L0 lambda pi_k. With as many patches as slots, lambda pi is the mean of the votes;
  with more, the votes are limited so that they do not add up to more than L0.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.networks.layers import ACTIVATIONS, dropout

CountEncoderName = Literal["mlp", "cnn", "patches"]

CELL = 4
"""Pixels that one cell of the convolutions covers, each way."""

# How sharply votes beyond the budget are limited, in slots ** -1.
_SHARPNESS = 8.0


@dataclass(frozen=True)
class CountConfig:
    """The settings that fix the shapes of a `CountModule`."""

    shape: tuple[int, ...]
    """Shape of an observation: (values,), or (height, width, channels)."""
    n_classes: int
    n_slots: int
    encoder: CountEncoderName
    hidden: tuple[int, ...]
    channels: int
    activation: str
    dropout: float
    patch: tuple[int, int]
    """Height and width of a patch, in cells."""
    stride: tuple[int, int]
    """From one patch to the next, in cells."""
    max_shift: int
    """Largest random shift of a picture in training, in pixels each way."""

    @property
    def cells(self) -> tuple[int, int]:
        """Height and width of a picture, in cells."""
        height, width, _ = self.shape
        return -(-height // CELL), -(-width // CELL)

    @property
    def padding(self) -> tuple[int, int]:
        """Cells to add to height and width so that patches cover the whole picture."""
        down, across = (
            (patch - cells) % stride for cells, patch, stride in zip(self.cells, self.patch, self.stride, strict=True)
        )
        return down, across

    @property
    def n_patches(self) -> int:
        sizes = zip(self.cells, self.padding, self.patch, self.stride, strict=True)
        return math.prod((cells + added - patch) // stride + 1 for cells, added, patch, stride in sizes)


class Convolutions(nn.Sequential):
    """Four layers, two of which halve the picture: one output cell for each square of `CELL` pixels."""

    def __init__(self, n_in: int, channels: int, activation: str):
        layers: list[nn.Module] = []
        for before, after, stride in (
            (n_in, channels, 2),
            (channels, channels, 1),
            (channels, 2 * channels, 2),
            (2 * channels, 2 * channels, 1),
        ):
            layers += [
                nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(after),
                ACTIVATIONS[activation](),
            ]
        super().__init__(*layers)


class FlatEncoder(nn.Module):
    """``mlp`` and ``cnn``: hidden layers on all values, or on all cells, then the gate and the classes."""

    def __init__(self, config: CountConfig):
        super().__init__()
        self.config = config
        n_in = math.prod(config.shape)
        self.convolutions = None
        if config.encoder == "cnn":
            self.convolutions = Convolutions(config.shape[2], config.channels, config.activation)
            n_in = 2 * config.channels * math.prod(config.cells)
        sizes = [n_in, *config.hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activation = ACTIVATIONS[config.activation]()
        self.out = nn.Linear(sizes[-1], config.n_classes + 1)
        self.n_logits = config.n_classes + 1

    def forward(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> SlotDistribution:
        logits = self.logits(x, generator)
        return SlotDistribution(logits[:, 0], logits[:, 1:], self.config.n_slots)

    def logits(
        self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "batch symbols"]:
        """Return the log-odds of the gate and the logits of the classes."""
        if self.convolutions is not None:
            x = self.convolutions(_pictures(x, self.config.shape)).flatten(1)
        for layer in self.layers:
            x = dropout(self.activation(layer(x)), self.config.dropout, generator)
        return self.out(x)

    @torch.no_grad()
    def start_at(self, shares: Float[Tensor, " K"]) -> None:
        """Set the biases so that the classes start with these shares of the slots."""
        self.out.bias.copy_(torch.cat([torch.logit(shares.sum()).view(1), shares.log()]))


class PatchEncoder(nn.Module):
    """``patches``: each patch votes for one class or for none."""

    def __init__(self, config: CountConfig):
        super().__init__()
        self.config = config
        width = config.hidden[-1] if config.hidden else 2 * config.channels
        self.convolutions = Convolutions(config.shape[2], config.channels, config.activation)
        self.patch = nn.Conv2d(2 * config.channels, width, config.patch, stride=config.stride, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.activation = ACTIVATIONS[config.activation]()
        self.out = nn.Conv2d(width, config.n_classes + 1, 1)
        self.n_logits = config.n_classes + 1

    def forward(self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None) -> SlotDistribution:
        return slots_of_votes(self.votes(x, generator).flatten(2), self.config.n_slots)

    def votes(
        self, x: Float[Tensor, "batch D"], generator: torch.Generator | None = None
    ) -> Float[Tensor, "batch symbols down across"]:
        """Return the log-probabilities of the content of each patch; the first is "nothing"."""
        cells = self.convolutions(_pictures(x, self.config.shape))
        down, across = self.config.padding
        if down or across:
            cells = F.pad(cells, (across // 2, across - across // 2, down // 2, down - down // 2))
        hidden = self.patch(cells)
        hidden = dropout(self.activation(self.norm(hidden)), self.config.dropout, generator)
        return self.out(hidden).log_softmax(1)

    @torch.no_grad()
    def start_at(self, shares: Float[Tensor, " K"]) -> None:
        """Set the biases so that the classes start with these shares of the slots."""
        assert self.out.bias is not None
        votes = shares * min(1.0, self.config.n_slots / self.config.n_patches)
        self.out.bias.copy_(torch.cat([torch.log1p(-votes.sum()).view(1), votes.log()]))


def slots_of_votes(votes: Float[Tensor, "batch symbols patches"], n_slots: int) -> SlotDistribution:
    """Return slots whose expected counts are the sums of the votes, up to the budget.

    ``votes`` are log-probabilities. With no more patches than slots, the votes for nothing and the slots without a
    patch are the unused part of the budget. With more patches, the unused part is softplus(L0 - sum of the votes), and
    all shares are divided by their sum.
    """
    log_counts = votes[:, 1:].logsumexp(-1)
    n_patches = votes.shape[-1]
    if n_patches <= n_slots:
        log_left = votes[:, 0].logsumexp(-1)
        if n_patches < n_slots:
            log_left = torch.logaddexp(log_left, log_left.new_tensor(float(n_slots - n_patches)).log())
    else:
        room = _SHARPNESS * (n_slots - log_counts.exp().sum(-1))
        # log softplus(room), which is room itself where it is very negative
        log_left = torch.where(room < -15, room, F.softplus(room.clamp(min=-15)).log()) - math.log(_SHARPNESS)
    return SlotDistribution(log_counts.logsumexp(-1) - log_left, log_counts, n_slots)


def _pictures(x: Float[Tensor, "batch D"], shape: tuple[int, ...]) -> Float[Tensor, "batch C H W"]:
    """Reshape rows, in the order height, width, channel, to pictures for convolutions."""
    return x.unflatten(1, shape).permute(0, 3, 1, 2).contiguous()


def shift_randomly(
    x: Float[Tensor, "batch D"], shape: tuple[int, ...], max_shift: int, generator: torch.Generator
) -> Float[Tensor, "batch D"]:
    """Shift pictures at random by up to ``max_shift`` pixels each way, repeating the edge."""
    height, width, _ = shape
    batch = len(x)
    moves = torch.randint(-max_shift, max_shift + 1, (2, batch, 1), generator=generator, device=x.device)
    rows = (torch.arange(height, device=x.device) + moves[0]).clamp(0, height - 1)
    columns = (torch.arange(width, device=x.device) + moves[1]).clamp(0, width - 1)
    numbers = torch.arange(batch, device=x.device)
    return x.unflatten(1, shape)[numbers[:, None, None], rows[:, :, None], columns[:, None, :]].flatten(1)
