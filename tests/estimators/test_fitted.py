"""The fitted state: what a model keeps, and what its copies, pickles and files keep."""

import copy
import functools
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import FrozenInstanceError
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import sdlgm
from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter
from sdlgm.gradients import GradientEstimator
from sdlgm.train import Trainer
from sdlgm.train.adam import Adam

FEW = {"hidden": (8,), "max_iter": 10, "batch_size": 20, "random_state": 0}
# What training needs and a fitted model does not.
OF_TRAINING = (Trainer, Adam, torch.Generator, GradientEstimator)


@pytest.fixture(scope="module")
def models() -> dict[str, tuple[Any, np.ndarray]]:
    """A model of every estimator, and rows for it."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 6))
    labels = (X[:, :3] > 0.6).astype(int)
    settings = {**FEW, "n_components": 6, "max_active": 3}
    return {
        "chain": (SDLGM(**settings).fit(X), X),
        "learned baseline": (SDLGM(**settings, gradient="score_function").fit(X), X),
        "gaussian": (SDLGM(**settings, posterior="shared").fit(10 * X), 10 * X),
        "classifier": (SDLGMClassifier(**FEW, n_trees=2).fit(X, labels), X),
        "counter": (SDLGMCounter(**FEW).fit(X, labels), X),
    }


EVERY = pytest.mark.parametrize("name", ["chain", "learned baseline", "gaussian", "classifier", "counter"])


def answer(model: Any, X: np.ndarray) -> np.ndarray:
    if isinstance(model, SDLGM):
        return np.column_stack([model.transform(X).toarray(), model.elbo(X, random_state=0)])
    return model.predict_proba(X)


def reachable(root: object) -> Iterator[object]:
    """Iterate over all objects that an object refers to, whatever their classes do about copies."""
    left, seen = [root], {}
    while left:
        item = left.pop()
        if id(item) in seen or isinstance(item, type | ModuleType | str | bytes | int | float | None):
            continue
        seen[id(item)] = item  # kept, so that no other object gets its id
        yield item
        if isinstance(item, Mapping):
            left += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            left += item
        elif isinstance(item, functools.partial):
            left += [item.func, item.args, item.keywords]
        elif isinstance(item, MethodType):
            left += [item.__self__]
        elif isinstance(item, FunctionType):
            left += [cell.cell_contents for cell in item.__closure__ or ()]
        left += vars(item).values() if hasattr(item, "__dict__") else []


def of_training(root: object) -> list[object]:
    return [item for item in reachable(root) if isinstance(item, OF_TRAINING)]


@EVERY
def test__fit__every_estimator__keeps_nothing_of_the_training(models, name):
    model, _ = models[name]
    assert not of_training(vars(model))
    assert not of_training(model._fitted)
    assert any(isinstance(item, torch.nn.Module) for item in reachable(vars(model)))  # it has been everywhere


def test__partial_fit__trainer__stays_until_the_next_fit(digits, small):
    model = SDLGM(**small, random_state=0).partial_fit(digits)
    assert isinstance(model._trainer, Trainer)
    assert of_training(vars(model))
    assert not of_training(model._fitted)
    model.fit(digits)
    assert model._trainer is None
    assert not of_training(vars(model))


def test__fitted__fields__cannot_be_set(models):
    with pytest.raises(FrozenInstanceError):
        models["chain"][0]._fitted.n_iter = 3


def test__fitted__module__is_in_evaluation_mode(models, digits, small):
    for model, _ in models.values():
        assert not any(module.training for module in model.module_.modules())
    assert not SDLGM(**small, random_state=0).partial_fit(digits).module_.training


@EVERY
def test__load__every_estimator__builds_no_trainer(models, name, tmp_path, monkeypatch):
    model, X = models[name]
    model.save(tmp_path / "model")

    def refuse(*_args, **_kwargs):
        raise AssertionError("a trainer was built")

    monkeypatch.setattr(Trainer, "__init__", refuse)
    loaded = sdlgm.load(tmp_path / "model")
    np.testing.assert_array_equal(answer(loaded, X), answer(model, X))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert not of_training(vars(loaded))


@EVERY
def test__pickle__every_estimator__answers_the_same(models, name):
    model, X = models[name]
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(answer(twin, X), answer(model, X))
        assert twin.get_params() == model.get_params()
        assert twin.module_ is twin._fitted.module
        assert twin.module_ is not model.module_
        assert not of_training(vars(twin))


def test__pickle__between_two_partial_fit__has_no_trainer(digits, small):
    model = SDLGM(**small, random_state=0).partial_fit(digits)
    expected = model.elbo(digits, random_state=0)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert twin._trainer is None
        assert not of_training(vars(twin))
        np.testing.assert_array_equal(twin.elbo(digits, random_state=0), expected)
    assert isinstance(model._trainer, Trainer)


def test__partial_fit__copied_in_between__goes_on_as_without_the_copy(digits, small):
    original, alone = (SDLGM(**small, random_state=0) for _ in range(2))
    for _ in range(2):
        original.partial_fit(digits)
        alone.partial_fit(digits)
    twins = [copy.deepcopy(original), pickle.loads(pickle.dumps(original))]
    states = []
    for twin in twins:
        twin.partial_fit(digits)
        assert twin.n_iter_ == 24
        assert np.isfinite(twin.score(digits))
        states.append(twin.module_.state_dict())
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name])  # a fresh optimiser, and noise of the number of iterations
    original.partial_fit(digits)
    alone.partial_fit(digits)
    for name, tensor in alone.module_.state_dict().items():
        assert torch.equal(original.module_.state_dict()[name], tensor)
    assert original.history_ == alone.history_


def test__partial_fit__after_load_and_after_unpickling__is_the_same(digits, small, tmp_path):
    model = SDLGM(**small, random_state=0).fit(digits)
    model.save(tmp_path / "model")
    loaded, unpickled = sdlgm.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))
    for other in (model, loaded, unpickled):
        other.partial_fit(digits)
    for name, tensor in model.module_.state_dict().items():
        assert torch.equal(loaded.module_.state_dict()[name], tensor)
        assert torch.equal(unpickled.module_.state_dict()[name], tensor)


def test__fit__after_partial_fit__is_that_of_a_new_model(digits, small):
    used = SDLGM(**small, random_state=0).partial_fit(digits).fit(digits)
    new = SDLGM(**small, random_state=0).fit(digits)
    for name, tensor in new.module_.state_dict().items():
        assert torch.equal(used.module_.state_dict()[name], tensor)
    assert used.history_ == new.history_


def test__clone__between_two_partial_fit__has_neither_model_nor_trainer(digits, small):
    twin = clone(SDLGM(**small, random_state=0).partial_fit(digits))
    assert twin._trainer is None
    assert not twin.__sklearn_is_fitted__()
