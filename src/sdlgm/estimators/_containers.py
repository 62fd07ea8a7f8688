"""Codes as data frames, for ``set_output``.

scikit-learn wraps what `transform` returns, and refuses sparse matrices there. A data frame passes: so `transform`
makes it itself, with sparse columns, in which zeros take no memory.
"""

from importlib import import_module
from typing import Any

import scipy.sparse as sp

from sdlgm.estimators._compat import output_container


def in_container(codes: sp.csr_matrix, X: Any, estimator: Any) -> Any:
    """Return codes of X in the container that ``set_output`` or scikit-learn's configuration names."""
    container = output_container(estimator)
    if container == "default":
        return codes
    if container != "pandas":
        raise ValueError(
            f"codes are sparse, and {container} has no sparse columns; use set_output(transform='pandas') or 'default'"
        )
    pandas = import_module("pandas")  # it is there: `set_output` has checked it
    index = X.index if isinstance(X, pandas.DataFrame | pandas.Series) else None
    return pandas.DataFrame.sparse.from_spmatrix(codes, index=index, columns=estimator.get_feature_names_out())
