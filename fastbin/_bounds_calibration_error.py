"""The l_1 and l_2 calibration errors of uniform-mass binning, elementwise in n and n_bins.

Nothing here validates its arguments; `fastbin.bounds` does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betainccinv, gammaln

from fastbin._bounds_arguments import FloatArray, IntArray


def mean_absolute(n: IntArray, n_bins: IntArray) -> FloatArray:
    """Theorem ECE-1, D1: the largest mean absolute deviation, averaged over the bin of a new point."""
    return _mean_over_bins(max_mean_deviation, n, n_bins)


def root_mean_square(n: IntArray, n_bins: IntArray) -> FloatArray:
    """Theorem ECE-2, the root of C2: the largest variance of a mean, averaged over the bin of a new point."""
    return np.asarray(np.sqrt(_mean_over_bins(lambda size: 1 / (4 * size), n, n_bins)))


def _mean_over_bins(error: Callable[[IntArray], FloatArray], n: IntArray, n_bins: IntArray) -> FloatArray:
    """Mean of ``error`` of the size of the bin of a new point, which prefers the larger bins."""
    smaller, n_larger = (n + 1) // n_bins - 1, (n + 1) % n_bins
    larger_share = n_larger * (smaller + 2) / (n + 1)
    return (1 - larger_share) * error(smaller) + larger_share * error(smaller + 1)


def upper_bound(n: IntArray, n_bins: IntArray, alpha: FloatArray) -> FloatArray:
    """Theorem ECE-HP: the largest expected error given the cuts, and McDiarmid's term."""
    smaller = (n + 1) // n_bins - 1
    largest = -(-(n + 1) // n_bins) - 1
    expected = np.maximum(max_mean_deviation(smaller), max_mean_deviation(largest))
    # One bin has mass 1. (Beta(n + 1, 0) would say so, but scipy answers NaN, as it does for some n above
    # 1e16; a mass of 1 is a bound there too.)
    others = np.maximum(n - largest, 1)
    heaviest = np.where(n_bins == 1, 1.0, betainccinv(largest + 1, others, alpha / (2 * n_bins)))
    heaviest = np.where(np.isnan(heaviest), 1.0, heaviest)
    return np.asarray(expected + np.sqrt(heaviest * np.log(2 / alpha) / (2 * smaller)))


def max_mean_deviation(m: IntArray) -> FloatArray:
    """Sup over p of E|X/m - p|, by De Moivre's formula at its maximum nu = floor((m+1)/2), p = nu/(m+1)."""
    size = np.asarray(m, dtype=np.float64)
    nu = np.floor((size + 1) / 2)
    rest = size - nu
    # P(X = nu) at that p in Loader's saddle-point form: no terms of order m log m, so nothing cancels.
    deviance = size * np.log1p(1 / size) - rest * np.log1p(1 / np.maximum(rest, 1))
    log_factorials = _stirling_error(size) - _stirling_error(nu) - _stirling_error(rest)
    spread = np.where(rest > 0, 2 * np.pi * nu * rest / size, 1.0)
    probability = np.exp(log_factorials - deviance) / np.sqrt(spread)
    return np.asarray(2 * nu / size * probability * (rest + 1) / (size + 1), dtype=np.float64)


def _stirling_error(x: FloatArray) -> FloatArray:
    """log(x!) less Stirling's main term; 0 at x = 0."""
    large = np.maximum(x, 16.0)
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / large**2) / large**2) / large**2) / large
    small = np.clip(x, 1.0, 16.0)
    direct = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(x == 0, 0.0, np.where(x < 16, direct, series)), dtype=np.float64)
