"""Widths of hidden layers by the number of training rows.

Deep networks memorise small tables. In runs of 2,000 iterations on tables, spectra and grey pictures the bound of
held-out rows was best without hidden layers below some hundred rows, with one narrow layer for a few thousand, and with
one wide layer beyond; see `docs/results/priors.md` for tables of these sizes.
"""

FEW_ROWS, SOME_ROWS = 1_000, 5_000


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
