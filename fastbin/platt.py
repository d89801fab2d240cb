"""Platt scaling: a logistic curve through the scores, fitted to the optimum. It has no partition.

The fit is a function of the multiset of rows: every pass adds fixed-point integers, the Newton step is solved
in integers, and ``exp`` and ``log`` are plain arithmetic (see ``fastbin._kernels.logistic``).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _validate
from fastbin._parallel import available_threads, fresh_array, parallel_map, row_ranges
from fastbin._theorems import Method
from fastbin.guarantees import Guarantee
from fastbin.model import NanPolicy, _check_out

if TYPE_CHECKING:
    from fastbin._kernels.logistic import Targets

On = Literal["logit", "probability"]
SCALES: tuple[On, ...] = get_args(On)
Kernel = Callable[..., tuple[int, int]]

FORMAT = "fastbin platt scaler"
SCHEMA_VERSION = 1
FILE_FIELDS = ("on", "smooth_targets", "labels", "n_samples", "positives", "slope", "intercept")

SMALL_BATCH = 2048  # below this, NumPy is as fast as the kernel and needs no compiler
SMALL_FIT = 1 << 15  # handing a smaller job to another thread takes longer than the job
PART_ROWS = 1 << 19  # one task of a prediction
FIT_PART_ROWS = 1 << 17  # one task of a pass; small, so that a busy core holds nobody up
BLOCK_ROWS = 1 << 15  # rows checked and converted at a time: they stay in the cache

# Newton's method ends with a step that moves no row's log-odds by more than this: its error is the square.
CLOSE = 2.0**-22
SATURATED = 40.0  # beyond, a row weighs less than 2**-57
SUFFICIENT = 1e-4  # Armijo: this share of the decrease that the gradient promises
# Two losses are equal if they differ by less: a term's error is some 2**-51 of it.
LOSS_ROUNDING = 2.0**-48
MOST_STEPS = 200
UNIT = 2.0**-60  # the sums are integers, in these units
LEAST_SUM = 2.0**-62  # of labels

OTHER_SCALE = "Pass on='probability' for margins and the like: it uses the numbers as they are."

# As in fastbin._kernels.logistic.
ROUNDER = 1.5 * 2.0**52
LOG2_HIGH = 6.93147180369123816490e-01
LOG2_LOW = 1.90821492927058770002e-10
EXP_SERIES = (
    0.5000000000000001, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062,
    0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06,
    2.7620088445409746e-07, 2.510038549551032e-08,
)  # fmt: skip
LOG_SERIES = (
    6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
    1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01,
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PlattScaler:
    """A fitted logistic curve: ``1 / (1 + exp(-(slope * f(score) + intercept)))``.

    Made by :func:`fastbin.fit_platt` and :func:`fastbin.load`, not by hand.

    Attributes
    ----------
    slope, intercept : float
        Of the log-odds.
    on : {"logit", "probability"}
        What f is: the logit of the score clipped to [2**-53, 1 - 2**-53], or the score as it is.
    smooth_targets : bool
        Whether the labels were drawn in from 0 and 1 by Platt's rule.
    n_samples : int
        Calibration rows.
    positives : int or float
        Sum of their labels; a float if some label was a fraction.

    Examples
    --------
    >>> import fastbin as fb
    >>> scaler = fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1])
    >>> scaler
    PlattScaler(slope=1.097, intercept=0.1256, on='logit', n_samples=4)
    >>> scaler.predict([0.1, 0.5, 0.9]).round(3)
    array([0.092, 0.531, 0.927])
    """

    slope: float
    intercept: float
    on: On
    smooth_targets: bool
    n_samples: int
    positives: int | float

    @property
    def soft_labels(self) -> bool:
        """Whether some calibration label was a fraction."""
        return isinstance(self.positives, float)

    def predict(
        self,
        scores: ArrayLike,
        *,
        nan: NanPolicy = "raise",
        out: NDArray[Any] | None = None,
        threads: int | None = None,
    ) -> NDArray[Any]:
        """Calibrated probabilities of scores.

        Parameters
        ----------
        scores : array_like
            One-dimensional scores, on the scale of the calibration scores; under ``on="logit"`` in [0, 1].
        nan : {"raise", "propagate"}
            What to do with NaN scores.
        out : ndarray of float64 or float32, optional
            Where to write; its content is undefined after an error.
        threads : int, optional
            None means all cores of the process. The result does not depend on it, nor on how the rows are
            cut into calls.

        Returns
        -------
        ndarray
            float64 probabilities, or ``out``.

        Examples
        --------
        >>> import fastbin as fb
        >>> scaler = fb.fit_platt([-1.0, 2.0, 0.5, 3.0], [0, 1, 1, 0], on="probability")
        >>> scaler.predict([0.0, float("nan")], nan="propagate").round(3)
        array([0.469,   nan])
        """
        column = _validate.score_array(scores)
        _validate.choice(nan, "nan", ("raise", "propagate"))
        n_threads = _validate.thread_number(threads)
        if out is None:
            out = fresh_array(column.size, np.float64)
        else:
            _check_out(out, column.size)
            if np.may_share_memory(column, out):  # the error messages look at the scores again
                column = column.copy()
        fill = self._fill_small if column.size <= SMALL_BATCH else self._fill_large
        n_nan, n_outside = fill(column, out, n_threads)
        if n_nan and nan == "raise":
            raise _nan_error(column, "Drop those rows, or pass nan='propagate' to get NaN for them.")
        if n_outside:
            raise _outside_error(column, "Pass scores on the scale of the calibration scores.")
        return out

    def guarantee(
        self, alpha: float = 0.1, *, method: Method | None = None, candidates: int = 1
    ) -> Guarantee:
        """That there is none, and why: no theorem covers a curve of a fixed shape.

        Parameters
        ----------
        alpha : float
            Probability that a statement fails.
        method : str, optional
            As for :meth:`fastbin.Calibrator.guarantee`.
        candidates : int
            How many calibrators these labels chose among.

        Returns
        -------
        Guarantee
            ``holds`` is False, and every number is None.

        Examples
        --------
        >>> import fastbin as fb
        >>> guarantee = fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1]).guarantee()
        >>> guarantee.holds, guarantee.conditional
        (False, None)
        """
        level = _validate.probability(alpha, "alpha")
        _validate.at_least_one(candidates, "candidates")
        chosen = method or ("hoeffding" if self.soft_labels else "exact")
        _validate.choice(chosen, "method", get_args(Method))
        return Guarantee(
            level, self.n_samples, 0, chosen, None, None, None, None, False,
            "no theorem covers a parametric map, which is off by as much as the true curve is not logistic; "
            "fit_uniform_mass, on rows that were not used here, gives one, for these predictions too",
            (),
        )  # fmt: skip

    def summary(self) -> str:
        """The curve in words.

        Returns
        -------
        str

        Examples
        --------
        >>> import fastbin as fb
        >>> print(fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1]).summary())
        Platt scaling of the logit of the score, from 4 rows, 2 positive
        <BLANKLINE>
        log-odds = 1.0975 * logit(score) + 0.125564
        """
        of, variable = "the logit of the score", "logit(score)"
        if self.on == "probability":
            of, variable = "the score", "score"
        rows = "1 row" if self.n_samples == 1 else f"{self.n_samples:,} rows"
        labels = f"label sum {self.positives:.8g}" if self.soft_labels else f"{self.positives:,} positive"
        smoothed = ", smoothed targets" if self.smooth_targets else ""
        sign = "-" if self.intercept < 0 else "+"
        return (
            f"Platt scaling of {of}, from {rows}, {labels}{smoothed}\n\n"
            f"log-odds = {self.slope:.6g} * {variable} {sign} {abs(self.intercept):.6g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain Python data that holds every bit, for JSON.

        Returns
        -------
        dict

        Examples
        --------
        >>> import fastbin as fb
        >>> scaler = fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> fb.PlattScaler.from_dict(scaler.to_dict()) == scaler
        True
        """
        body = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "on": self.on,
            "smooth_targets": self.smooth_targets,
            "labels": "soft" if self.soft_labels else "binary",
            "n_samples": self.n_samples,
            "positives": self.positives,
            "slope": self.slope,
            "intercept": self.intercept,
        }
        return {**body, "sha256": _checksum(body)}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> PlattScaler:
        """The scaler that :meth:`to_dict` described; anything unsound is refused.

        Parameters
        ----------
        data : dict
            What ``to_dict`` returned, or a parsed model file.

        Returns
        -------
        PlattScaler

        Examples
        --------
        >>> import fastbin as fb
        >>> fb.PlattScaler.from_dict({"format": "something else"})
        Traceback (most recent call last):
        ...
        fastbin._modelfile.ModelFileError: not a fastbin Platt scaler: format is 'something else'...
        """
        _check_body(data)
        return _checked(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scaler to a JSON file that appears whole or not at all.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Examples
        --------
        >>> import fastbin as fb, json, pathlib, tempfile
        >>> scaler = fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "scaler.json"
        >>> scaler.save(path)
        >>> fb.PlattScaler.from_dict(json.loads(path.read_text())) == scaler
        True
        """
        from fastbin._modelfile import save_dict  # noqa: PLC0415 - what loads a model imports this module

        save_dict(self.to_dict(), path)

    def __eq__(self, other: object) -> bool:
        # The checksum is over the shortest text of each number, which tells all bits.
        return self.to_dict() == other.to_dict() if isinstance(other, PlattScaler) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, field.name) for field in fields(self)))

    def __repr__(self) -> str:
        return (
            f"PlattScaler(slope={self.slope:.4g}, intercept={self.intercept:.4g}, on={self.on!r}, "
            f"n_samples={self.n_samples})"
        )

    def __str__(self) -> str:
        return self.summary()

    def _fill_small(self, column: NDArray[Any], out: NDArray[Any], threads: int) -> tuple[int, int]:  # noqa: ARG002
        """By NumPy alone: a service that scores a few records never loads the compiler."""
        scores = _validate.score_block(column).astype(np.float64)
        is_nan, n_outside = scores != scores, 0
        with np.errstate(all="ignore"):
            if self.on == "logit":
                n_outside = int(np.count_nonzero((scores < 0.0) | (scores > 1.0)))
                x = _logit(scores)
            else:  # an infinite score is read as the largest number: 0 * infinity would be NaN
                x = np.clip(scores, -sys.float_info.max, sys.float_info.max)
            out[:] = np.where(is_nan, scores, _expit(self.slope * x + self.intercept))
        return int(np.count_nonzero(is_nan)), n_outside

    def _fill_large(self, column: NDArray[Any], out: NDArray[Any], threads: int) -> tuple[int, int]:
        from fastbin._kernels.logistic import predict_logits, predict_margins  # noqa: PLC0415 - the compiler

        kernel: Kernel = predict_logits if self.on == "logit" else predict_margins
        block_rows = PART_ROWS if _validate.is_score_block(column) else BLOCK_ROWS

        def one_part(part: tuple[int, int]) -> tuple[int, int]:
            n_nan, n_outside = 0, 0
            for start in range(*part, block_rows):
                stop = min(start + block_rows, part[1])
                block = _validate.score_block(column[start:stop])
                found = kernel(block, self.slope, self.intercept, out[start:stop])
                n_nan, n_outside = n_nan + found[0], n_outside + found[1]
            return n_nan, n_outside

        parts = row_ranges(column.size, threads, PART_ROWS)
        n_nan, n_outside = zip(*parallel_map(one_part, parts, threads), strict=True)
        return sum(n_nan), sum(n_outside)


def fit_platt(
    scores: ArrayLike, labels: ArrayLike, *, on: On = "logit", smooth_targets: bool = False
) -> PlattScaler:
    """Fit Platt scaling: unpenalised logistic regression of the labels on one column.

    Parameters
    ----------
    scores : array_like
        One-dimensional scores of held-out rows. Not NaN, and finite.
    labels : array_like
        0/1 labels of any dtype, or soft labels in [0, 1].
    on : {"logit", "probability"}
        "logit" takes probabilities in [0, 1], clips them to [2**-53, 1 - 2**-53] and regresses on their
        log-odds. "probability" uses the number as it is: probabilities, or margins of any size.
    smooth_targets : bool
        Platt's rule against over-confidence: with P positives and N negatives, a label 1 becomes
        (P + 1)/(P + 2) and a label 0 becomes 1/(N + 2). Then there is a finite optimum for any data.

    Returns
    -------
    PlattScaler

    Raises
    ------
    ValueError
        Without smoothing, if a threshold on the score separates the labels, or if there is one class only:
        then every steeper curve is better.

    Notes
    -----
    Newton's method with a backtracking line search, from the constant fit, until the steps are at rounding
    error. The result is a function of the multiset of (score, label): row order, threads and float32 against
    float64 change no bit of it. If all scores are equal, the slope is 0.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(10_000)
    >>> labels = rng.random(10_000) < scores**2
    >>> scaler = fb.fit_platt(scores, labels)
    >>> scaler.predict([0.2, 0.5, 0.8]).round(2)
    array([0.05, 0.23, 0.61])

    Separable labels need smoothing:

    >>> fb.fit_platt([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], smooth_targets=True).predict([0.5]).round(2)
    array([0.5])
    """
    score_column, label_column = _validate.scores_and_labels(scores, labels)
    _validate.choice(on, "on", SCALES)
    if not isinstance(smooth_targets, bool | np.bool_):
        raise TypeError(
            f"smooth_targets must be True or False; got {smooth_targets!r}. Pass smooth_targets=True."
        )
    rows = _checked_rows(score_column, label_column, on)
    if not smooth_targets:
        _check_overlap(rows)
    slope, intercept = _optimum(rows, _targets(rows, smooth=bool(smooth_targets)))
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ValueError(
            f"scores must spread over more than 1e-300; they range from {rows.low} to {rows.high}. "
            "Multiply them by a constant."
        )
    return PlattScaler(slope, intercept, on, bool(smooth_targets), score_column.size, rows.positives)


# --- the rows: checked, transformed, surveyed --------------------------------------------------------------


class _Rows(NamedTuple):
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


def _checked_rows(scores: NDArray[Any], labels: NDArray[Any], on: On) -> _Rows:
    """One pass over the scores and the labels, and one for the extremes."""
    from fastbin._kernels.logistic import extremes, logits, margins  # noqa: PLC0415 - loads the compiler

    n = scores.size
    threads = 1 if n <= SMALL_FIT else available_threads()
    parts = row_ranges(n, threads, FIT_PART_ROWS)
    as_it_is = on == "probability" and scores.dtype == np.float64 and _validate.is_score_block(scores)
    x = scores if as_it_is else fresh_array(n, np.float64)
    binary = fresh_array(n, np.uint8)
    transform: Kernel = logits if on == "logit" else margins

    def check(part: tuple[int, int]) -> tuple[int, int, bool]:
        n_nan, n_wrong, is_binary = 0, 0, True
        scratch = np.empty(BLOCK_ROWS if as_it_is else 0)
        for start in range(*part, BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, part[1])
            target = scratch[: stop - start] if as_it_is else x[start:stop]
            found = transform(_validate.score_block(scores[start:stop]), target)
            n_nan, n_wrong = n_nan + found[0], n_wrong + found[1]
            narrow = _validate.binary_block(labels[start:stop]) if is_binary else None
            is_binary = narrow is not None
            if narrow is not None:
                binary[start:stop] = narrow
        return n_nan, n_wrong, is_binary

    n_nan, n_wrong, are_binary = zip(*parallel_map(check, parts, threads), strict=True)
    if any(n_nan):
        raise _nan_error(scores, "Drop those rows from scores and labels alike.")
    if any(n_wrong):
        raise _outside_error(scores, OTHER_SCALE) if on == "logit" else _infinite_error(scores)
    y: NDArray[Any] = binary
    positives: int | float = int(np.count_nonzero(binary))
    negatives: int | float = n - positives
    if not all(are_binary):
        y, positives, negatives = _soft_labels(labels)

    x = _validate.score_block(x)  # read-only, whoever made it: one compiled version serves both

    def survey(part: tuple[int, int]) -> NDArray[np.float64]:
        ends = np.array([[np.inf, np.inf], [-np.inf, -np.inf]])
        extremes(x[slice(*part)], y[slice(*part)], ends[0], ends[1])
        return ends

    ends = np.stack(list(parallel_map(survey, parts, threads))) + 0.0  # -0.0 becomes 0.0
    return _Rows(x, y, positives, negatives, ends[:, 0].min(axis=0), ends[:, 1].max(axis=0), parts, threads)


def _soft_labels(labels: NDArray[Any]) -> tuple[NDArray[np.float64], float, float]:
    """Labels as float64, their sum and that of what they lack to 1: as integers, rounded once at the end."""
    from fastbin import _fixedpoint  # noqa: PLC0415 - loads the compiler

    outside = np.flatnonzero(~((labels >= 0) & (labels <= 1)))
    if outside.size:
        raise _validate.label_error(outside.size, int(outside[0]), labels[outside[0]].item())
    column, total = labels.astype(np.float64), 0
    for start in range(0, column.size, BLOCK_ROWS):
        high, low = _fixedpoint.total(_fixedpoint.words(column[start : start + BLOCK_ROWS]), soft=True)
        total += (int(high) << _fixedpoint.LOW_BITS) + int(low)
    one = 1 << _fixedpoint.FRACTION_BITS
    return column, total / one, (one * column.size - total) / one


def _check_overlap(rows: _Rows) -> None:
    """The optimum is finite if and only if no threshold parts the labels, not even with ties at it.

    Albert and Anderson (1984): else some curve through the threshold gets better the steeper it is. If all
    scores are equal, only the intercept is sought, and two classes are enough.
    """
    (low_0, low_1), (high_0, high_1) = rows.lowest.tolist(), rows.highest.tolist()
    if math.inf in (low_0, low_1):
        found = f"all {rows.x.size} labels are {0 if low_1 == math.inf else 1}"
    elif rows.low == rows.high or (low_1 < high_0 and low_0 < high_1):
        return
    else:
        side = "below" if low_1 >= high_0 else "above"
        found = f"no row of label 1 has a score {side} that of a row of label 0"
    raise ValueError(
        "labels must have both classes, and their scores must overlap, for logistic regression to have a "
        f"finite optimum; {found}. Pass smooth_targets=True."
    )


def _nan_error(scores: NDArray[Any], remedy: str) -> ValueError:
    rows = np.flatnonzero(scores != scores)
    return _validate.nan_error(rows.size, int(rows[0]), remedy)


def _outside_error(scores: NDArray[Any], remedy: str) -> ValueError:
    rows = np.flatnonzero((scores < 0) | (scores > 1))
    return ValueError(
        f"scores must lie in [0, 1] for on='logit'; found {rows.size} outside, first {scores[rows[0]]} "
        f"at row {rows[0]}. {remedy}"
    )


def _infinite_error(scores: NDArray[Any]) -> ValueError:
    rows = np.flatnonzero(np.isinf(scores))
    return ValueError(
        f"scores must be finite; found {rows.size} infinite, first {scores[rows[0]]} at row {rows[0]}. "
        "Clip them, or drop those rows from scores and labels alike."
    )


# --- Newton's method --------------------------------------------------------------------------------------


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


def _targets(rows: _Rows, *, smooth: bool) -> Targets:
    from fastbin._kernels.logistic import Targets  # noqa: PLC0415 - loads the compiler

    if not smooth:
        return Targets(1.0, 0.0, 0.0, 1.0)
    positives, negatives = float(rows.positives), float(rows.negatives)
    return Targets(
        (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0),
        1.0 / (positives + 2.0), (negatives + 1.0) / (negatives + 2.0),
    )  # fmt: skip


def _optimum(rows: _Rows, targets: Targets) -> tuple[float, float]:
    """Slope and intercept of the least log loss."""
    ones = rows.positives * targets.positive + rows.negatives * targets.negative
    zeros = rows.positives * targets.not_positive + rows.negatives * targets.not_negative
    constant = float(_log(np.array([max(ones, LEAST_SUM) / max(zeros, LEAST_SUM)]))[0])
    if rows.low == rows.high:
        return 0.0, constant
    unit = _power_of_two(-_exponent(max(-rows.low, rows.high)))
    low, high = rows.low * unit, rows.high * unit
    line = _newton(rows, targets, unit, _Line(0.0, 0.5 * low + 0.5 * high, constant), low, high)
    return line.slope * unit + 0.0, line.height - line.slope * line.centre + 0.0


def _newton(rows: _Rows, targets: Targets, unit: float, line: _Line, low: float, high: float) -> _Line:
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


def _sums(rows: _Rows, targets: Targets, unit: float, line: _Line, stretch: float) -> _Sums:
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


# --- the kernels' formulas once more, by NumPy: the same operations in the same order ----------------------


def _exp_of_negative(y: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.where(y > -708.0, y, -708.0)
    shifted = y * 1.4426950408889634 + ROUNDER
    k = shifted - ROUNDER
    r = (y - k * LOG2_HIGH) - k * LOG2_LOW
    series = np.full_like(r, EXP_SERIES[-1])
    for coefficient in EXP_SERIES[-2::-1]:
        series = coefficient + r * series
    power = (shifted.view(np.uint64) + np.uint64(1023)) << np.uint64(52)
    return np.asarray((1.0 + (r + (r * r) * series)) * power.view(np.float64))


def _log(x: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _logit(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    p = np.where(scores > 2.0**-53, scores, 2.0**-53)
    p = np.where(p < 1.0 - 2.0**-53, p, 1.0 - 2.0**-53)
    return _log(p / (1.0 - p))


def _expit(eta: NDArray[np.float64]) -> NDArray[np.float64]:
    u = _exp_of_negative(-np.abs(eta))
    return np.asarray(np.where(eta >= 0.0, 1.0, u) / (1.0 + u))


# --- model files ------------------------------------------------------------------------------------------


def _checksum(body: dict[str, Any]) -> str:
    """Over sorted keys, with every real number as a float: a tool may have written 0.0 as 0."""
    reals = ("slope", "intercept", *(("positives",) if body.get("labels") == "soft" else ()))

    def uniform(name: str, value: Any) -> Any:
        is_short = name in reals and type(value) is int and abs(value) <= sys.float_info.max
        return float(value) if is_short else value

    same = {name: uniform(name, value) for name, value in body.items()}
    canonical = json.dumps(same, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _check_body(data: Any) -> None:
    """Format, version, names and checksum of what claims to be a scaler."""
    from fastbin._modelfile import ModelFileError  # noqa: PLC0415 - it will import this module

    if not isinstance(data, dict):
        raise ModelFileError(
            f"not a fastbin Platt scaler: expected a JSON object, found {type(data).__name__}. "
            "Pass what to_dict() returned."
        )
    if data.get("format") != FORMAT:
        raise ModelFileError(
            f"not a fastbin Platt scaler: format is {data.get('format')!r}, expected {FORMAT!r}. "
            "Pass a file written by PlattScaler.save."
        )
    version = data.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ModelFileError(
            f"schema version {version!r} is not known to this fastbin, which reads {SCHEMA_VERSION}. "
            "Upgrade fastbin, or save the model again."
        )
    expected = {"format", "schema_version", "sha256", *FILE_FIELDS}
    if data.keys() != expected:
        missing, extra = sorted(expected - data.keys()), sorted(map(str, data.keys() - expected))
        raise ModelFileError(f"wrong fields: missing {missing}, unexpected {extra}. Restore the file.")
    try:
        checksum = _checksum({name: value for name, value in data.items() if name != "sha256"})
    except (ValueError, TypeError) as error:
        raise ModelFileError(f"the model has a value that JSON does not allow: {error}.") from None
    if data["sha256"] != checksum:
        raise ModelFileError(
            "the checksum does not match: the model was changed or damaged. Restore the file."
        )


def _checked(data: dict[str, Any]) -> PlattScaler:
    """Build the scaler; every field is checked before it is believed."""
    from fastbin._modelfile import ModelFileError  # noqa: PLC0415 - it will import this module

    def require(name: str, rule: str, *, holds: bool) -> None:
        if not holds:
            raise ModelFileError(f"{name} must be {rule}. Restore the file, or fit and save again.")

    def is_real(value: Any) -> bool:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max

    n, positives = data["n_samples"], data["positives"]
    require("on", "one of logit, probability", holds=data["on"] in SCALES)
    require("smooth_targets", "true or false", holds=type(data["smooth_targets"]) is bool)
    require("labels", "one of binary, soft", holds=data["labels"] in ("binary", "soft"))
    require("n_samples", "an integer of at least 1, below 2**63", holds=type(n) is int and 1 <= n < 2**63)
    for name in ("slope", "intercept"):
        require(name, "a finite number", holds=is_real(data[name]))
    soft = data["labels"] == "soft"
    counted = is_real(positives) if soft else type(positives) is int
    require("positives", "the sum of n_samples labels", holds=counted and 0 <= positives <= n)
    if not (soft or data["smooth_targets"]):
        require("positives", "some of the rows, not all, without smoothed targets", holds=0 < positives < n)
    return PlattScaler(
        float(data["slope"]), float(data["intercept"]), data["on"], data["smooth_targets"], n,
        float(positives) if soft else positives,
    )  # fmt: skip
