"""The counting model: its objective, its start and its augmentation."""

import numpy as np
import pytest
import torch

from sdlgm.gradients import GradientEstimator
from sdlgm.model import Batch, Noise
from sdlgm.model.modules import CountModule, Step
from sdlgm.model.networks.counting import CountConfig

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


class NoDraws(GradientEstimator):
    """Fail if anything is drawn."""

    def draw(self, posterior, *, n_samples, temperatures, noise):
        pytest.fail("nothing is drawn")


@pytest.mark.parametrize("name", MODULES)
def test__loss__every_encoder__is_the_multinomial_log_probability(name):
    config = MODULES[name]
    module = CountModule(config).double().eval()
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(5, int(np.prod(config.shape)), generator=generator, dtype=torch.float64)
    y = torch.tensor([[0, 0, 0], [1, 0, 0], [0, 2, 0], [1, 0, 1], [0, 1, 1]], dtype=torch.float64)
    batch, noise = Batch(x, y, torch.ones(5, dtype=torch.float64)), Noise(generator)
    objective = module.loss(batch, Step(NoDraws(module.n_logits), "exact", 1.0, 1, noise))
    slots = module.inference(x)
    all_symbols = torch.cat([(2 - y.sum(-1, keepdim=True)), y], dim=-1)
    expected = torch.stack(
        [
            torch.distributions.Multinomial(2, probs).log_prob(counts)
            for probs, counts in zip(slots.probs, all_symbols, strict=True)
        ]
    )
    torch.testing.assert_close(objective.value, expected)
    with torch.no_grad():
        watched = module.watch(batch, kl="exact", noise=noise, n_relaxed=0)
    assert watched.n_rows == 5
    assert watched.n_active == pytest.approx(float(2 * slots.probs[:, 1:].detach().sum()))


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


def test__inference__without_a_generator__neither_moves_nor_drops():
    config = CountConfig(encoder="cnn", **PICTURES, **{**CONFIG, "dropout": 0.5, "max_shift": 2})
    module = CountModule(config).eval()
    x = torch.rand(4, 128)
    torch.testing.assert_close(module.inference(x).log_probs, module.inference(x).log_probs, rtol=0, atol=0)
    generator = torch.Generator().manual_seed(0)
    assert not torch.allclose(module.inference(x).log_probs, module.inference(x, generator).log_probs)
