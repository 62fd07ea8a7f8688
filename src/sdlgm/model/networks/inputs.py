"""Input of an encoder for an observation with missing values, or with columns of several kinds."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from sdlgm.model.likelihoods import LIKELIHOODS, ColumnStatistics, Layout
from sdlgm.model.likelihoods.base import View
from sdlgm.model.likelihoods.places import places, take


def with_mean(x: Float[Tensor, "batch D"], mean: Float[Tensor, " D"]) -> Float[Tensor, "batch D"]:
    """Return rows with the mean in place of missing entries."""
    missing = torch.isnan(x)
    return torch.where(missing, mean, x) if bool(missing.any()) else x


class EncoderInputs(nn.Module):
    """From an observation to the numbers that the encoder sees, by the `View` that each column's likelihood names.

    - ``"plain"``: the entry minus its mean. Binary entries keep their scale, so that rare ones are not blown up.
    - ``"squashed"``: asinh of the entry, which is standardised: itself near 0, its logarithm far away. So one wild
      entry, whatever its size, cannot determine the code.
    - ``"log"``: log(1 + x), standardised and squashed likewise.
    - ``"levels"``: one number for each level, 1 or 0, minus the share of the level.

    A missing entry is 0, its mean. Each column that had missing values in the training data has one more number, which
    says where, minus its mean.

    Parameters
    ----------
    layout : Layout

    """

    location: Tensor
    scale: Tensor
    level_shares: Tensor
    missing_shares: Tensor

    def __init__(self, layout: Layout):
        super().__init__()
        columns: dict[View, list[int]] = {"plain": [], "squashed": [], "log": [], "levels": []}
        for name, group in layout.groups.items():
            columns[LIKELIHOODS[name].view].extend(group)
        self._plain, self._squashed, self._log = (places(columns[view]) for view in ("plain", "squashed", "log"))
        self._categories = places(sorted(columns["levels"]))
        self._with_missing = places(layout.with_missing)
        self._first_level = places([0, *layout.n_levels]).cumsum(0)[:-1]
        self._category_of_level = places([n for n, levels in enumerate(layout.n_levels) for _ in range(levels)])
        self.n_levels = sum(layout.n_levels)
        n_columns = len(layout.likelihoods)
        self.n_outputs = n_columns - len(layout.n_levels) + self.n_levels + len(layout.with_missing)
        self.register_buffer("location", torch.zeros(n_columns))
        self.register_buffer("scale", torch.ones(n_columns))
        self.register_buffer("level_shares", torch.zeros(self.n_levels))
        self.register_buffer("missing_shares", torch.zeros(len(layout.with_missing)))

    @torch.no_grad()
    def adapt_to(self, statistics: ColumnStatistics) -> None:
        """Centre, and standardise where a view needs it, on the training data."""
        for entries, mean in ((self._plain, statistics.mean), (self._log, statistics.log_mean)):
            self.location[entries] = take(mean, entries)
        deviation = take(statistics.log_deviation, self._log)
        self.scale[self._log] = torch.where(deviation > 0, deviation, 1.0)
        if self.n_levels:
            self.level_shares.copy_(torch.cat(statistics.frequencies))
        self.missing_shares.copy_(take(statistics.share_missing, self._with_missing))

    def forward(self, x: Float[Tensor, "batch D"]) -> Float[Tensor, "batch inputs"]:
        missing = torch.isnan(x)
        entries = x.masked_fill(missing, 0.0)
        plain = self._standardised(take(entries, self._plain), missing, self._plain)
        squashed = torch.asinh(self._standardised(take(entries, self._squashed), missing, self._squashed))
        counts = torch.asinh(self._standardised(torch.log1p(take(entries, self._log)), missing, self._log))
        indicators = take(missing, self._with_missing).to(x.dtype) - self.missing_shares
        return torch.cat([plain, squashed, counts, self._levels(entries, missing), indicators], dim=-1)

    def _standardised(self, values: Tensor, missing: Bool[Tensor, "batch D"], columns: Tensor) -> Tensor:
        """Return standardised values of some columns, 0 where they are missing."""
        location, scale = take(self.location, columns), take(self.scale, columns)
        return ((values - location) / scale).masked_fill(take(missing, columns), 0.0)

    def _levels(self, entries: Tensor, missing: Bool[Tensor, "batch D"]) -> Float[Tensor, "batch levels"]:
        """Return which level each category has, minus the shares of the levels."""
        level = take(entries, self._categories).long() + self._first_level.to(entries.device)
        present = (~take(missing, self._categories)).to(entries.dtype)
        # Over the levels of a column the shares add up to 1, as the level itself does.
        shares = self.level_shares * self._for_each_level(present)
        return entries.new_zeros(len(entries), self.n_levels).scatter(-1, level, present) - shares

    def _for_each_level(self, values: Float[Tensor, "batch columns"]) -> Float[Tensor, "batch levels"]:
        """Return the value of each category once for each of its levels."""
        return take(values, self._category_of_level)
