"""Encode random and adversarial rows with adversarial models, and count the codes beyond their budget."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from sdlgm import SDLGM, SDLGMClassifier, SDLGMCounter, SDLGMError
from sdlgm.model.codes.label_sets import LABEL_FORMS
from sdlgm.model.networks.posteriors import POSTERIORS

N_COLUMNS = 8
ROWS = 50
"""Rows that are encoded at once."""
COMMON: dict[str, Any] = {"hidden": (16,), "max_iter": 10, "batch_size": 50, "random_state": 0}
SCALES = (1.0, 1e-30, 1e2, 1e6, 1e12)
"""Factors of all weights of a model."""
TEMPERATURES = (1e-3, 1.0, 1e3)

Rows = np.ndarray | sp.csr_matrix
Model = SDLGM | SDLGMClassifier | SDLGMCounter


@dataclass(frozen=True)
class Budgets:
    """Rows that were encoded or predicted, and those beyond their budget."""

    rows: int
    beyond: int


def try_budgets(n_rows: int, seed: int, report: Callable[[int], object] = lambda _: None) -> Budgets:
    """Encode rows with all estimators.

    Parameters
    ----------
    n_rows : int
        Number of rows. Those that are refused by an error do not count.
    seed : int
        Seed of the rows and the models.
    report : callable, default=no-op
        Called with the number of rows so far.

    Returns
    -------
    budgets : Budgets

    """
    rng = np.random.default_rng(seed)
    total = beyond = 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # the models are not meant to learn
        models = _models(rng)
        kinds = list(KINDS.values())
        while total < n_rows:
            model = models[rng.integers(len(models))]
            X = kinds[rng.integers(len(kinds))](rng)
            if isinstance(model, SDLGM) and model.likelihood_ == "bernoulli":
                X = _in_unit_interval(X)
            for codes, budget in _answers(model, X, rng):
                total += codes.shape[0]
                beyond += count_beyond(codes, budget)
            report(total)
    return Budgets(total, beyond)


def count_beyond(codes: np.ndarray | sp.csr_matrix, budget: int) -> int:
    """Return the number of codes that are not whole, not positive, or beyond the budget."""
    dense = np.asarray(codes.toarray() if sp.issparse(codes) else codes)
    whole = (dense >= 0).all(axis=1) & (dense == np.floor(dense)).all(axis=1)
    return int((~whole | (dense.sum(axis=1) > budget)).sum())


def _answers(model: Model, X: Rows, rng: np.random.Generator) -> Iterator[tuple[Any, int]]:
    """Iterate over codes of rows and their budgets; rows that are refused have none."""
    calls: list[tuple[Callable[[], Any], int]]
    if isinstance(model, SDLGM):
        budget, seed = int(model.max_active), int(rng.integers(2**31))
        calls = [
            (lambda: model.transform(X), budget),
            (lambda: model.transform(X, n_candidates=2), budget),
            (lambda: model.sample_codes(X, random_state=seed), budget),
        ]
        if model.posterior == "ordered":
            coarse = int(rng.integers(budget + 1))
            calls.append((lambda: model.transform(X, budget=coarse), coarse))
    else:
        calls = [(lambda: model.predict(X), model.max_active_)]
    for call, budget in calls:
        try:
            codes = call()
        except (SDLGMError, ValueError):  # too large, or not in [0, 1]
            continue
        yield codes, budget


def _models(rng: np.random.Generator) -> list[Model]:
    """Return models of all kinds, each with weights of several sizes."""
    X, Y = rng.random((100, N_COLUMNS)), rng.integers(2, size=(100, 4))
    fitted: list[Model] = []
    for posterior in POSTERIORS:
        for likelihood in ("bernoulli", "gaussian"):
            for temperature in TEMPERATURES:
                options: dict[str, Any] = {
                    "n_components": int(rng.integers(2, 40)),
                    "max_active": int(rng.integers(1, 12)),
                    "posterior": posterior,
                    "likelihood": likelihood,
                    "gradient": "annealed_straight_through",  # the temperature is that of the posterior
                    "feature_temperature": temperature,
                }
                fitted.append(SDLGM(**COMMON, **options).fit(X))
    fitted += [
        SDLGMClassifier(**COMMON, likelihood=form, threshold=0.01, max_active=4).fit(X, Y) for form in LABEL_FORMS
    ]
    fitted.append(SDLGMCounter(**COMMON, max_active=5).fit(X, Y))
    return [model for estimator in fitted for model in _scaled(estimator)]


def _scaled(model: Model) -> Iterator[Model]:
    """Iterate over copies of a model with other weights."""
    for scale in SCALES:
        other = copy.deepcopy(model)
        with torch.no_grad():
            for name, parameter in other.module_.named_parameters():
                if "temperature" not in name:
                    parameter.mul_(scale)
        yield other


def _in_unit_interval(rows: Rows) -> Rows:
    if isinstance(rows, sp.csr_matrix):
        return sp.csr_matrix(np.clip(np.nan_to_num(rows.toarray()), 0, 1))
    return np.clip(rows, 0, 1)


def _sparse(rng: np.random.Generator) -> sp.csr_matrix:
    return sp.csr_matrix(rng.random((ROWS, N_COLUMNS)) * (rng.random((ROWS, N_COLUMNS)) < 0.2))


def _mixed(rng: np.random.Generator) -> np.ndarray:
    exponents = rng.uniform(-40, 14, (ROWS, N_COLUMNS))
    return rng.choice([-1.0, 1.0], (ROWS, N_COLUMNS)) * 10.0**exponents


SHAPE = (ROWS, N_COLUMNS)
KINDS: dict[str, Callable[[np.random.Generator], Rows]] = {
    "uniform": lambda rng: rng.random(SHAPE),
    "normal": lambda rng: rng.normal(size=SHAPE),
    "float16": lambda rng: rng.normal(size=SHAPE).astype(np.float16),
    "float32": lambda rng: rng.normal(size=SHAPE).astype(np.float32),
    "whole": lambda rng: rng.integers(-5, 5, SHAPE),
    "binary": lambda rng: rng.integers(2, size=SHAPE).astype(bool),
    "huge": lambda rng: rng.normal(size=SHAPE) * 1e14,
    "too_huge": lambda rng: rng.normal(size=SHAPE) * 1e300,
    "tiny": lambda rng: rng.random(SHAPE) * 1e-30,
    "denormal": lambda rng: rng.random(SHAPE) * 5e-320,
    "denormal32": lambda rng: (rng.random(SHAPE) * 1e-40).astype(np.float32),
    "zeros": lambda _: np.zeros(SHAPE),
    "ones": lambda _: np.ones(SHAPE),
    "constant": lambda rng: np.full(SHAPE, rng.normal()),
    "sparse": _sparse,
    "mixed": _mixed,
}
"""Kinds of rows, by name."""
