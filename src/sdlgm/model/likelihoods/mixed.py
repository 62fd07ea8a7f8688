"""Columns of several kinds, each with its own likelihood."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from sdlgm.model.likelihoods.base import ColumnStatistics, Likelihood
from sdlgm.model.likelihoods.places import places, take


class Mixed(Likelihood):
    """Groups of entries, each with a likelihood of its own and its own slice of the decoder's output.

    Parameters
    ----------
    parts : mapping from str to Likelihood
        The likelihoods by name.
    groups : mapping from str to list of int
        The entries of each.

    """

    def __init__(self, parts: Mapping[str, Likelihood], groups: Mapping[str, list[int]]):
        super().__init__(sum(len(entries) for entries in groups.values()))
        self.parts = nn.ModuleDict(parts)
        self._entries = [places(groups[name]) for name in parts]
        self._places = torch.cat(self._entries).argsort()

    @property
    def likelihoods(self) -> list[Likelihood]:
        """The likelihood of each group."""
        return [part for part in self.parts.values() if isinstance(part, Likelihood)]

    @property
    def n_outputs(self) -> int:
        return sum(part.n_outputs for part in self.likelihoods)

    def log_probs(self, x, output):
        parts = zip(self.likelihoods, self._entries, self._outputs(output), strict=True)
        return self._in_order([part.log_probs(take(x, entries), own) for part, entries, own in parts])

    def mean(self, output):
        return self._in_order(
            [part.mean(own) for part, own in zip(self.likelihoods, self._outputs(output), strict=True)]
        )

    def sample(self, output, generator):
        parts = zip(self.likelihoods, self._outputs(output), strict=True)
        return self._in_order([part.sample(own, generator) for part, own in parts])

    def initial_output(self, data_mean):
        parts = zip(self.likelihoods, self._entries, strict=True)
        return torch.cat([part.initial_output(take(data_mean, entries)) for part, entries in parts])

    def start(self, statistics):
        parts = zip(self.likelihoods, self._entries, strict=True)
        return torch.cat([part.start(_of(statistics, entries)) for part, entries in parts])

    def _outputs(self, output: Tensor) -> tuple[Tensor, ...]:
        return output.split([part.n_outputs for part in self.likelihoods], dim=-1)

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        """Return values of the groups in the order of the entries."""
        return take(torch.cat(parts, dim=-1), self._places)


def _of(statistics: ColumnStatistics, entries: Tensor) -> ColumnStatistics:
    """Return the statistics of some entries. The frequencies are those of the only categorical group."""
    chosen = {name: take(value, entries) for name, value in vars(statistics).items() if isinstance(value, Tensor)}
    return replace(statistics, **chosen)
