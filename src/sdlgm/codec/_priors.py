"""Priors over codes in whole numbers, derived from the stored weights of a model by rounding.

Rounding a float of single precision is exact, so the same model has the same whole numbers everywhere. Nothing else is
stored with a model.
"""

from decimal import Decimal, localcontext

import numpy as np
import torch
from torch import Tensor

from sdlgm._kernels.entropy import (
    LARGEST_ODDS,
    LOGIT_BITS,
    ODDS_BITS,
    PROBABILITY_BITS,
    SURPRISE_BITS,
    IntegerChain,
    IntegerPrior,
    IntegerSlots,
)
from sdlgm.codec import _tables
from sdlgm.codec._tables import LARGEST_SURPRISE
from sdlgm.model.codes.priors import ChainPrior, SlotPrior

LARGEST_UNIT = 2**15 - 1
"""Largest state and largest read."""
MOST_BITS = 30
"""Most bits behind the binary point of reads and writes."""
FEWEST_BITS = -200
"""Fewest: with them, the largest number of single precision is zero."""
LARGEST_SHIFT = 16
"""Most bits by which a product of reads and a state is shifted up. Log-odds of more than thousands stay below that."""
LARGEST_GAP = 1000
"""Largest difference of the logarithms of two probabilities of a slot."""


def integer_prior(prior: SlotPrior | ChainPrior, *, sets: bool) -> IntegerPrior:
    """Return a prior in whole numbers.

    Parameters
    ----------
    prior : SlotPrior or ChainPrior
    sets : bool
        Whether codes are sets of features, rather than counts.

    """
    if isinstance(prior, ChainPrior):
        return _chain(prior)
    return _slots(prior, sets=sets)


def _chain(prior: ChainPrior) -> IntegerChain:
    n_features, n_units = prior.reads.shape
    reads, writes = _array(prior.reads), _array(prior.writes)
    start = np.zeros(n_units) if prior.start is None else _array(prior.start)
    write_bits = _write_bits(writes, start, min(prior.n_slots, n_features))
    read_bits = _bits_for(reads)
    shift = read_bits + write_bits - LOGIT_BITS
    return IntegerChain(
        bias=_fixed(_array(prior.bias)[0], LOGIT_BITS),
        reads=_fixed(reads, read_bits).astype(np.int16),
        writes=_fixed(writes, write_bits).astype(np.int16),
        start=_fixed(start, write_bits).astype(np.int16),
        rectified=prior.start is not None,
        up=min(max(-shift, 0), LARGEST_SHIFT),
        down=max(shift, 0),
        sigmoid=_tables.sigmoid(),
    )


def _bits_for(weights: np.ndarray) -> int:
    """Return the bits behind the binary point with which the largest weight has fifteen bits in all."""
    _, exponent = np.frexp(np.abs(weights).max(initial=0.0))
    bits = min(max(15 - int(exponent), FEWEST_BITS), MOST_BITS)
    return bits - int(np.abs(_fixed(weights, bits)).max(initial=0) > LARGEST_UNIT)  # rounded up to 2^15


def _write_bits(writes: np.ndarray, start: np.ndarray, budget: int) -> int:
    """Return the bits behind the binary point with which no state of a code within the budget exceeds 16 bits."""
    for bits in range(min(_bits_for(writes), _bits_for(start)), FEWEST_BITS, -1):
        sizes, begun = _fixed(writes, bits), _fixed(start, bits)
        if max(_largest_state(sizes, begun, budget), _largest_state(-sizes, -begun, budget)) <= LARGEST_UNIT:
            return bits
    return FEWEST_BITS


def _largest_state(writes: np.ndarray, start: np.ndarray, budget: int) -> int:
    """Return the largest value that a unit can have after the largest positive writes."""
    positive = np.maximum(writes, 0)
    if budget < len(positive):
        positive = np.partition(positive, len(positive) - budget, axis=0)[len(positive) - budget :]
    return int((np.maximum(start, 0) + positive.sum(0)).max(initial=0))


def _fixed(weights: np.ndarray, bits: int) -> np.ndarray:
    """Return weights with this many bits behind the binary point."""
    return np.rint(np.clip(np.ldexp(weights, bits), -(2.0**40), 2.0**40)).astype(np.int64)


def _slots(prior: SlotPrior, *, sets: bool) -> IntegerSlots:
    """Return the shares of each feature among the symbols that are left, in decimal arithmetic."""
    logits = _array(prior.feature_logits)
    gaps = [Decimal(gap) for gap in np.maximum(logits - logits.max(), -LARGEST_GAP).tolist()]
    gate = Decimal(min(max(float(prior.gate_logit.detach()), -LARGEST_GAP), LARGEST_GAP))
    surprises, shares, odds = [], [], []
    with localcontext(_tables.decimal_context()):
        weights = [gap.exp() for gap in gaps]
        rest = sum(weights, Decimal(0)) * (-gate).exp()  # of a slot that is off
        for weight in reversed(weights):
            ratio = weight / rest
            surprises.append(min(_fixed_decimal((1 + ratio).ln(), SURPRISE_BITS), LARGEST_SURPRISE << SURPRISE_BITS))
            shares.append(_fixed_decimal(weight / (weight + rest), PROBABILITY_BITS))
            odds.append(min(_fixed_decimal(ratio, ODDS_BITS), LARGEST_ODDS))
            rest += weight
    arrays = [np.array(part[::-1], np.int64) for part in (surprises, shares, odds)]
    return IntegerSlots(arrays[0], arrays[1], arrays[2], _tables.absence(), sets)


def _fixed_decimal(number: Decimal, bits: int) -> int:
    return int(number * (1 << bits))


def _array(tensor: Tensor) -> np.ndarray:
    """Return weights in double precision, which holds those of single precision exactly."""
    return tensor.detach().to("cpu", torch.float64).numpy()
