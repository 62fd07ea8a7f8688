"""The answers of a classifier for a batch."""

import numpy as np
import pytest
from sklearn.datasets import make_multilabel_classification

from sdlgm import SDLGMClassifier
from sdlgm.estimators._decisions import DECISIONS
from sdlgm.model.modules import MultiLabelModule
from sdlgm.model.noise import Noise

SMALL = {"hidden": (8,), "max_iter": 20, "learning_rate": 0.03, "random_state": 0}


def data() -> tuple[np.ndarray, np.ndarray]:
    return make_multilabel_classification(n_samples=60, n_classes=4, random_state=0)  # pyright: ignore[reportReturnType]


@pytest.mark.parametrize("decision", DECISIONS)
def test__evaluate__any_decision__passes_rows_through_the_networks_once(monkeypatch, decision):
    X, Y = data()
    model = SDLGMClassifier(**SMALL).fit(X, Y)
    n_rows = []
    inference = MultiLabelModule.inference
    monkeypatch.setattr(
        MultiLabelModule, "inference", lambda self, x, *rest: n_rows.append(len(x)) or inference(self, x, *rest)
    )
    model.evaluate(X, Y, decision=decision)
    assert n_rows == [60]


@pytest.mark.parametrize("likelihood", ["subset", "monte_carlo", "multinomial"])
def test__answers__posterior_computed_once__are_those_of_the_module(likelihood):
    X, Y = data()
    model = SDLGMClassifier(**SMALL, likelihood=likelihood).fit(X, Y)
    (x,) = model._fitted.scaled_batches(X)
    own = {"n_samples": 20, "noise": Noise.seeded(0)}
    presence = model.module_.presence(x, **own).detach().clamp(0, 1)
    np.testing.assert_allclose(model.predict_proba(X), presence, atol=1e-6)
    numbers = model.module_.number_of_labels(x, n_samples=20, noise=Noise.seeded(0)).detach()
    np.testing.assert_allclose(model.predict_sparsity(X).probs, numbers, atol=1e-6)
