"""How well simple distributions describe columns: fitted to one half of some rows, scored on the other.

All functions take rows of shape (n, D), with NaN for missing values, and score D columns at once.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_ndtr

# More rows than these change no choice that matters.
MOST_ROWS, MOST_VALUES, FEWEST_ROWS = 4000, 2**21, 400
# Of the standard deviation, the least scale of a fit: values that repeat would otherwise have an infinite density.
LEAST_SCALE = 1e-2
DEGREES_OF_FREEDOM = (1.5, 3.0, 8.0)
ITERATIONS = 15


class Halves(NamedTuple):
    """Rows to fit and rows to score."""

    fit: np.ndarray
    score: np.ndarray


def halves(sample: np.ndarray) -> Halves:
    """Split rows at random, always in the same way."""
    n_rows = min(MOST_ROWS, max(FEWEST_ROWS, MOST_VALUES // sample.shape[1]))
    order = np.random.default_rng(1).permutation(len(sample))[:n_rows]
    rows = np.asarray(sample[order], np.float64)
    return Halves(rows[: len(rows) // 2], rows[len(rows) // 2 :])


def score_normal(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Score the densities of normal distributions."""
    mean, deviation = _moments(fit, score)
    return _mean(-0.5 * ((score - mean) / deviation) ** 2 - np.log(deviation) - 0.5 * np.log(2 * np.pi))


def score_student_t(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Score the densities of Student's t distributions, with the best of a few degrees of freedom."""
    best, found = np.full(fit.shape[1], -np.inf), np.full(fit.shape[1], -np.inf)
    for degrees in DEGREES_OF_FREEDOM:
        location, scale = _fit_student_t(fit, score, degrees)
        own = _mean(_student_t(fit, location, scale, degrees))
        found = np.where(own > best, _mean(_student_t(score, location, scale, degrees)), found)
        best = np.maximum(best, own)
    return found


def score_whole_normal(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Score normal distributions rounded to whole numbers: probabilities, comparable with those of counts."""
    mean, deviation = _moments(fit, score)
    distance = np.abs(score - mean)  # the tail further away is the accurate one
    upper, lower = log_ndtr(-(distance - 0.5) / deviation), log_ndtr(-(distance + 0.5) / deviation)
    with np.errstate(divide="ignore"):
        return _mean(np.maximum(upper + np.log(-np.expm1(np.minimum(lower - upper, -1e-300))), -1e4))


def score_poisson(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Score Poisson distributions."""
    mean = _rate(fit)
    return _mean(score * np.log(mean) - mean - gammaln(score + 1))


def score_negative_binomial(fit: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Score negative binomial distributions, whose size is the best of three near the estimate of the moments."""
    mean = _rate(fit)
    excess = np.nanvar(fit, axis=0) - mean
    moments = np.where(excess > 0, mean**2 / np.maximum(excess, 1e-12), 1e5).clip(1e-3, 1e5)
    best, found = np.full(fit.shape[1], -np.inf), np.full(fit.shape[1], -np.inf)
    for factor in (0.5, 1.0, 2.0):
        own = _mean(_negative_binomial(fit, mean, factor * moments))
        found = np.where(own > best, _mean(_negative_binomial(score, mean, factor * moments)), found)
        best = np.maximum(best, own)
    return found


def _negative_binomial(x: np.ndarray, mean: np.ndarray, size: np.ndarray) -> np.ndarray:
    coefficient = gammaln(x + size) - gammaln(size) - gammaln(x + 1)
    return coefficient - x * np.log1p(size / mean) - size * np.log1p(mean / size)


def _fit_student_t(fit: np.ndarray, score: np.ndarray, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Return location and scale by expectation maximisation."""
    _, deviation = _moments(fit, score)
    location, variance = np.nanmedian(fit, axis=0), deviation**2
    for _ in range(ITERATIONS):
        square = (fit - location) ** 2
        weight = (degrees + 1) / (degrees + square / variance)
        location = np.nansum(weight * fit, axis=0) / np.nansum(weight, axis=0)
        variance = np.maximum(_mean(weight * square), (LEAST_SCALE * deviation) ** 2)
    return location, np.sqrt(variance)


def _student_t(x: np.ndarray, location: np.ndarray, scale: np.ndarray, degrees: float) -> np.ndarray:
    half = 0.5 * (degrees + 1)
    log_normaliser = gammaln(half) - gammaln(0.5 * degrees) - 0.5 * np.log(degrees * np.pi) - np.log(scale)
    return log_normaliser - half * np.log1p(((x - location) / scale) ** 2 / degrees)


def _moments(fit: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and deviations, the latter positive: a column may vary among the rows to score only."""
    both = np.nanstd(np.concatenate([fit, score]), axis=0)
    deviation = np.maximum(np.nanstd(fit, axis=0), LEAST_SCALE * np.where(both > 0, both, 1.0))
    return np.nanmean(fit, axis=0), deviation


def _rate(fit: np.ndarray) -> np.ndarray:
    """Return means, shrunk as by one more row with half a count, since a rate of 0 forbids all counts."""
    n = (~np.isnan(fit)).sum(axis=0)
    return (np.nansum(fit, axis=0) + 0.5) / (n + 1)


def _mean(values: np.ndarray) -> np.ndarray:
    return np.nanmean(values, axis=0)
