"""Answers of fitted models, in a module that other processes can import."""

import numpy as np
import torch
from sklearn.datasets import make_multilabel_classification

from sdlgm import SDLGM

X, Y = make_multilabel_classification(n_samples=60, n_features=6, n_classes=3, random_state=0)


def answer(model) -> np.ndarray:
    """Return what a fitted model says about rows."""
    torch.set_num_threads(1)
    return model.transform(X).toarray() if isinstance(model, SDLGM) else model.predict_proba(X)
