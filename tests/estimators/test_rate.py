"""The weight of the KL: in training, in early stopping and in the choice among candidates."""

import numpy as np
import pytest
import torch

from enumeration import L0, K
from sdlgm import SDLGM, load
from sdlgm.estimators._evaluation import best_codes
from sdlgm.model import ModelConfig, Noise, SDLGMModule
from training import same_parameters

RATES = (0.25, 1.0, 4.0)


@pytest.mark.parametrize("options", [{}, {"prior": "chain", "prior_hidden": 4}, {"posterior": "shared"}], ids=str)
def test__rate__larger__gives_fewer_nats_and_a_larger_error(digits, small, options):
    settings = {**small, **options, "max_iter": 600, "likelihood": "bernoulli", "random_state": 0}
    found = [SDLGM(**settings, rate=rate).fit(digits).evaluate(digits, random_state=0) for rate in RATES]
    assert found[0].kl > found[1].kl + 1 > found[2].kl + 2
    assert found[0].reconstruction_error < found[1].reconstruction_error < found[2].reconstruction_error


def test__rate__one__changes_nothing(digits, small):
    settings = {**small, "random_state": 0}
    assert same_parameters(SDLGM(**settings).fit(digits), SDLGM(**settings, rate=1).fit(digits))


def test__rate__bounds__have_no_weight(digits, small):
    model = SDLGM(**small, rate=3.0, random_state=0).fit(digits)
    evaluation = model.evaluate(digits, random_state=0)
    assert evaluation.discrete == pytest.approx(model.score(digits), rel=1e-6)
    importance = float(model.elbo(digits, n_importance=50, random_state=0).mean())
    assert evaluation.discrete < importance < evaluation.discrete + evaluation.kl
    assert model.history_[-1].kl_weight == 3.0
    assert model.history_[-1].discrete == pytest.approx(evaluation.discrete, rel=0.05)


@pytest.mark.parametrize("rate", [0.25, 4.0])
def test__early_stopping__rate__keeps_the_best_weighted_bound(digits, small, rate):
    settings = {**small, "max_iter": 400, "kl_warmup": 0.0, "learning_rate": 0.02, "lr_decay": 0.0, "rate": rate}
    seen = {}

    def note(module, iteration):
        seen[iteration] = module.decoder[0].weight.detach().clone()

    model = SDLGM(**settings, early_stopping=True, n_iter_no_change=3, random_state=0).fit(digits, callback=note)
    best = max(model.history_, key=lambda record: record.objective(rate))
    assert torch.equal(model.module_.decoder[0].weight, seen[best.iteration])


def test__record__objective__weighs_the_kl(digits, small):
    record = SDLGM(**small, random_state=0).fit(digits).history_[-1]
    assert record.objective(1.0) == record.discrete
    assert record.objective(2.0) == pytest.approx(record.discrete - record.kl)


def test__files__rate__is_that_of_the_fit(digits, small, tmp_path):
    model = SDLGM(**small, rate=2, random_state=0).fit(digits)
    codes = model.transform(digits, n_candidates=5)
    model.set_params(rate=0.5).save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert loaded.rate == 2.0
    assert (loaded.transform(digits, n_candidates=5) != codes).nnz == 0


def test__partial_fit__other_rate__is_allowed(digits, small):
    model = SDLGM(**small, kl_warmup=0.0, random_state=0).partial_fit(digits)
    model.set_params(rate=2.0).partial_fit(digits)
    assert [record.kl_weight for record in model.history_] == [1.0, 2.0]


# The choice among candidates


@pytest.mark.parametrize("options", [{}, {"prior": "chain", "prior_hidden": 4}, {"posterior": "shared"}], ids=str)
@pytest.mark.parametrize("rate", RATES)
def test__best_codes__tiny_model__have_the_best_score_of_all_codes(options, rate):
    torch.manual_seed(3)
    module = SDLGMModule(ModelConfig(n_inputs=4, n_features=K, n_slots=L0, hidden=(6,), **options)).eval()
    for parameter in module.parameters():
        parameter.data.add_(0.5 * torch.randn_like(parameter))
    x = torch.bernoulli(torch.full((20, 4), 0.5), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        best = best_codes(module, x, 400, Noise.seeded(0), rate)  # far more draws than codes
        drawn = module.inference(x).sample(400, Noise.seeded(1))
        candidates = torch.unique(drawn.flatten(0, 1), dim=0)
        scores = torch.stack(
            [
                module.log_likelihood(x, code.expand(1, len(x), K))[0] + rate * module.log_prior(code[None])
                for code in candidates
            ]
        )
    for row, code in enumerate(best):
        own = int((candidates == code).all(1).nonzero())
        possible = (drawn[:, row, None] == candidates).all(-1).any(0)
        assert scores[own, row] >= scores[possible, row].max() - 1e-5


def test__transform__rate__trades_length_for_likelihood(digits, small):
    model = SDLGM(**{**small, "max_iter": 300}, refine=0, random_state=0).fit(digits)
    bits, errors = [], []
    for rate in (0.1, 1.0, 10.0):
        codes = model.transform(digits, n_candidates=30, rate=rate)
        counts = torch.tensor(codes.toarray(), dtype=torch.float32)
        with torch.no_grad():
            bits.append(-float(model.module_.log_prior(counts).mean()))
            errors.append(-float(model.module_.log_likelihood(torch.tensor(digits), counts[None]).mean()))
    assert bits == sorted(bits, reverse=True)
    assert errors == sorted(errors)
    assert bits[0] > bits[2]


def test__transform__no_rate__takes_that_of_the_model(digits, small):
    model = SDLGM(**small, rate=4.0, random_state=0).fit(digits)
    codes = model.transform(digits, n_candidates=10)
    assert (codes != model.transform(digits, n_candidates=10, rate=4.0)).nnz == 0
    assert (codes != model.transform(digits, n_candidates=10, rate=0.1)).nnz > 0
    (of_batches,) = model.transform_batches([digits], n_candidates=10, rate=4.0)
    assert (codes != of_batches).nnz == 0


@pytest.mark.parametrize("rate", [0, -1.0, np.nan, np.inf, "1"])
def test__rate__not_positive_or_not_finite__is_refused(fitted, digits, small, rate):
    with pytest.raises(ValueError, match="rate"):
        SDLGM(**small, rate=rate).fit(digits)
    with pytest.raises(ValueError, match="rate=.* positive, finite"):
        fitted.transform(digits, n_candidates=3, rate=rate)
    with pytest.raises(ValueError, match="rate=.* positive, finite"):
        fitted.transform_batches([digits], n_candidates=3, rate=rate)


def test__transform__rate_without_candidates__is_refused(fitted, digits):
    with pytest.raises(ValueError, match="set n_candidates to at least 1"):
        fitted.transform(digits, rate=2.0)
    with pytest.raises(ValueError, match="set n_candidates to at least 1"):
        fitted.transform_batches([digits], rate=2.0)
