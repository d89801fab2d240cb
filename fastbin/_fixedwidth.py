"""Cells of equal width on [0, 1], and what stands in a cell that no calibration row fell into."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint
from fastbin._lookup import CutTable
from fastbin._tallies import tally
from fastbin._values import distinct
from fastbin.model import Calibrator

Empty = Literal["midpoint", "nearest", "raise"]


def fit(scores: NDArray[Any], labels: NDArray[Any], n_bins: int, empty: str, threads: int) -> Calibrator:
    """The cuts are the doubles i / n_bins; no key is below 0, so a score at a cut is above it."""
    edges = np.arange(1, n_bins) / n_bins
    keys = np.zeros(n_bins - 1, np.uint64)
    found = tally(scores, labels, CutTable(edges, keys), threads)
    positives = _fixedpoint.numbers(found.sums, soft=found.soft)
    return Calibrator(
        method="fixed_width",
        n_samples=scores.size,
        n_bins=n_bins,
        seed=0,
        edges=edges,
        edge_keys=keys,
        edge_labels=np.zeros(n_bins - 1, positives.dtype),  # a cut is no calibration row
        edge_ties=found.at_cuts,
        values=distinct(_filled(found.means(), empty)),
        counts=found.counts,
        positives=positives,
        interior_counts=found.counts,
        interior_positives=positives,
    )


def _filled(means: NDArray[np.float64], empty: str) -> NDArray[np.float64]:
    """Values for the empty cells, by the rule."""
    missing = np.flatnonzero(np.isnan(means))
    if missing.size == 0:
        return means
    if empty == "raise":
        raise ValueError(
            f"every cell must hold a row with empty='raise'; found {missing.size} empty of {means.size}, "
            f"first cell {missing[0] + 1}. Pass fewer bins, or empty='midpoint' or 'nearest'."
        )
    values = means.copy()
    if empty == "midpoint":
        values[missing] = (missing + 0.5) / means.size
    else:
        present = np.flatnonzero(~np.isnan(means))
        after = np.searchsorted(present, missing)
        below, above = present[np.maximum(after - 1, 0)], present[np.minimum(after, present.size - 1)]
        closer_below = np.abs(missing - below) <= np.abs(above - missing)  # the lower one of two as near
        values[missing] = means[np.where(closer_below, below, above)]
    return values
