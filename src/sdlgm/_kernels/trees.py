"""Votes of trees: the mean of the targets of the training rows that share a leaf with a row."""

import numpy as np

from sdlgm._kernels.compiler import compiled


@compiled
def _votes(rows, roots, feature, threshold, left, right, first, last, order, targets, votes):
    n_trees = len(roots)
    for row in range(len(rows)):
        for tree in range(n_trees):
            node = roots[tree]
            while left[node] >= 0:
                # A value in single precision against a threshold in double precision, as scikit-learn compares them.
                node = left[node] if rows[row, feature[node]] <= threshold[node] else right[node]
            share = 1.0 / ((last[node] - first[node]) * n_trees)
            for place in range(first[node], last[node]):
                of_row = targets[order[place]]
                for k in range(len(of_row)):
                    votes[row, k] += share * of_row[k]


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
) -> np.ndarray:
    """The mean over trees of the mean target of a row's leaf, (rows, columns of ``targets``).

    Nodes of all trees are numbered through, and ``roots`` says where each tree begins; ``left`` is -1 for a leaf. The
    training rows of a leaf are ``order[first:last]``.
    """
    votes = np.zeros((len(rows), targets.shape[1]))
    _votes(rows, roots, feature, threshold, left, right, first, last, order, targets, votes)
    return votes
