"""The linear baselines of Table II: logistic, softmax and sparsemax losses (Martins and Astudillo, ICML 2016).

All three compare what the logits z predict with a target q, and all have the gradient

    d loss / d z = link(z) - q,

the link being the sigmoid, the softmax and the sparsemax; they are the Fenchel-Young losses of these links (Blondel,
Martins and Niculae, JMLR 2020), and convex in z.
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

# L-BFGS is done when no derivative of the objective is larger than this.
_LARGEST_DERIVATIVE = 1e-6

Loss = Literal["logistic", "softmax", "sparsemax"]


def sparsemax(z: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch K"]:
    """argmin_p |p - z|^2 over the probability simplex, most of whose entries are often exactly 0.

    It is max(z - tau, 0), with the tau for which that sums to 1; sorting finds it (Martins and Astudillo, algorithm 1).
    """
    z = z - z.max(-1, keepdims=True)  # changes nothing, but large logits would lose the 1 in rounding
    descending = -np.sort(-z, axis=-1)
    excess = descending.cumsum(-1) - 1
    size = (descending * np.arange(1, z.shape[-1] + 1) > excess).sum(-1, keepdims=True)  # of the support
    tau = np.take_along_axis(excess, size - 1, axis=-1) / size
    return np.maximum(z - tau, 0.0)


def sparsemax_loss(z: Float[np.ndarray, "*batch K"], q: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """-q'z + 1/2 sum_{j in S(z)} (z_j^2 - tau(z)^2) + 1/2 |q|^2, S(z) being the support of p = sparsemax(z).

    The multi-label loss of Martins and Astudillo. As p = z - tau on the support, it is (p - q)'(z - (p + q) / 2), which
    does not subtract large squares from each other. It is 0 if and only if p = q.
    """
    p = sparsemax(z)
    return ((p - q) * (z - (p + q) / 2)).sum(-1)


def softmax_loss(z: Float[np.ndarray, "*batch K"], q: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """KL(q, softmax(z))."""
    return logsumexp(z, axis=-1) + (xlogy(q, q) - q * z).sum(-1)


def logistic_loss(z: Float[np.ndarray, "*batch K"], y: Float[np.ndarray, "*batch K"]) -> Float[np.ndarray, "*batch"]:
    """Cross-entropy of independent labels, sum_k log(1 + exp(z_k)) - y_k z_k."""
    return (np.logaddexp(0.0, z) - y * z).sum(-1)


def validated(estimator: BaseEstimator, X: Any, Y: Any) -> tuple[Float[np.ndarray, "n D"], Float[np.ndarray, "n K"]]:
    """Features and labels in double precision."""
    checked: Any = validate_data(estimator, X, Y, multi_output=True, dtype=np.float64)
    X, Y = checked
    if not isinstance(Y, np.ndarray) or Y.ndim != 2 or not np.isin(Y, (0, 1)).all():
        raise ValueError("Y is not a dense matrix of 0 and 1 with one column a label; MultiLabelBinarizer makes one")
    return X, Y.astype(np.float64)


@dataclass(frozen=True)
class _Loss:
    value: Callable[[np.ndarray, np.ndarray], np.ndarray]
    link: Callable[[np.ndarray], np.ndarray]
    is_distribution: bool
    """Is the target a distribution over the labels, so that a row without labels has none?"""


_LOSSES = {
    "logistic": _Loss(logistic_loss, expit, is_distribution=False),
    "softmax": _Loss(softmax_loss, lambda z: softmax(z, axis=-1), is_distribution=True),
    "sparsemax": _Loss(sparsemax_loss, sparsemax, is_distribution=True),
}


class LinearMultiLabel(ClassifierMixin, BaseEstimator):
    """Multi-label classification by a linear map from features to logits, z = W x + b.

    Minimises, over all of W and b and to the optimum,

        1/n sum_i loss(z_i, q_i) + l2 / (2 n) |W|^2,

    where n is the number of rows, and q the labels (``"logistic"``) or the uniform distribution over the labels of a
    row, y / |y|. The biases b are not penalised. With ``"logistic"``, or with one label a row and ``"softmax"``, this
    is scikit-learn's `LogisticRegression` with C = 1 / l2.

    The penalty takes features to be of the same scale: standardise them before.

    Parameters
    ----------
    loss : {"logistic", "softmax", "sparsemax"}, default="logistic"
        See `logistic_loss`, `softmax_loss` and `sparsemax_loss`. For the last two, rows without labels have no target
        and are left out of the fit.
    l2 : float, default=1.0
        Strength of the penalty.
    threshold : float, default=0.5
        Labels with a score above it are predicted. The scores of the softmax and the sparsemax sum to 1, so that for
        rows with several labels it has to be lower.
    max_iter : int, default=2000
        Most iterations of L-BFGS.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features_in)
        W.
    intercept_ : ndarray of shape (n_labels,)
        b.
    classes_ : ndarray of shape (n_labels,)
        The numbers of the labels.
    n_iter_ : int
        Iterations done.
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
        X, targets = self._with_targets(*validated(self, X, Y))
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
                f"not at the optimum after {result.nit} iterations: a derivative is {largest:.1e}; standardise the "
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
        """The rows that have a target, and the targets."""
        if not _LOSSES[self.loss].is_distribution:
            return X, Y
        n_present = Y.sum(1, keepdims=True)
        labelled = n_present[:, 0] > 0
        if not labelled.any():
            raise ValueError(f"no row has a label, and loss={self.loss!r} learns from labels only; use 'logistic'")
        return X[labelled], Y[labelled] / n_present[labelled]

    def _objective(
        self, parameters: Float[np.ndarray, "K D+1"], X: Float[np.ndarray, "n D"], targets: Float[np.ndarray, "n K"]
    ) -> tuple[float, Float[np.ndarray, "K D+1"]]:
        """What is minimised, and its gradient; the last column of the parameters are the biases."""
        loss, weights = _LOSSES[self.loss], parameters[:, :-1]
        z = X @ weights.T + parameters[:, -1]
        residual = (loss.link(z) - targets) / len(X)
        value = loss.value(z, targets).mean() + self.l2 / (2 * len(X)) * np.square(weights).sum()
        gradient = np.column_stack([residual.T @ X + self.l2 / len(X) * weights, residual.sum(0)])
        return float(value), gradient

    def decision_function(self, X) -> Float[np.ndarray, "n K"]:
        """The logits."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=np.float64, reset=False)
        return rows @ self.coef_.T + self.intercept_

    def predict_proba(self, X) -> Float[np.ndarray, "n K"]:
        """A score in [0, 1] for each label: its probability, or its share of a distribution over the labels."""
        return _LOSSES[self.loss].link(self.decision_function(X))

    def predict(self, X) -> Int[np.ndarray, "n K"]:
        """Which labels have a score above ``threshold``."""
        return (self.predict_proba(X) > self.threshold).astype(int)
