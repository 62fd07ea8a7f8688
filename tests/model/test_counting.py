import itertools

import numpy as np
import pytest
import torch
from sdlgm.model.counting import CELL, CountConfig, CountModule, shifted, slots_of_votes
from sdlgm.model.supervised import Step

from enumeration import all_counts

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
PICTURES = {"shape": (8, 16, 1)}
MODULES = {
    "mlp": CountConfig(shape=(5,), encoder="mlp", **CONFIG),
    "cnn": CountConfig(encoder="cnn", **PICTURES, **CONFIG),
    "patches": CountConfig(encoder="patches", **PICTURES, **CONFIG),
    "more patches": CountConfig(encoder="patches", **PICTURES, **{**CONFIG, "stride": (1, 1)}),
    "fewer patches": CountConfig(encoder="patches", **PICTURES, **{**CONFIG, "patch": (2, 4)}),
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


@pytest.mark.parametrize("name", MODULES)
def test__objective__every_encoder__is_the_multinomial_log_probability(name):
    config = MODULES[name]
    module = CountModule(config).double().eval()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(5, int(np.prod(config.shape)), generator=generator, dtype=torch.float64)
    y = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 2, 0], [1, 0, 1], [0, 1, 1]], dtype=torch.float64)
    step = Step(lambda *_: pytest.fail("nothing is drawn"), "exact", 1.0, 1, generator)
    objective = module.objective(x, y, torch.ones(5, dtype=torch.float64), step)
    slots = module.inference(x)
    all_symbols = torch.cat([(2 - y.sum(-1, keepdim=True)), y], dim=-1)
    expected = torch.stack(
        [
            torch.distributions.Multinomial(2, probs).log_prob(counts)
            for probs, counts in zip(slots.probs, all_symbols, strict=True)
        ]
    )
    torch.testing.assert_close(objective.value, expected)
    torch.testing.assert_close(module.watched(x, y, "exact", generator).n_active, 2 * slots.probs[:, 1:].sum(-1))


@pytest.mark.parametrize("name", MODULES)
def test__adapt_to__mean_counts__are_near_the_first_predictions(name):
    config = MODULES[name]
    module = CountModule(config).eval()
    with torch.no_grad():
        for parameter in module.posterior.out.parameters():
            parameter.zero_()
    module.adapt_to(torch.tensor([0.4, 0.0, 0.8]))
    x = torch.rand(3, int(np.prod(config.shape)))
    expected = torch.tensor([[0.4, 0.0, 0.8]]).expand(3, 3)
    # Fewer patches than slots cannot vote for as much.
    scale = min(1.0, config.n_patches / config.n_slots) if config.encoder == "patches" else 1.0
    torch.testing.assert_close(2 * module.inference(x).probs[:, 1:], scale * expected, atol=0.01, rtol=0.01)


def test__patches__a_picture__is_cut_where_the_config_says():
    config = CountConfig(shape=(8, 32, 1), encoder="patches", **CONFIG)
    module = CountModule(config).eval()
    x = torch.zeros(1, 8, 32, 1)
    before = module.posterior.votes(x.flatten(1))
    x[:, :, 24:] = 1.0  # beyond what the convolutions at the border of the first patch can see
    after = module.posterior.votes(x.flatten(1))
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
    module = CountModule(config).double().eval()
    x = torch.rand(1, int(np.prod(size)), dtype=torch.float64).requires_grad_()
    votes = module.posterior.votes(x)
    assert votes.shape[2] * votes.shape[3] == config.n_patches
    votes[:, 0].sum().backward()
    assert x.grad is not None
    assert bool((x.grad != 0).all())


def test__shifted__pictures__are_moved_as_a_whole_by_no_more_than_asked():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.zeros(200, 7, 9, 2)
    pictures[:, 3, 4] = torch.tensor([1.0, 2.0])
    moved = shifted(pictures.flatten(1), (7, 9, 2), 2, generator).view(200, 7, 9, 2)
    places = {(int(row), int(column)) for _, row, column in (moved[..., 0] == 1).nonzero().tolist()}
    assert places == set(itertools.product(range(1, 6), range(2, 7)))
    torch.testing.assert_close(moved[..., 1], 2 * moved[..., 0])
    assert float(moved[..., 0].sum()) == 200


def test__inference__without_a_generator__neither_moves_nor_drops():
    config = CountConfig(encoder="cnn", **PICTURES, **{**CONFIG, "dropout": 0.5, "max_shift": 2})
    module = CountModule(config).eval()
    x = torch.rand(4, 128)
    torch.testing.assert_close(module.inference(x).log_probs, module.inference(x).log_probs, rtol=0, atol=0)
    generator = torch.Generator().manual_seed(0)
    assert not torch.allclose(module.inference(x).log_probs, module.inference(x, generator).log_probs)
