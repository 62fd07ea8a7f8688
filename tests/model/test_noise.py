"""Noise: distribution of the draws, and shards that together draw what one process draws."""

import numpy as np
import pytest
import torch
from scipy import stats

from sdlgm._kernels.random import BLOCK
from sdlgm.model.noise import Noise
from sdlgm.model.shards import Shard

ALPHA = 1e-4  # level of the goodness-of-fit tests, whose seeds are fixed
LIKE = torch.zeros(())
SHAPE = (3, 2 * BLOCK, 4)
"""Samples, rows of a shard, columns; whole blocks of rows, since each block has a key of its own."""


def shards(n_shards: int, seed: int = 0) -> list[Noise]:
    """Return the noise of several processes, each of which has a generator with the same seed."""
    return [Noise(torch.Generator().manual_seed(seed), Shard(rank, n_shards)) for rank in range(n_shards)]


def whole_shape(n_shards: int) -> tuple[int, ...]:
    return SHAPE[0], n_shards * SHAPE[1], SHAPE[2]


def assert_same_state(parts: list[Noise], whole: Noise) -> None:
    """Check that later draws agree as well."""
    for part in parts:
        assert torch.equal(part.generator.get_state(), whole.generator.get_state())


@pytest.mark.parametrize("n_shards", [2, 3])
@pytest.mark.parametrize("method", ["uniform", "gumbel"])
def test__noise__shards__draw_together_what_one_process_draws(method, n_shards):
    parts, whole = shards(n_shards), Noise.seeded(0)
    drawn = [getattr(part, method)(SHAPE, LIKE) for part in parts]
    expected = getattr(whole, method)(whole_shape(n_shards), LIKE)
    assert torch.equal(torch.cat(drawn, dim=1), expected)
    assert all(part.is_contiguous() for part in drawn)
    assert not torch.equal(drawn[0], drawn[1])
    assert_same_state(parts, whole)


@pytest.mark.parametrize("n_shards", [2, 3])
def test__uniform__other_dimension_of_the_batch__is_divided_there(n_shards):
    parts, whole = shards(n_shards), Noise.seeded(0)
    drawn = [part.uniform((5, 4), LIKE, rows=0) for part in parts]
    assert torch.equal(torch.cat(drawn), whole.uniform((n_shards * 5, 4), LIKE, rows=0))


def test__uniform__one_row__is_common_to_all_shards():
    parts, whole = shards(2), Noise.seeded(0)
    expected = whole.uniform((3, 1, 4), LIKE)
    for part in parts:
        assert torch.equal(part.uniform((3, 1, 4), LIKE), expected)
    assert_same_state(parts, whole)


@pytest.mark.parametrize("n_shards", [2, 3])
def test__block_keys__shards__draw_together_what_one_process_draws(n_shards):
    parts, whole = shards(n_shards), Noise.seeded(0)
    keys = np.concatenate([part.block_keys(2 * BLOCK) for part in parts])
    np.testing.assert_array_equal(keys, whole.block_keys(n_shards * 2 * BLOCK))
    assert len(np.unique(keys)) == keys.size
    assert_same_state(parts, whole)


@pytest.mark.parametrize("n_shards", [2, 3])
def test__bernoulli__shards__draw_together_what_one_process_draws(n_shards, loops):
    parts, whole = shards(n_shards), Noise.seeded(0)
    probs = torch.rand(n_shards * 2 * BLOCK, 4, generator=torch.Generator().manual_seed(1))
    drawn = [part.bernoulli(part.shard.part(probs)) for part in parts]
    assert torch.equal(torch.cat(drawn), whole.bernoulli(probs))
    assert_same_state(parts, whole)


def test__gumbel__many_draws__are_finite_and_fit_the_distribution():
    drawn = Noise.seeded(0).gumbel((100, 100, 2), LIKE)
    assert bool(torch.isfinite(drawn).all())
    assert stats.kstest(drawn.flatten().numpy(), stats.gumbel_r.cdf).pvalue > ALPHA


def test__bernoulli__many_draws__fit_their_probabilities(noise, loops):
    probs = torch.tensor([[0.0, 1e-3, 0.3, 0.5, 0.999, 1.0]]).expand(40_000, -1)
    ones = noise.bernoulli(probs).sum(0).numpy()
    assert ones[0] == 0
    assert ones[-1] == 40_000
    for n, p in zip(ones[1:-1], probs[0, 1:-1].tolist(), strict=True):
        assert stats.binomtest(int(n), 40_000, p).pvalue > ALPHA


def test__bernoulli__rows_and_columns__are_uncorrelated(noise):
    drawn = noise.bernoulli(torch.full((4000, 12), 0.5)).numpy()
    for matrix in (drawn, np.column_stack([drawn[:-1, 0], drawn[1:, 0]])):
        correlation = np.corrcoef(matrix.T) - np.eye(matrix.shape[1])
        assert np.abs(correlation).max() < 4.5 / np.sqrt(len(drawn))


def test__bernoulli__same_generator__gives_fresh_numbers(noise):
    probs = torch.full((30, 50), 0.5)
    first, second = noise.bernoulli(probs), noise.bernoulli(probs)
    assert not torch.equal(first, second)
    assert not torch.equal(first[:5], first[25:])  # another block has another key
    assert torch.equal(first, Noise.seeded(0).bernoulli(probs))
