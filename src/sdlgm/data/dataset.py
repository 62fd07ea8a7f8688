"""What a reader returns."""

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
        import pyarrow as pa

        return pa.table({name: self.X[:, i] for i, name in enumerate(self.feature_names)})
