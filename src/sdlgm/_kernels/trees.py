"""Predict with an ensemble of trees that keeps the training rows of each leaf."""

import numpy as np

from sdlgm._kernels.compiler import compiled


@compiled
def _leaf(row, root, feature, threshold, left, right):
    """Return the leaf of a row in a tree."""
    node = root
    while left[node] >= 0:
        # The value has single and the threshold double precision, as in scikit-learn.
        node = left[node] if row[feature[node]] <= threshold[node] else right[node]
    return node


@compiled
def _votes(rows, roots, feature, threshold, left, right, first, last, order, targets, weights, votes):
    n_trees = len(roots)
    for row in range(len(rows)):
        for tree in range(n_trees):
            node = _leaf(rows[row], roots[tree], feature, threshold, left, right)
            total = 0.0
            for place in range(first[node], last[node]):
                total += weights[order[place]]
            share = 1.0 / (total * n_trees)
            for place in range(first[node], last[node]):
                target, own = targets[order[place]], share * weights[order[place]]
                for k in range(len(target)):
                    votes[row, k] += own * target[k]


@compiled
def _row_shares(rows, roots, feature, threshold, left, right, first, last, order, weights, shares):
    n_trees = len(roots)
    for row in range(len(rows)):
        for tree in range(n_trees):
            node = _leaf(rows[row], roots[tree], feature, threshold, left, right)
            total = 0.0
            for place in range(first[node], last[node]):
                total += weights[order[place]]
            for place in range(first[node], last[node]):
                shares[row, order[place]] += weights[order[place]] / (total * n_trees)


def tree_votes(
    rows: np.ndarray,
    roots: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    order: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the mean over trees of the weighted mean target of the training rows in a row's leaf.

    Parameters
    ----------
    rows : ndarray of shape (R, D)
        Rows to predict, in single precision.
    roots : ndarray of shape (n_trees,)
        Number of the root of each tree. The nodes of all trees are numbered consecutively.
    feature, threshold : ndarray of shape (n_nodes,)
        A row goes left at a node if its value of ``feature`` is at most ``threshold``.
    left, right : ndarray of shape (n_nodes,)
        Children of each node. ``left`` is -1 for a leaf.
    first, last : ndarray of shape (n_nodes,)
        The training rows of a leaf are ``order[first:last]``.
    order : ndarray
        Training rows, sorted by tree and leaf.
    targets : ndarray of shape (n_training_rows, n_targets)
        Targets of the training rows.
    weights : ndarray of shape (n_training_rows,)
        Their weights, above 0.

    Returns
    -------
    ndarray of shape (R, n_targets)

    """
    votes = np.zeros((len(rows), targets.shape[1]))
    _votes(rows, roots, feature, threshold, left, right, first, last, order, targets, weights, votes)
    return votes


def tree_row_shares(
    rows: np.ndarray,
    roots: np.ndarray,
    feature: np.ndarray,
    threshold: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the share of each training row in the votes on each row; parameters as for `tree_votes`.

    Returns
    -------
    ndarray of shape (R, n_training_rows)
        Rows add up to 1.

    """
    shares = np.zeros((len(rows), len(weights)))
    _row_shares(rows, roots, feature, threshold, left, right, first, last, order, weights, shares)
    return shares
