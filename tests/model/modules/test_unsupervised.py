"""The bounds and the loss of a tiny model, compared with sums over all codes."""

import pytest
import torch
from torch import Tensor

from enumeration import L0, K, all_counts
from oracles import FAMILIES, Enumeration
from sdlgm.gradients import GRADIENTS
from sdlgm.model import Batch, ModelConfig, Noise, Objective, SDLGMModule
from sdlgm.model.codes import KL
from sdlgm.model.modules import Step
from sdlgm.model.networks.posteriors import POSTERIORS

D = 4
CHAIN_PRIORS = ({"prior": "chain", "prior_rank": 2}, {"prior": "chain", "prior_hidden": 4})
MODELS = [
    *((name, {}) for name in sorted(POSTERIORS)),
    *((name, prior) for name in ("chain", "subset") for prior in CHAIN_PRIORS),
    ("chain", {"posterior_rank": 2}),
    ("chain", {"prior": "chain", "prior_rank": 2, "posterior_rank": 2}),
]


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
    """Return log p(x), a sum over all codes."""
    counts = all_counts()
    log_prior = module.prior().log_prob(counts)
    log_likelihood = module.log_likelihood(x, counts[:, None, :].expand(-1, len(x), -1))
    return (log_prior[:, None] + log_likelihood).logsumexp(0)


def outcomes(name: str, n_rows: int) -> Tensor:
    """Return all outcomes of a posterior, for each row of a batch."""
    symbols = FAMILIES["slots" if name == "shared" else name].symbols.unsqueeze(1)
    return symbols.expand(-1, n_rows, *symbols.shape[2:])


def exact_loss(module: SDLGMModule, x: Tensor, kl: KL = "exact") -> Objective:
    """Return the objective with E_q log p(x given z) as a sum over all outcomes."""
    return module.loss(Batch(x), Step(Enumeration(outcomes("shared", len(x))), kl, 1.0, 1, Noise.seeded(0)))


def repeated(module: SDLGMModule, x: Tensor, n_importance: int, times: int, noise: Noise) -> Tensor:
    """Return many draws of the importance-weighted bound, of shape (times, batch)."""
    values = module.importance_weighted_bound(x.repeat(times, 1), n_importance, noise)
    return values.unflatten(0, (times, len(x)))


def test__bounds__enumerated__are_in_order(module, x, noise):
    with torch.no_grad():
        evidence = log_evidence(module, x)
        exact = exact_loss(module, x, "exact").value
        paper = exact_loss(module, x, "paper").value
        importance = repeated(module, x, 8, 2000, noise).mean(0)
    assert bool((paper < exact).all())
    assert bool((exact < importance).all())
    assert bool((importance < evidence).all())


def test__importance_weighted_bound__many_samples__converges_to_the_evidence(module, x, noise):
    with torch.no_grad():
        evidence = log_evidence(module, x)
        gaps = [float((evidence - module.importance_weighted_bound(x, n, noise)).abs().max()) for n in (10, 50_000)]
    assert gaps[1] < 0.02
    assert gaps[1] < gaps[0]


def test__importance_weighted_bound__one_sample__has_the_discrete_bound_as_its_mean(module, x, noise):
    with torch.no_grad():
        exact = exact_loss(module, x).value
        values = repeated(module, x, 1, 4000, noise)
    error = values.std(0) / len(values) ** 0.5
    assert bool(((values.mean(0) - exact).abs() < 4.5 * error).all())


def test__elbo__many_discrete_samples__equals_enumeration(module, x, noise):
    with torch.no_grad():
        exact = exact_loss(module, x).log_likelihood
        sampled = module.elbo(x, bound="discrete", n_samples=40_000, noise=noise).log_likelihood
    torch.testing.assert_close(sampled, exact, atol=0.02, rtol=0)


def test__elbo__relaxed_at_a_low_temperature__approaches_the_discrete_one(module, x, noise):
    module.log_gate_temperature.data.fill_(-6.0)
    module.log_feature_temperature.data.fill_(-6.0)
    with torch.no_grad():
        exact = exact_loss(module, x).log_likelihood
        relaxed = module.elbo(x, bound="relaxed", n_samples=20_000, noise=noise).log_likelihood
    torch.testing.assert_close(relaxed, exact, atol=0.05, rtol=0)


def test__elbo__terms__add_up(module, x, noise):
    elbo = module.elbo(x, noise=noise)
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


@pytest.mark.parametrize(("name", "options"), MODELS)
def test__loss__enumerated__weighs_the_divergence(name, options, noise):
    """The objective of training, with all outcomes in place of draws."""
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=L0, hidden=(6,), posterior=name, **options)
    torch.manual_seed(3)
    module = SDLGMModule(config).double().eval()
    for parameter in module.prior.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    x = torch.bernoulli(torch.full((2, 4), 0.5, dtype=torch.float64), generator=noise.generator)
    posterior, prior = module.inference(x), module.prior()
    symbols = outcomes(name, len(x))
    symbols = symbols[torch.isfinite(posterior.log_prob_of(symbols)).all(-1)]  # within the budget
    weights = posterior.log_prob_of(symbols).exp()
    torch.testing.assert_close(weights.sum(0), torch.ones(2, dtype=torch.float64))
    log_likelihood = (weights * module.log_likelihood(x, posterior.counts(symbols))).sum(0)
    divergence = -(weights * posterior.log_ratio(symbols, prior)).sum(0)
    for weight in (0.0, 0.6, 1.0, 2.5):
        value = module.loss(Batch(x), Step(Enumeration(symbols), "exact", weight, 1, noise)).value
        torch.testing.assert_close(value, log_likelihood - weight * divergence)


def test__loss__muprop_and_sets__has_the_divergence_of_the_drawn_codes(noise):
    config = ModelConfig(n_inputs=4, n_features=K, n_slots=L0, hidden=(6,), posterior="subset")
    module = SDLGMModule(config).eval()
    x = torch.bernoulli(torch.full((200, 4), 0.5), generator=noise.generator)
    step = Step(GRADIENTS["muprop"](module.n_logits), "exact", 1.0, 1, noise)
    objective = module.loss(Batch(x), step)
    expected = module.inference(x).kl(module.prior(), "exact")
    assert objective.kl.mean().item() == pytest.approx(expected.mean().item(), abs=0.02)


@pytest.mark.parametrize(("name", "options"), MODELS)
def test__bounds__tiny_model__are_below_the_evidence_and_meet_it(name, options, noise):
    """E log p(x, z) / q(z) with hard draws is below log p(x), which many importance samples reach."""
    torch.manual_seed(3)
    config = ModelConfig(
        n_inputs=4, n_features=K, n_slots=L0, gate_prior=0.4, hidden=(6,), gate_hidden=(5,), posterior=name, **options
    )
    module = SDLGMModule(config).double().eval()
    for parameter in module.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    x = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]], dtype=torch.float64)
    with torch.no_grad():
        counts = all_counts()  # where a chain is the prior, those that are no sets have probability 0
        log_likelihood = module.log_likelihood(x, module.decoder_input(counts)[:, None, :].expand(-1, len(x), -1))
        log_prior = module.prior().log_prob(counts)
        evidence = (log_prior[:, None] + log_likelihood).logsumexp(0)
        one = module.importance_weighted_bound(x.repeat(20_000, 1), 1, noise).unflatten(0, (-1, 2))
        bound = module.elbo(x.repeat(5000, 1), n_samples=8, noise=noise).value.unflatten(0, (-1, 2))
        many = module.importance_weighted_bound(x, 40_000, noise)
    error = (one.var(0) / len(one) + bound.var(0) / len(bound)).sqrt()
    assert bool(((one.mean(0) - bound.mean(0)).abs() < 4.5 * error + 0.01).all())
    assert bool((bound.mean(0) < evidence).all())
    torch.testing.assert_close(many, evidence, atol=0.03, rtol=0)
