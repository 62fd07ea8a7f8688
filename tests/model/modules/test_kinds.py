"""The bounds of a model with columns of every kind and with missing values, compared with sums over all codes."""

import pytest
import torch
from torch import Tensor

from enumeration import L0, K, all_counts
from kinds import LAYOUT, ROWS, statistics
from oracles import FAMILIES, Enumeration
from sdlgm.model import Batch, ModelConfig, Noise, SDLGMModule
from sdlgm.model.likelihoods import LIKELIHOODS, Layout
from sdlgm.model.modules import Step

LAYOUTS = {
    "mixed": LAYOUT,
    **{name: Layout((name,) * 4, (3, 2, 3, 2) if name == "categorical" else ()) for name in LIKELIHOODS},
}


def tiny_module(layout: Layout) -> SDLGMModule:
    torch.manual_seed(3)
    sizes = {"n_features": K, "n_slots": L0, "gate_prior": 0.4, "hidden": (6,), "gate_hidden": (5,)}
    config = ModelConfig(
        n_inputs=len(layout.likelihoods), **sizes, posterior="shared", likelihood=layout.name, layout=layout
    )
    module = SDLGMModule(config).double().eval()
    for parameter in module.parameters():
        parameter.data.mul_(1.5)  # away from the flat start, so that the posterior matters
    return module


@pytest.fixture(params=LAYOUTS)
def module(request) -> SDLGMModule:
    return tiny_module(LAYOUTS[request.param])


@pytest.fixture
def x(module) -> Tensor:
    rows = ROWS if module.config.likelihood == "mixed" else torch.tensor([[1.0, 0, 1, 1], [0, 1, 2, 0], [2, 1, 0, 1]])
    rows = rows.double().clone()
    if module.config.likelihood == "bernoulli":
        rows = rows.clamp(max=1.0)
    rows[1, 0] = torch.nan
    rows[2] = torch.nan
    return rows


def log_evidence(module: SDLGMModule, x: Tensor) -> Tensor:
    """Return log p(x), a sum over all codes."""
    counts = all_counts()
    log_likelihood = module.log_likelihood(x, counts[:, None, :].expand(-1, len(x), -1))
    return (module.prior().log_prob(counts)[:, None] + log_likelihood).logsumexp(0)


def exact_bound(module: SDLGMModule, x: Tensor) -> Tensor:
    symbols = FAMILIES["slots"].symbols.unsqueeze(1)
    outcomes = symbols.expand(-1, len(x), *symbols.shape[2:])
    return module.loss(Batch(x), Step(Enumeration(outcomes), "exact", 1.0, 1, Noise.seeded(0))).value


def test__bounds__enumerated__are_in_order(module, x, noise):
    with torch.no_grad():
        evidence, exact = log_evidence(module, x), exact_bound(module, x)
        many = module.importance_weighted_bound(x, 5_000, noise)
        sampled = module.elbo(x.repeat(1500, 1), noise=noise).value.unflatten(0, (1500, 3))
    assert bool((exact < evidence + 1e-9).all())
    torch.testing.assert_close(many, evidence, atol=0.05, rtol=0)
    error = sampled.std(0) / len(sampled) ** 0.5
    assert bool(((sampled.mean(0) - exact).abs() < 4.5 * error + 1e-9).all())


def test__log_evidence__nothing_known__is_zero(module, x):
    with torch.no_grad():
        assert float(log_evidence(module, x)[2]) == pytest.approx(0.0, abs=1e-9)
        assert float(exact_bound(module, x)[2]) < 1e-9


def test__loss__missing_values__has_a_finite_gradient(module, x):
    exact_bound(module, x).sum().backward()
    for name, parameter in module.named_parameters():
        assert parameter.grad is None or bool(torch.isfinite(parameter.grad).all()), name


def test__adapt_to__mixed__starts_at_the_mean_of_the_data():
    module = tiny_module(LAYOUT).float()
    module.adapt_to(statistics())
    output = module.decoder[-1].bias
    mean = module.likelihood.mean(output).tolist()
    assert mean[:2] == pytest.approx([0.0, 1.5], rel=1e-5)
    assert (mean[2], mean[3], mean[4]) == pytest.approx((2.0, 0.6, 4.0), rel=1e-5)  # the most frequent level


def test__settings__of_a_plain_model__do_not_name_a_layout():
    assert "layout" not in SDLGMModule(ModelConfig(4, K, L0, hidden=(3,))).settings()
    assert tiny_module(LAYOUT).settings()["layout"] == LAYOUT.as_json()
