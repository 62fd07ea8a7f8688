"""The private names of scikit-learn that sdlgm uses. No other file imports any."""

from collections.abc import Mapping

from sklearn.base import BaseEstimator
from sklearn.base import _fit_context as fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config

__all__ = ["Interval", "Registered", "StrOptions", "fit_context", "output_container"]


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
