"""What a reader returns."""

from dataclasses import dataclass

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
