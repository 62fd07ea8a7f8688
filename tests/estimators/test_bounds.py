"""Early stopping by default, and the bounds of rows that were trained on and of rows that were held out."""

import re

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from commands import run
from sdlgm import SDLGM, _tensorfile, load
from sdlgm.errors import ModelFileError
from sdlgm.estimators import _sdlgm
from training import same_parameters


@pytest.fixture
def default(small, monkeypatch):
    """Settings without a number of iterations, which is small by default."""
    monkeypatch.setattr(SDLGM, "_default_max_iter", 30)
    return {name: value for name, value in small.items() if name != "max_iter"} | {"random_state": 0}


@pytest.mark.parametrize(("n_rows", "stops_early"), [(199, False), (200, True), (349, True), (350, False)])
def test__early_stopping__auto__is_on_if_rows_are_few(digits, default, monkeypatch, n_rows, stops_early):
    monkeypatch.setattr(_sdlgm, "FEW_ROWS", 350)
    model = SDLGM(**default).fit(digits[:n_rows])
    assert (model.validation_bound_ is not None) is stops_early
    assert same_parameters(model, SDLGM(**default, early_stopping=stops_early).fit(digits[:n_rows]))


@pytest.mark.parametrize("options", [{"max_iter": 30}, {"kl_warmup": 1.0, "learn_prior": False, "prior": "slots"}])
def test__early_stopping__auto_with_a_number_of_iterations_or_only_warm_up__is_off(digits, default, options):
    model = SDLGM(**default, **options).fit(digits)
    assert (model.n_iter_, model.validation_bound_) == (30, None)
    assert same_parameters(model, SDLGM(**default, **options, early_stopping=False).fit(digits))


def test__early_stopping__auto_with_rows_in_files__is_off(digits, default, tmp_path):
    np.save(tmp_path / "rows.npy", digits)
    assert SDLGM(**default).fit(tmp_path / "rows.npy").validation_bound_ is None


@pytest.mark.parametrize("rate", [1.0, 3.0])
def test__bounds__held_out_rows__are_those_of_the_parameters_that_are_kept(digits, small, rate):
    settings = {**small, "max_iter": 150, "early_stopping": True, "random_state": 0, "rate": rate, "refine": 0}
    model = SDLGM(**settings).fit(digits)
    assert model.validation_bound_ in [record.discrete for record in model.history_]
    assert model.validation_bound_ == max(model.history_, key=lambda record: record.objective(rate)).discrete
    # The rows that were trained on are nine in ten of these.
    both = 0.1 * model.validation_bound_ + 0.9 * model.training_bound_
    assert both == pytest.approx(model.score(digits), abs=0.3)
    assert model.training_bound_ != model.validation_bound_


def test__bounds__weighted_rows__are_weighted(digits, small):
    weights = np.where(np.arange(len(digits)) < 200, 1e-6, 1.0)
    settings = {**small, "early_stopping": True, "random_state": 0}
    model = SDLGM(**settings).fit(digits, sample_weight=weights)
    bounds = [model.score(digits[200:]), model.training_bound_, model.validation_bound_]
    assert bounds == pytest.approx([bounds[0]] * 3, abs=1.5)


def test__bounds__nothing_held_out__are_those_of_the_end(digits, small):
    model = SDLGM(**small, refine=0, random_state=0).fit(digits)
    assert (model.training_bound_, model.validation_bound_) == (model.history_[-1].discrete, None)
    model = SDLGM(**small, early_stopping=True, random_state=0).fit(digits).partial_fit(digits)
    assert (model.training_bound_, model.validation_bound_) == (model.history_[-1].discrete, None)


def test__bounds__few_rows_and_patient__overfits_and_says_so():
    """Twenty rows can be learned by heart."""
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(40, 3)) @ rng.normal(size=(3, 100)) + rng.normal(size=(40, 100)) > 0).astype(float)
    settings = {"n_components": 32, "max_active": 8, "hidden": (128, 128), "posterior": "subset", "prior": "slots"}
    model = SDLGM(**settings, max_iter=200, validation_fraction=0.5, early_stopping=True, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"overfits: rows that were trained on gain .* and held-out rows"):
        model.fit(X)
    assert model.problem_ is not None
    assert model.training_bound_ > model.validation_bound_ + 1.0


def test__bounds__model_file__keeps_them(digits, small, tmp_path):
    model = SDLGM(**small, early_stopping=True, random_state=0).fit(digits)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert (loaded.training_bound_, loaded.validation_bound_) == (model.training_bound_, model.validation_bound_)


@pytest.mark.parametrize("bound", ["high", 1, [2.0]])
def test__bounds__file_with_something_else__is_refused(digits, small, tmp_path, bound):
    path = tmp_path / "model"
    SDLGM(**small, random_state=0).fit(digits).save(path)
    content = _tensorfile.read(path, "sdlgm-model")
    _tensorfile.write(path, "sdlgm-model", {**content.document, "validation_bound": bound}, content.tensors)
    with pytest.raises(ModelFileError, match="bounds of the fit"):
        load(path)


def test__bounds__command_line_and_report__show_them(digits, tmp_path):
    np.save(tmp_path / "rows.npy", digits[:60])
    small = ["--n-components", "4", "--max-active", "2", "--hidden", "4", "--max-iter", "10"]
    fit = ["fit", tmp_path / "rows.npy", *small, "--out"]
    without = run(*fit, tmp_path / "without").stdout
    assert re.search(r"bound on log p\(x\): -?[\d.]+ nats on training rows, after 10 iterations", without)
    both = run(*fit, tmp_path / "both", "--early-stopping").stdout
    model = load(tmp_path / "both")
    assert f"{model.training_bound_:.2f} nats on training rows, {model.validation_bound_:.2f} on held-out rows" in both
    pytest.importorskip("matplotlib")
    run("report", tmp_path / "both", tmp_path / "rows.npy", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text("utf-8")
    assert f"{model.validation_bound_:.2f} nats on held-out rows" in page
