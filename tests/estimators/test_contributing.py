"""The recipes of CONTRIBUTING.md, followed from outside the package."""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdlgm import SDLGM, load
from sdlgm.gradients import GRADIENTS, register
from sdlgm.gradients.base import ANY
from sdlgm.gradients.hard_draws import HardDraws
from sdlgm.model.codes.base import PriorTerms
from sdlgm.model.codes.independent import IndependentVariables
from sdlgm.model.codes.slots import SlotDistribution
from sdlgm.model.likelihoods import LIKELIHOODS, Likelihood
from sdlgm.model.networks.posteriors import POSTERIORS, PosteriorNetwork, logit_encoder, register_posterior
from sdlgm.model.noise import Noise
from sdlgm.model.shards import WHOLE_BATCH


@pytest.fixture(autouse=True)
def registries_as_before():
    before = [(registry, dict(registry)) for registry in (POSTERIORS, GRADIENTS, LIKELIHOODS)]
    yield
    for registry, content in before:
        registry.clear()
        registry.update(content)


# A posterior: one feature at most


@dataclass(frozen=True)
class AtMostOne(IndependentVariables[SlotDistribution]):
    """No feature, or one of K: one variable with K + 1 symbols."""

    logits: Tensor
    n_slots: int

    @cached_property
    def log_probs(self) -> Tensor:
        return self.logits.log_softmax(-1).unsqueeze(-2)

    def counts(self, symbols: Tensor) -> Tensor:
        return symbols[..., 0, 1:]

    def mode(self) -> Tensor:
        best = F.one_hot(self.logits.argmax(-1), self.logits.shape[-1])
        return best[..., 1:].cpu()

    @property
    def presence(self) -> Tensor:
        return self.probs[..., 0, 1:]

    @property
    def gate_prob(self) -> Tensor:
        return self.presence.sum(-1) / self.n_slots

    @property
    def feature_probs(self) -> Tensor:
        return self.presence / self.presence.sum(-1, keepdim=True)

    def log_ratio(self, symbols: Tensor, prior: SlotDistribution) -> Tensor:
        return prior.log_prob(self.counts(symbols)) - self.log_prob_of(symbols)

    def kl(self, prior: SlotDistribution, kl: str) -> Tensor:
        return self.prior_terms(prior, kl).kl

    def prior_terms(self, prior: SlotDistribution, kl: str) -> PriorTerms:
        n_features = self.logits.shape[-1] - 1
        codes = torch.cat([torch.zeros(1, n_features), torch.eye(n_features)]).to(self.logits)
        probs, log_probs = self.probs.squeeze(-2), self.log_probs.squeeze(-2)
        zero = torch.zeros_like(probs[..., 0])
        return PriorTerms(zero, probs @ prior.log_prob(codes), zero, -(probs * log_probs).sum(-1))


class AtMostOnePosterior(PosteriorNetwork):
    kind = "variables"

    def make_encoder(self, n_inputs, options):
        return logit_encoder(n_inputs, self.n_features + 1, options, bias=0.0)

    @property
    def n_logits(self) -> int:
        return self.n_features + 1

    def forward(self, x, shard=WHOLE_BATCH) -> AtMostOne:
        return AtMostOne(self.encoder(x, shard), self.n_slots)


def test__recipe__posterior__fits_encodes_decodes_and_saves(digits, small, tmp_path):
    with pytest.raises(ValueError, match="'posterior' parameter"):
        SDLGM(**small, posterior="toy").fit(digits)
    register_posterior("toy")(AtMostOnePosterior)
    model = SDLGM(**{**small, "max_iter": 300}, posterior="toy", learning_rate=0.01, random_state=0).fit(digits)
    assert model.history_[-1].discrete > model.history_[0].discrete + 2
    codes = model.transform(digits)
    assert np.asarray(codes.sum(axis=1)).max() == 1
    assert model.sample_codes(digits, random_state=0).sum(axis=1).max() == 1
    assert len(np.unique(codes.indices)) > 3
    assert model.inverse_transform(codes).shape == digits.shape
    discrete = model.elbo(digits, random_state=0)
    assert model.elbo(digits, n_importance=50, random_state=0).mean() > discrete.mean()
    assert np.isfinite(model.elbo(digits, bound="relaxed")).all()
    assert model.evaluate(digits, random_state=0).n_active_max == 1
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").elbo(digits, random_state=0), discrete)


OF_VARIABLES = sorted(name for name, estimator in GRADIENTS.items() if "variables" in estimator.defined_for)


@pytest.mark.parametrize("gradient", OF_VARIABLES)
def test__recipe__posterior__takes_every_gradient_of_its_kind(digits, small, gradient):
    register_posterior("toy")(AtMostOnePosterior)
    model = SDLGM(**{**small, "max_iter": 5}, posterior="toy", gradient=gradient, random_state=0).fit(digits)
    assert np.asarray(model.transform(digits).sum(axis=1)).max() <= 1


def test__recipe__posterior__divergence_is_that_of_enumeration():
    generator = torch.Generator().manual_seed(0)
    prior = SlotDistribution(torch.tensor(0.3), torch.randn(3, generator=generator), 4)
    posterior = AtMostOne(torch.randn(2, 4, generator=generator), 4)
    symbols = torch.eye(4)[:, None, None, :].expand(4, 2, 1, 4)
    probs = posterior.log_prob_of(symbols).exp()
    torch.testing.assert_close(probs.sum(0), torch.ones(2))
    expected = -(probs * posterior.log_ratio(symbols, prior)).sum(0)
    torch.testing.assert_close(posterior.kl(prior, "exact"), expected)
    drawn = posterior.sample(20_000, Noise.seeded(0)).mean(0)
    torch.testing.assert_close(drawn, posterior.presence, atol=0.02, rtol=0)


# A gradient: straight-through with a factor


def test__recipe__gradient__fits_and_is_the_factor_times_straight_through(measurements, small):
    calls = itertools.count()

    class HalfStraightThrough(HardDraws):
        """Half of the gradient of straight-through."""

        name = "toy"
        defined_for = ANY

        @staticmethod
        def to_log_probs(gradient, drawn, probs, n_draws):
            next(calls)
            return 0.5 * n_draws * probs * gradient

    with pytest.raises(ValueError, match="'gradient' parameter"):
        SDLGM(**small, gradient="toy").fit(measurements)
    register(HalfStraightThrough)
    for posterior in ("chain", "shared"):
        settings = {**small, "max_iter": 300, "learning_rate": 0.01, "gradient": "toy", "posterior": posterior}
        settings["refine"] = 0  # which would search in place of draws
        model = SDLGM(**settings, random_state=0).fit(measurements)
        assert model.history_[-1].discrete > model.history_[0].discrete + 0.5
        assert np.asarray(model.transform(measurements).sum(axis=1)).max() <= small["max_active"]
    assert next(calls) >= 2 * 300
    gradients = []
    for name in ("toy", "straight_through"):
        logits = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
        posterior = AtMostOne(logits, 4)
        settings = {"n_samples": 3, "temperatures": model.module_.temperatures, "noise": Noise.seeded(0)}
        value = GRADIENTS[name](4)(posterior, lambda codes: codes[..., 0] - 2 * codes[..., 1], **settings)
        value.sum().backward()
        gradients.append(logits.grad)
    assert gradients[0].abs().max() > 0
    torch.testing.assert_close(gradients[0], 0.5 * gradients[1])


# A likelihood: Laplace with a learned scale


class Laplace(Likelihood):
    """Continuous entries; the decoder's output is the median, and the scale of each entry is learned."""

    standardized = True

    def __init__(self, n_inputs: int):
        super().__init__(n_inputs)
        self.log_scale = nn.Parameter(torch.zeros(n_inputs))

    def log_probs(self, x, output):
        return -((x - output).abs() / self.log_scale.exp() + self.log_scale + math.log(2))

    def mean(self, output):
        return output

    def sample(self, output, generator):
        uniform = torch.rand(output.shape, generator=generator, dtype=output.dtype, device=output.device) - 0.5
        return output - self.log_scale.exp() * uniform.sign() * torch.log1p(-2 * uniform.abs())

    def initial_output(self, data_mean):
        return data_mean


def test__recipe__likelihood__fits_decodes_and_samples(measurements, small):
    with pytest.raises(ValueError, match="'likelihood' parameter"):
        SDLGM(**small, likelihood="laplace").fit(measurements)
    LIKELIHOODS["laplace"] = Laplace
    model = SDLGM(**{**small, "max_iter": 300}, likelihood="laplace", learning_rate=0.01, random_state=0)
    model.fit(measurements)
    assert model.likelihood_ == "laplace"
    assert model.history_[-1].discrete > model.history_[0].discrete + 1
    scale = model.module_.likelihood.log_scale.detach()
    assert bool((scale < -0.05).any())  # learned
    decoded = model.inverse_transform(model.transform(measurements))
    spread = measurements.std(axis=0)
    assert (np.abs(decoded.mean(axis=0) - measurements.mean(axis=0)) < spread).all()
    drawn = model.sample(1000, random_state=0)
    assert (np.abs(drawn.mean(axis=0) - measurements.mean(axis=0)) < spread).all()
    # The bound is a density in the units of the data.
    scaled = SDLGM(**model.get_params()).fit(measurements * 1000)
    difference = model.score(measurements) - scaled.score(measurements * 1000)
    assert difference == pytest.approx(measurements.shape[1] * np.log(1000), abs=0.1)


def test__recipe__likelihood__log_prob_and_sample_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    likelihood = Laplace(3)
    with torch.no_grad():
        likelihood.log_scale.copy_(torch.tensor([-1.0, 0.0, 0.5]))
    x, output = torch.randn(4, 3, generator=generator), torch.randn(2, 4, 3, generator=generator)
    reference = torch.distributions.Laplace(output, likelihood.log_scale.exp())
    torch.testing.assert_close(likelihood.log_prob(x, output), reference.log_prob(x).sum(-1))
    drawn = likelihood.sample(output[0].expand(50_000, 4, 3), generator)
    torch.testing.assert_close(drawn.mean(0), likelihood.mean(output[0]), atol=0.05, rtol=0)
    torch.testing.assert_close(drawn.std(0), reference.stddev[0], atol=0.05, rtol=0)
    mean = torch.tensor([0.1, -2.0, 3.0])
    torch.testing.assert_close(likelihood.mean(likelihood.initial_output(mean)), mean)


def test__recipe__registries__have_what_the_package_brings():
    assert set(POSTERIORS) == {"shared", "subset", "chain", "ordered"}
    brought = {"bernoulli", "gaussian", "student_t", "poisson", "negative_binomial", "categorical"}
    assert set(LIKELIHOODS) == brought
    assert "toy" not in GRADIENTS
