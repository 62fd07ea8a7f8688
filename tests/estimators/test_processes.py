"""Fitted models as arguments of other processes."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor

import joblib
import numpy as np
import pytest

from answers import X, Y, answer
from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, load

SETTINGS = {"hidden": (8,), "max_iter": 10, "batch_size": 20}


def unfitted(**options) -> list:
    return [
        SDLGM(n_components=8, max_active=3, **SETTINGS, **options),
        SDLGMClassifier(n_trees=2, **SETTINGS, **options),
        SDLGMCounter(**SETTINGS, **options),
    ]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> list:
    """All estimators: fitted, with a generator as seed, loaded, and after `partial_fit`."""
    folder = tmp_path_factory.mktemp("models")
    found = []
    for seeds in ({"random_state": 0}, {"random_state": np.random.RandomState(0)}):
        found += [model.fit(X, Y) for model in unfitted(**seeds)]
    for number, model in enumerate(found[:3]):
        model.save(folder / f"{number}")
        found.append(load(folder / f"{number}"))
    found.append(copy.deepcopy(found[0]).partial_fit(X))
    return found


def test__copy_and_pickle__fitted_model__answers_as_before(models):
    for model in models:
        for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(answer(other), answer(model))


def test__spawned_process__fitted_models_as_arguments__answers_as_here(models):
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        for model, there in zip(models, pool.map(answer, models), strict=True):
            np.testing.assert_array_equal(there, answer(model))


@pytest.mark.slow
def test__joblib__fitted_models_as_arguments__answers_as_here(models):
    answers = joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(answer)(model) for model in models)
    for model, there in zip(models, answers, strict=True):
        np.testing.assert_array_equal(there, answer(model))
