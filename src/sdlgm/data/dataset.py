"""What a reader returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Dataset:
    """Rows of observations with what is known about them."""

    name: str
    X: np.ndarray | sp.csr_matrix
    """(n, D), float, or CSR."""
    labels: np.ndarray | None = None
    """(n,), one class a row, for pictures only: the unsupervised model never sees it."""
    feature_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    """Height and width, if a row is a picture."""

    @property
    def table(self) -> Any:
        """The observations with the names of their columns, if they have any: what an estimator should be given."""
        if self.feature_names is None:
            return self.X
        return arrow_table(self.X, self.feature_names)


def arrow_table(X: Any, names: Sequence[str]) -> Any:
    """Columns with their names as a pyarrow table."""
    import pyarrow as pa

    return pa.table({name: X[:, i] for i, name in enumerate(names)})
