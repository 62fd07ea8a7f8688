"""The end of a fit that searches for codes, and codes that `transform` searches for."""

import numpy as np
import pytest

from sdlgm import SDLGM, load, train
from sdlgm.estimators import _refinement
from sdlgm.train import Trainer

SETTINGS = {
    "n_components": 24,
    "max_active": 8,
    "hidden": (16,),
    "batch_size": 50,
    "max_iter": 600,
    "learning_rate": 0.01,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    """Sums of a few of twelve parts, with noise."""
    rng = np.random.default_rng(1)
    present = rng.random((500, 12)) < 0.25
    X = present @ rng.normal(size=(12, 20)) + 0.1 * rng.normal(size=(500, 20))
    X.flags.writeable = False
    return X


@pytest.fixture(scope="module")
def before(rows) -> SDLGM:
    """The model with which the search begins."""
    return SDLGM(**{**SETTINGS, "max_iter": 360}, refine=0).fit(rows[:400])


@pytest.fixture(scope="module")
def refined(rows) -> SDLGM:
    return SDLGM(**SETTINGS).fit(rows[:400])


def error(model: SDLGM, X: np.ndarray, **options) -> float:
    return float(np.square(model.inverse_transform(model.transform(X, **options)) - X).mean())


def test__refine__sums_of_parts__higher_bound_and_smaller_error_of_new_rows(rows, before, refined):
    new = rows[400:]
    assert refined.score(new) > before.score(new) + 1.0
    assert error(refined, new) < 0.9 * error(before, new)
    assert refined.n_iter_ == refined.history_[-1].iteration == 600
    iterations = [record.iteration for record in refined.history_]
    assert iterations == sorted(set(iterations))


def test__transform__no_changes__is_the_proposal_and_changes_improve_it(rows, refined):
    proposed = refined.transform(rows[400:], n_changes=0)
    expected = refined.module_.inference(train.to_tensor(refined._fitted.scaling.apply(rows[400:]), "cpu")).mode()
    assert np.array_equal(proposed.toarray(), expected.numpy())
    assert (
        error(refined, rows[400:]) < error(refined, rows[400:], n_changes=1) < error(refined, rows[400:], n_changes=0)
    )


def test__transform__rate__trades_length_for_error(rows, refined):
    short, exact = (refined.transform(rows[400:], rate=rate) for rate in (4.0, 0.25))
    assert short.nnz < exact.nnz
    assert refined.evaluate(rows[400:]).code_bits > 0
    assert (
        np.square(refined.inverse_transform(short) - rows[400:]).mean()
        > np.square(refined.inverse_transform(exact) - rows[400:]).mean()
    )


def test__transform__candidates__begin_the_search(rows, refined):
    codes = refined.transform(rows[400:420], n_candidates=8)
    assert codes.getnnz(axis=1).max() <= SETTINGS["max_active"]


def test__elbo__refined__is_the_joint_of_the_codes_of_transform(rows, refined):
    new = rows[400:]
    x = train.to_tensor(refined._fitted.scaling.apply(new), "cpu")
    codes = train.to_tensor(refined.transform(new), "cpu")
    joint = refined.module_.log_likelihood(x, codes[None])[0] + refined.module_.log_prior(codes)
    jacobian = refined._fitted.scaling.log_jacobians(np.zeros(new.shape[1]))
    np.testing.assert_allclose(refined.elbo(new), joint.detach().numpy() + jacobian, rtol=1e-4)
    np.testing.assert_allclose(refined.score_samples(new), refined.elbo(new), rtol=1e-3)
    assert refined.evaluate(new).kl == pytest.approx(refined.evaluate(new).code_bits * np.log(2), rel=1e-4)


def test__save__refined__searches_again(rows, refined, tmp_path):
    refined.save(tmp_path / "model")
    read = load(tmp_path / "model")
    assert read.refine == _refinement.SHARE
    assert (read.transform(rows) != refined.transform(rows)).nnz == 0
    np.testing.assert_array_equal(read.elbo(rows), refined.elbo(rows))


def test__transform__part_of_the_rows__gives_the_same_codes(rows, refined):
    whole = refined.transform(rows[400:])
    parts = np.concatenate([refined.transform(rows[start : start + 7]).toarray() for start in range(400, 500, 7)])
    assert (whole.toarray() != parts).any(axis=1).mean() < 0.03  # ties that rounding decides


def test__fit__noise__keeps_the_model_before(rows):
    noise = np.random.default_rng(0).normal(size=(200, 3))
    settings = {**SETTINGS, "max_iter": 60}
    model = SDLGM(**settings).fit(noise)
    before = SDLGM(**{**settings, "max_iter": 36, "refine": 0}).fit(noise)
    assert not model.module_.is_searching
    assert model.n_iter_ == 60
    with pytest.raises(ValueError, match="n_changes=2 needs a model that was fitted with refine"):
        model.transform(noise, n_changes=2)
    assert model.training_bound_ > model.history_[-1].discrete
    assert before.transform(noise).shape == model.transform(noise).shape


def test__fit__resumed_in_the_search__is_the_uninterrupted_model(rows, refined, tmp_path, monkeypatch):
    settings = {**SETTINGS, "checkpoint_dir": tmp_path, "checkpoint_every": 50}
    step = Trainer.step

    def fail(self, batch):
        if self.iteration == 520:
            raise RuntimeError("the machine goes away")
        return step(self, batch)

    monkeypatch.setattr(Trainer, "step", fail)
    with pytest.raises(RuntimeError, match="goes away"):
        SDLGM(**settings).fit(rows[:400])
    assert {path.name for path in tmp_path.glob("*.safetensors")} == {
        "checkpoint.safetensors",
        "checkpoint-refine.safetensors",
    }
    monkeypatch.undo()
    resumed = SDLGM(**settings, resume=True).fit(rows[:400])
    for name, tensor in refined.module_.state_dict().items():
        np.testing.assert_array_equal(tensor.numpy(), resumed.module_.state_dict()[name].numpy(), err_msg=name)


def test__fit__stopped_early__refines_and_publishes_the_bound_of_held_out_rows(rows):
    model = SDLGM(**{**SETTINGS, "max_iter": 2000}, early_stopping=True, n_iter_no_change=2).fit(rows)
    assert model.validation_bound_ == model.history_[-1].discrete
    assert model.module_.is_searching


def test__partial_fit__first_model__does_not_search(rows):
    model = SDLGM(**SETTINGS).partial_fit(rows)
    assert not model.module_.config.searches


def test__partial_fit__after_fit__keeps_searching(rows):
    model = SDLGM(**SETTINGS).fit(rows).partial_fit(rows)
    assert model.module_.is_searching


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "slots", "refine": 0.3}, "needs the chain prior"),
        ({"posterior": "ordered", "refine": 0.3}, "needs the chain prior"),
        ({"refine": 1.0}, "refine"),
    ],
)
def test__refine__impossible__raises(rows, settings, message):
    with pytest.raises(ValueError, match=message):
        SDLGM(**SETTINGS, **settings).fit(rows)


@pytest.mark.parametrize(
    ("likelihoods", "n_features", "share"),
    [
        (("gaussian",) * 3, 200, _refinement.SHARE),
        (("gaussian", "student_t", "categorical"), 200, _refinement.SHARE),
        (("gaussian", "categorical"), 200, 0.0),
        (("bernoulli",) * 3, 200, 0.0),
        (("gaussian",) * 3, 5000, 0.0),
    ],
)
def test__share_by_default__columns__decide(likelihoods, n_features, share):
    assert _refinement.share_by_default(likelihoods, n_features) == share


def test__limits_before__shares__add_up():
    assert _refinement.limits_before({"max_iter": 1000, "max_time": None}, 0.4) == {"max_iter": 600, "max_time": None}
    assert _refinement.limits_before({"max_iter": None, "max_time": 10.0}, 0.25) == {"max_iter": None, "max_time": 7.5}
