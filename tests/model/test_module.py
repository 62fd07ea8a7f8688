"""The bounds of a tiny model against log p(x) by brute force."""

import pytest
import torch
from torch import Tensor

from enumeration import L0, K, all_counts
from sdlgm.model import ModelConfig, SDLGMModule, discrete_expectation, relaxed_expectation

D = 4


@pytest.fixture
def module() -> SDLGMModule:
    torch.manual_seed(3)
    config = ModelConfig(
        n_inputs=D, n_features=K, n_slots=L0, gate_prior=0.4, hidden=(6,), gate_hidden=(5,), posterior="shared"
    )
    module = SDLGMModule(config).double().eval()
    for parameter in module.parameters():
        parameter.data.mul_(1.5)  # away from the flat start, so that the posterior matters
    return module


@pytest.fixture
def x() -> Tensor:
    return torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)


def log_evidence(module: SDLGMModule, x: Tensor) -> Tensor:
    """log p(x), summed over all codes."""
    counts = all_counts()
    log_prior = module.prior().log_prob(counts)
    log_likelihood = module.log_likelihood(x, counts[:, None, :].expand(-1, len(x), -1))
    return (log_prior[:, None] + log_likelihood).logsumexp(0)


def enumerated(posterior, log_likelihood) -> Tensor:
    """E_q log p(x given z), exactly."""
    counts = all_counts()[:, None, :].expand(-1, len(posterior.gate_logit), -1)
    return (posterior.log_prob(counts).exp() * log_likelihood(counts)).sum(0)


def repeated(module: SDLGMModule, x: Tensor, n_importance: int, times: int, generator) -> Tensor:
    """The importance-weighted bound, drawn many times: (times, batch)."""
    values = module.importance_weighted_bound(x.repeat(times, 1), n_importance, generator)
    return values.unflatten(0, (times, len(x)))


def test__bounds__enumerated__are_in_order(module, x, generator):
    with torch.no_grad():
        evidence = log_evidence(module, x)
        exact = module.elbo(x, enumerated, "exact").value
        paper = module.elbo(x, enumerated, "paper").value
        importance = repeated(module, x, 8, 2000, generator).mean(0)
    assert bool((paper < exact).all())
    assert bool((exact < importance).all())
    assert bool((importance < evidence).all())


def test__importance_weighted_bound__many_samples__converges_to_the_evidence(module, x, generator):
    with torch.no_grad():
        evidence = log_evidence(module, x)
        gaps = [float((evidence - module.importance_weighted_bound(x, n, generator)).abs().max()) for n in (10, 50_000)]
    assert gaps[1] < 0.02
    assert gaps[1] < gaps[0]


def test__importance_weighted_bound__one_sample__has_the_discrete_bound_as_its_mean(module, x, generator):
    with torch.no_grad():
        exact = module.elbo(x, enumerated).value
        values = repeated(module, x, 1, 4000, generator)
    error = values.std(0) / len(values) ** 0.5
    assert bool(((values.mean(0) - exact).abs() < 4.5 * error).all())


def test__discrete_expectation__many_samples__equals_enumeration(module, x, generator):
    with torch.no_grad():
        exact = module.elbo(x, enumerated).log_likelihood
        sampled = module.elbo(x, discrete_expectation(40_000, generator)).log_likelihood
    torch.testing.assert_close(sampled, exact, atol=0.02, rtol=0)


def test__relaxed_expectation__low_temperature__approaches_the_discrete_one(module, x, generator):
    module.log_gate_temperature.data.fill_(-6.0)
    module.log_feature_temperature.data.fill_(-6.0)
    with torch.no_grad():
        exact = module.elbo(x, enumerated).log_likelihood
        relaxed = module.elbo(x, relaxed_expectation(20_000, module.temperatures, generator)).log_likelihood
    torch.testing.assert_close(relaxed, exact, atol=0.05, rtol=0)


def test__elbo__terms__add_up(module, x, generator):
    elbo = module.elbo(x, discrete_expectation(1, generator))
    five_terms = (
        elbo.log_prior_gates
        + elbo.log_prior_features
        + elbo.entropy_gates
        + elbo.entropy_features
        + elbo.log_likelihood
    )
    torch.testing.assert_close(elbo.value, five_terms)
    torch.testing.assert_close(elbo.kl, elbo.kl_gates + elbo.kl_features)


def test__temperatures__any_learned_value__are_positive(module):
    module.log_gate_temperature.data.fill_(-20.0)
    assert float(module.temperatures.gate.detach()) > 0


def test__prior__learned__is_a_parameter_and_fixed__is_not():
    fixed = SDLGMModule(ModelConfig(n_inputs=D, learn_prior=False))
    learned = SDLGMModule(ModelConfig(n_inputs=D, learn_prior=True))
    assert not list(fixed.prior.parameters())
    assert {name for name, _ in learned.prior.named_parameters()} == {"gate_logit", "feature_logits"}
    assert float(learned.prior().gate_prob.detach()) == pytest.approx(0.5)


@pytest.mark.parametrize("share_layers", [False, True])
@pytest.mark.parametrize("normalize_logits", [False, True])
def test__networks__paper_sizes__have_them(share_layers, normalize_logits):
    config = ModelConfig(
        n_inputs=784,
        share_layers=share_layers,
        gate_hidden=(256, 64),
        normalize_logits=normalize_logits,
        posterior="shared",
    )
    module = SDLGMModule(config)
    sizes = {name: tuple(p.shape) for name, p in module.named_parameters() if p.ndim == 2}
    assert [shape for name, shape in sizes.items() if "trunk" in name] == [(512, 784), (384, 512), (256, 384)]
    assert sizes["posterior.encoder.features.weight"] == (200, 256)
    gate_input = 256 if share_layers else 784
    assert [shape for name, shape in sizes.items() if "gate" in name] == [(256, gate_input), (64, 256), (2, 64)]
    decoder = [shape for name, shape in sizes.items() if "decoder" in name]
    assert decoder == [(256, 200), (384, 256), (512, 384), (784, 512)]
    posterior = module.inference(torch.rand(3, 784))
    assert posterior.feature_probs.shape == (3, 200)
