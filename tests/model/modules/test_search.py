"""The local search for codes, compared with sums and maxima over all codes of a tiny model."""

from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sdlgm.gradients import GRADIENTS
from sdlgm.model import Batch, ModelConfig, Noise, SDLGMModule
from sdlgm.model.modules import Step, search

D, K, L0 = 4, 5, 2


@pytest.fixture
def x() -> Tensor:
    return torch.randn(7, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def searching(**settings) -> SDLGMModule:
    torch.manual_seed(3)
    config = ModelConfig(
        n_inputs=D,
        n_features=K,
        n_slots=L0,
        hidden=(6,),
        likelihood="gaussian",
        prior="chain",
        prior_rank=2,
        searches=True,
        **settings,
    )
    module = SDLGMModule(config).double().eval()
    for parameter in module.parameters():
        parameter.data.mul_(1.5)
    return module


def all_codes() -> Tensor:
    sets = [chosen for size in range(L0 + 1) for chosen in combinations(range(K), size)]
    return torch.tensor([[float(k in chosen) for k in range(K)] for chosen in sets], dtype=torch.float64)


def joint(module: SDLGMModule, x: Tensor, rate: float = 1.0) -> Tensor:
    """Return log p(x given z) + rate log p(z) of all codes and rows."""
    codes = all_codes()[:, None].expand(-1, len(x), -1)
    return module.log_likelihood(x, codes) + rate * module.log_prior(codes)


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("prior", [{"prior_rank": 2}, {"prior_rank": None, "prior_hidden": 4}])
def test__improved__tiny_model__no_single_change_and_no_exchange_is_better(x, rate, prior, loops):
    module = searching(**({} if "prior_hidden" not in prior else {"prior_hidden": 4}))
    module.begin_search(x, rate)
    found = module.improved(x, torch.zeros(len(x), K, dtype=torch.float64), rate, 40)
    codes, scores = all_codes(), joint(module, x, rate)
    for row, code in enumerate(found):
        reached = scores[(codes == code).all(1), row].item()
        difference = (codes - code).abs().sum(1)
        exchanged = (difference == 2) & (codes.sum(1) == code.sum())
        assert scores[(difference == 1) | exchanged, row].max() <= reached + 2e-3


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(0, 6))
def test__improved__any_start__keeps_the_budget_and_never_gets_worse(seed, n_slots, n_steps):
    generator = torch.Generator().manual_seed(seed)
    quadratic, target = torch.randn(D, 6, generator=generator), torch.randn(9, D, generator=generator)

    def score(x: Tensor, codes: Tensor) -> Tensor:
        return -(x - codes @ quadratic.T).square().sum(-1)

    start = torch.zeros(9, 6)
    start[torch.arange(9), torch.randint(0, 6, (9,), generator=generator)] = 1.0
    before = start.clone()
    found = search.improved(score, target, start, torch.zeros(6), n_slots=n_slots, n_steps=n_steps, width=6)
    assert torch.equal(start, before)
    assert set(found.unique().tolist()) <= {0.0, 1.0}
    assert found.sum(1).max() <= n_slots
    assert (score(target, found[None])[0] >= score(target, start[None])[0] - 1e-5).all()
    if n_steps == 0:
        assert torch.equal(found, start)


def test__improved__within_inference_mode__is_the_same(x):
    module = searching()
    module.begin_search(x, 1.0)
    start = torch.zeros(len(x), K, dtype=torch.float64)
    with torch.inference_mode():
        inside = module.improved(x.clone(), start.clone(), 1.0, 40)
    assert torch.equal(inside, module.improved(x, start, 1.0, 40))


def test__improved__more_rows_than_at_a_time__is_the_same(x, monkeypatch):
    module = searching()
    module.begin_search(x, 1.0)
    start = torch.zeros(len(x), K, dtype=torch.float64)
    expected = module.improved(x, start, 1.0, 40)
    monkeypatch.setattr(search, "MOST_VALUES", 3 * search.N_CANDIDATES * 6)
    assert torch.equal(module.improved(x, start, 1.0, 40), expected)


def test__overstatements__squared_error_of_linear_decoder__are_the_squared_lengths(monkeypatch):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(D, K, generator=generator, dtype=torch.float64)
    x = torch.randn(3, D, generator=generator, dtype=torch.float64)
    codes = torch.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]], dtype=torch.float64)
    monkeypatch.setattr(search, "MOST_VALUES", 2 * codes.numel())  # some features at a time
    found = search.overstatements(lambda x, z: -0.5 * (x - z @ weight.T).square().sum(-1), x, codes, width=K)
    torch.testing.assert_close(found, 0.5 * weight.square().sum(0))


def test__elbo__searching__is_the_joint_of_the_code_found_and_below_log_evidence(x):
    module = searching()
    assert not module.is_searching  # it has not begun
    module.begin_search(x, 1.0)
    assert module.is_searching
    elbo = module.elbo(x, noise=Noise.seeded(0))
    scores = joint(module, x)
    found = module.inference_of_codes(x).mode()
    own = torch.stack([scores[(all_codes() == code).all(1), row][0] for row, code in enumerate(found)])
    torch.testing.assert_close(elbo.value, own)
    torch.testing.assert_close(elbo.kl, -module.log_prior(found.double()))
    assert (elbo.value <= scores.logsumexp(0)).all()
    torch.testing.assert_close(module.importance_weighted_bound(x, 3, Noise.seeded(1)), own)
    torch.testing.assert_close(module.elbo(x, noise=Noise.seeded(0), bound="relaxed").value, own)


def test__loss__with_a_search__is_the_joint_and_teaches_the_posterior(x):
    module = searching()
    module.begin_search(x, 1.0)
    step = Step(GRADIENTS["reinmax"](module.n_logits), "exact", 0.5, 1, Noise.seeded(0), n_search_steps=40)
    weight = torch.tensor([2.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    proposed = module.inference(x).mode().double()
    objective = module.loss(Batch(x, weight=weight), step)
    codes = module.improved(x, proposed, 0.5, 40)
    log_likelihood, log_prior = module.log_likelihood(x, codes[None])[0], module.log_prior(codes)
    torch.testing.assert_close(objective.value, log_likelihood + 0.5 * log_prior)
    torch.testing.assert_close(objective.kl, -log_prior)
    proposal = module.inference(x).log_prob(codes[None])[0]
    torch.testing.assert_close(objective.penalty, -(weight * proposal).mean())
    (objective.penalty - objective.value.mean()).backward()
    names = {name.split(".")[0] for name, p in module.named_parameters() if p.grad is not None and p.grad.any()}
    assert {"posterior", "decoder", "prior", "likelihood"} <= names
