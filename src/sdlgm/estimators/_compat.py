"""The private names of scikit-learn that sdlgm uses. No other file imports any."""

from collections.abc import Mapping
from typing import Any, cast

import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _num_samples as number_of_rows

__all__ = [
    "Interval",
    "Registered",
    "StrOptions",
    "chosen_rows",
    "fit_context",
    "number_of_rows",
    "output_container",
]


def chosen_rows(values: Any, places: Any) -> Any:
    """Return some rows of an array, a sparse matrix, a list or a data frame, in the form that it has."""
    return _safe_indexing(cast(Any, values).tocsr() if sp.issparse(values) else values, places)


def output_container(estimator: BaseEstimator) -> str:
    """Return what an estimator's `transform` is to return: "default", "pandas" or "polars"."""
    return str(_get_output_config("transform", estimator)["dense"])


class Registered(StrOptions):
    """A name in a registry, to which names may be added later."""

    def __init__(self, registry: Mapping[str, object]):
        super().__init__(set(registry))
        self.registry = registry

    def is_satisfied_by(self, val: object) -> bool:
        return isinstance(val, str) and val in self.registry

    def __str__(self) -> str:
        return f"a str among {{{', '.join(map(repr, self.registry))}}}"
