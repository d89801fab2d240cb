"""Platt scaling: a logistic curve through the scores, fitted to the optimum. It has no partition.

The fit is a function of the multiset of rows: every pass adds fixed-point integers, the Newton step is solved
in integers, and ``exp`` and ``log`` are plain arithmetic (see ``fastbin._kernels.logistic``).
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _logisticcurve, _newton, _validate
from fastbin._parallel import fresh_array, parallel_map, row_ranges
from fastbin._plattrows import BLOCK_ROWS, Kernel, On, check_overlap, checked_rows, nan_error, outside_error
from fastbin._theorems import Method
from fastbin.guarantees import Guarantee
from fastbin.model import NanPolicy, _check_out

SCALES: tuple[On, ...] = get_args(On)

SMALL_BATCH = 2048  # below this, NumPy is as fast as the kernel and needs no compiler
PART_ROWS = 1 << 19  # one task of a prediction


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
            raise nan_error(column, "Drop those rows, or pass nan='propagate' to get NaN for them.")
        if n_outside:
            raise outside_error(column, "Pass scores on the scale of the calibration scores.")
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
        from fastbin._plattfile import scaler_to_dict  # noqa: PLC0415 - it imports this module

        return scaler_to_dict(self)

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
        fastbin._modelfile.ModelFileError: not a fastbin platt scaler: format is 'something else'...
        """
        from fastbin._plattfile import scaler_from_dict  # noqa: PLC0415 - it imports this module

        return scaler_from_dict(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scaler to a JSON file that appears whole or not at all.

        Parameters
        ----------
        path : str or path-like
            An existing file is replaced.

        Examples
        --------
        >>> import fastbin as fb, pathlib, tempfile
        >>> scaler = fb.fit_platt([0.2, 0.4, 0.6, 0.7], [0, 1, 0, 1])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "scaler.json"
        >>> scaler.save(path)
        >>> fb.load(path) == scaler
        True
        """
        from fastbin._modelfile import save_dict  # noqa: PLC0415 - only those who save need it

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
                x = _logisticcurve.logit(scores)
            else:  # an infinite score is read as the largest number: 0 * infinity would be NaN
                x = np.clip(scores, -sys.float_info.max, sys.float_info.max)
            out[:] = np.where(is_nan, scores, _logisticcurve.expit(self.slope * x + self.intercept))
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
    rows = checked_rows(score_column, label_column, on)
    if not smooth_targets:
        check_overlap(rows)
    slope, intercept = _newton.optimum(rows, smooth=bool(smooth_targets))
    if not (math.isfinite(slope) and math.isfinite(intercept)):
        raise ValueError(
            f"scores must spread over more than 1e-300; they range from {rows.low} to {rows.high}. "
            "Multiply them by a constant."
        )
    return PlattScaler(slope, intercept, on, bool(smooth_targets), score_column.size, rows.positives)
