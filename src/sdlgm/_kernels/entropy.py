"""Kernels of an arithmetic coder for codes, in integers only, so that every machine makes and reads the same bytes.

Codes are written as decisions of two outcomes, whose probabilities are whole multiples of 2^-PROBABILITY_BITS. All rows
of a block share one interval, and are visited feature by feature. A kernel that reads makes the same decisions in the
same order as the one that writes.

Whole numbers stay below 2^63 in all intermediate results. The largest are the products in `_slot_share`.
"""

from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.compiler import compiled, inlined

PROBABILITY_BITS = 20
"""Bits of a probability. Certainty does not exist: every decision keeps at least one part of its 2^20."""
LOGIT_BITS = 8
"""Bits behind the binary point of log-odds."""
LARGEST_LOGIT = 14 << LOGIT_BITS
SLOT_BITS = 12
"""Bits behind the binary point of an expected number of slots."""
SURPRISE_BITS = 32
"""Bits behind the binary point of -log(1 - share of a feature)."""
ABSENCE_BITS = 8
"""Bits behind the binary point of the argument of the table of 1 - exp(-x)."""
FINE_BITS = 30
"""Bits of the entries of that table, between which is interpolated."""
ODDS_BITS = 16
"""Bits behind the binary point of the odds of a feature against all that come after it."""
LARGEST_ODDS = 1 << 28
LONGEST_TAIL = 256
"""Repetitions of a feature that the probability of a further one looks ahead to."""

_ONE = 1 << PROBABILITY_BITS
_SPAN_BITS = 40
_TOP_BITS = _SPAN_BITS - 8
_LOW, _RANGE, _PLACE = 0, 1, 2


@inlined
def _carry(out, place):
    while out[place] == 255:
        out[place] = 0
        place -= 1
    out[place] += 1


@inlined
def _write(coder, out, present, probability):
    """Narrow the interval to the part of a decision, and write the bytes that are settled."""
    part = (coder[_RANGE] >> PROBABILITY_BITS) * probability
    if present:
        coder[_RANGE] = part
    else:
        coder[_LOW] += part
        coder[_RANGE] -= part
        if coder[_LOW] >> _SPAN_BITS:
            _carry(out, coder[_PLACE] - 1)
            coder[_LOW] &= (1 << _SPAN_BITS) - 1
    while coder[_RANGE] >> _TOP_BITS == 0:
        out[coder[_PLACE]] = coder[_LOW] >> _TOP_BITS
        coder[_PLACE] += 1
        coder[_LOW] = (coder[_LOW] & ((1 << _TOP_BITS) - 1)) << 8
        coder[_RANGE] <<= 8


@inlined
def _read(coder, data, probability):
    """Return a decision. The value of the data within the interval is in place of its lower end."""
    part = (coder[_RANGE] >> PROBABILITY_BITS) * probability
    present = coder[_LOW] < part
    if present:
        coder[_RANGE] = part
    else:
        coder[_LOW] -= part
        coder[_RANGE] -= part
    while coder[_RANGE] >> _TOP_BITS == 0:
        coder[_LOW] <<= 8
        coder[_RANGE] <<= 8
        if coder[_PLACE] < len(data):  # zeros at the end are not written
            coder[_LOW] |= np.int64(data[coder[_PLACE]])
        coder[_PLACE] += 1
    return present


@inlined
def _begin_writing():
    coder = np.zeros(3, np.int64)
    coder[_RANGE] = np.int64(1) << _SPAN_BITS
    return coder


@inlined
def _end_writing(coder, out):
    """Write the number within the interval that ends with the most zeros. Return the bytes up to the last non-zero."""
    bits = _SPAN_BITS
    rounded = np.int64(0)
    while True:
        ones = (np.int64(1) << bits) - 1
        rounded = (coder[_LOW] + ones) >> bits << bits
        if rounded < coder[_LOW] + coder[_RANGE]:
            break
        bits -= 1
    if rounded >> _SPAN_BITS:
        _carry(out, coder[_PLACE] - 1)
        rounded &= (np.int64(1) << _SPAN_BITS) - 1
    place = coder[_PLACE]
    for shift in range(_TOP_BITS, -8, -8):
        out[place] = (rounded >> shift) & 255
        place += 1
    while place > 0 and out[place - 1] == 0:
        place -= 1
    return place


@inlined
def _begin_reading(data):
    coder = np.zeros(3, np.int64)
    coder[_RANGE] = np.int64(1) << _SPAN_BITS
    for place in range(_SPAN_BITS // 8):
        coder[_LOW] <<= 8
        if place < len(data):
            coder[_LOW] |= np.int64(data[place])
    coder[_PLACE] = _SPAN_BITS // 8
    return coder


# Chains


@inlined
def _chain_share(bias, reads, k, units, row, up, down, sigmoid):
    """Return the probability that feature k is present, given the units that those before it have written."""
    total = np.int64(0)
    for h in range(units.shape[1]):
        total += np.int64(reads[k, h]) * np.int64(units[row, h])
    half = (np.int64(1) << down) >> 1
    logit = bias[k] + (((total << up) + half) >> down)
    return sigmoid[min(max(logit, np.int64(-LARGEST_LOGIT)), np.int64(LARGEST_LOGIT)) + LARGEST_LOGIT]


@inlined
def _add(writes, k, states, units, row, rectified):
    """Add what feature k writes to the state of a row, and to its units, which may be the state itself."""
    for h in range(states.shape[1]):
        states[row, h] += writes[k, h]
    if rectified:
        for h in range(states.shape[1]):
            units[row, h] = max(states[row, h], np.int16(0))


@compiled
def _write_chain(counts, bias, reads, writes, start, rectified, up, down, sigmoid, budget, out):
    n_rows, n_features = counts.shape
    coder = _begin_writing()
    _write(coder, out, True, np.int64(_ONE >> 1))  # the first bit is 0
    states = np.empty((n_rows, len(start)), np.int16)
    states[:] = start
    units = np.maximum(states, np.int16(0)) if rectified else states
    n_left = np.full(n_rows, budget, np.int64)
    for k in range(n_features):
        for row in range(n_rows):
            if n_left[row] > 0:
                share = _chain_share(bias, reads, k, units, row, up, down, sigmoid)
                present = counts[row, k] != 0
                _write(coder, out, present, share)
                if present:
                    n_left[row] -= 1
                    _add(writes, k, states, units, row, rectified)
    return _end_writing(coder, out)


@compiled
def _read_chain(data, bias, reads, writes, start, rectified, up, down, sigmoid, budget, counts):
    n_rows, n_features = counts.shape
    coder = _begin_reading(data)
    _read(coder, data, np.int64(_ONE >> 1))
    states = np.empty((n_rows, len(start)), np.int16)
    states[:] = start
    units = np.maximum(states, np.int16(0)) if rectified else states
    n_left = np.full(n_rows, budget, np.int64)
    for k in range(n_features):
        for row in range(n_rows):
            if n_left[row] > 0:
                share = _chain_share(bias, reads, k, units, row, up, down, sigmoid)
                if _read(coder, data, share):
                    counts[row, k] = 1
                    n_left[row] -= 1
                    _add(writes, k, states, units, row, rectified)


# Slots


@inlined
def _slot_share(n_slots, surprise, absence):
    """Return 1 - (1 - share) ** n_slots, the probability that one of the slots holds a feature."""
    fraction_bits = SLOT_BITS + SURPRISE_BITS - ABSENCE_BITS
    x = n_slots * surprise
    place = x >> fraction_bits
    if place >= len(absence) - 1:
        fine = absence[len(absence) - 1]
    else:
        fraction = (x >> (fraction_bits - ABSENCE_BITS)) & ((1 << ABSENCE_BITS) - 1)
        fine = absence[place] + ((absence[place + 1] - absence[place]) * fraction >> ABSENCE_BITS)
    share = fine >> (FINE_BITS - PROBABILITY_BITS)
    return min(max(share, np.int64(1)), np.int64(_ONE - 1))


@inlined
def _repeated_share(n_slots, n_present, odds):
    """Return the probability that a feature of ``n_slots`` slots holds more than ``n_present`` of them, if these.

    With p_i the binomial probability of i, it is X / (1 + X) with X = sum_{i > n} p_i / p_n, from the last term on.
    """
    one = np.int64(1) << ODDS_BITS
    ratio = np.int64(0)
    for i in range(min(n_slots - 1, n_present + LONGEST_TAIL), n_present - 1, -1):
        step = min((n_slots - i) * odds // (i + 1), np.int64(LARGEST_ODDS))
        ratio = min(step * (one + ratio) >> ODDS_BITS, np.int64(LARGEST_ODDS))
    return min(max((ratio << PROBABILITY_BITS) // (one + ratio), np.int64(1)), np.int64(_ONE - 1))


@inlined
def _slots_taken(n_slots, share_of_slot, share):
    """Return the expected number of slots that hold a feature, if it is present."""
    taken = n_slots * share_of_slot // share
    return min(max(taken, np.int64(1) << SLOT_BITS), n_slots)


@compiled
def _write_slots(counts, surprises, shares, odds, absence, sets, budget, out):
    n_rows, n_features = counts.shape
    coder = _begin_writing()
    _write(coder, out, True, np.int64(_ONE >> 1))
    n_left = np.full(n_rows, budget, np.int64)
    n_slots = n_left << SLOT_BITS
    for k in range(n_features):
        for row in range(n_rows):
            if n_left[row] > 0:
                count = np.int64(counts[row, k])
                share = _slot_share(n_slots[row], surprises[k], absence)
                _write(coder, out, count > 0, share)
                if count > 0 and sets:
                    n_left[row] -= 1
                    n_slots[row] -= _slots_taken(n_slots[row], shares[k], share)
                    n_slots[row] = max(n_slots[row], np.int64(1) << SLOT_BITS)
                elif count > 0:
                    n_present = np.int64(1)
                    while n_present < n_left[row]:
                        _write(coder, out, count > n_present, _repeated_share(n_left[row], n_present, odds[k]))
                        if count == n_present:
                            break
                        n_present += 1
                    n_left[row] -= count
                    n_slots[row] = n_left[row] << SLOT_BITS
    return _end_writing(coder, out)


@compiled
def _read_slots(data, surprises, shares, odds, absence, sets, budget, counts):
    n_rows, n_features = counts.shape
    coder = _begin_reading(data)
    _read(coder, data, np.int64(_ONE >> 1))
    n_left = np.full(n_rows, budget, np.int64)
    n_slots = n_left << SLOT_BITS
    for k in range(n_features):
        for row in range(n_rows):
            if n_left[row] > 0:
                share = _slot_share(n_slots[row], surprises[k], absence)
                present = _read(coder, data, share)
                if present and sets:
                    counts[row, k] = 1
                    n_left[row] -= 1
                    n_slots[row] -= _slots_taken(n_slots[row], shares[k], share)
                    n_slots[row] = max(n_slots[row], np.int64(1) << SLOT_BITS)
                elif present:
                    n_present = np.int64(1)
                    while n_present < n_left[row]:
                        if not _read(coder, data, _repeated_share(n_left[row], n_present, odds[k])):
                            break
                        n_present += 1
                    counts[row, k] = n_present
                    n_left[row] -= n_present
                    n_slots[row] = n_left[row] << SLOT_BITS


@dataclass(frozen=True)
class IntegerChain:
    """A chain prior in whole numbers: log_odds_k = bias_k + reads_k . state * 2^up / 2^down.

    The state begins as ``start``, and every feature that is present adds its writes. If ``rectified``, negative units
    count as zero. ``reads``, ``writes`` and ``start`` are of 16 bits, as are all states.
    """

    bias: np.ndarray
    reads: np.ndarray
    writes: np.ndarray
    start: np.ndarray
    rectified: bool
    up: int
    down: int
    sigmoid: np.ndarray
    """Probabilities of the log-odds from ``-LARGEST_LOGIT`` to ``LARGEST_LOGIT``."""

    @property
    def arguments(self):
        """Arguments of the kernels."""
        return (
            self.bias,
            self.reads,
            self.writes,
            self.start,
            self.rectified,
            np.int64(self.up),
            np.int64(self.down),
            self.sigmoid,
        )


@dataclass(frozen=True)
class IntegerSlots:
    """A prior of slots in whole numbers, for counts or for the sets of what is present.

    Features are visited in their order. With share_k the probability of feature k in a slot that holds none of the
    features before it, ``surprises`` are -log(1 - share), and ``odds`` share / (1 - share). For counts, the slots left
    are known. For sets, their expected number takes their place.
    """

    surprises: np.ndarray
    shares: np.ndarray
    odds: np.ndarray
    absence: np.ndarray
    """1 - exp(-x) for x from 0 on."""
    sets: bool

    @property
    def arguments(self):
        """Arguments of the kernels."""
        return self.surprises, self.shares, self.odds, self.absence, self.sets


IntegerPrior = IntegerChain | IntegerSlots


def write_codes(prior: IntegerPrior, counts: np.ndarray, budget: int) -> bytes:
    """Return codes as bytes whose first bit is 0. Zeros at the end are left out.

    Parameters
    ----------
    prior : IntegerChain or IntegerSlots
    counts : ndarray of int32 of shape (R, K)
        Codes within the budget; zeros and ones if codes are sets.
    budget : int
        Largest sum of a row, at least 1.

    """
    n_rows, n_features = counts.shape
    n_decisions = n_rows * (n_features + (0 if _is_set(prior) else budget)) + 1
    out = np.zeros(n_decisions * (PROBABILITY_BITS + 1) // 8 + 16, np.uint8)  # rounding costs less than a bit each
    if isinstance(prior, IntegerChain):
        n_bytes = _write_chain(counts, *prior.arguments, np.int64(budget), out)
    else:
        n_bytes = _write_slots(counts, *prior.arguments, np.int64(budget), out)
    return out[:n_bytes].tobytes()


def read_codes(prior: IntegerPrior, data: bytes, n_rows: int, n_features: int, budget: int) -> np.ndarray:
    """Return the codes that `write_codes` has written.

    Any bytes are read as some codes within the budget, so that damage has to be found by other means.

    Returns
    -------
    ndarray of int32 of shape (R, K)

    """
    counts = np.zeros((n_rows, n_features), np.int32)
    content = np.frombuffer(data, np.uint8)
    if isinstance(prior, IntegerChain):
        _read_chain(content, *prior.arguments, np.int64(budget), counts)
    else:
        _read_slots(content, *prior.arguments, np.int64(budget), counts)
    return counts


def _is_set(prior: IntegerPrior) -> bool:
    return isinstance(prior, IntegerChain) or prior.sets
