"""Categories."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from sdlgm.model.likelihoods.base import Likelihood
from sdlgm.model.likelihoods.places import places, take

# Smallest share that a level starts with; one may be absent from the rows at hand.
MIN_SHARE = 1e-3


@dataclass(frozen=True)
class _Group:
    """Entries with the same number of levels, and the places of their outputs."""

    levels: int
    entries: Tensor
    outputs: Tensor


class Categorical(Likelihood):
    """Categories: entry j is the index of one of C_j levels, and the decoder has an output, a logit, for each of them.

    Parameters
    ----------
    n_inputs : int
        D, the number of entries.
    n_levels : sequence of int
        C_j of each entry.

    """

    support = "levels"
    view = "levels"

    def __init__(self, n_inputs: int, n_levels: Sequence[int]):
        super().__init__(n_inputs)
        assert len(n_levels) == n_inputs
        self.n_levels = tuple(n_levels)
        starts = list(accumulate(n_levels, initial=0))
        # Entries with as many levels are one tensor.
        self._groups: list[_Group] = []
        order: list[int] = []
        for levels in sorted(set(n_levels)):
            entries = [entry for entry, n in enumerate(n_levels) if n == levels]
            outputs = [starts[entry] + level for entry in entries for level in range(levels)]
            self._groups.append(_Group(levels, places(entries), places(outputs)))
            order += entries
        self._places = places(order).argsort()

    @property
    def n_outputs(self) -> int:
        return sum(self.n_levels)

    def log_probs(self, x, output):
        parts = []
        for log_probs, group in self._log_softmax(output):
            level = take(x, group.entries).long().expand(log_probs.shape[:-1]).unsqueeze(-1)
            parts.append(log_probs.gather(-1, level).squeeze(-1))
        return self._in_order(parts)

    def mean(self, output):
        """Return the most probable levels, since levels have no mean."""
        return self._in_order([log_probs.argmax(-1).to(output.dtype) for log_probs, _ in self._log_softmax(output)])

    def sample(self, output, generator):
        parts = []
        for log_probs, _ in self._log_softmax(output):
            flat = log_probs.exp().flatten(0, -2)
            drawn = torch.multinomial(flat, 1, generator=generator)
            parts.append(drawn.view(log_probs.shape[:-1]).to(output.dtype))
        return self._in_order(parts)

    def initial_output(self, data_mean):
        return data_mean.new_zeros(self.n_outputs)

    def start(self, statistics):
        shares = [share.clamp(min=MIN_SHARE) for share in statistics.frequencies]
        return torch.cat([torch.log(share / share.sum()) for share in shares])

    def probs(self, output: Float[Tensor, "*batch O"]) -> Float[Tensor, "*batch O"]:
        """Return the probability of each level of each entry, in the order of the outputs."""
        return torch.cat([part.softmax(-1) for part in output.split(self.n_levels, dim=-1)], dim=-1)

    def _log_softmax(self, output: Tensor) -> list[tuple[Tensor, _Group]]:
        """Return the log-probabilities of the levels, for all entries with as many of them at once."""
        return [
            (take(output, group.outputs).unflatten(-1, (-1, group.levels)).log_softmax(-1), group)
            for group in self._groups
        ]

    def _in_order(self, parts: list[Tensor]) -> Tensor:
        """Return values of the groups in the order of the entries."""
        return parts[0] if len(parts) == 1 else take(torch.cat(parts, dim=-1), self._places)
