"""Batches of a module."""

import torch

from sdlgm.model import Batch
from sdlgm.model.shards import WHOLE_BATCH, Shard


def test__batch_part__all_shards__are_the_rows_in_order():
    batch = Batch(*(torch.arange(6.0 * n).view(6, n) for n in (2, 3)), torch.arange(6.0), torch.arange(6.0) + 1)
    parts = [batch.part(Shard(rank, 3)) for rank in range(3)]
    for name, values in vars(batch).items():
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), values)
    assert batch.part(WHOLE_BATCH) is batch
    without_targets = Batch(batch.x).part(Shard(1, 3))
    assert without_targets.y is None
    assert without_targets.known is None
    assert without_targets.weight is None
    assert torch.equal(without_targets.x, batch.x[2:4])
