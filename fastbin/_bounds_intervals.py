"""Confidence intervals for the probability behind k positives among m labels, elementwise.

Nothing here validates its arguments; `fastbin.bounds` does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import betainccinv, betaincinv, betaln, xlog1py, xlogy

from fastbin._bounds_arguments import FloatArray, IntArray


def clopper_pearson(k: IntArray, m: IntArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Theorem CP: the p at which a tail that includes k has probability t/2, on either side."""
    failures = m - k
    lower = np.where(k > 0, betaincinv(np.maximum(k, 1), failures + 1, t / 2), 0.0)
    upper = np.where(failures > 0, betainccinv(k + 1, np.maximum(failures, 1), t / 2), 1.0)
    return lower, upper


def confidence_sequence(k: IntArray, m: IntArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Theorem CS: the p with a likelihood above t times its average over Beta(1/2, 1/2)."""
    failures = m - k
    averaged = betaln(k + 0.5, failures + 0.5) - betaln(0.5, 0.5)
    threshold = np.log(t) + averaged

    def plausible(p: FloatArray) -> npt.NDArray[np.bool_]:
        return np.asarray(xlogy(k, p) + xlog1py(failures, -p) > threshold)

    centre = np.broadcast_to(np.where(m > 0, k / np.maximum(m, 1), 0.5), threshold.shape)
    lower = _edge_of(plausible, centre, np.zeros_like(centre))
    upper = _edge_of(plausible, centre, np.ones_like(centre))
    return lower, upper


def _edge_of(
    holds: Callable[[FloatArray], npt.NDArray[np.bool_]], inside: FloatArray, outside: FloatArray
) -> FloatArray:
    """Where ``holds`` ends between ``inside`` and ``outside``, elementwise; errs to the outside."""
    for _ in range(100):
        middle = (inside + outside) / 2
        held = holds(middle)
        inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
    return outside
