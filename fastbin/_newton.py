"""Newton's method for logistic regression on one column, with a backtracking line search.

Every pass adds fixed-point integers and the step is solved in integers, so the optimum is a function of the
multiset of rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastbin import _logisticcurve
from fastbin._parallel import parallel_map

if TYPE_CHECKING:
    from fastbin._kernels.logistic import Targets

# Newton's method ends with a step that moves no row's log-odds by more than this: its error is the square.
CLOSE = 2.0**-22
SATURATED = 40.0  # beyond, a row weighs less than 2**-57
SUFFICIENT = 1e-4  # Armijo: this share of the decrease that the gradient promises
# Two losses are equal if they differ by less: a term's error is some 2**-51 of it.
LOSS_ROUNDING = 2.0**-48
MOST_STEPS = 200
UNIT = 2.0**-60  # the sums are integers, in these units
LEAST_SUM = 2.0**-62  # of labels


class Rows(NamedTuple):
    """Calibration rows ready for the kernels, and what the whole of them says.

    ``labels`` are uint8, or float64 where some are fractions. ``positives`` and ``negatives`` are the sums of
    the labels and of what they lack to 1. ``lowest`` and ``highest`` are the extremes of x over the rows that
    are negative, at least in part, and over those that are positive; infinite where there are none.
    """

    x: NDArray[np.float64]
    labels: NDArray[Any]
    positives: int | float
    negatives: int | float
    lowest: NDArray[np.float64]
    highest: NDArray[np.float64]
    parts: list[tuple[int, int]]
    threads: int

    @property
    def low(self) -> float:
        return float(self.lowest.min())

    @property
    def high(self) -> float:
        return float(self.highest.max())


class _Line(NamedTuple):
    """Log-odds ``height + slope * (z - centre)``; z is x times the power of two that brings it to +-1."""

    slope: float
    centre: float
    height: float


class _Sums(NamedTuple):
    """The loss at a line, its gradient and its Hessian, in (height, tilt) for v = (z - centre) * stretch.

    Integers, in units of 2**-60.
    """

    loss: int
    by_height: int
    by_tilt: int
    weight: int
    weight_v: int
    weight_vv: int
    stretch: float


class _Step(NamedTuple):
    """A Newton step: the change of a line, where the weights are centred, and the promised decrease."""

    slope: float
    height: float
    centre: float
    decrease: float


def _targets(rows: Rows, *, smooth: bool) -> Targets:
    from fastbin._kernels.logistic import Targets  # noqa: PLC0415 - loads the compiler

    if not smooth:
        return Targets(1.0, 0.0, 0.0, 1.0)
    positives, negatives = float(rows.positives), float(rows.negatives)
    return Targets(
        (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0),
        1.0 / (positives + 2.0), (negatives + 1.0) / (negatives + 2.0),
    )  # fmt: skip


def optimum(rows: Rows, *, smooth: bool) -> tuple[float, float]:
    """Slope and intercept of the least log loss; ``smooth`` draws the labels in by Platt's rule."""
    targets = _targets(rows, smooth=smooth)
    ones = rows.positives * targets.positive + rows.negatives * targets.negative
    zeros = rows.positives * targets.not_positive + rows.negatives * targets.not_negative
    constant = float(_logisticcurve.log(np.array([max(ones, LEAST_SUM) / max(zeros, LEAST_SUM)]))[0])
    if rows.low == rows.high:
        return 0.0, constant
    unit = _power_of_two(-_exponent(max(-rows.low, rows.high)))
    low, high = rows.low * unit, rows.high * unit
    line = _newton(rows, targets, unit, _Line(0.0, 0.5 * low + 0.5 * high, constant), low, high)
    return line.slope * unit + 0.0, line.height - line.slope * line.centre + 0.0


def _newton(rows: Rows, targets: Targets, unit: float, line: _Line, low: float, high: float) -> _Line:
    """Full steps where they lower the loss enough, shorter ones elsewhere."""
    widest = _power_of_two(-_exponent(0.5 * (high - low)))
    noise = rows.x.size * UNIT

    def sums_at(line: _Line) -> _Sums:
        # In units of the range while the slope is small, of the log-odds where it is steep: so a few rows far
        # out take no digits from the others.
        stretch = max(widest, _power_of_two(_exponent(line.slope)))
        return _sums(rows, targets, unit, line, stretch)

    sums = sums_at(line)
    for _ in range(MOST_STEPS):
        step = _newton_step(sums, line, rows.x.size)
        reach = _reach(line, step, low, high)
        if reach <= CLOSE or step.decrease <= 2.0 * noise:
            return _moved(line, step, 1.0)
        required = SUFFICIENT * step.decrease
        tolerance = LOSS_ROUNDING * (sums.loss * UNIT) + noise
        size = 1.0
        trial = _moved(line, step, size)
        while (sums.loss - (there := sums_at(trial)).loss) * UNIT < size * required - tolerance:
            # Log-odds may move by about log(1 + reach) where a full step moves them by reach: then the loss
            # must fall, for its curvature changes no faster than by that (Sun and Tran-Dinh 2019, nu = 2).
            size = min(0.5 * size, max(1, _exponent(reach)) / reach)
            trial = _moved(line, step, size)
        line, sums = trial, there
    raise RuntimeError(
        f"the fit must settle within {MOST_STEPS} Newton steps, and did not; its slope is now "
        f"{line.slope * unit}. Pass smooth_targets=True, or report these data."
    )


def _sums(rows: Rows, targets: Targets, unit: float, line: _Line, stretch: float) -> _Sums:
    """One pass over the rows."""
    from fastbin._kernels.logistic import (  # noqa: PLC0415 - loads the compiler
        LOW_LIMB,
        MIDDLE_LIMB,
        N_LIMBS,
        N_SUMS,
        Line,
        newton_sums,
    )

    at = Line(unit, line.centre, stretch, line.slope / stretch, line.height)

    def one_part(part: tuple[int, int]) -> NDArray[np.int64]:
        totals = np.zeros((N_SUMS, N_LIMBS), np.int64)
        newton_sums(rows.x[slice(*part)], rows.labels[slice(*part)], at, targets, totals)
        return totals

    sums = [0] * N_SUMS
    for totals in parallel_map(one_part, rows.parts, rows.threads):
        for i, (high, middle, low) in enumerate(totals.tolist()):
            sums[i] += (((high << MIDDLE_LIMB) + middle) << LOW_LIMB) + low
    return _Sums._make([*sums, stretch])


def _newton_step(sums: _Sums, line: _Line, n: int) -> _Step:
    """The solution of two linear equations, in integers and rounded once."""
    # n + 1 units are what rounding can take from a sum: with them the matrix is positive definite.
    weight, cross, weight_vv = sums.weight + n + 1, sums.weight_v, sums.weight_vv + n + 1
    determinant = weight * weight_vv - cross * cross
    if determinant <= 0:  # a term was cut off at 2**40
        cross, determinant = 0, weight * weight_vv
    tilt = (cross * sums.by_height - weight * sums.by_tilt) / determinant
    height = (cross * sums.by_tilt - weight_vv * sums.by_height) / determinant
    decrease = -(sums.by_tilt * tilt + sums.by_height * height) * UNIT
    return _Step(tilt * sums.stretch, height, line.centre + cross / weight / sums.stretch, decrease)


def _moved(line: _Line, step: _Step, size: float) -> _Line:
    """The line after a step, written down at the centre of the weights before it."""
    slope, height = line.slope + size * step.slope, line.height + size * step.height
    return _Line(slope, step.centre, height + slope * (step.centre - line.centre))


def _reach(line: _Line, step: _Step, low: float, high: float) -> float:
    """The largest change of log-odds by a full step, over the scores that are not saturated."""
    if line.slope != 0.0:
        ends = sorted(line.centre + (end - line.height) / line.slope for end in (-SATURATED, SATURATED))
        inside = max(low, ends[0]), min(high, ends[1])
        low, high = inside if inside[0] <= inside[1] else (low, high)
    return max(abs(step.height + step.slope * (end - line.centre)) for end in (low, high))


def _exponent(number: float) -> int:
    """The least e with |number| < 2**e, kept to where 2**e and 2**-e are normal numbers."""
    return min(max(math.frexp(number)[1], -1021), 1021)


def _power_of_two(exponent: int) -> float:
    return math.ldexp(1.0, exponent)
