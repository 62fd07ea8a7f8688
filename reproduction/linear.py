"""The linear baselines of Table II: logistic, softmax and sparsemax losses (Martins and Astudillo, ICML 2016).

All three losses of logits z and a target q are convex in z and have the gradient

    d loss / d z = link(z) - q.

The link is the sigmoid, the softmax or the sparsemax. They are the Fenchel-Young losses of these links (Blondel,
Martins and Niculae, JMLR 2020).
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize
from scipy.special import expit, logsumexp, softmax, xlogy
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

# L-BFGS has converged if no derivative of the objective is larger than this.
_LARGEST_DERIVATIVE = 1e-6

Loss = Literal["logistic", "softmax", "sparsemax"]


def sparsemax(z: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch K"]:
    """Project z on the probability simplex: argmin_p |p - z|^2. Many entries of the result are exactly 0.

    The projection is max(z - tau, 0), with the tau for which it sums to 1 (Martins and Astudillo, algorithm 1).
    """
    z = z - z.max(-1, keepdims=True)  # invariant, and avoids the rounding of large logits
    descending = -np.sort(-z, axis=-1)
    excess = descending.cumsum(-1) - 1
    size = (descending * np.arange(1, z.shape[-1] + 1) > excess).sum(-1, keepdims=True)  # size of the support
    tau = np.take_along_axis(excess, size - 1, axis=-1) / size
    return np.maximum(z - tau, 0.0)


def sparsemax_loss(z: Float[np.ndarray, "*batch K"], q: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """Return the multi-label sparsemax loss of Martins and Astudillo.

    With p = sparsemax(z) and S(z) its support, the loss is

        -q'z + 1/2 sum_{j in S(z)} (z_j^2 - tau(z)^2) + 1/2 |q|^2.

    As p = z - tau on the support, this equals (p - q)'(z - (p + q) / 2), which is numerically stable. It is 0 if and
    only if p = q.
    """
    p = sparsemax(z)
    return ((p - q) * (z - (p + q) / 2)).sum(-1)


def softmax_loss(z: Float[np.ndarray, "*batch K"], q: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """Return KL(q, softmax(z))."""
    return logsumexp(z, axis=-1) + (xlogy(q, q) - q * z).sum(-1)


def logistic_loss(z: Float[np.ndarray, "*batch K"], y: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """Return the cross-entropy of independent labels, sum_k log(1 + exp(z_k)) - y_k z_k."""
    return (np.logaddexp(0.0, z) - y * z).sum(-1)


def validate_labelled(
    estimator: BaseEstimator, X: Any, Y: Any
) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n K"]]:
    """Validate features and labels and convert them to double precision."""
    checked: Any = validate_data(estimator, X, Y, multi_output=True, dtype=np.float64)
    X, Y = checked
    if not isinstance(Y, np.ndarray) or Y.ndim != 2 or not np.isin(Y, (0, 1)).all():
        raise ValueError("Y is not a dense 0/1 matrix with one column for each label; use MultiLabelBinarizer")
    return X, Y.astype(np.float64)


@dataclass(frozen=True)
class _Loss:
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    link: Callable[[np.ndarray], np.ndarray]
    is_distribution: bool
    """Whether the target is a distribution over the labels, which a row without labels does not have."""


_LOSSES = {
    "logistic": _Loss(logistic_loss, expit, is_distribution=False),
    "softmax": _Loss(softmax_loss, lambda z: softmax(z, axis=-1), is_distribution=True),
    "sparsemax": _Loss(sparsemax_loss, sparsemax, is_distribution=True),
}


class LinearMultiLabel(ClassifierMixin, BaseEstimator):
    """Multi-label classification by a linear map from features to logits, z = W x + b.

    The fit minimises over W and b

        1/n sum_i loss(z_i, q_i) + l2 / (2 n) |W|^2,

    where n is the number of rows. The target q is the vector of labels (``"logistic"``) or the uniform distribution
    over the labels of a row, y / |y|. The biases b are not penalised. With ``"logistic"``, or with one label for each
    row and ``"softmax"``, this is `LogisticRegression` of scikit-learn with C = 1 / l2.

    Standardise the features first: the penalty assumes the same scale for all of them.

    Parameters
    ----------
    loss : {"logistic", "softmax", "sparsemax"}, default="logistic"
        See `logistic_loss`, `softmax_loss` and `sparsemax_loss`. The last two ignore rows without labels.
    l2 : float, default=1.0
        Strength of the penalty.
    threshold : float, default=0.5
        Labels with a score above it are predicted. The scores of the softmax and the sparsemax sum to 1, so it should
        be lower if rows have several labels.
    max_iter : int, default=2000
        Maximum number of iterations of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features_in)
        W.
    intercept_ : ndarray of shape (n_labels,)
        b.
    classes_ : ndarray of shape (n_labels,)
        The indices of the labels.
    n_iter_ : int
        Number of iterations of L-BFGS.
    n_features_in_ : int

    References
    ----------
    A. F. T. Martins, R. F. Astudillo, "From Softmax to Sparsemax: A Sparse Model of Attention and Multi-Label
    Classification", ICML 2016.

    """

    n_features_in_: int

    _parameter_constraints: dict[str, list[Any]] = {
        "loss": [StrOptions(set(_LOSSES))],
        "l2": [Interval(Real, 0, None, closed="neither")],
        "threshold": [Interval(Real, 0, 1, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        loss: Loss = "logistic",
        l2: float = 1.0,
        threshold: float = 0.5,
        max_iter: int = 2000,
    ):
        self.loss = loss
        self.l2 = l2
        self.threshold = threshold
        self.max_iter = max_iter

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, Y) -> Self:
        """Fit to X of shape (n_samples, n_features_in) and the 0/1 matrix Y of shape (n_samples, n_labels)."""
        X, targets = self._with_targets(*validate_labelled(self, X, Y))
        n_labels, n_features = targets.shape[1], X.shape[1]

        def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self._objective(parameters.reshape(n_labels, n_features + 1), X, targets)
            return value, gradient.ravel()

        result = minimize(
            objective,
            np.zeros(n_labels * (n_features + 1)),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "maxfun": 2 * self.max_iter, "gtol": _LARGEST_DERIVATIVE, "ftol": 0.0},
        )
        if not result.success:
            largest = np.abs(result.jac).max()
            warnings.warn(
                f"no convergence after {result.nit} iterations (largest derivative {largest:.1e}): standardise the "
                "features, or raise max_iter or l2",
                ConvergenceWarning,
                stacklevel=2,
            )
        fitted = result.x.reshape(n_labels, n_features + 1)
        self.coef_, self.intercept_ = fitted[:, :-1].copy(), fitted[:, -1].copy()
        self.classes_ = np.arange(n_labels)
        self.n_iter_ = int(result.nit)
        return self

    def _with_targets(self, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that have a target, and their targets."""
        if not _LOSSES[self.loss].is_distribution:
            return X, Y
        n_present = Y.sum(1, keepdims=True)
        labelled = n_present[:, 0] > 0
        if not labelled.any():
            raise ValueError(f"no row has a label, and loss={self.loss!r} ignores rows without labels: use 'logistic'")
        return X[labelled], Y[labelled] / n_present[labelled]

    def _objective(
        self, parameters: Float[np.ndarray, "K D+1"], X: Float[np.ndarray, "n D"], targets: Float[np.ndarray, "n K"]
    ) -> tuple[float, Float[np.ndarray, "K D+1"]]:
        """Return the objective and its gradient. The last column of the parameters holds the biases."""
        loss, weights = _LOSSES[self.loss], parameters[:, :-1]
        z = X @ weights.T + parameters[:, -1]
        residual = (loss.link(z) - targets) / len(X)
        value = loss.value(z, targets).mean() + self.l2 / (2 * len(X)) * np.square(weights).sum()
        gradient = np.column_stack([residual.T @ X + self.l2 / len(X) * weights, residual.sum(0)])
        return float(value), gradient

    def decision_function(self, X) -> Float[np.ndarray, "n K"]:
        """Return the logits."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return rows @ self.coef_.T + self.intercept_

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        """Return a score in [0, 1] for each label: its probability, or its share in a distribution over labels."""
        return _LOSSES[self.loss].link(self.decision_function(X))

    def predict(self, X) -> Int[np.ndarray, "n K"]:
        """Return the labels with a score above ``threshold``."""
        return (self.predict_proba(X) > self.threshold).astype(int)
