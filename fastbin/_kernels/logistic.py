"""Logistic regression on one column: the transform of the scores, the sums of a Newton step, the prediction.

``exp`` and ``log`` are written out in plain arithmetic. So they are vectorised, and they have the same bits
on every machine and in ``fastbin.platt``, which has them once more for small batches, by NumPy alone:
libraries of mathematical functions differ in the last bit, even between the kernels of one NumPy. Nothing
here is fused (numba contracts no ``a * b + c``), so every operation is rounded as IEEE 754 says.

Each row's terms are cut to fixed-point numbers before they are added, so a sum does not depend on the order
of the rows. No conversion to integers is needed for that: after adding 1.5 * 2**(52 - bits), the bits of a
float *are* the integer nearest to term * 2**bits, but for a constant. That takes six operations a term, on
vectors of any machine (a conversion of float64 to int64 would need AVX-512).
"""

from typing import NamedTuple

import numpy as np

from fastbin._jit import jit

# log(x) = k * log(2) + log(m): the high part of log(2) has so few bits that k times it is exact.
LOG2_E = 1.4426950408889634
LOG2_HIGH = 6.93147180369123816490e-01
LOG2_LOW = 1.90821492927058770002e-10
ROUNDER = 1.5 * 2.0**52  # x + ROUNDER - ROUNDER is the integer nearest to x
LOWEST_EXPONENT = -708.0  # exp of it is a normal number, and nothing beside any term
EXPONENT_BIAS = np.uint64(1023)
MANTISSA_BITS = np.uint64(52)
TO_HALF_ROOT = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # from the bits of sqrt(1/2) to those of 1
INTEGER_BITS = np.uint64(0x4330000000000000)  # 2**52 + k has these bits and those of k
BIASED_INTEGER = 2.0**52 + 1023.0

# exp(r) = 1 + r + r**2 * (E0 + E1 * r + ...) for |r| <= log(2)/2 to 2e-17: Chebyshev interpolation.
E0 = 0.5000000000000001
E1 = 0.16666666666666669
E2 = 0.04166666666662413
E3 = 0.008333333333330062
E4 = 0.0013888888917213717
E5 = 0.00019841269863053618
E6 = 2.4801521295954376e-05
E7 = 2.7557268459997064e-06
E8 = 2.7620088445409746e-07
E9 = 2.510038549551032e-08

# log((1 + s) / (1 - s)) = 2 s (1 + s**2 * (A0 + A1 * s**2 + ...)) for 0 <= s <= 1/3 to 2e-16, likewise.
A0 = 0.33333333333333487
A1 = 0.19999999999780063
A2 = 0.14285714338330496
A3 = 0.11111106278964857
A4 = 0.09091130554209872
A5 = 0.07686637438179002
A6 = 0.0675117123587855
A7 = 0.05161334635249541
A8 = 0.08435350330548605

# log(m) as in the C library of FreeBSD (e_log.c, error below 1 ulp).
L1 = 6.666666666666735130e-01
L2 = 3.999999999940941908e-01
L3 = 2.857142874366239149e-01
L4 = 2.222219843214978396e-01
L5 = 1.818357216161805012e-01
L6 = 1.531383769920937332e-01
L7 = 1.479819860511658591e-01

LEAST_LABEL = 2.0**-62  # what is below counts as 0 in sums of soft labels
LEAST_PROBABILITY = 2.0**-53
MOST_PROBABILITY = 1.0 - 2.0**-53
LARGEST = np.finfo(np.float64).max

# A term is high * 2**-10 + low * 2**-60: |term| < 2**41, and 2048 rows of either fit an int64.
HIGH_ROUNDER = 1.5 * 2.0**42
LOW_ROUNDER = 1.5 * 2.0**-8
HIGH_BITS = np.float64(HIGH_ROUNDER).view(np.uint64)
LOW_BITS = np.float64(LOW_ROUNDER).view(np.uint64)
FRACTION_BITS = 60
LOW_LIMB = 50
MIDDLE_LIMB = 32
LOW_MASK = (1 << LOW_LIMB) - 1
MIDDLE_MASK = (1 << MIDDLE_LIMB) - 1
MOST = 2.0**40
TILE = 2048

N_SUMS = 6
N_LIMBS = 3


class Line(NamedTuple):
    """Where the sums are taken: at eta = tilt * v + height, with v = (x * unit - centre) * stretch."""

    unit: float
    centre: float
    stretch: float
    tilt: float
    height: float


class Targets(NamedTuple):
    """What labels 1 and 0 stand for, and how far that is from 1 (given apart, for a target close to 1)."""

    positive: float
    negative: float
    not_positive: float
    not_negative: float


@jit
def exp_of_negative(y):
    """exp(y) for y <= 0; exp(-708) below. NaN: a number without meaning."""
    y = y if y > LOWEST_EXPONENT else LOWEST_EXPONENT  # noqa: FURB136 - max() may keep a NaN
    shifted = y * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (y - k * LOG2_HIGH) - k * LOG2_LOW
    tail = E4 + r * (E5 + r * (E6 + r * (E7 + r * (E8 + r * E9))))
    series = 1.0 + (r + (r * r) * (E0 + r * (E1 + r * (E2 + r * (E3 + r * tail)))))
    # The low bits of ``shifted`` are k; the rest leaves on the left.
    power = (np.float64(shifted).view(np.uint64) + EXPONENT_BIAS) << MANTISSA_BITS
    return series * np.uint64(power).view(np.float64)


@jit
def log_of_normal(x):
    """log(x) for a positive normal number."""
    # x = 2**k * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
    bits = np.float64(x).view(np.uint64)
    biased = (bits + TO_HALF_ROOT) >> MANTISSA_BITS
    f = np.uint64(bits - ((biased - EXPONENT_BIAS) << MANTISSA_BITS)).view(np.float64) - 1.0
    k = np.uint64(biased | INTEGER_BITS).view(np.float64) - BIASED_INTEGER
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = w * (L2 + w * (L4 + w * L6))
    even = z * (L1 + w * (L3 + w * (L5 + w * L7)))
    half_square = (0.5 * f) * f
    return k * LOG2_HIGH - ((half_square - (s * (half_square + (odd + even)) + k * LOG2_LOW)) - f)


@jit
def logit(probability):
    """log(p / (1 - p)) of p clipped to [2**-53, 1 - 2**-53]; NaN: a number without meaning."""
    p = probability if probability > LEAST_PROBABILITY else LEAST_PROBABILITY  # noqa: FURB136
    p = p if p < MOST_PROBABILITY else MOST_PROBABILITY  # noqa: FURB136
    return log_of_normal(p / (1.0 - p))


@jit
def expit(eta):
    """1 / (1 + exp(-eta))."""
    u = exp_of_negative(-abs(eta))
    return (1.0 if eta >= 0.0 else u) / (1.0 + u)


@jit
def logits(scores, out):
    """out[i] = logit of score i. Returns how many are NaN, and how many others are outside [0, 1]. O(n)."""
    n_nan, n_outside = 0, 0
    for i in range(scores.size):
        score = np.float64(scores[i])
        n_nan += score != score
        n_outside += (score < 0.0) | (score > 1.0)
        out[i] = logit(score)
    return n_nan, n_outside


@jit
def margins(scores, out):
    """out[i] = score i, widened. Returns how many are NaN, and how many others are infinite. O(n)."""
    n_nan, n_infinite = 0, 0
    for i in range(scores.size):
        score = np.float64(scores[i])
        n_nan += score != score
        n_infinite += abs(score) > LARGEST
        out[i] = score
    return n_nan, n_infinite


@jit
def predict_logits(scores, slope, intercept, out):
    """out[i] = expit(slope * logit(score i) + intercept), NaN for NaN. Returns as ``logits``. O(n)."""
    n_nan, n_outside = 0, 0
    for i in range(scores.size):
        score = np.float64(scores[i])
        n_nan += score != score
        n_outside += (score < 0.0) | (score > 1.0)
        value = expit(slope * logit(score) + intercept)
        out[i] = score if score != score else value
    return n_nan, n_outside


@jit
def predict_margins(scores, slope, intercept, out):
    """out[i] = expit(slope * score i + intercept), NaN for NaN. Returns how many are NaN, and 0. O(n)."""
    n_nan = 0
    for i in range(scores.size):
        score = np.float64(scores[i])
        n_nan += score != score
        # An infinite score is read as the largest number: 0 * infinity would be NaN.
        finite = min(max(score, -LARGEST), LARGEST)
        value = expit(slope * finite + intercept)
        out[i] = score if score != score else value
    return n_nan, 0


@jit
def extremes(x, labels, lowest, highest):
    """Smallest and largest x of rows that are negative, in part at least (entry 0), or positive (1). O(n)."""
    low_0, low_1, high_0, high_1 = lowest[0], lowest[1], highest[0], highest[1]
    for i in range(x.size):
        value, label = x[i], labels[i]
        low_0 = value if (label < 1) & (value < low_0) else low_0
        low_1 = value if (label >= LEAST_LABEL) & (value < low_1) else low_1
        high_0 = value if (label < 1) & (value > high_0) else high_0
        high_1 = value if (label >= LEAST_LABEL) & (value > high_1) else high_1
    lowest[0], lowest[1], highest[0], highest[1] = low_0, low_1, high_0, high_1


@jit
def high_part(term):
    """The float whose bits count the 2**-10 in a term."""
    return term + HIGH_ROUNDER


@jit
def low_part(term, high):
    """The float whose bits count the 2**-60 in what ``high`` leaves; both differences are exact."""
    return (term - (high - HIGH_ROUNDER)) + LOW_ROUNDER


@jit
def bits_of(number):
    """The bits of a float64."""
    return np.float64(number).view(np.uint64)


@jit
def add_limbs(high, low, n, limbs):
    """Add a tile's sums (of bits, modulo 2**64) to the three limbs of a total."""
    low_sum = np.uint64(low - np.uint64(n) * LOW_BITS).view(np.int64)
    high_sum = np.uint64(high - np.uint64(n) * HIGH_BITS).view(np.int64) + (low_sum >> LOW_LIMB)
    limbs[0] += high_sum >> MIDDLE_LIMB
    limbs[1] += high_sum & MIDDLE_MASK
    limbs[2] += low_sum & LOW_MASK


@jit
def newton_sums(x, labels, line, targets, totals):
    """Add to the (6, 3) ``totals`` the log loss, its gradient and its Hessian in (height, tilt). O(n).

    The sums are those of loss, r, r * v, w, w * v, w * v**2 with r = p - target and w = p * (1 - p). At most
    2**24 rows may be added to one ``totals``. 60 fractional bits; a term beyond 2**40 counts as 2**40.
    """
    unit, centre, stretch, tilt, height = line.unit, line.centre, line.stretch, line.tilt, line.height
    for first in range(0, x.size, TILE):
        tile, tile_labels = x[first : first + TILE], labels[first : first + TILE]
        loss_high, loss_low = np.uint64(0), np.uint64(0)
        r_high, r_low = np.uint64(0), np.uint64(0)
        rv_high, rv_low = np.uint64(0), np.uint64(0)
        w_high, w_low = np.uint64(0), np.uint64(0)
        wv_high, wv_low = np.uint64(0), np.uint64(0)
        wvv_high, wvv_low = np.uint64(0), np.uint64(0)
        for i in range(tile.size):
            v = (tile[i] * unit - centre) * stretch
            v = min(max(v, -MOST), MOST)
            eta = tilt * v + height
            above = eta > 0.0
            y = np.float64(tile_labels[i])
            # The target's mass on the other side of eta: all differences below are of small numbers.
            if_positive = targets.not_positive if above else targets.positive
            if_negative = targets.not_negative if above else targets.negative
            opposite = y * if_positive + (1.0 - y) * if_negative
            distance = abs(eta)
            u = exp_of_negative(-distance)
            minor = u / (1.0 + u)
            s = u / (2.0 + u)
            z = s * s
            tail = A3 + z * (A4 + z * (A5 + z * (A6 + z * (A7 + z * A8))))
            log_1p = 2.0 * (s + (s * z) * (A0 + z * (A1 + z * (A2 + z * tail))))
            loss = log_1p + distance * opposite
            excess = opposite - minor
            r = excess if above else -excess
            w = minor * (1.0 - minor)
            rv = r * v
            wv = w * v
            wvv = min(wv * v, MOST)

            high = high_part(loss)
            loss_high += bits_of(high)
            loss_low += bits_of(low_part(loss, high))
            high = high_part(r)
            r_high += bits_of(high)
            r_low += bits_of(low_part(r, high))
            high = high_part(rv)
            rv_high += bits_of(high)
            rv_low += bits_of(low_part(rv, high))
            high = high_part(w)
            w_high += bits_of(high)
            w_low += bits_of(low_part(w, high))
            high = high_part(wv)
            wv_high += bits_of(high)
            wv_low += bits_of(low_part(wv, high))
            high = high_part(wvv)
            wvv_high += bits_of(high)
            wvv_low += bits_of(low_part(wvv, high))
        add_limbs(loss_high, loss_low, tile.size, totals[0])
        add_limbs(r_high, r_low, tile.size, totals[1])
        add_limbs(rv_high, rv_low, tile.size, totals[2])
        add_limbs(w_high, w_low, tile.size, totals[3])
        add_limbs(wv_high, wv_low, tile.size, totals[4])
        add_limbs(wvv_high, wvv_low, tile.size, totals[5])
