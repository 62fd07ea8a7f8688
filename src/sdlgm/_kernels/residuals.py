"""Kernels that write and read series of whole numbers by adaptive arithmetic coding, in integers only.

Each number is written as its difference from a base, of which a part of the difference before is taken off. What is
left is written as decisions of two outcomes: the number of its bits in unary, its sign, and its bits from the highest
on. The probabilities of all decisions but the lowest bits follow their frequencies so far, given how large the numbers
before were.
"""

from dataclasses import dataclass

import numpy as np

from sdlgm._kernels.compiler import compiled, inlined
from sdlgm._kernels.entropy import PROBABILITY_BITS, _begin_reading, _begin_writing, _end_writing, _read, _write

VALUE, MISSING, RAW = 0, 1, 2
"""Kinds of entries: a number, nothing, or 64 bits as they are."""
LARGEST = 1 << 40
"""Largest number and largest base."""
MOST_BITS = 44
"""Bits of the largest difference."""
LARGEST_RESIDUAL = 1 << (MOST_BITS - 1)

_ONE = 1 << PROBABILITY_BITS
_HALF = _ONE >> 1
_LEAST = 1 << (PROBABILITY_BITS - 12)
_MEMORY = 255
_SIZES = 8
"""How large the numbers before were: number of bits of the sum of the last two, at most seven."""
_SIGNS = _SIZES * MOST_BITS
_TOPS = _SIGNS + MOST_BITS + 1
_NODES = 32
"""Bits below the highest whose frequencies are counted: five, each given those above it."""
_KINDS = _TOPS + _NODES * (MOST_BITS + 1)
N_DECISIONS = _KINDS + 4
"""Decisions whose frequencies are counted."""
_LONGEST = 90
"""Bytes that an entry can take: all decisions as unlikely as can be."""


@inlined
def _learn(shares, seen, place, present):
    """Move the probability of a decision towards its outcome, by less and less until `_MEMORY` have been seen."""
    if seen[place] < _MEMORY:
        seen[place] += 1
    target = np.int64(_ONE) if present else np.int64(0)
    shares[place] += (target - shares[place]) * 2 // (2 * seen[place] + 1)
    shares[place] = min(max(shares[place], np.int64(_LEAST)), np.int64(_ONE - _LEAST))


@compiled
def _put(coder, out, shares, seen, place, present):
    _write(coder, out, present, shares[place])
    _learn(shares, seen, place, present)


@compiled
def _get(coder, data, shares, seen, place):
    present = _read(coder, data, shares[place])
    _learn(shares, seen, place, present)
    return present


@compiled
def _put_even(coder, out, bit):
    """Write a decision whose outcomes are equally likely."""
    _write(coder, out, bit == 1, np.int64(_HALF))


@compiled
def _get_even(coder, data):
    return np.int64(1 if _read(coder, data, np.int64(_HALF)) else 0)


@inlined
def _n_bits(number):
    n_bits = 0
    while number:
        number >>= 1
        n_bits += 1
    return n_bits


@inlined
def _expected(weight, before):
    return (weight * before + 2) >> 2


@compiled
def _write_series(coder, out, numbers, kinds, base, weight, has_missing, has_raw, shares, seen):
    before, size, size_before = np.int64(0), np.int64(0), np.int64(0)
    was_missing = 0
    for i in range(len(numbers)):
        kind = kinds[i]
        if has_missing:
            _put(coder, out, shares, seen, _KINDS + was_missing, kind == MISSING)
            was_missing = 1 if kind == MISSING else 0
            if kind == MISSING:
                continue
        if has_raw:
            _put(coder, out, shares, seen, _KINDS + 2, kind == RAW)
            if kind == RAW:
                for shift in range(63, -1, -1):
                    _put_even(coder, out, (numbers[i] >> shift) & 1)
                continue
        residual = numbers[i] - base[i]
        rest = residual - _expected(weight, before)
        before = residual
        absolute = abs(rest)
        n_bits = _n_bits(absolute)
        first = min(_n_bits(size + size_before), _SIZES - 1) * MOST_BITS
        for b in range(n_bits):
            _put(coder, out, shares, seen, first + b, True)
        if n_bits < MOST_BITS:
            _put(coder, out, shares, seen, first + n_bits, False)
        if n_bits:
            _put(coder, out, shares, seen, _SIGNS + n_bits, rest < 0)
            node = np.int64(1)
            for shift in range(n_bits - 2, -1, -1):
                bit = (absolute >> shift) & 1
                if node < _NODES:
                    _put(coder, out, shares, seen, _TOPS + _NODES * n_bits + node, bit == 1)
                    node = 2 * node + bit
                else:
                    _put_even(coder, out, bit)
        size_before, size = size, absolute


@compiled
def _read_series(coder, data, numbers, kinds, base, weight, has_missing, has_raw, shares, seen):
    before, size, size_before = np.int64(0), np.int64(0), np.int64(0)
    was_missing = 0
    for i in range(len(numbers)):
        if has_missing:
            is_missing = _get(coder, data, shares, seen, _KINDS + was_missing)
            was_missing = 1 if is_missing else 0
            if is_missing:
                kinds[i] = MISSING
                continue
        if has_raw and _get(coder, data, shares, seen, _KINDS + 2):
            kinds[i] = RAW
            word = np.int64(0)
            for _ in range(64):
                word = (word << 1) | _get_even(coder, data)
            numbers[i] = word
            continue
        first = min(_n_bits(size + size_before), _SIZES - 1) * MOST_BITS
        n_bits = 0
        while n_bits < MOST_BITS and _get(coder, data, shares, seen, first + n_bits):
            n_bits += 1
        absolute = np.int64(0)
        rest = np.int64(0)
        if n_bits:
            is_negative = _get(coder, data, shares, seen, _SIGNS + n_bits)
            absolute = np.int64(1)
            node = np.int64(1)
            for _ in range(n_bits - 1):
                if node < _NODES:
                    bit = np.int64(1 if _get(coder, data, shares, seen, _TOPS + _NODES * n_bits + node) else 0)
                    node = 2 * node + bit
                else:
                    bit = _get_even(coder, data)
                absolute = (absolute << 1) | bit
            rest = -absolute if is_negative else absolute
        residual = rest + _expected(weight, before)
        # Only bytes that were not written here can exceed it.
        residual = min(max(residual, np.int64(-LARGEST_RESIDUAL)), np.int64(LARGEST_RESIDUAL))
        before = residual
        numbers[i] = base[i] + residual
        size_before, size = size, absolute


@compiled
def _write_all(numbers, kinds, base, weights, flags, common, out):
    n_series = len(numbers)
    coder = _begin_writing()
    shares, seen = np.full(N_DECISIONS, _HALF, np.int64), np.zeros(N_DECISIONS, np.int64)
    for s in range(n_series):
        if not common:
            shares[:] = _HALF
            seen[:] = 0
        for shift in (1, 0):
            _put_even(coder, out, (weights[s] >> shift) & 1)
            _put_even(coder, out, (flags[s] >> shift) & 1)
        _write_series(
            coder,
            out,
            numbers[s],
            kinds[s],
            base[s],
            _weight(weights[s]),
            flags[s] & 1 == 1,
            flags[s] & 2 == 2,
            shares,
            seen,
        )
    return _end_writing(coder, out)


@compiled
def _read_all(data, numbers, kinds, base, common):
    coder = _begin_reading(data)
    shares, seen = np.full(N_DECISIONS, _HALF, np.int64), np.zeros(N_DECISIONS, np.int64)
    for s in range(len(numbers)):
        if not common:
            shares[:] = _HALF
            seen[:] = 0
        weight, flag = np.int64(0), np.int64(0)
        for _ in range(2):
            weight = 2 * weight + _get_even(coder, data)
            flag = 2 * flag + _get_even(coder, data)
        _read_series(
            coder, data, numbers[s], kinds[s], base[s], _weight(weight), flag & 1 == 1, flag & 2 == 2, shares, seen
        )


@inlined
def _weight(place):
    """Return how many quarters of the difference before are taken off: none, 2, 3 or 4."""
    return np.int64(0) if place == 0 else np.int64(place + 1)


@compiled
def _best_weights(numbers, kinds, base, flags, common, weights, out):
    """Choose for each series the weight with the fewest bytes, given those before."""
    shares, seen = np.full(N_DECISIONS, _HALF, np.int64), np.zeros(N_DECISIONS, np.int64)
    best_shares, best_seen = shares.copy(), seen.copy()
    for s in range(len(numbers)):
        least = np.int64(-1)
        begun_shares, begun_seen = best_shares.copy(), best_seen.copy()
        for place in range(4):
            if common:
                shares[:] = begun_shares
                seen[:] = begun_seen
            else:
                shares[:] = _HALF
                seen[:] = 0
            coder = _begin_writing()
            has_missing, has_raw = flags[s] & 1 == 1, flags[s] & 2 == 2
            _write_series(coder, out, numbers[s], kinds[s], base[s], _weight(place), has_missing, has_raw, shares, seen)
            n_bytes = _end_writing(coder, out)
            if least < 0 or n_bytes < least:
                least = n_bytes
                weights[s] = place
                best_shares[:] = shares
                best_seen[:] = seen


@dataclass(frozen=True)
class Series:
    """Series of whole numbers, one in each row.

    ``numbers`` are of 64 bits and at most `LARGEST`, but for those of kind `RAW`. ``kinds`` says what entries are.
    """

    numbers: np.ndarray
    kinds: np.ndarray


def write_series(series: Series, base: np.ndarray, *, common: bool) -> bytes:
    """Return series as bytes. Zeros at the end are left out.

    Parameters
    ----------
    series : Series
    base : ndarray of int64 of the shape of the series
        What each number is expected to be; at most `LARGEST`.
    common : bool
        Whether all series have the same frequencies, which is better for short ones.

    """
    numbers, kinds = series.numbers, series.kinds
    flags = (kinds == MISSING).any(axis=1) | 2 * (kinds == RAW).any(axis=1)
    weights = np.zeros(len(numbers), np.int64)
    scratch = np.zeros(_LONGEST * numbers.shape[1] + 64, np.uint8)
    _best_weights(numbers, kinds, base, flags.astype(np.int64), common, weights, scratch)
    out = np.zeros(_LONGEST * numbers.size + len(numbers) + 64, np.uint8)
    n_bytes = _write_all(numbers, kinds, base, weights, flags.astype(np.int64), common, out)
    return out[:n_bytes].tobytes()


def read_series(data: bytes, base: np.ndarray, *, common: bool) -> Series:
    """Return the series that `write_series` has written. Any bytes are read as some series.

    Parameters
    ----------
    data : bytes
    base : ndarray of int64 of shape (S, T)
    common : bool

    """
    numbers, kinds = np.zeros(base.shape, np.int64), np.zeros(base.shape, np.uint8)
    _read_all(np.frombuffer(data, np.uint8), numbers, kinds, base, common)
    return Series(numbers, kinds)
