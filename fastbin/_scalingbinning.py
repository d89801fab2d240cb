"""Scaling-binning: the cuts of uniform mass, and in each bin the mean score in place of the mean label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint
from fastbin._lookup import CutTable
from fastbin._tallies import Tally, tally
from fastbin._values import distinct
from fastbin.bounds import boundary_ranks
from fastbin.model import Calibrator


def with_mean_scores(calibrator: Calibrator, scores: NDArray[Any], threads: int) -> Calibrator:
    """The same partition, with the mean score strictly between cuts for the value of each bin."""
    cuts = np.unique(calibrator.edges)
    found = tally(scores, scores, CutTable(cuts, np.zeros(cuts.size, np.uint64)), threads)
    sums = _interior_sums(calibrator, cuts, found)
    limbs = np.array([[total >> _fixedpoint.LOW_BITS, total & _fixedpoint.LOW_MASK] for total in sums])
    values = _fixedpoint.quotients(limbs, calibrator.interior_counts, soft=True)
    return replace(calibrator, method="scaling_binning", values=distinct(values))


def _interior_sums(calibrator: Calibrator, cuts: NDArray[np.float64], found: Tally) -> list[int]:
    """Sums of score words between cuts. Rows at a cut's score have that score, so only their number matters.

    Between two distinct cuts lie the rows with a score strictly between them, those at the lower score that
    are above its last cut, and those at the upper score that are below its first cut; ranks say how many.
    """
    limbs = found.in_units(soft=True).tolist()
    totals = [(high << _fixedpoint.LOW_BITS) + low for high, low in limbs]
    ties = [0, *found.at_cuts.tolist()]  # rows at the lower end of each stretch between distinct cuts
    counts, words = found.counts.tolist(), [0, *_fixedpoint.words(cuts).tolist()]
    rows_below = np.cumsum(found.counts).tolist()  # rows with a score below each distinct cut
    ranks = boundary_ranks(calibrator.n_samples, calibrator.n_bins).tolist()
    stretch = [0, *(np.searchsorted(cuts, calibrator.edges) + 1).tolist(), cuts.size + 1]
    sums = []
    for b, inside in enumerate(calibrator.interior_counts.tolist()):
        lower, upper = stretch[b], stretch[b + 1]
        if lower == upper:  # the bin is inside an atom
            sums.append(inside * words[lower])
            continue
        strictly = counts[lower] - ties[lower]
        at_upper = ranks[b + 1] - 1 - rows_below[lower] if upper <= cuts.size else 0
        at_lower = inside - strictly - at_upper
        total = totals[lower] - ties[lower] * words[lower]
        sums.append(total + at_lower * words[lower] + (at_upper * words[upper] if upper <= cuts.size else 0))
    return sums
