"""The anomaly detector: a threshold on the bound of an `SDLGM`, and what each column adds to the score."""

import math
import os
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sdlgm.data import RowFiles, Timeline, is_stream, rows_of
from sdlgm.errors import DataError
from sdlgm.estimators import _modelfile, _scores
from sdlgm.estimators._base import RandomState
from sdlgm.estimators._compat import Interval, StrOptions, fit_context
from sdlgm.estimators._modelfile import Wrapper, loadable_around
from sdlgm.estimators._sdlgm import SDLGM

FENCE = 3.0
"""Width of Tukey's outer fence, in interquartile ranges: below it, a score is far out."""


class Contributions(NamedTuple):
    """Parts of the score of each row, in nats: score = normal - columns.sum(axis=1) - code."""

    columns: np.ndarray
    """(n, D), the expected -log p(x_d given z) of each column, minus its mean over normal rows: above 0 for a column
    that is more surprising than usual."""
    code: np.ndarray
    """(n,), the KL of the code from the prior, minus its mean over normal rows: above 0 for an unusual code."""
    normal: float
    """Mean score of normal rows."""

    @property
    def scores(self) -> np.ndarray:
        """(n,), the scores that they add up to."""
        return self.normal - self.columns.sum(axis=1) - self.code


@loadable_around("SDLGM")
class SDLGMDetector(OutlierMixin, BaseEstimator, Wrapper):
    """Anomaly detection: rows whose bound on log p(x) under an `SDLGM` is below a threshold.

    The threshold is set on rows that the model was not trained on, ``validation_fraction`` of those given to `fit`,
    since scores of training rows are too high: with a threshold on them, more than ``contamination`` of new normal rows
    would be flagged.

    Parameters
    ----------
    model : SDLGM or None, default=None
        The model, whose likelihood fits the data; it is cloned, and fitted by `fit`. None takes ``SDLGM()``.
    contamination : "auto" or float, default="auto"
        Expected share of anomalies in the rows given to `fit`, above 0 and at most 0.5; the threshold is this quantile
        of their scores. ``"auto"`` makes no assumption about the share: rows are flagged whose score is more than three
        interquartile ranges below the first quartile (Tukey's outer fence).
    validation_fraction : float or None, default=0.2
        Share of the rows to hold out for the threshold and for the means of `contributions`. Of windows, and of rows
        with a time column (`sdlgm.data.windows`, `sdlgm.data.encode_table`), it is the end of each series, and what
        reaches into that end is left out: windows beside each other share rows. Other rows are held out at random. None
        sets both on the training rows, as most detectors of scikit-learn do, and trains on all of them.
    prefit : bool, default=False
        Whether ``model`` is fitted already. All rows given to `fit` then set the threshold. They should be normal, and
        not those that the model was trained on.
    random_state : int, RandomState or None, default=None
        Seed of the choice of held-out rows, where they are drawn. The seed of the training is that of ``model``.

    Attributes
    ----------
    model_ : SDLGM
        The fitted model.
    offset_ : float
        The threshold, in nats: ``decision_function(X) = score_samples(X) - offset_``.
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only if X had column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sdlgm import SDLGM, SDLGMDetector
    >>> rng = np.random.default_rng(0)
    >>> causes = rng.normal(size=(1000, 2)) @ rng.normal(size=(2, 8))
    >>> X = causes + 0.1 * rng.normal(size=causes.shape)
    >>> model = SDLGM(n_components=16, max_active=8, hidden=(32,), max_iter=300, random_state=0)
    >>> detector = SDLGMDetector(model, contamination=0.01, random_state=0).fit(X)
    >>> broken = X[:1].copy()
    >>> broken[0, 3] += 5
    >>> detector.predict(broken), int(detector.contributions(broken).columns.argmax())
    (array([-1]), 3)

    """

    inner: ClassVar[str]
    model_: SDLGM

    _parameter_constraints: dict[str, list[Any]] = {
        "model": [SDLGM, None],
        "contamination": [StrOptions({"auto"}), Interval(Real, 0, 0.5, closed="right")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "prefit": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        model: SDLGM | None = None,
        *,
        contamination: float | Literal["auto"] = "auto",
        validation_fraction: float | None = 0.2,
        prefit: bool = False,
        random_state: RandomState = None,
    ):
        self.model = model
        self.contamination = contamination
        self.validation_fraction = validation_fraction
        self.prefit = prefit
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None) -> Self:
        """Fit the model to rows that are mostly normal, and set the threshold.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches
            Rows in files need ``validation_fraction=None`` or ``prefit=True``.
        y : None
            Ignored.

        Returns
        -------
        self : SDLGMDetector

        """
        if is_stream(X):
            X = rows_of(X)
        if self.prefit:
            if self.model is None:
                raise ValueError("prefit=True needs a fitted model; give one, or set prefit=False")
            check_is_fitted(self.model)
            return self._publish(self.model, X)
        training, held_out = self._split(X)
        model = cast(SDLGM, clone(self.model) if self.model is not None else SDLGM())
        return self._publish(model.fit(training), held_out)

    def _split(self, X) -> tuple[Any, Any]:
        """Return the rows to train on and the rows that set the threshold."""
        if self.validation_fraction is None:
            return X, X
        if isinstance(rows_of(X), RowFiles):
            raise DataError(
                "rows in files cannot be held out one by one; set validation_fraction=None, or fit an SDLGM to some "
                "files and give it with prefit=True and other rows"
            )
        timeline = getattr(X, "timeline", None)
        if isinstance(timeline, Timeline):
            kept, after = timeline.hold_out(float(self.validation_fraction))
            if len(kept) < 2 or not len(after):
                raise DataError(
                    f"validation_fraction={self.validation_fraction:g} of {len(timeline.series)} rows or windows "
                    f"leaves {len(kept)} to train on and {len(after)} for the threshold, since those at the end of "
                    "each series, and those that reach into them, are no training data; give longer series, or set "
                    "validation_fraction=None"
                )
            return X[kept], X[after]
        training, held_out = train_test_split(
            X, test_size=self.validation_fraction, random_state=check_random_state(self.random_state)
        )
        return training, held_out

    def _publish(self, model: SDLGM, normal: Any) -> Self:
        """Set the threshold and the means on rows that count as normal."""
        parts = self._parts(model, normal)
        self._set(model, _threshold(parts.bound, self.contamination), -parts.columns.mean(axis=0), parts.code.mean())
        return self

    def _set(self, model: SDLGM, offset: float, columns: np.ndarray, code: float) -> None:
        self.model_ = model
        self.offset_ = float(offset)
        self._normal_columns, self._normal_code = columns, float(code)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit
            del self.feature_names_in_

    @staticmethod
    def _parts(model: SDLGM, X: Any) -> _scores.BoundParts:
        rows = model._fitted_rows(X)
        return _scores.bound_parts(model._fitted, rows)

    def score_samples(self, X) -> np.ndarray:
        """Return the score of each row, its bound on log p(x) in nats; the lower, the more unusual.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        scores : ndarray of shape (n_samples,)

        """
        check_is_fitted(self)
        return self.model_.score_samples(X)

    def decision_function(self, X) -> np.ndarray:
        """Return the score of each row minus the threshold; negative for anomalies.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        scores : ndarray of shape (n_samples,)

        """
        return self.score_samples(X) - self.offset_

    def predict(self, X) -> np.ndarray:
        """Return -1 for anomalies and 1 for normal rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        labels : ndarray of int of shape (n_samples,)

        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def contributions(self, X) -> Contributions:
        """Return what each column, and the code, add to the score of each row.

        The score of a row is that of a normal row, minus what its columns are more surprising than usual given the
        code, minus what its code is more unusual than usual. The decomposition is exact.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features_in), path, or iterator of batches

        Returns
        -------
        contributions : Contributions
            ``columns`` of shape (n_samples, n_features_in), ``code`` of shape (n_samples,) and ``normal``, the mean
            score of normal rows, in nats.

        """
        check_is_fitted(self)
        parts = self._parts(self.model_, X)
        normal = -self._normal_columns.sum() - self._normal_code
        return Contributions(-parts.columns - self._normal_columns, parts.code - self._normal_code, float(normal))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the detector, with its model, to one file that `sdlgm.load` reads.

        Parameters
        ----------
        path : path
            Conventionally ends with ``.sdlgm``.

        """
        check_is_fitted(self)
        _modelfile.save(self.model_, path, around=self)

    # Content of a model file

    def _content(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        numbers = (self.contamination, self.validation_fraction)
        contamination, fraction = (float(n) if isinstance(n, Real) else n for n in numbers)
        section = {
            "contamination": contamination,
            "validation_fraction": fraction,
            "random_state": int(self.random_state) if isinstance(self.random_state, Integral) else None,
            "offset": self.offset_,
            "normal_code": self._normal_code,
        }
        return section, {"normal_columns": torch.from_numpy(np.ascontiguousarray(self._normal_columns))}

    @classmethod
    def _around(cls, model: SDLGM, section: dict[str, Any], tensors: dict[str, Tensor]) -> Self:
        names = ("contamination", "validation_fraction", "random_state")
        detector = cls(cast(SDLGM, clone(model)), **{name: section[name] for name in names})
        detector._validate_params()
        offset, code = (section[name] for name in ("offset", "normal_code"))
        if not all(isinstance(number, float) and math.isfinite(number) for number in (offset, code)):
            raise ValueError("the threshold of the detector is not a finite number")
        columns = tensors["normal_columns"].numpy()
        if columns.shape != (model.n_features_in_,) or columns.dtype != np.float64 or not np.isfinite(columns).all():
            raise ValueError("the means of the columns do not fit the number of features")
        detector._set(model, offset, columns, code)
        return detector

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags


def _threshold(scores: np.ndarray, contamination: float | str) -> float:
    """Return the score below which a row is an anomaly, from scores of rows that are mostly normal."""
    if contamination != "auto":
        return float(np.percentile(scores, 100.0 * cast(float, contamination)))
    first, third = np.percentile(scores, [25, 75])
    return float(first - FENCE * (third - first))
