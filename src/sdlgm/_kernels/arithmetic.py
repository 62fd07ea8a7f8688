"""Logarithm, exponential, softplus and softmax inside kernels.

In single precision, log2 and exp2 are polynomials with a relative error of 3e-7, which the compiler vectorises. In
double precision, which the tests of the gradients use, they are the functions of the C library.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import types
from numba.extending import overload

from sdlgm._kernels.compiler import ERROR_MODEL, FASTMATH, compiled, inlined

_i4, _f4 = np.int32, np.float32


def _polynomial(
    function: Callable[[np.ndarray], np.ndarray], low: float, high: float, degree: int
) -> tuple[np.float32, ...]:
    """Interpolate a function at Chebyshev points. Return the coefficients, lowest power first."""
    series = np.polynomial.chebyshev.Chebyshev.interpolate(function, degree, [low, high])
    return tuple(_f4(value) for value in series.convert(kind=np.polynomial.Polynomial).coef)


_LOW = math.sqrt(0.5)
_SQRT_HALF_BITS = _i4(np.float32(_LOW).view(np.int32))
_l0, _l1, _l2, _l3, _l4, _l5, _l6, _l7 = _polynomial(
    lambda f: np.log1p(f) / (f * math.log(2)), _LOW - 1, 2 * _LOW - 1, 7
)
_e0, _e1, _e2, _e3, _e4, _e5 = _polynomial(np.exp2, -0.5, 0.5, 5)


def log2(x: np.floating) -> np.floating:
    """Return the logarithm of base 2 of a positive normal number."""
    return np.log2(x)


def exp2(x: np.floating) -> np.floating:
    """Return 2**x."""
    return np.exp2(x)


def _fast_log2(x):
    """Approximate log2 of a positive normal number. The relative error is small near 1, too."""
    bits = _f4(x).view(_i4)
    exponent = _i4(_i4(bits - _SQRT_HALF_BITS) >> _i4(23))
    f = _i4(bits - _i4(exponent << _i4(23))).view(_f4) - _f4(1)
    p = _l0 + f * (_l1 + f * (_l2 + f * (_l3 + f * (_l4 + f * (_l5 + f * (_l6 + f * _l7))))))
    return f * p + _f4(exponent)


def _fast_exp2(x):
    """Approximate exp2 of a number up to 127. The result is at least the smallest normal number."""
    clipped = _f4(-126) if x < _f4(-126) else x
    whole = np.floor(clipped + _f4(0.5))
    f = clipped - whole
    p = _e0 + f * (_e1 + f * (_e2 + f * (_e3 + f * (_e4 + f * _e5))))
    return _i4(_i4(_i4(whole) + _i4(127)) << _i4(23)).view(_f4) * p


def _library_log2(x):
    return np.log2(x)


def _library_exp2(x):
    return np.exp2(x)


@overload(log2, jit_options={"fastmath": FASTMATH, "error_model": ERROR_MODEL})
def _log2_by_precision(x):
    return _fast_log2 if x == types.float32 else _library_log2


@overload(exp2, jit_options={"fastmath": FASTMATH, "error_model": ERROR_MODEL})
def _exp2_by_precision(x):
    return _fast_exp2 if x == types.float32 else _library_exp2


@inlined
def softplus(x):
    """Return log(1 + exp(x)) without overflow."""
    return (x + abs(x)) / 2 + math.log1p(math.exp(-abs(x)))


@compiled
def softmax_weights(logits, weights):
    """Fill ``weights`` with exp(logits - max(logits)). Return the maximum and the sum of the weights."""
    real = logits.dtype.type
    inverse_ln2 = real(1 / math.log(2))
    largest = logits[0]
    for k in range(1, len(logits)):
        largest = max(largest, logits[k])
    total = real(0)
    for k in range(len(logits)):
        weight = exp2((logits[k] - largest) * inverse_ln2)
        weights[k] = weight
        total += weight
    return largest, total
