"""What else a user would try on multi-label data: forests, a classifier chain, a neural network, boosted trees.

All are scikit-learn's, with one interface: `PEERS` has a function for each that makes it unfitted, `GRIDS` the settings
of that function worth a try.
"""

import warnings
from collections.abc import Callable
from typing import Any, Self, cast

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

from sdlgm.paper.linear import validated

N_TREES = 200
N_MEMBERS = 5


class PresenceProbabilities(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Makes `predict_proba` an array of P(label k is present), whatever the estimator inside returns.

    Estimators differ: some return a list with an array for each label, some have no column for what they have not seen,
    some refuse a label without two values. Here labels that are constant in the training rows are kept from the
    estimator, and predicted as what they are.
    """

    def __init__(self, estimator: Any):
        self.estimator = estimator

    def fit(self, X, Y) -> Self:
        """Fit to X of shape (n_samples, n_features) and the 0/1 matrix Y of shape (n_samples, n_labels)."""
        X, Y = validated(self, X, Y)
        self.constants_ = Y[0].copy()
        self.varies_ = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
        self.classes_ = np.arange(Y.shape[1])
        if len(self.varies_):
            targets = Y[:, self.varies_].astype(int)
            if targets.shape[1] == 1:  # scikit-learn would take one column for another kind of problem
                targets = np.repeat(targets, 2, axis=1)
            with warnings.catch_warnings():
                # The neural network has a fixed number of epochs and is not meant to converge.
                warnings.filterwarnings("ignore", "Stochastic Optimizer", ConvergenceWarning)
                self.estimator_: Any = clone(self.estimator)
                self.estimator_.fit(X, targets)
        return self

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        probabilities = np.tile(self.constants_, (len(rows), 1))
        if len(self.varies_):
            # Of a regression of 0 and 1 the mean is the probability.
            regression = is_regressor(self.estimator_)
            found = self.estimator_.predict(rows) if regression else self.estimator_.predict_proba(rows)
            if isinstance(found, list):
                found = np.stack([each[:, 1] for each in found], axis=1)
            probabilities[:, self.varies_] = found[:, : len(self.varies_)]
        return probabilities

    def predict(self, X) -> np.ndarray:
        """The labels that are more probable than not."""
        return (self.predict_proba(X) > 0.5).astype(int)


def random_forest(
    *, n_trees: int = N_TREES, min_samples_leaf: int = 1, max_features: Any = "sqrt", random_state: int = 0
) -> PresenceProbabilities:
    """Breiman, 2001; the trees choose their splits for all labels together.

    The variance of labels 0 and 1 is half their Gini impurity, and their mean the share of ones: regression grows the
    trees of classification, but for ties, and predicts its probabilities, much faster if there are many labels.
    """
    return PresenceProbabilities(
        RandomForestRegressor(
            n_trees, min_samples_leaf=min_samples_leaf, max_features=max_features, random_state=random_state
        )
    )


def extra_trees(
    *, n_trees: int = N_TREES, min_samples_leaf: int = 1, max_features: Any = "sqrt", random_state: int = 0
) -> PresenceProbabilities:
    """Geurts, Ernst and Wehenkel, 2006: all rows for every tree, random thresholds; by regression, as above."""
    return PresenceProbabilities(
        ExtraTreesRegressor(
            n_trees, min_samples_leaf=min_samples_leaf, max_features=max_features, random_state=random_state
        )
    )


def classifier_chain(*, C: float = 1.0, inputs: str = "standard", random_state: int = 0) -> PresenceProbabilities:
    """Read et al., 2011: logistic regressions, each of which also sees the labels before it, in a random order."""
    link = LogisticRegression(C=C, max_iter=1000)
    chain = ClassifierChain(link, order="random", random_state=random_state)
    return PresenceProbabilities(make_pipeline(*scaled(inputs), chain))


def mlp(
    *, hidden: int = 256, alpha: float = 1e-4, inputs: str = "standard", max_iter: int = 200, random_state: int = 0
) -> PresenceProbabilities:
    """One hidden layer, an independent probability for each label, ``max_iter`` epochs of Adam."""
    network = MLPClassifier((hidden,), alpha=alpha, max_iter=max_iter, random_state=random_state)
    return PresenceProbabilities(make_pipeline(*scaled(inputs), network))


def mlp_and_extra_trees(*, n_trees: int = N_TREES, random_state: int = 0, **settings: Any) -> PresenceProbabilities:
    """Half a mean of networks, half trees: what the mixture of SDLGM and trees is worth without the model."""
    networks = [(f"mlp {i}", mlp(**settings, random_state=N_MEMBERS * random_state + i)) for i in range(N_MEMBERS)]
    trees = extra_trees(n_trees=n_trees, max_features=0.3, random_state=random_state)
    members = [("networks", PresenceProbabilities(MeanOfProbabilities(networks))), ("trees", trees)]
    return PresenceProbabilities(MeanOfProbabilities(members))


class MeanOfProbabilities(ClassifierMixin, BaseEstimator):
    """The mean of the probabilities of several estimators."""

    def __init__(self, estimators: list[tuple[str, PresenceProbabilities]]):
        self.estimators = estimators

    def fit(self, X, Y) -> Self:
        self.estimators_ = [cast(Any, clone(estimator)).fit(X, Y) for _, estimator in self.estimators]
        return self

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        return np.mean([estimator.predict_proba(X) for estimator in self.estimators_], axis=0)


def scaled(inputs: str) -> list[Any]:
    """Steps that standardise, after bringing each column to a normal distribution by its ranks if asked to."""
    ranks = RankGauss() if inputs == "rank" else None
    return [step for step in (ranks, StandardScaler()) if step is not None]


class RankGauss(TransformerMixin, BaseEstimator):
    """Each column brought to a normal distribution by the ranks of the training rows."""

    def fit(self, X, y=None) -> Self:
        n_quantiles = min(100, len(X))
        self.transformer_: Any = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal").fit(X)
        return self

    def transform(self, X) -> np.ndarray:
        return self.transformer_.transform(X)


def gradient_boosting(
    *, max_iter: int = 40, max_leaf_nodes: int = 8, min_samples_leaf: int = 5, random_state: int = 0
) -> PresenceProbabilities:
    """Histogram-based boosting for each label by itself, with few trees: there may be hundreds of labels."""
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
"""To see that a peer runs, in no time."""

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
