"""Binning with sample splitting: one part of the rows chooses the cuts, the other part is averaged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint, _streams
from fastbin._cellmaps import sample_of
from fastbin._cuts import select_row_key
from fastbin._lookup import CutTable
from fastbin._parallel import parallel_map, row_ranges
from fastbin._steps import Partial, run_step
from fastbin._tallies import PART_ROWS, check_rows, stream_keys, tally
from fastbin._values import distinct
from fastbin.model import Calibrator
from fastbin.passes import FitPlan

Column = NDArray[Any]


def fit(scores: Column, labels: Column, n_bins: int, split: float, seed: int, threads: int) -> Calibrator:
    """The first part is the floor(split * n) rows whose positions have the smallest keys."""
    n = scores.size
    n_cuts = math.floor(split * n)
    _enough_rows(n, n_cuts, n_bins, split)
    check_rows(scores, labels, threads)
    state = _streams.stream(_streams.SPLIT, seed)
    last_key = select_row_key(np.uint64(state), n, n_cuts, threads)
    cuts = _cuts(scores, labels, n_bins, seed, n_cuts, (state, last_key), threads)
    second = tally(
        scores,
        labels,
        CutTable(cuts.edges, cuts.edge_keys),
        threads,
        state=_streams.stream(_streams.SECOND_PART, seed),
        chosen=(state, last_key),
    )
    soft = cuts.soft_labels or second.soft
    positives = _fixedpoint.numbers(second.in_units(soft=soft), soft=soft)
    means = np.where(second.counts > 0, second.means(), second.overall_mean())
    return Calibrator(
        method="sample_split",
        n_samples=n,
        n_bins=n_bins,
        seed=seed,
        edges=cuts.edges,
        edge_keys=cuts.edge_keys,
        edge_labels=cuts.edge_labels.astype(positives.dtype),
        edge_ties=cuts.edge_ties + second.at_cuts,
        values=distinct(means),
        counts=second.counts,
        positives=positives,
        interior_counts=second.counts,
        interior_positives=positives,
    )


def _enough_rows(n: int, n_cuts: int, n_bins: int, split: float) -> None:
    if n_cuts < 2 * n_bins - 1 or n_cuts == n:
        raise ValueError(
            f"n_bins={n_bins} needs at least {2 * n_bins - 1} rows for the cuts (floor(split * n) >= "
            f"2*n_bins - 1) and one for the means; got floor({split} * {n}) = {n_cuts}. Pass fewer bins, or "
            "another split."
        )


def _cuts(
    scores: Column,
    labels: Column,
    n_bins: int,
    seed: int,
    n_cuts: int,
    chosen: tuple[int, np.uint64],
    threads: int,
) -> Calibrator:
    """Uniform mass on the first part."""
    plan = FitPlan(n_bins, rng=seed, n_samples=n_cuts, hint=sample_of(scores), threads=threads)
    while (step := plan.step()) is not None:

        def run(rows: tuple[int, int], step=step) -> Partial:  # type: ignore[no-untyped-def]
            part = slice(*rows)
            # Positions, not a mask: NumPy branches on every entry of a mask, here a coin toss (2 and 6 ns).
            own = np.flatnonzero(stream_keys(chosen[0], *rows) <= chosen[1])
            return run_step(step, scores[part][own], labels[part][own], rows[0])

        plan.feed(parallel_map(run, row_ranges(scores.size, threads, PART_ROWS), threads))
    return plan.finish()
