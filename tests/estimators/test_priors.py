"""The chain prior and the low-rank coupling as settings of the estimator."""

import numpy as np
import pytest

from sdlgm import PAPER, SDLGM, load
from sdlgm.gradients import GRADIENTS
from sdlgm.model.networks.posteriors import POSTERIORS

CHAIN = {"prior": "chain"}
SETTINGS = [
    CHAIN,
    {**CHAIN, "prior_rank": 3},
    {**CHAIN, "prior_hidden": 7},
    {**CHAIN, "posterior": "subset"},
    {**CHAIN, "posterior_rank": 2},
    {"prior": "slots", "posterior_rank": 2},
    {**CHAIN, "prior_hidden": None},
]


def pairs() -> list[tuple[str, str]]:
    """Return all posteriors over sets with all gradients that they have."""
    sets = [(name, family.kind) for name, family in POSTERIORS.items() if family.takes_chain_prior]
    return [
        (name, gradient) for name, kind in sets for gradient in GRADIENTS if kind in GRADIENTS[gradient].defined_for
    ]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test__files__every_prior_and_rank__answer_the_same(settings, digits, small, tmp_path):
    model = SDLGM(**small, **settings, random_state=0).fit(digits)
    model.save(tmp_path / "model.sdlgm")
    loaded = load(tmp_path / "model.sdlgm")
    assert {name: loaded.get_params()[name] for name in settings} == settings
    assert (loaded.transform(digits) != model.transform(digits)).nnz == 0
    assert loaded.evaluate(digits[:50]) == model.evaluate(digits[:50])
    np.testing.assert_array_equal(loaded.sample(5), model.sample(5))
    np.testing.assert_array_equal(loaded.feature_prior_, model.feature_prior_)


@pytest.mark.parametrize(("posterior", "gradient"), pairs())
def test__fit__chain_prior_and_every_gradient__learns_something(measurements, small, posterior, gradient):
    options = {**small, **CHAIN, "posterior": posterior, "gradient": gradient, "n_samples": 2, "random_state": 0}
    short = SDLGM(**{**options, "max_iter": 5}).fit(measurements)
    long = SDLGM(**{**options, "max_iter": 300}).fit(measurements)
    assert long.score(measurements) > short.score(measurements)
    drawn = long.sample_codes(measurements, random_state=0)
    assert np.asarray(drawn.sum(axis=1)).max() <= small["max_active"]


def test__code_bits__features_that_go_together__are_cheaper_under_a_chain():
    """Three pairs of features that are always on together: the slots pay for six choices, the chain for three."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.integers(0, 2, (600, 3)), 12, axis=1).astype(float)
    X[:, ::2] *= rng.random((600, 18)) < 0.9
    options = {"n_components": 12, "max_active": 6, "hidden": (32,), "max_iter": 1500, "random_state": 0}
    slots = SDLGM(**options, prior="slots").fit(X).evaluate(X)
    chain = SDLGM(**options, **CHAIN).fit(X).evaluate(X)
    assert chain.discrete > slots.discrete
    assert chain.code_bits < slots.code_bits


def test__elbo__importance_samples__raise_the_bound_under_a_chain(digits, small):
    model = SDLGM(**small, **CHAIN, random_state=0).fit(digits)
    assert model.elbo(digits, n_importance=20).mean() > model.elbo(digits).mean()


def test__gate_prior__chain__is_the_expected_share_of_the_budget(digits, small):
    model = SDLGM(**small, **CHAIN, random_state=0).fit(digits)
    drawn = model.sample_prior_codes(4000, random_state=0)
    assert np.asarray(drawn.sum(axis=1)).max() <= small["max_active"]
    share = drawn.sum() / 4000 / small["max_active"]
    assert model.gate_prior_ == pytest.approx(share, abs=0.05)
    assert model.feature_prior_.sum() == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("prior", ["chain", "slots"])
def test__sample_prior_codes__posteriors_over_sets__are_sets_and_match_those_of_transform(prior, digits, small):
    model = SDLGM(**small, prior=prior, random_state=0).fit(digits)
    drawn = model.sample_prior_codes(1500, random_state=0)
    assert drawn.shape == (1500, small["n_components"])
    assert set(drawn.data) == {1}
    assert drawn.dtype == model.transform(digits).dtype


def test__partial_fit__other_prior__is_refused(digits, small):
    model = SDLGM(**small, prior="slots", random_state=0).partial_fit(digits)
    with pytest.raises(ValueError, match="prior='slots'"):
        model.set_params(**CHAIN).partial_fit(digits)


@pytest.mark.parametrize("settings", [{"prior_hidden": 4, "posterior_rank": 3}, {"n_components": 1000}], ids=str)
def test__fit__resumed_with_a_chain_prior__ends_as_an_uninterrupted_run(settings, digits, small, tmp_path):
    options = {**small, **CHAIN, **settings, "random_state": 0}

    class InterruptionError(Exception):
        pass

    def interrupt(_, iteration: int) -> None:
        if iteration == 15:
            raise InterruptionError

    options |= {"max_iter": 24}
    whole = SDLGM(**options).fit(digits)
    folder = {"checkpoint_dir": tmp_path / "run", "checkpoint_every": 4, "resume": True}
    with pytest.raises(InterruptionError):
        SDLGM(**options, **folder).fit(digits, callback=interrupt)
    resumed = SDLGM(**options, **folder).fit(digits)
    for name, tensor in whole.module_.state_dict().items():
        np.testing.assert_array_equal(resumed.module_.state_dict()[name], tensor, err_msg=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "other"}, "'prior' parameter"),
        ({"prior": "slots", "prior_rank": 2}, "prior_rank=2 needs prior='chain'"),
        ({"prior": "slots", "prior_hidden": 2}, "prior_hidden=2 needs prior='chain'"),
        ({"posterior": "shared", "prior_hidden": 2}, "prior_hidden=2 needs prior='chain'"),
        ({**CHAIN, "prior_rank": 10**6}, "prior_rank=1000000 is above n_components"),
        ({**CHAIN, "prior_rank": 0}, "'prior_rank' parameter"),
        ({**CHAIN, "prior_rank": 2, "prior_hidden": 2}, "exclude each other"),
        ({**CHAIN, "learn_prior": False}, "always learned"),
        ({**CHAIN, "posterior": "shared"}, "posterior='shared' cannot have prior='chain'"),
        ({**CHAIN, "posterior": "ordered"}, "posterior='ordered' cannot have prior='chain'"),
        ({"posterior_rank": 10**6}, "posterior_rank=1000000 is above n_components"),
        ({"posterior": "subset", "posterior_rank": 2}, "posterior_rank=2 needs posterior='chain'"),
    ],
)
def test__fit__settings_that_exclude_each_other__are_refused(settings, message, digits, small):
    with pytest.raises(ValueError, match=message):
        SDLGM(**small, **settings).fit(digits)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("chain", 256, None, None)),
        ({"n_components": 600}, ("chain", 256, None, 32)),
        ({"n_components": 600, "posterior_rank": None}, ("chain", 256, None, None)),
        ({"posterior": "subset", "n_components": 600}, ("chain", 256, None, None)),
        ({"prior_hidden": None}, ("chain", None, 10, None)),
        ({"prior_rank": 3}, ("chain", None, 3, None)),
        ({"learn_prior": False}, ("slots", None, None, None)),
        ({"posterior": "shared"}, ("slots", None, None, None)),
        ({"posterior": "ordered"}, ("slots", None, None, None)),
    ],
    ids=str,
)
def test__auto__posterior_and_number_of_features__decide(settings, expected, digits, small):
    options = {**small, "n_components": 10, "max_iter": 1, **settings}
    config = SDLGM(**options, random_state=0).fit(digits).module_.config
    assert (config.prior, config.prior_hidden, config.prior_rank, config.posterior_rank) == expected


def test__paper__preset__has_its_prior_posterior_and_divergence(digits, small):
    model = SDLGM(**{**PAPER, **small}, random_state=0).fit(digits)
    assert model.get_params() | {"prior": "slots", "posterior": "shared", "kl": "paper"} == model.get_params()
    assert model.gate_prior_ == 0.5
    np.testing.assert_allclose(model.feature_prior_, 1 / small["n_components"], rtol=1e-6)
