"""The rows of a Platt fit: checked, transformed, surveyed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fastbin import _validate
from fastbin._newton import Rows
from fastbin._parallel import available_threads, fresh_array, parallel_map, row_ranges

On = Literal["logit", "probability"]
Kernel = Callable[..., tuple[int, int]]

SMALL_FIT = 1 << 15  # handing a smaller job to another thread takes longer than the job
FIT_PART_ROWS = 1 << 17  # one task of a pass; small, so that a busy core holds nobody up
BLOCK_ROWS = 1 << 15  # rows checked and converted at a time: they stay in the cache

OTHER_SCALE = "Pass on='probability' for margins and the like: it uses the numbers as they are."


def checked_rows(scores: NDArray[Any], labels: NDArray[Any], on: On) -> Rows:
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
        raise nan_error(scores, "Drop those rows from scores and labels alike.")
    if any(n_wrong):
        raise outside_error(scores, OTHER_SCALE) if on == "logit" else _infinite_error(scores)
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
    return Rows(x, y, positives, negatives, ends[:, 0].min(axis=0), ends[:, 1].max(axis=0), parts, threads)


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


def check_overlap(rows: Rows) -> None:
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


def nan_error(scores: NDArray[Any], remedy: str) -> ValueError:
    rows = np.flatnonzero(scores != scores)
    return _validate.nan_error(rows.size, int(rows[0]), remedy)


def outside_error(scores: NDArray[Any], remedy: str) -> ValueError:
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
