"""Compiling everything ahead of time: for container images, and for the first request of a service."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin._isotonic import COLLECT_ROWS
from fastbin._jit import JIT_IS_ON
from fastbin._lookup import SMALL_BATCH
from fastbin._rowids import text_words
from fastbin._steps import run_step
from fastbin.binning import bin_index, bin_means
from fastbin.calibrators import (
    fit_counts,
    fit_fixed_width,
    fit_isotonic,
    fit_sample_split,
    fit_scaling_binning,
    fit_uniform_mass,
)
from fastbin.ordering import SMALL, tie_broken_argsort
from fastbin.passes import FitPlan
from fastbin.platt import SCALES, fit_platt

LARGE = max(SMALL_BATCH, SMALL) + 1  # rows for which no shortcut is taken


def warmup() -> float:
    """Compile every kernel for float64 and float32 scores, or load it from the cache.

    Returns
    -------
    float
        Seconds taken. The compiled code is kept in the user's cache folder for later processes.

    Examples
    --------
    >>> import fastbin as fb
    >>> fb.warmup() > 0
    True
    """
    started = time.perf_counter()
    if not JIT_IS_ON:  # NUMBA_DISABLE_JIT=1: there is nothing to compile
        return time.perf_counter() - started
    for dtype in (np.float64, np.float32):
        _warm_engine(dtype)
        _warm_methods(dtype)
    tie_broken_argsort([0.0, 0.0], threads=1)
    fit_counts([0.5], [1 << 19], [1 << 20], 2)
    text_words(["row"] * LARGE)
    return time.perf_counter() - started


def _warm_engine(dtype: type) -> None:
    scores = np.linspace(0.0, 1.0, LARGE).round(2)
    column: NDArray[Any] = scores.astype(dtype)
    # Cuts that equal cells cannot part.
    decades: NDArray[Any] = np.geomspace(1e-30, 1.0, LARGE).astype(dtype)
    labels = np.arange(LARGE) % 2
    calibrator = fit_uniform_mass(column, labels, 2, threads=1)
    uneven = fit_uniform_mass(decades, labels, 50, threads=1)
    for own_labels in (labels, scores):
        plan = FitPlan(2, n_cells=4, gather_rows=1)
        while (step := plan.step()) is not None:
            plan.feed([run_step(step, column, own_labels)])
    for out in (np.empty(LARGE, np.float64), np.empty(LARGE, np.float32)):
        calibrator.predict(column, out=out, threads=1)
        uneven.predict(decades, out=out, threads=1)
    calibrator.assign(column, threads=1)
    uneven.assign(decades, threads=1)
    bin_index(column, [0.5], threads=1)
    tie_broken_argsort(column, threads=1)
    tie_broken_argsort(np.zeros(LARGE, dtype), threads=1)
    bin_means(labels, labels, 2, threads=1)


def _warm_methods(dtype: type) -> None:
    n = COLLECT_ROWS + 1  # above, isotonic regression uses its histogram
    column: NDArray[Any] = np.linspace(0.0, 1.0, n).astype(dtype)
    rounded = column.round(2)
    for labels in (np.arange(n) % 2, np.linspace(0.0, 1.0, n)):
        fit_sample_split(column, labels, 2, threads=1)
        fit_fixed_width(column, labels, 2, threads=1)
        fit_scaling_binning(column, labels, 2, threads=1)
        for scores in (column, rounded, column[:99]):
            fit_isotonic(scores, labels[: scores.size], threads=1)
        for on in SCALES:
            scaler = fit_platt(column, labels, on=on, smooth_targets=True)
            for out in (np.empty(n, np.float64), np.empty(n, np.float32)):
                scaler.predict(column, out=out, threads=1)
