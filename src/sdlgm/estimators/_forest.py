"""Extremely randomised trees whose votes are averaged with the networks of the classifier.

A tree divides the space of x into leaves. A leaf votes with the labels of its training rows, and with their number:
the maximum likelihood estimate of a distribution over sets of labels there.

The trees are part of the estimator, and not composed from outside, for three reasons. scikit-learn's
`VotingClassifier` takes no multi-label targets. The votes on the number of labels enter ``predict_sparsity``, which a
vote on probabilities could not. And an estimator of scikit-learn can only be saved by pickle, while these arrays are
tensors of a model file.
"""

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from sdlgm import _kernels

# Share of the features that are candidates at each split; with all of them, trees are too similar.
_MAX_FEATURES = 0.3


@dataclass(frozen=True)
class Forest:
    """Extremely randomised trees (Geurts, Ernst and Wehenkel, 2006) as arrays for `_kernels.tree_votes`."""

    roots: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    first: np.ndarray
    last: np.ndarray
    order: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    """Weights of the training rows; a file has them only if they differ from 1."""

    @classmethod
    def fit(
        cls, x: np.ndarray, indicator: np.ndarray, n_trees: int, seed: int, weights: np.ndarray | None = None
    ) -> "Forest":
        """Grow trees on scaled rows in single precision; targets are the labels and their number."""
        from sklearn.ensemble import ExtraTreesRegressor

        targets = indicator[:, 0] if indicator.shape[1] == 1 else indicator
        grown = ExtraTreesRegressor(n_trees, max_features=_MAX_FEATURES, random_state=seed)
        grown.fit(x, targets, sample_weight=weights)
        leaves = np.asarray(grown.apply(x))
        parts: dict[str, list[np.ndarray]] = {field.name: [] for field in fields(cls)}
        n_nodes = n_placed = 0
        for tree, estimator in enumerate(grown.estimators_):
            nodes = estimator.tree_
            in_leaf = np.bincount(leaves[:, tree], minlength=nodes.node_count)
            ends = n_placed + np.cumsum(in_leaf)
            is_leaf = nodes.children_left < 0
            parts["roots"].append(np.array([n_nodes]))
            parts["feature"].append(np.maximum(nodes.feature, 0))
            parts["threshold"].append(np.where(is_leaf, 0.0, nodes.threshold))
            parts["left"].append(np.where(is_leaf, -1, nodes.children_left + n_nodes))
            parts["right"].append(np.where(is_leaf, -1, nodes.children_right + n_nodes))
            parts["first"].append(ends - in_leaf)
            parts["last"].append(ends)
            parts["order"].append(np.argsort(leaves[:, tree], kind="stable"))
            n_nodes += nodes.node_count
            n_placed += len(x)
        numbers = np.eye(indicator.shape[1] + 1)[indicator.sum(axis=1)]
        joined = {name: np.concatenate(part) for name, part in parts.items() if part}
        whole = {name: part if name == "threshold" else part.astype(np.int64) for name, part in joined.items()}
        weights = np.ones(len(x)) if weights is None else weights
        return cls(**whole, targets=np.concatenate([indicator, numbers], axis=1).astype(np.float32), weights=weights)

    def votes(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the probability of each label, and of each number of labels, for scaled rows."""
        votes = _kernels.tree_votes(np.ascontiguousarray(x, dtype=np.float32), **vars(self))
        n_labels = votes.shape[1] // 2
        return votes[:, :n_labels], votes[:, n_labels:]

    def row_shares(self, x: np.ndarray) -> np.ndarray:
        """Return the share of each training row in the votes on scaled rows."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "targets"}
        return _kernels.tree_row_shares(np.ascontiguousarray(x, dtype=np.float32), **arrays)

    @property
    def indicator(self) -> np.ndarray:
        """The labels of the training rows, 0 or 1."""
        return self.targets[:, : self.targets.shape[1] // 2]

    def tensors(self) -> dict[str, Tensor]:
        """Return the arrays by name."""
        names = [field.name for field in fields(self) if field.name != "weights" or (self.weights != 1).any()]
        return {name: torch.from_numpy(getattr(self, name)) for name in names}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], n_trees: int, n_inputs: int, n_labels: int) -> "Forest":
        """Return the forest of a file, or raise if some path does not end at a leaf."""
        names = {field.name for field in fields(cls)}
        if set(tensors) | {"weights"} != names:
            raise ValueError(f"the trees lack {', '.join(sorted(names ^ set(tensors)))}")
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        forest = cls(**{"weights": np.ones(len(arrays["targets"])), **arrays})
        forest._check(n_trees, n_inputs, n_labels)
        return forest

    def _check(self, n_trees: int, n_inputs: int, n_labels: int) -> None:
        n_nodes, n_rows = len(self.left), len(self.targets)
        of_nodes = (self.feature, self.threshold, self.left, self.right, self.first, self.last)
        whole = (self.roots, self.feature, self.left, self.right, self.first, self.last, self.order)
        is_leaf = self.left < 0
        numbers = np.arange(n_nodes)
        fits = (
            all(part.ndim == 1 and part.dtype == np.int64 for part in whole)
            and self.threshold.ndim == 1
            and self.threshold.dtype == np.float64
            and self.targets.dtype == np.float32
            and self.targets.shape == (n_rows, 2 * n_labels + 1)
            and self.weights.shape == (n_rows,)
            and self.weights.dtype == np.float64
            and bool(((self.weights > 0) & np.isfinite(self.weights)).all())
            and bool(np.isin(self.targets, (0, 1)).all())
            and bool((self.targets[:, n_labels:].argmax(1) == self.targets[:, :n_labels].sum(1)).all())
            and bool((self.targets[:, n_labels:].sum(1) == 1).all())
            and all(len(part) == n_nodes for part in of_nodes)
            and _within(self.roots, 0, n_nodes)
            and _within(self.feature, 0, n_inputs)
            # Children come after their parents, so every path ends.
            and _within(self.left[~is_leaf] - numbers[~is_leaf], 1, n_nodes)
            and _within(self.right[~is_leaf] - numbers[~is_leaf], 1, n_nodes)
            and _within(self.left[~is_leaf], 0, n_nodes)
            and _within(self.right[~is_leaf], 0, n_nodes)
            and _within(self.first[is_leaf], 0, len(self.order))
            and bool((self.last[is_leaf] > self.first[is_leaf]).all())
            and bool((self.last <= len(self.order)).all())
            and _within(self.order, 0, n_rows)
        )
        if len(self.roots) != n_trees:
            raise ValueError(f"n_trees={n_trees}, and there are {len(self.roots)} trees")
        if not fits:
            raise ValueError("the trees do not fit together")


def _within(values: np.ndarray, low: int, end: int) -> bool:
    return bool(((values >= low) & (values < end)).all())
