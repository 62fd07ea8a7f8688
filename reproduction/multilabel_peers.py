"""Peers for multi-label classification: forests, a classifier chain, a neural network and boosted trees.

All are estimators of scikit-learn behind one interface. `PEERS` has a function that makes each of them, and `GRIDS` the
settings of that function to choose from.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, TransformerMixin, clone, is_regressor
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

from reproduction.linear import validate_labelled

N_TREES = 200
N_MEMBERS = 5


class PresenceProbabilities(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Let `predict_proba` of any estimator return an array of P(label k is present).

    Estimators differ: some return a list with one array for each label, some have no column for classes that they have
    not seen, some refuse constant labels. Here labels that are constant in the training rows are not passed to the
    estimator; they are predicted as the constant.
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X, Y) -> Self:
        """Fit to X of shape (n_samples, n_features) and the 0/1 matrix Y of shape (n_samples, n_labels)."""
        X, Y = validate_labelled(self, X, Y)
        self.constants_ = Y[0].copy()
        self.varies_ = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
        self.classes_ = np.arange(Y.shape[1])
        if len(self.varies_):
            targets = Y[:, self.varies_].astype(int)
            if targets.shape[1] == 1:  # scikit-learn treats a single column as another kind of problem
                targets = np.repeat(targets, 2, axis=1)
            with warnings.catch_warnings():
                # The neural network is trained for a fixed number of epochs.
                warnings.filterwarnings("ignore", "Stochastic Optimizer", ConvergenceWarning)
                self.estimator_: Any = clone(self.estimator)
                self.estimator_.fit(X, targets)
        return self

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        """Return the probability of each label, of shape (n_samples, n_labels)."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        probabilities = np.tile(self.constants_, (len(rows), 1))
        if len(self.varies_):
            # The regression of a 0/1 target predicts its probability.
            regression = is_regressor(self.estimator_)
            found = self.estimator_.predict(rows) if regression else self.estimator_.predict_proba(rows)
            if isinstance(found, list):
                found = np.stack([each[:, 1] for each in found], axis=1)
            probabilities[:, self.varies_] = found[:, : len(self.varies_)]
        return probabilities

    def predict(self, X) -> np.ndarray:
        """Return the labels with a probability above one half."""
        return (self.predict_proba(X) > 0.5).astype(int)


def random_forest(
    *, n_trees: int = N_TREES, min_samples_leaf: int = 1, max_features: Any = "sqrt", random_state: int = 0
) -> PresenceProbabilities:
    """Make a random forest (Breiman, 2001) whose trees choose their splits for all labels together.

    The variance of a 0/1 label is half its Gini impurity, and its mean is the share of ones. A regression forest is
    thus the same as a classification forest, except for ties, and much faster with many labels.
    """
    return PresenceProbabilities(
        RandomForestRegressor(
            n_trees, min_samples_leaf=min_samples_leaf, max_features=max_features, random_state=random_state
        )
    )


def extra_trees(
    *, n_trees: int = N_TREES, min_samples_leaf: int = 1, max_features: Any = "sqrt", random_state: int = 0
) -> PresenceProbabilities:
    """Make extremely randomised trees (Geurts, Ernst and Wehenkel, 2006), by regression as `random_forest`."""
    return PresenceProbabilities(
        ExtraTreesRegressor(
            n_trees, min_samples_leaf=min_samples_leaf, max_features=max_features, random_state=random_state
        )
    )


def classifier_chain(*, C: float = 1.0, inputs: str = "standard", random_state: int = 0) -> PresenceProbabilities:
    """Make a classifier chain (Read et al., 2011) of logistic regressions in a random order."""
    link = LogisticRegression(C=C, max_iter=1000)
    chain = ClassifierChain(link, order="random", random_state=random_state)
    return PresenceProbabilities(make_pipeline(*scaled(inputs), chain))


def mlp(
    *, hidden: int = 256, alpha: float = 1e-4, inputs: str = "standard", max_iter: int = 200, random_state: int = 0
) -> PresenceProbabilities:
    """Make a network with one hidden layer and a sigmoid for each label, trained for ``max_iter`` epochs."""
    network = MLPClassifier((hidden,), alpha=alpha, max_iter=max_iter, random_state=random_state)
    return PresenceProbabilities(make_pipeline(*scaled(inputs), network))


def mlp_and_extra_trees(*, n_trees: int = N_TREES, random_state: int = 0, **settings: Any) -> PresenceProbabilities:
    """Average networks and trees, as a control for the average of SDLGMs and trees."""
    networks = [(f"mlp {i}", mlp(**settings, random_state=N_MEMBERS * random_state + i)) for i in range(N_MEMBERS)]
    trees = extra_trees(n_trees=n_trees, max_features=0.3, random_state=random_state)
    members = [("networks", PresenceProbabilities(MeanOfProbabilities(networks))), ("trees", trees)]
    return PresenceProbabilities(MeanOfProbabilities(members))


class MeanOfProbabilities(ClassifierMixin, BaseEstimator):
    """Average the probabilities of several estimators."""

    def __init__(self, estimators: list[tuple[str, PresenceProbabilities]]):
        self.estimators = estimators

    def fit(self, X, Y) -> Self:
        self.estimators_: list[Any] = [clone(estimator) for _, estimator in self.estimators]
        for estimator in self.estimators_:
            estimator.fit(X, Y)
        return self

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        return np.mean([estimator.predict_proba(X) for estimator in self.estimators_], axis=0)


def scaled(inputs: str) -> list[Any]:
    """Return the steps that standardise the inputs. ``"rank"`` maps the ranks to a normal distribution before."""
    ranks = RankGauss() if inputs == "rank" else None
    return [step for step in (ranks, StandardScaler()) if step is not None]


class RankGauss(TransformerMixin, BaseEstimator):
    """Map each column to a normal distribution by its ranks in the training rows."""

    def fit(self, X, y=None) -> Self:
        n_quantiles = min(100, len(X))
        self.transformer_: Any = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal").fit(X)
        return self

    def transform(self, X) -> np.ndarray:
        return self.transformer_.transform(X)


def gradient_boosting(
    *, max_iter: int = 40, max_leaf_nodes: int = 8, min_samples_leaf: int = 5, random_state: int = 0
) -> PresenceProbabilities:
    """Make histogram-based boosted trees for each label. There are few trees, as there may be hundreds of labels."""
    trees = HistGradientBoostingClassifier(
        max_iter=max_iter, max_leaf_nodes=max_leaf_nodes, min_samples_leaf=min_samples_leaf, random_state=random_state
    )
    return PresenceProbabilities(MultiOutputClassifier(trees))


PEERS: dict[str, Callable[..., PresenceProbabilities]] = {
    "random_forest": random_forest,
    "extra_trees": extra_trees,
    "classifier_chain": classifier_chain,
    "mlp": mlp,
    "mlp_and_extra_trees": mlp_and_extra_trees,
    "gradient_boosting": gradient_boosting,
}

QUICK: dict[str, dict[str, Any]] = {
    "random_forest": {"n_trees": 10},
    "extra_trees": {"n_trees": 10},
    "classifier_chain": {},
    "mlp": {"max_iter": 10},
    "mlp_and_extra_trees": {"max_iter": 5, "n_trees": 10},
    "gradient_boosting": {"max_iter": 2},
}
"""Settings for a fast trial run of each peer."""

GRIDS: dict[str, list[dict[str, Any]]] = {
    "random_forest": [
        {"min_samples_leaf": 1, "max_features": "sqrt"},
        {"min_samples_leaf": 3, "max_features": "sqrt"},
    ],
    "extra_trees": [
        {"min_samples_leaf": 1, "max_features": "sqrt"},
        {"min_samples_leaf": 1, "max_features": 0.3},
        {"min_samples_leaf": 3, "max_features": 0.3},
    ],
    "classifier_chain": [{"C": C, "inputs": inputs} for C in (0.1, 0.01) for inputs in ("standard", "rank")],
    "mlp": [{"alpha": alpha, "inputs": inputs} for alpha in (1e-4, 1.0) for inputs in ("standard", "rank")],
    "mlp_and_extra_trees": [{"alpha": 1.0, "inputs": inputs} for inputs in ("standard", "rank")],
    "gradient_boosting": [
        {"max_leaf_nodes": 8, "min_samples_leaf": 5},
        {"max_leaf_nodes": 3, "min_samples_leaf": 20},
    ],
}
