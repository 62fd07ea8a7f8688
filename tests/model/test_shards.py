"""Parts of a batch."""

import pytest
import torch

from sdlgm.model.shards import WHOLE_BATCH, Shard


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("n_parts", [1, 2, 3])
def test__part__all_shards__are_the_whole_in_order(n_parts, dim):
    values = torch.arange(72).view(6, 12)
    parts = [Shard(rank, n_parts).part(values, dim) for rank in range(n_parts)]
    assert torch.equal(torch.cat(parts, dim), values)
    assert len({part.shape for part in parts}) == 1


def test__part__whole_batch__is_the_same_tensor():
    values = torch.arange(7)
    assert WHOLE_BATCH.part(values) is values
