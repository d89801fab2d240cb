"""The logistic curve by NumPy alone: a service that scores a few records never loads the compiler.

The same operations in the same order as ``fastbin._kernels.logistic``, so the same bits (tests hold them
together): libraries of mathematical functions differ in the last bit, even between the kernels of one NumPy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# As in fastbin._kernels.logistic.
ROUNDER = 1.5 * 2.0**52
LOG2_E = 1.4426950408889634
LOG2_HIGH = 6.93147180369123816490e-01
LOG2_LOW = 1.90821492927058770002e-10
LOWEST_EXPONENT = -708.0
EXP_SERIES = (
    0.5000000000000001, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062,
    0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06,
    2.7620088445409746e-07, 2.510038549551032e-08,
)  # fmt: skip
LOG_SERIES = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip


def _exp_of_negative(y: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.where(y > LOWEST_EXPONENT, y, LOWEST_EXPONENT)
    shifted = y * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (y - k * LOG2_HIGH) - k * LOG2_LOW
    series = np.full_like(r, EXP_SERIES[-1])
    for coefficient in EXP_SERIES[-2::-1]:
        series = coefficient + r * series
    power = (shifted.view(np.uint64) + np.uint64(1023)) << np.uint64(52)
    return np.asarray((1.0 + (r + (r * r) * series)) * power.view(np.float64))


def log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of positive normal numbers."""
    bits = x.view(np.uint64)
    biased = (bits + np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)) >> np.uint64(52)
    f = (bits - ((biased - np.uint64(1023)) << np.uint64(52))).view(np.float64) - 1.0
    k = (biased | np.uint64(0x4330000000000000)).view(np.float64) - (2.0**52 + 1023.0)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    l_1, l_2, l_3, l_4, l_5, l_6, l_7 = LOG_SERIES
    odd = w * (l_2 + w * (l_4 + w * l_6))
    even = z * (l_1 + w * (l_3 + w * (l_5 + w * l_7)))
    half_square = (0.5 * f) * f
    rest = (half_square - (s * (half_square + (odd + even)) + k * LOG2_LOW)) - f
    return np.asarray(k * LOG2_HIGH - rest)


def logit(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of probabilities, clipped to [2**-53, 1 - 2**-53]."""
    p = np.where(scores > 2.0**-53, scores, 2.0**-53)
    p = np.where(p < 1.0 - 2.0**-53, p, 1.0 - 2.0**-53)
    return log(p / (1.0 - p))


def expit(eta: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-eta))."""
    u = _exp_of_negative(-np.abs(eta))
    return np.asarray(np.where(eta >= 0.0, 1.0, u) / (1.0 + u))
