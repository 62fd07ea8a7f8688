"""Tables of functions in whole numbers, from decimal arithmetic that is exact to the last digit on every machine."""

from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np

from sdlgm._kernels.entropy import (
    ABSENCE_BITS,
    FINE_BITS,
    LARGEST_LOGIT,
    LOGIT_BITS,
    PROBABILITY_BITS,
)

DIGITS = 40
LARGEST_SURPRISE = 16
"""Largest -log(1 - share); a share of nearly one. Kernels multiply it by a number of slots."""


def decimal_context() -> Context:
    """Return the context of all decimal arithmetic here: its results do not depend on the settings of a thread."""
    return Context(prec=DIGITS, Emin=-999_999, Emax=999_999, traps=[])


@cache
def sigmoid() -> np.ndarray:
    """Return 1 / (1 + exp(-x)) in parts of 2^PROBABILITY_BITS, for x from -LARGEST_LOGIT to LARGEST_LOGIT.

    No entry is zero or one.
    """
    one = 1 << PROBABILITY_BITS
    with localcontext(decimal_context()):
        step, power = (Decimal(1) / (1 << LOGIT_BITS)).exp(), Decimal(1)
        upper = np.empty(LARGEST_LOGIT + 1, np.int64)
        for place in range(len(upper)):
            upper[place] = min(_rounded(one * power / (1 + power)), one - 1)
            power *= step
    table = np.concatenate([one - upper[:0:-1], upper])
    table.flags.writeable = False
    return table


@cache
def absence() -> np.ndarray:
    """Return 1 - exp(-x) in parts of 2^FINE_BITS, for x from 0 to LARGEST_SURPRISE in steps of 2^-ABSENCE_BITS."""
    with localcontext(decimal_context()):
        step, power = (Decimal(-1) / (1 << ABSENCE_BITS)).exp(), Decimal(1)
        table = np.empty((LARGEST_SURPRISE << ABSENCE_BITS) + 1, np.int64)
        for place in range(len(table)):
            table[place] = _rounded((1 << FINE_BITS) * (1 - power))
            power *= step
    table.flags.writeable = False
    return table


def _rounded(number: Decimal) -> int:
    return int(number.to_integral_value())
