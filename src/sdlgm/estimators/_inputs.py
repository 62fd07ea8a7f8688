"""What the networks of the classifier see of a row.

- ``"standard"``: columns of mean 0 and standard deviation 1.
- ``"ranks"``: each column brought to a normal distribution by the ranks of its values in the training rows. Heavy tails
  and rare values stay within a few units, whatever the scale of a column.
- ``"sparse"``: principal components of all columns on one common scale, for texts and other rows that are mostly zeros.
  A network on the columns themselves gives each of them the same chance, and so overfits to rare words. Rows are
  multiplied as they are, without making them dense.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast, get_args

import numpy as np
import scipy.sparse as sp
import torch
from scipy.special import ndtri
from torch import Tensor

from sdlgm import _kernels
from sdlgm.errors import DataError
from sdlgm.estimators._columns import describe
from sdlgm.estimators._preparation import LARGEST, Columns, Scaling
from sdlgm.train.batches import Rows, TargetMatrix, dense

Inputs = Literal["standard", "ranks", "sparse"]
INPUTS: tuple[Inputs, ...] = get_args(Inputs)

# A table with a smaller share of entries that are not 0 is one of mostly zeros.
_SPARSE_SHARE = 0.25
# Knots of the function of a column, and rows that they are computed from at most.
_MOST_KNOTS, _RANKED_ROWS = 100, 20_000
# Largest absolute value of a column by its ranks.
_FARTHEST = 3.0
# Components at most, and those where an exact decomposition would take too long.
_MOST_COMPONENTS, _MOST_APPROXIMATE = 1024, 512
# Size up to which a matrix of products is decomposed exactly, and rows that the components are computed from at most.
_LARGEST_EXACT, _DECOMPOSED_ROWS = 2048, 20_000
# Components with a smaller share of the variance of the first one are rounding errors.
_SMALLEST_VARIANCE = 1e-10
# Of sparse tables the inputs are chosen by held-out rows: their share, and limits of what that may take.
_HELD_OUT, _MOST_HELD_OUT, _MOST_TRIED_ROWS, _MOST_TRIED_VALUES = 0.2, 1000, 4000, 10_000
_LEAST_TRIED_ROWS = 50


@dataclass(frozen=True)
class RankScaling(Scaling):
    """Columns by the ranks of their values."""

    knots: np.ndarray
    """(D, Q), values of each column."""
    heights: np.ndarray
    """(D, Q), quantiles of the normal distribution at their ranks."""

    @classmethod
    def of_rows(cls, rows: Rows, weights: np.ndarray | None) -> "RankScaling":
        """Return the scaling to the ranks among rows. Equal values have the middle of their ranks."""
        places = _evenly_spaced(rows.shape[0], _RANKED_ROWS)
        values = dense(cast(Rows, rows[places]))
        of_rows = np.ones(len(values)) if weights is None else weights[places]
        pairs = [_knots(column, of_rows) for column in values.T]
        size = max(len(knots) for knots, _ in pairs)
        knots, heights = (
            np.stack([np.pad(pair[side], (0, size - len(pair[side])), "edge") for pair in pairs]) for side in (0, 1)
        )
        n_columns = rows.shape[1]
        return cls(np.zeros(n_columns), np.ones(n_columns), knots, heights)

    @cached_property
    def is_identity(self) -> bool:
        return False

    def _scaled(self, rows: Rows) -> np.ndarray:
        return _kernels.interpolate(dense(rows), self.knots, self.heights)


def _knots(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return different values in their order, and the normal quantile at the middle of the ranks of each."""
    different, place = np.unique(values.astype(np.float64), return_inverse=True)
    shares = np.bincount(place, weights, len(different)) / weights.sum()
    ranks = np.cumsum(shares) - shares / 2
    if len(different) > _MOST_KNOTS:
        wanted = np.linspace(0, 1, _MOST_KNOTS)
        chosen = np.unique(np.searchsorted(ranks, ranks[0] + wanted * (ranks[-1] - ranks[0])).clip(max=len(ranks) - 1))
        different, ranks = different[chosen], ranks[chosen]
    return different, ndtri(ranks).clip(-_FARTHEST, _FARTHEST)


@dataclass(frozen=True)
class PrincipalScaling(Scaling):
    """Principal components of all columns, whose mean square is 1 on average."""

    directions: np.ndarray
    """(D, n_components), by which rows less their means are multiplied."""

    @classmethod
    def of_rows(cls, rows: Rows, columns: Columns, weights: np.ndarray | None, seed: int) -> "PrincipalScaling":
        """Return the scaling to the principal components of rows."""
        places = _evenly_spaced(rows.shape[0], _DECOMPOSED_ROWS)
        chosen = sp.csr_array(rows[places])
        entries = np.abs(chosen.data[chosen.data != 0])
        # A column that varies by more than the other values are large would be all that the components show.
        limit = float(np.median(entries)) if entries.size else 1.0
        scale = np.where(columns.varies, np.maximum(columns.deviation / limit, 1.0), 0.0)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        roots = np.ones(len(places)) if weights is None else np.sqrt(weights[places] / weights[places].mean())
        directions = _principal_directions(sp.csr_array(chosen * inverse), columns.mean * inverse, roots[:, None], seed)
        whole = cls(columns.mean, scale, inverse[:, None] * directions)
        spread = float(np.sqrt(np.mean(np.square(roots[:, None] * whole._scaled(chosen)))))
        directions = np.ascontiguousarray(whole.directions / (spread or 1.0), dtype=np.float32)
        return cls(columns.mean, scale, directions)

    @cached_property
    def is_identity(self) -> bool:
        return False

    @cached_property
    def _centre(self) -> np.ndarray:
        return (self.location @ self.directions).astype(self.directions.dtype)

    def apply_checked(self, rows: Rows, *, first_row: int = 0, names: Any = None) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.apply(rows)
        if not (np.abs(scaled) <= LARGEST).all():
            row = int(np.argmax(~(np.abs(scaled) <= LARGEST).all(axis=1)))
            column = int(np.argmax(np.abs(dense(cast(Rows, rows[row : row + 1]))[0])))
            raise DataError(
                f"the value in row {first_row + row}, {describe(column, names)} is too large compared with the "
                "training data; correct or remove it"
            )
        return scaled

    def _scaled(self, rows: Rows) -> np.ndarray:
        in_its_precision = rows.astype(self.directions.dtype, copy=False)  # or the directions are copied each time
        return np.asarray(in_its_precision @ self.directions) - self._centre


def _principal_directions(rows: sp.csr_array, mean: np.ndarray, roots: np.ndarray, seed: int) -> np.ndarray:
    """Return orthonormal directions of rows times ``roots``, less the mean, the largest variance first."""
    n_rows, n_columns = rows.shape
    most = min(n_rows, n_columns, _MOST_COMPONENTS)
    rows = sp.csr_array(rows * roots)
    if n_columns <= min(n_rows, _LARGEST_EXACT):
        products = (rows.T @ rows).toarray() - np.square(roots).sum() * np.outer(mean, mean)
        variances, directions = np.linalg.eigh(products)
        variances, directions = variances[::-1][:most], directions[:, ::-1][:, :most]
    elif n_rows <= _LARGEST_EXACT:
        towards_mean = (rows @ mean)[:, None] * roots.T
        products = (rows @ rows.T).toarray() - towards_mean - towards_mean.T + mean @ mean * roots * roots.T
        variances, of_rows = np.linalg.eigh(products)
        variances, of_rows = variances[::-1][:most], of_rows[:, ::-1][:, :most]
        kept = variances > _SMALLEST_VARIANCE * max(variances[0], np.finfo(np.float64).tiny)
        of_rows, variances = of_rows[:, kept], variances[kept]
        directions = (rows.T @ of_rows - np.outer(mean, (roots * of_rows).sum(axis=0))) / np.sqrt(variances)
    else:
        from sklearn.utils.extmath import randomized_svd

        found: Any = randomized_svd(  # the types of scikit-learn have n_iter as text
            rows.astype(np.float32),
            min(most, _MOST_APPROXIMATE),
            n_iter=cast(Any, 2),
            random_state=seed,
            flip_sign=False,
        )
        variances, directions = np.square(found[1]), np.asarray(found[2]).T
    kept = variances > _SMALLEST_VARIANCE * max(variances[0], np.finfo(np.float64).tiny)
    return directions[:, kept] if kept.any() else directions[:, :1]


def _evenly_spaced(n_rows: int, most: int) -> np.ndarray:
    return np.arange(n_rows) if n_rows <= most else np.linspace(0, n_rows - 1, most).astype(np.intp)


def scaling_for(inputs: Inputs, rows: Rows, columns: Columns, weights: np.ndarray | None, seed: int) -> Scaling:
    """Return the scaling for inputs of a kind, from training rows and their statistics."""
    if inputs == "ranks":
        return RankScaling.of_rows(rows, weights)
    if inputs == "sparse":
        return PrincipalScaling.of_rows(rows, columns, weights, seed)
    return Scaling.standardizing(columns)


def inputs_of(scaling: Scaling) -> Inputs:
    """Return the kind of inputs that a scaling makes."""
    kinds: dict[type[Scaling], Inputs] = {RankScaling: "ranks", PrincipalScaling: "sparse"}
    return kinds.get(type(scaling), "standard")


def n_inputs_of(scaling: Scaling) -> int:
    """Return the number of inputs of the networks."""
    return scaling.directions.shape[1] if isinstance(scaling, PrincipalScaling) else len(scaling.location)


# The choice


def is_sparse_table(rows: Rows) -> bool:
    """Return whether rows are mostly zeros."""
    n_present = rows.count_nonzero() if sp.issparse(rows) else np.count_nonzero(rows)
    return bool(n_present < _SPARSE_SHARE * rows.shape[0] * rows.shape[1])


def choose_inputs(
    rows: Rows, loss: Callable[[Inputs, np.ndarray, np.ndarray], float], seed: int, *, may_try: bool
) -> Inputs:
    """Choose the inputs of a table: ranks, or for one of mostly zeros those with the smaller loss of held-out rows.

    Parameters
    ----------
    rows : ndarray or CSR matrix
        Training rows.
    loss : callable
        Takes inputs, the rows to fit, and the rows to score.
    seed : int
        Seed of the choice of rows.
    may_try : bool
        Whether there is time for a choice. It takes two fits.

    """
    if not is_sparse_table(rows):
        return "ranks"
    n_rows, n_columns = rows.shape
    if not may_try or n_columns > _MOST_TRIED_VALUES or n_rows < _LEAST_TRIED_ROWS:
        return "sparse"
    order = np.random.default_rng(seed).permutation(n_rows)
    n_held_out = min(round(_HELD_OUT * n_rows), _MOST_HELD_OUT)
    held_out, fitted = order[:n_held_out], order[n_held_out : n_held_out + _MOST_TRIED_ROWS]
    tried: tuple[Inputs, ...] = ("sparse", "standard")
    return min(tried, key=lambda inputs: loss(inputs, fitted, held_out))


def log_loss(indicator: TargetMatrix, probs: np.ndarray, weights: np.ndarray | None) -> float:
    """Return the mean over rows of minus the log-probability of their labels, each by itself."""
    known = dense(indicator) > 0
    losses = -np.log(np.where(known, probs, 1 - probs).clip(1e-12)).sum(axis=1)
    return float(np.average(losses, weights=weights))


# Files


def tensors_of(scaling: Scaling) -> dict[str, Tensor]:
    """Return what a file needs beside location and scale."""
    if isinstance(scaling, RankScaling):
        return {"inputs.knots": torch.from_numpy(scaling.knots), "inputs.heights": torch.from_numpy(scaling.heights)}
    if isinstance(scaling, PrincipalScaling):
        return {"inputs.directions": torch.from_numpy(scaling.directions)}
    return {}


def n_inputs_in(document: Mapping[str, Any], n_features: int) -> int:
    """Return the number of inputs of the networks of a file; files of earlier versions do not say it."""
    n_inputs = document.get("n_inputs", n_features)
    if not isinstance(n_inputs, int) or isinstance(n_inputs, bool) or not 1 <= n_inputs <= n_features:
        raise ValueError(f"n_inputs={n_inputs!r}; it is a whole number from 1 to {n_features}")
    return n_inputs


def scaling_in(document: Mapping[str, Any], tensors: Mapping[str, Tensor], plain: Scaling) -> Scaling:
    """Return the scaling of a file, or raise ValueError for one that does not fit it."""
    inputs, n_features = kind_in(document), len(plain.location)
    n_inputs = n_inputs_in(document, n_features)
    if inputs == "sparse":
        directions = _checked(tensors["inputs.directions"], torch.float32, (n_features, n_inputs))
        return PrincipalScaling(plain.location, plain.scale, directions)
    if n_inputs != n_features:
        raise ValueError(f"n_inputs={n_inputs} for {n_features} columns")
    if inputs == "ranks":
        shape = tensors["inputs.knots"].shape
        if len(shape) != 2 or shape[0] != n_features or not 1 <= shape[1] <= _MOST_KNOTS:
            raise ValueError("the knots of the ranks do not fit the number of features")
        parts = (_checked(tensors[f"inputs.{name}"], torch.float64, tuple(shape)) for name in ("knots", "heights"))
        knots, heights = parts
        if (np.diff(knots, axis=1) < 0).any():
            raise ValueError("the knots of the ranks are not in order")
        return RankScaling(plain.location, plain.scale, knots, heights)
    return plain


def kind_in(document: Mapping[str, Any]) -> Inputs:
    """Return the kind of inputs of a file; those of earlier versions have none."""
    inputs = document.get("inputs", "standard")
    if inputs not in INPUTS:
        raise ValueError(f"inputs={inputs!r}; it is one of {', '.join(INPUTS)}")
    return inputs


def _checked(tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if tensor.dtype != dtype or tuple(tensor.shape) != shape or not bool(torch.isfinite(tensor).all()):
        raise ValueError(f"the inputs are {tuple(tensor.shape)} {tensor.dtype}, expected {shape} {dtype} and finite")
    return tensor.numpy()
