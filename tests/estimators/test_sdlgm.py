import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import multinomial
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sdlgm import SDLGM, load
from sdlgm.errors import BudgetError, DataError
from sdlgm.gradients import GRADIENTS
from sdlgm.model.networks.posteriors import POSTERIORS


@pytest.mark.filterwarnings("ignore:max_active=3 is above n_components=1")  # the checks set n_components
@parametrize_with_checks(
    [SDLGM(n_components=8, max_active=3, hidden=(8,), gate_hidden=(4,), max_iter=5, random_state=0)]
)
def test__scikit_learn__all_checks__pass(estimator, check):
    check(estimator)


def n_active(codes) -> np.ndarray:
    return np.asarray(codes.sum(axis=1)).ravel()


def test__transform__any_rows__gives_csr_counts_within_the_budget(fitted, digits, small):
    codes = fitted.transform(digits)
    assert isinstance(codes, sp.csr_matrix)
    assert codes.shape == (len(digits), small["n_components"])
    assert np.issubdtype(codes.dtype, np.integer)
    assert n_active(codes).max() <= small["max_active"]
    assert np.diff(codes.indptr).max() <= small["max_active"]
    assert (fitted.transform(digits) != codes).nnz == 0


def test__transform__shared_posterior__is_its_mode(digits, small):
    fitted = SDLGM(**small, posterior="shared", random_state=0).fit(digits)
    codes = fitted.transform(digits[:20]).toarray()
    gate_prob, feature_probs = fitted.posterior_probs(digits[:20])
    probs = np.column_stack([1 - gate_prob, gate_prob[:, None] * feature_probs]).astype(np.float64)

    rng = np.random.default_rng(0)
    for row in range(20):
        p = probs[row] / probs[row].sum()
        mode = np.append(small["max_active"] - codes[row].sum(), codes[row])
        best = multinomial.logpmf(mode, small["max_active"], p)
        others = rng.multinomial(small["max_active"], p, size=300)
        assert (multinomial.logpmf(others, small["max_active"], p) <= best + 1e-6).all()


@pytest.mark.parametrize("binarize", ["dynamic", "threshold"])
def test__transform__candidates__improve_the_joint_probability(digits, small, binarize):
    model = SDLGM(**small, likelihood="bernoulli", random_state=0, binarize=binarize).fit(digits)

    def log_joint(codes):
        counts = torch.tensor(codes.toarray(), dtype=torch.float32)
        x = torch.tensor((digits >= 0.5).astype(np.float32) if binarize == "threshold" else digits)
        with torch.no_grad():
            return model.module_.log_prior(counts) + model.module_.log_likelihood(x, counts[None])[0]

    plain, best = log_joint(model.transform(digits)), log_joint(model.transform(digits, n_candidates=10))
    assert bool((best >= plain - 1e-4).all())
    assert bool((best > plain + 1e-3).any())
    codes = model.transform(digits, n_candidates=10)
    assert n_active(codes).max() <= model.max_active
    assert (model.transform(digits, n_candidates=10) != codes).nnz == 0


def test__transform__threshold__sees_what_training_saw(digits, small):
    model = SDLGM(**small, likelihood="bernoulli", random_state=0, binarize="threshold").fit(digits)
    binary = (digits >= 0.5).astype(np.float32)
    assert (model.transform(digits) != model.transform(binary)).nnz == 0
    np.testing.assert_array_equal(model.posterior_probs(digits).gate_prob, model.posterior_probs(binary).gate_prob)


def test__sample_codes__seeded__is_reproducible_and_within_the_budget(fitted, digits, small):
    first, second = (fitted.sample_codes(digits, random_state=1) for _ in range(2))
    assert (first != second).nnz == 0
    assert (first != fitted.sample_codes(digits, random_state=2)).nnz > 0
    assert n_active(first).max() <= small["max_active"]


def test__inverse_transform__codes__gives_means_in_the_data_range(fitted, digits):
    decoded = fitted.inverse_transform(fitted.transform(digits))
    assert decoded.shape == digits.shape
    assert decoded.min() >= 0
    assert decoded.max() <= 1
    dense = fitted.inverse_transform(fitted.transform(digits).toarray())
    np.testing.assert_array_equal(decoded, dense)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.full((2, 16), 1), "row 0 of the codes has 16 active slots"),
        (-np.eye(16), "not negative"),
        (np.eye(16) / 2, "whole number"),
        (np.full((1, 16), np.nan), "finite"),
        (np.eye(5), "n_components=16"),
    ],
)
def test__inverse_transform__bad_codes__say_what_is_wrong(fitted, codes, message):
    with pytest.raises(ValueError, match=message):
        fitted.inverse_transform(codes)


def test__inverse_transform__beyond_the_budget__is_a_budget_error(fitted):
    with pytest.raises(BudgetError):
        fitted.inverse_transform(np.full((1, 16), 1))


def test__posterior_probs__fitted__has_the_probabilities_and_posterior_is_a_plain_setting(fitted, digits):
    assert type(fitted.posterior) is str
    assert fitted.posterior == "chain"
    assert fitted.get_params()["posterior"] == clone(fitted).posterior == "chain"
    result = fitted.posterior_probs(digits[:7])
    assert result.gate_prob.shape == (7,)
    assert result.feature_probs.shape == (7, 16)
    np.testing.assert_allclose(result.feature_probs.sum(1), 1, rtol=1e-5)


def test__likelihood__auto__follows_the_values_of_the_data(digits, small, fitted_gaussian):
    settings = {**small, "max_iter": 5, "random_state": 0}
    assert SDLGM(**settings).fit(digits).likelihood_ == "gaussian"  # grey values are no coins
    assert SDLGM(**settings).fit((digits > 0.5).astype(float)).likelihood_ == "bernoulli"
    assert fitted_gaussian.likelihood_ == "gaussian"
    assert fitted_gaussian.likelihoods_.tolist() == ["gaussian"] * 6


def test__gaussian__score__is_a_density_in_the_units_of_the_data(measurements, small):
    model = SDLGM(**small, random_state=0).fit(measurements)
    scaled = SDLGM(**small, random_state=0).fit(measurements * 1000)
    difference = model.score(measurements) - scaled.score(measurements * 1000)
    assert difference == pytest.approx(measurements.shape[1] * np.log(1000), abs=0.05)


def test__gaussian__large_offset__is_not_lost_in_float32(small):
    rng = np.random.default_rng(0)
    signal = rng.normal(size=(200, 3))
    near = SDLGM(**small, random_state=0).fit(signal)
    far = SDLGM(**small, random_state=0).fit(signal + 1e9)
    assert far.score(signal + 1e9) == pytest.approx(near.score(signal), abs=0.05)
    decoded = far.inverse_transform(far.transform(signal + 1e9))
    assert np.abs(decoded - 1e9).max() < 10


def test__gaussian__constant_column__neither_breaks_nor_counts(measurements, small):
    X = np.column_stack([measurements, np.full(len(measurements), 7.0)])
    model = SDLGM(**small, random_state=0).fit(X)
    moved = X.copy()
    moved[:, -1] = 9.0
    assert np.isfinite(model.elbo(moved)).all()
    moved[:, -1] = 1e300
    np.testing.assert_array_equal(model.elbo(moved, random_state=0), model.elbo(X, random_state=0))
    assert (model.inverse_transform(model.transform(X))[:, -1] == 7.0).all()
    assert (model.sample(10)[:, -1] == 7.0).all()


def test__gaussian__small_variation_on_a_large_float32_offset__is_not_constant(small):
    values = (1e6 + 0.5 * np.random.default_rng(0).normal(size=(100, 1))).astype(np.float32)
    model = SDLGM(**small, random_state=0).fit(np.hstack([values, values]))
    assert model.module_.likelihood.varies.all()


@pytest.mark.parametrize("value", [1e39, 1e300])
def test__budget__extreme_values__are_refused_or_kept(fitted_gaussian, measurements, small, value):
    X = measurements.copy()
    X[3, 3] = value
    for method in (fitted_gaussian.transform, fitted_gaussian.sample_codes, fitted_gaussian.elbo):
        with pytest.raises(ValueError, match="row 3, column 3"):
            method(X)
    for batches in (fitted_gaussian.transform, lambda X: list(fitted_gaussian.transform_batches(X))):
        with pytest.raises(DataError, match="begins with row 3: the value in row 0, column 3"):
            batches(iter([X[:3], X[3:]]))
    with pytest.raises(ValueError, match="too large"):
        SDLGM(**small).fit(measurements * 1e200)


@given(
    X=arrays(np.float64, (3, 6), elements=st.floats(-1e9, 1e9)),
    n_candidates=st.sampled_from([0, 2]),
)
@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test__budget__any_rows__hold_it(fitted_gaussian, X, n_candidates):
    for codes in (fitted_gaussian.transform(X, n_candidates=n_candidates), fitted_gaussian.sample_codes(X)):
        assert codes.nnz == 0 or codes.data.min() > 0
        assert n_active(codes).max() <= fitted_gaussian.max_active


@pytest.mark.parametrize("kind", ["list", "pandas", "csr", "csc", "torch", "int", "float64", "fortran"])
def test__inputs__any_container__give_the_same_codes(digits, small, kind):
    binary = (digits > 0.5).astype(np.float32)
    converted = {
        "list": lambda X: X.tolist(),
        "pandas": pd.DataFrame,
        "csr": sp.csr_matrix,
        "csc": sp.csc_array,
        "torch": torch.tensor,
        "int": lambda X: X.astype(np.int64),
        "float64": lambda X: X.astype(np.float64),
        "fortran": np.asfortranarray,
    }[kind](binary)
    if kind == "pandas":
        converted.columns = [f"pixel{i}" for i in range(64)]
    expected = SDLGM(**small, random_state=0).fit(binary).transform(binary)
    found = SDLGM(**small, random_state=0).fit(converted).transform(converted)
    assert (found != expected).nnz == 0


def test__gaussian__sparse_input__equals_dense(measurements, small):
    X = np.where(measurements > 0, measurements, 0)
    dense, sparse = SDLGM(**small, random_state=0).fit(X), SDLGM(**small, random_state=0).fit(sp.csr_matrix(X))
    np.testing.assert_allclose(sparse.elbo(sp.csr_matrix(X)), dense.elbo(X), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((10, 3), np.nan), "NaN"),
        (np.full((10, 3), np.inf), "infinity"),
        (np.empty((0, 3)), "0 sample"),
        (np.ones((1, 3)), "1 sample"),
        (np.ones(5), "Expected 2D array"),
        (np.array([["a", "b"], ["c", "d"]]), "could not convert"),
    ],
)
def test__fit__bad_input__is_refused_before_any_work(X, message, small):
    with pytest.raises(ValueError, match=message):
        SDLGM(**small).fit(X)


def test__bernoulli__values_outside_the_unit_interval__are_refused_with_the_fix(fitted, digits, small):
    with pytest.raises(ValueError, match="MinMaxScaler"):
        SDLGM(**small, likelihood="bernoulli").fit(digits * 16)
    with pytest.raises(ValueError, match="MinMaxScaler"):
        fitted.elbo(digits * 16)


def test__methods__wrong_width_or_not_fitted__are_refused(fitted, digits, small):
    with pytest.raises(ValueError, match="63 features"):
        fitted.transform(digits[:, :63])
    with pytest.raises(NotFittedError):
        SDLGM(**small).transform(digits)
    with pytest.raises(NotFittedError):
        SDLGM(**small).inverse_transform(np.eye(16))


@pytest.mark.parametrize(
    "bad", [{"max_active": 0}, {"gate_prior": 1.0}, {"gradient": "magic"}, {"kl": "none"}, {"posterior": "mean"}]
)
def test__fit__bad_setting__is_refused_by_name(digits, small, bad):
    with pytest.raises(ValueError, match=f"'{next(iter(bad))}' parameter"):
        SDLGM(**{**small, **bad}).fit(digits)


def test__temperature__learned_and_scheduled__exclude_each_other(digits, small):
    with pytest.raises(ValueError, match="exclude each other"):
        SDLGM(**small, learn_temperature=True, final_temperature=0.5).fit(digits)


def test__pipeline_and_grid_search__work(digits, small):
    labels = load_digits().target[: len(digits)]
    small = {**small, "likelihood": "bernoulli"}
    model = make_pipeline(SDLGM(**small, random_state=0), LogisticRegression(max_iter=500))
    search = GridSearchCV(
        model, {"sdlgm__max_active": [2, 5], "sdlgm__posterior": ["subset"]}, cv=2, error_score="raise"
    )
    search.fit(digits, labels)
    assert search.best_score_ > 0.2  # 0.1 by chance
    unsupervised = GridSearchCV(SDLGM(**small, random_state=0), {"n_components": [8, 16]}, cv=2, error_score="raise")
    found = unsupervised.fit(digits)
    assert found.best_score_ == max(found.cv_results_["mean_test_score"])
    assert found.best_score_ == pytest.approx(-20, abs=10)
    make_pipeline(StandardScaler(), SDLGM(**small).set_params(likelihood="auto")).fit(digits)


def test__clone__fitted__gives_an_unfitted_twin(fitted):
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "module_")


def test__feature_names_out__named_after_the_class(fitted):
    assert list(fitted.get_feature_names_out()[:2]) == ["sdlgm0", "sdlgm1"]
    assert len(fitted.get_feature_names_out()) == 16


def test__early_stopping__too_few_rows__says_so(measurements, small):
    with pytest.raises(ValueError, match="fewer than 2 rows"):
        SDLGM(**small, early_stopping=True).fit(measurements[:2])


def test__early_stopping__held_out_rows__do_not_shape_the_scaling(measurements, small):
    model = SDLGM(**small, early_stopping=True, validation_fraction=0.5, random_state=0).fit(measurements)
    assert not np.allclose(model._fitted.scaling.location, measurements.mean(axis=0), rtol=1e-9)


@pytest.mark.parametrize("value", [2.5, "3", None])
def test__counts__that_are_no_whole_numbers__are_refused(fitted, digits, value):
    for call in (
        lambda: fitted.sample(value),
        lambda: fitted.transform(digits, n_candidates=value),
        lambda: fitted.elbo(digits, n_importance=value),
    ):
        with pytest.raises(ValueError, match="whole number"):
            call()


def test__empty_requests__are_refused_or_empty(fitted, digits):
    for n in (0, -1):
        with pytest.raises(ValueError, match="n_samples"):
            fitted.sample(n)
    with pytest.raises(ValueError, match="n_candidates"):
        fitted.transform(digits, n_candidates=-1)
    assert fitted.inverse_transform(sp.csr_matrix((0, 16))).shape == (0, 64)


@pytest.mark.parametrize("bad", [{"hidden": (0,)}, {"hidden": ("a",)}, {"gate_hidden": (2.5,)}, {"device": "nonsense"}])
def test__fit__bad_network_or_device__is_refused_by_name(digits, small, bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SDLGM(**{**small, **bad}).fit(digits)


def test__fit__no_hidden_layers_and_more_slots_than_features__works(measurements):
    model = SDLGM(n_components=2, max_active=9, hidden=(), gate_hidden=(), max_iter=5, random_state=0)
    with pytest.warns(UserWarning, match="max_active=9 is above n_components=2"):
        assert n_active(model.fit_transform(measurements)).max() <= 2


def test__training__more_iterations__raise_the_bound(measurements, small):
    short = SDLGM(**{**small, "max_iter": 20}, learning_rate=0.01, random_state=0).fit(measurements)
    long = SDLGM(**{**small, "max_iter": 600}, learning_rate=0.01, random_state=0).fit(measurements)
    assert long.score(measurements) > short.score(measurements) + 1


EVERY_PAIR = [  # the gradients themselves are compared with enumeration; all pairs are a matter of minutes
    pytest.param(posterior, gradient, marks=[] if gradient in ("reinmax", "leave_one_out") else [pytest.mark.slow])
    for posterior, family in POSTERIORS.items()
    for gradient, estimator in GRADIENTS.items()
    if family.kind in estimator.defined_for
]


@pytest.mark.parametrize(("posterior", "gradient"), EVERY_PAIR)
def test__fit__every_posterior_and_gradient__learns_something(measurements, small, posterior, gradient):
    settings = {**small, "max_iter": 300, "learning_rate": 0.01, "random_state": 0}
    settings |= {"posterior": posterior, "gradient": gradient, "kl_warmup": 0.5}
    model = SDLGM(**settings).fit(measurements)
    untrained = SDLGM(**{**settings, "max_iter": 1}).fit(measurements)
    bound = "relaxed" if gradient == "gumbel_softmax" else "discrete"
    assert model.elbo(measurements, bound=bound).mean() > untrained.elbo(measurements, bound=bound).mean() + 0.3
    # An encoder that learned nothing, or the wrong way round, would leave the codes empty.
    assert model.history_[-1].kl > 0.5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gradient": "disarm"}, "disarm.*not defined for posterior='chain'; use one of .*reinmax"),
        ({"gradient": "gumbel_rao", "posterior": "shared"}, "gumbel_rao.*not defined for posterior='shared'"),
        ({"kl": "paper"}, "kl='paper' is defined for posterior='shared'"),
    ],
)
def test__fit__pairs_that_do_not_exist__are_refused(digits, small, settings, message):
    with pytest.raises(ValueError, match=message):
        SDLGM(**small, **settings).fit(digits)


def test__gumbel_rao__ordered_posterior_and_learned_temperature__trains(digits, small):
    settings = {"posterior": "ordered", "gradient": "gumbel_rao", "learn_temperature": True}
    model = SDLGM(**small, **settings, random_state=0).fit(digits)
    assert model.history_[-1].feature_temperature != 1


def test__transform__budget__cuts_ordered_codes(digits, small):
    model = SDLGM(**small, posterior="ordered", random_state=0).fit(digits)
    whole = model.transform(digits)
    previous = sp.csr_matrix(whole.shape)
    for budget in range(small["max_active"] + 1):
        codes = model.transform(digits, budget=budget)
        assert n_active(codes).max() <= budget
        assert ((codes - previous).data >= 0).all()  # a longer code begins with the shorter one
        previous = codes
    assert (previous != whole).nnz == 0
    parts = sp.vstack(list(model.transform_batches([digits[:50], digits[50:]], budget=2)))
    assert (parts != model.transform(digits, budget=2)).nnz == 0
    with pytest.raises(ValueError, match="exclude each other"):
        model.transform(digits, budget=2, n_candidates=3)


def test__transform__budget_without_order__is_refused(fitted, digits):
    with pytest.raises(ValueError, match="posterior='ordered'"):
        fitted.transform(digits, budget=2)


def test__fit__callback__sees_every_iteration(digits, small):
    seen = []
    SDLGM(**small, random_state=0).fit(digits, callback=lambda module, iteration: seen.append((module, iteration)))
    assert [iteration for _, iteration in seen] == list(range(1, small["max_iter"] + 1))


@pytest.mark.parametrize("gradient", ["reinmax", "straight_through", "straight_through_gumbel", "gumbel_softmax"])
@pytest.mark.parametrize(
    "options", [{}, {"share_layers": False, "normalize_logits": False, "activation": "relu", "n_samples": 2}]
)
def test__fit__every_network__learns_something(measurements, small, gradient, options):
    settings = {**small, "max_iter": 300, "learning_rate": 0.01, "gradient": gradient, "random_state": 0, **options}
    settings["posterior"] = "shared"
    model = SDLGM(**settings).fit(measurements)
    untrained = SDLGM(**{**settings, "max_iter": 1}).fit(measurements)
    bound = "relaxed" if gradient == "gumbel_softmax" else "discrete"
    assert model.elbo(measurements, bound=bound).mean() > untrained.elbo(measurements, bound=bound).mean() + 0.4


@pytest.mark.parametrize("gradient", ["reinmax", "gumbel_softmax"])
@pytest.mark.parametrize("posterior", ["shared", "subset"])
def test__fit__without_compiled_loops__works_as_on_other_devices(digits, small, posterior, gradient, loops):
    settings = {**small, "max_iter": 200, "posterior": posterior, "gradient": gradient}
    model = SDLGM(**settings, random_state=0).fit(digits)
    trained_by = "relaxed" if gradient == "gumbel_softmax" else "discrete"
    assert getattr(model.history_[-1], trained_by) > getattr(model.history_[0], trained_by)
    assert n_active(model.transform(digits)).max() <= small["max_active"]
    assert np.isfinite(model.elbo(digits, bound="relaxed")).all()


def test__transform_batches__parts__are_the_codes_of_transform(fitted, digits):
    parts = [digits[:7], digits[7:300], digits[300:]]
    codes = sp.vstack(list(fitted.transform_batches(iter(parts))))
    assert (codes != fitted.transform(digits)).nnz == 0


def test__transform_batches__stream__takes_one_batch_at_a_time(fitted, digits):
    taken = []

    def batches():
        for start in range(0, 300, 100):
            taken.append(start)
            yield digits[start : start + 100]

    stream = fitted.transform_batches(batches())
    assert taken == []
    next(stream)
    assert taken == [0]
    with pytest.raises(ValueError, match="n_candidates"):
        fitted.transform_batches([digits], n_candidates=-1)
    with pytest.raises(NotFittedError):
        SDLGM().transform_batches([digits])
    with pytest.raises(ValueError, match="begins with row 150: .*infinity"):
        list(fitted.transform_batches([digits[:150], np.full_like(digits, np.inf)]))


def test__transform__memory_map__is_read_in_batches(fitted, digits, tmp_path):
    np.save(tmp_path / "X.npy", digits)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert (fitted.transform(mapped) != fitted.transform(digits)).nnz == 0


COMPILED = """
import sys, numpy as np, torch
from sklearn.datasets import load_digits
from sdlgm import SDLGM, load
X = load_digits().data[:400].astype(np.float32) / 16
sizes = {"n_components": 16, "max_active": 5, "hidden": (32,), "batch_size": 50, "max_iter": 20, "random_state": 0}
sizes["posterior"] = "shared"
eager, compiled = (SDLGM(**sizes, gradient=sys.argv[1], compile=value).fit(X) for value in (False, True))
assert abs(compiled.score(X) / eager.score(X) - 1) < 0.01
eager.save(sys.argv[2])
twin = load(sys.argv[2])  # the same parameters: trained apart, rounding grows from step to step
twin.module_.compile_networks()
np.testing.assert_allclose(twin.elbo(X), eager.elbo(X), rtol=1e-4)
assert (twin.transform(X) != eager.transform(X)).nnz == 0
gradients = []
for module in (eager.module_.double(), twin.module_.double()):
    module.zero_grad()
    gate_logit, feature_logits = module.posterior.encoder(torch.tensor(X).double())
    (gate_logit.sum() + feature_logits.square().sum() + module.decoder(feature_logits).square().sum()).backward()
    gradients.append({name: p.grad for name, p in module.named_parameters() if p.grad is not None})
for name, gradient in gradients[0].items():
    torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-6, atol=1e-9 * float(gradient.abs().max()))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("gradient", ["reinmax", "gumbel_softmax"])
def test__compile__short_run__differs_by_rounding_only(gradient, tmp_path):
    """In a process of its own: torch.compile cannot look through the checks of shapes that the tests add."""
    subprocess.run([sys.executable, "-c", COMPILED, gradient, str(tmp_path / "model.sdlgm")], check=True)


def test__compile__no_compiler__says_so(digits, small, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="C\\+\\+ compiler"):
        SDLGM(**small, compile=True).fit(digits)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test__device__cuda__keeps_the_budget(digits, small):
    codes = SDLGM(**small, device="cuda", random_state=0).fit_transform(digits)
    assert n_active(codes).max() <= small["max_active"]


def test__annealed_straight_through__slope__is_part_of_the_model(digits, tmp_path):
    model = SDLGM(
        n_components=10, max_active=3, hidden=(8,), posterior="subset", gradient="annealed_straight_through",
        final_temperature=0.5, max_iter=20, random_state=0,
    ).fit(digits)  # fmt: skip
    x = torch.tensor(digits[:5], dtype=torch.float32)
    flat, steep = model.module_.posterior(x), model.module_.inference(x)
    assert float(model.module_.temperatures.feature) == pytest.approx(0.5, abs=0.05)
    torch.testing.assert_close(steep.logits, flat.logits / model.module_.temperatures.feature)
    model.save(tmp_path / "model.sdlgm")
    again = load(tmp_path / "model.sdlgm")
    assert again.evaluate(digits, random_state=0) == model.evaluate(digits, random_state=0)
