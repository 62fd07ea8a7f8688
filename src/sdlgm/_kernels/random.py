"""Random bits from xoshiro128+ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021).

Each column has a generator of its own, so that the compiler vectorises over columns. Each block of `BLOCK` rows has a
key of its own that seeds the generators, so that the result does not depend on the number of threads.
"""

import numpy as np

from sdlgm._kernels.compiler import compiled, inlined

BLOCK = 25
"""Number of rows that share a key."""

_u4, _u8, _f4 = np.uint32, np.uint64, np.float32


def n_blocks(n_rows: int) -> int:
    """Return the number of keys for ``n_rows`` rows."""
    return -(-n_rows // BLOCK)


@compiled
def seed(key, state):
    """Seed the generators by splitmix64 (Steele, Lea and Flood, 2014), as the authors of xoshiro recommend."""
    x = _u8(key)
    for column in range(state.shape[1]):
        for half in range(2):
            x = _u8(x + _u8(0x9E3779B97F4A7C15))
            z = _u8(_u8(x ^ (x >> _u8(30))) * _u8(0xBF58476D1CE4E5B9))
            z = _u8(_u8(z ^ (z >> _u8(27))) * _u8(0x94D049BB133111EB))
            z = _u8(z ^ (z >> _u8(31)))
            state[2 * half, column] = _u4(z >> _u8(32))
            state[2 * half + 1, column] = _u4(z)


@inlined
def next_bits(state, column):
    """Return 32 random bits. The lowest bits are of lower quality."""
    a, b, c, d = state[0, column], state[1, column], state[2, column], state[3, column]
    bits = _u4(a + d)
    shifted = _u4(b << _u4(9))
    c = _u4(c ^ a)
    d = _u4(d ^ b)
    state[1, column] = _u4(b ^ c)
    state[0, column] = _u4(a ^ d)
    state[2, column] = _u4(c ^ shifted)
    state[3, column] = _u4(_u4(d << _u4(11)) | _u4(d >> _u4(21)))
    return bits


@inlined
def uniform(bits):
    """Return (k + 1/2) / 2**23 in the open interval (0, 1), where k are the upper 23 bits.

    The bits become the fraction of a number in [1, 2), and the result is exact in single precision.
    """
    return _u4(_u4(bits >> _u4(9)) | _u4(0x3F800000)).view(_f4) - _f4(1 - 2.0**-24)
