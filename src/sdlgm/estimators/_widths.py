"""Widths of hidden layers by the number of training rows or features.

Deep networks memorise small tables. In runs of 2,000 iterations on tables, spectra and grey pictures the bound of
held-out rows was best without hidden layers below some hundred rows, with one narrow layer for a few thousand, and with
one wide layer beyond; see `docs/results/priors.md` for tables of these sizes.

Of the prior, a wide layer gives better bounds with any number of features, but its time is proportional to width times
features. So its size is bounded, and its width decreases where it would take longer than everything else.
"""

FEW_ROWS, SOME_ROWS = 1_000, 5_000
WIDEST_PRIOR, NARROWEST_PRIOR = 256, 64
SIZE_OF_PRIOR = 2**18
"""Largest product of width and features for which the layer of the prior is wider than the narrowest."""


def widths_for(n_rows: int) -> tuple[int, ...]:
    """Return the widths of the hidden layers of ``hidden="auto"``.

    Parameters
    ----------
    n_rows : int
        Number of rows to train on.

    Returns
    -------
    widths : tuple of int
        Empty below 1,000 rows: encoder and decoder are then linear.

    """
    if n_rows < FEW_ROWS:
        return ()
    return (128,) if n_rows < SOME_ROWS else (512,)


def prior_width_for(n_features: int) -> int:
    """Return the width of the hidden layer of a chain prior with ``prior_hidden="auto"``."""
    return min(WIDEST_PRIOR, max(NARROWEST_PRIOR, SIZE_OF_PRIOR // n_features))
