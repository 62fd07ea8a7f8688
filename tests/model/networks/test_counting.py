"""Encoders of counts: votes of patches, patches of a picture, random shifts."""

import itertools

import numpy as np
import pytest
import torch

from enumeration import all_counts
from sdlgm.model.networks.counting import CELL, CountConfig, PatchEncoder, shift_randomly, slots_of_votes

CONFIG = {
    "n_classes": 3,
    "n_slots": 2,
    "hidden": (6,),
    "channels": 2,
    "activation": "silu",
    "dropout": 0.0,
    "patch": (2, 2),
    "stride": (2, 2),
    "max_shift": 0,
}


def votes(n_patches: int, scale: float = 1.0, batch: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n_patches)
    return (scale * torch.randn(batch, 4, n_patches, generator=generator, dtype=torch.float64)).log_softmax(1)


@pytest.mark.parametrize("n_patches", [1, 2])
def test__votes__as_many_as_slots_or_fewer__are_the_expected_counts(n_patches):
    given = votes(n_patches)
    slots = slots_of_votes(given, 2)
    counts = all_counts()
    probs = slots.log_prob(counts[:, None]).exp()
    torch.testing.assert_close(probs.sum(0), torch.ones(4, dtype=torch.float64))
    expected = (probs[..., None] * counts[:, None]).sum(0)
    torch.testing.assert_close(expected, given[:, 1:].exp().sum(-1))


def test__votes__more_than_slots__are_the_expected_counts_while_there_is_room():
    given = votes(12)
    given[:, 0] += 6.0  # nearly all vote for nothing
    given = given.log_softmax(1)
    sums = given[:, 1:].exp().sum(-1)
    assert float(sums.sum(-1).max()) < 1
    slots = slots_of_votes(given, 2)
    torch.testing.assert_close(2 * slots.probs[:, 1:], sums, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test__votes__far_beyond_the_budget__stay_a_distribution_with_finite_gradients(scale):
    logits = (scale * torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(0))).requires_grad_()
    slots = slots_of_votes(logits.log_softmax(1), 2)
    torch.testing.assert_close(slots.probs.sum(-1), torch.ones(3))
    slots.log_prob(torch.tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 0]])).sum().backward()
    assert logits.grad is not None
    assert bool(torch.isfinite(logits.grad).all())


def test__votes__sums__pass_gradcheck():
    for n_patches in (2, 5):
        inputs = votes(n_patches).requires_grad_()
        torch.autograd.gradcheck(lambda given: slots_of_votes(given, 2).log_probs, inputs)


def test__patches__a_picture__is_cut_where_the_config_says():
    config = CountConfig(shape=(8, 32, 1), encoder="patches", **CONFIG)
    encoder = PatchEncoder(config).eval()
    x = torch.zeros(1, 8, 32, 1)
    before = encoder.votes(x.flatten(1))
    x[:, :, 24:] = 1.0  # beyond what the convolutions at the border of the first patch can see
    after = encoder.votes(x.flatten(1))
    assert before.shape == (1, 4, 1, 4)
    torch.testing.assert_close(before[..., 0], after[..., 0], rtol=0, atol=0)
    assert not torch.allclose(before[..., 3], after[..., 3])
    assert CELL * config.patch[0] == 8


@pytest.mark.parametrize("size", [(25, 25, 1), (32, 17, 2), (3, 3, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test__patches__any_picture_and_stride__see_all_of_it(size, stride):
    cells = -(-size[0] // CELL), -(-size[1] // CELL)
    patch = tuple(min(side, 3) for side in cells)
    stride = tuple(min(side, stride) for side in patch)
    config = CountConfig(shape=size, encoder="patches", **{**CONFIG, "patch": patch, "stride": stride})
    encoder = PatchEncoder(config).double().eval()
    x = torch.rand(1, int(np.prod(size)), dtype=torch.float64).requires_grad_()
    votes = encoder.votes(x)
    assert votes.shape[2] * votes.shape[3] == config.n_patches
    votes[:, 0].sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())


def test__shift_randomly__pictures__are_moved_as_a_whole_by_no_more_than_the_limit():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.zeros(200, 7, 9, 2)
    pictures[:, 3, 4] = torch.tensor([1.0, 2.0])
    moved = shift_randomly(pictures.flatten(1), (7, 9, 2), 2, generator).view(200, 7, 9, 2)
    places = {(int(row), int(column)) for _, row, column in (moved[..., 0] == 1).nonzero().tolist()}
    assert places == set(itertools.product(range(1, 6), range(2, 7)))
    torch.testing.assert_close(moved[..., 1], 2 * moved[..., 0])
    assert float(moved[..., 0].sum()) == 200
