"""What keeps many features in use."""

import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from sdlgm import SDLGM
from sdlgm.gradients import GRADIENTS
from sdlgm.model.codes import usage
from sdlgm.model.codes.priors import ChainPrior
from sdlgm.model.modules.base import Batch, Step
from sdlgm.model.modules.unsupervised import ModelConfig, SDLGMModule
from sdlgm.model.networks.encoders import LogitEncoder
from sdlgm.model.noise import Noise

K, L0 = 1200, 8
SHARE = 0.5 * L0 / K


def bias_of(module: SDLGMModule) -> torch.nn.Parameter:
    encoder = module.posterior.encoder
    assert isinstance(encoder, LogitEncoder)
    return encoder.bias


def module_of(n_features: int = K) -> SDLGMModule:
    torch.manual_seed(0)
    config = ModelConfig(20, n_features, L0, prior="chain", prior_hidden=4, posterior_rank=2, hidden=(6,))
    return SDLGMModule(config)


def objective(module: SDLGMModule, x: torch.Tensor):
    module.train()
    gradient = GRADIENTS["reinmax"](module.n_logits)
    return module.loss(Batch(x), Step(gradient, "exact", 1.0, 1, Noise.seeded(0)))


def binary_rows(n_rows: int) -> torch.Tensor:
    return (torch.rand(n_rows, 20, generator=torch.Generator().manual_seed(1)) < 0.5).float()


def test__first_shares__many_features__fall_with_the_place_and_keep_the_mean():
    shares = usage.first_shares(4096, 16 / 4096)
    assert (shares.diff() <= 0).all()
    assert float(shares.min()) == pytest.approx(usage.LEAST * 16 / 4096)
    assert float(shares.sum()) == pytest.approx(16, rel=0.02)


@pytest.mark.parametrize("deviation", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("share", [0.4, 0.02, 0.0005])
def test__biases__any_share__give_that_share_on_average(deviation, share):
    bias = float(usage.biases(torch.tensor([share], dtype=torch.float64), deviation)[0])
    mean, _ = quad(lambda n: expit(deviation * n + bias) * norm.pdf(n), -9, 9, epsabs=1e-12, limit=200)
    assert mean == pytest.approx(share, rel=2e-3)


def test__rarity_penalty__some_rare_features__charges_them_alone():
    presence = torch.tensor([0.5, 0.1, 0.01, 0.001], requires_grad=True)
    penalty = usage.rarity_penalty(presence, 0.1)
    assert float(penalty.detach()) == pytest.approx(0.1 * (math.log(10) + math.log(100)), rel=1e-5)
    (gradient,) = torch.autograd.grad(penalty, presence)
    torch.testing.assert_close(gradient[[0, 2, 3]], torch.tensor([0.0, -10.0, -100.0]))


def test__rarity_penalty__a_feature_that_is_never_present__is_finite():
    presence = torch.zeros(3, requires_grad=True)
    penalty = usage.rarity_penalty(presence, 0.1)
    penalty.backward()
    assert bool(torch.isfinite(penalty))
    assert presence.grad is not None
    assert bool(torch.isfinite(presence.grad).all())


def test__module__many_features__start_with_the_shares_under_prior_and_posterior():
    module = module_of()
    shares = usage.first_shares(K, SHARE).float()
    assert isinstance(module.prior, ChainPrior)
    torch.testing.assert_close(torch.sigmoid(module.prior.bias[0].detach()), shares)
    module.train()
    with torch.no_grad():
        logits = module.inference(binary_rows(4000)).summary
    present = torch.sigmoid(logits).mean(0).sum()
    assert float(present) == pytest.approx(float(shares.sum()), rel=0.1)


def test__module__few_features__start_as_before_without_a_penalty():
    module = module_of(n_features=50)
    assert isinstance(module.prior, ChainPrior)
    assert module.prior.bias.detach().unique().numel() == 1
    assert objective(module, binary_rows(30)).penalty is None


def test__loss__a_rare_feature__is_pushed_up_by_the_penalty():
    module = module_of()
    rare = K - 1
    with torch.no_grad():
        bias_of(module)[rare] -= 8
    penalty = objective(module, binary_rows(200)).penalty
    assert penalty is not None
    (gradient,) = torch.autograd.grad(penalty, bias_of(module))
    # The slope of least * log(least / p) with p proportional to exp(bias): that of a feature that is hardly there.
    assert float(gradient[rare]) == pytest.approx(-usage.LEAST * SHARE, rel=0.01)


def test__loss__penalty__is_no_part_of_the_value():
    module, x = module_of(), binary_rows(30)
    found = objective(module, x)
    assert found.penalty is not None
    torch.testing.assert_close(found.value.detach(), (found.log_likelihood - found.kl).detach())


@pytest.mark.slow
def test__fit__many_features__leaves_nearly_all_in_use():
    rng = np.random.default_rng(0)
    patterns = rng.random((60, 40)) < 0.15
    X = ((rng.random((4000, 60)) < 0.05) @ patterns > 0).astype(float)
    model = SDLGM(n_components=K, max_active=L0, likelihood="bernoulli", max_iter=600, random_state=0).fit(X)
    presence = np.asarray((model.sample_codes(X, random_state=0) > 0).mean(axis=0)).ravel()
    assert (presence >= 0.1 * usage.LEAST * SHARE).mean() > 0.9
