"""From cuts to a calibrator: label means between the cuts, Algorithm 2's perturbation, distinct values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint, _streams
from fastbin._cellmaps import scores_of
from fastbin._cuts import Cuts
from fastbin._isotonic import Blocks
from fastbin._kernels.ties import sums_between_cuts
from fastbin.model import Calibrator

NUDGE = 2.0**-52


def calibrator_from_cuts(
    cuts: Cuts,
    *,
    ranks: NDArray[np.int64],
    n_bins: int,
    seed: int,
    soft: bool,
    boundary_points: str,
    delta: float,
) -> Calibrator:
    """Algorithm 1, lines 9-15: average the labels strictly between consecutive ranks A_0 .. A_B."""
    interior_counts = ranks[1:] - ranks[:-1] - 1
    interior = np.empty((n_bins, 2), np.int64)
    sums_between_cuts(cuts.before, cuts.label, cuts.total, interior)
    counts, sums = interior_counts, interior
    if boundary_points != "exclude":  # the cut's own row joins the bin below it; the last bin has none
        counts = interior_counts + (np.arange(n_bins) < n_bins - 1)
        sums = interior.copy()
        sums[:-1] += cuts.label
        sums[:, 0], sums[:, 1] = _fixedpoint.carry(sums[:, 0], sums[:, 1])
    values = _fixedpoint.quotients(sums, counts, soft=soft)
    if delta:
        values = (values + delta * _uniforms(seed, n_bins)) / (1.0 + delta)
    edges, edge_keys = scores_of(cuts.keys), cuts.tie_keys
    if boundary_points == "authors":  # right-closed: the cut itself stays below, the next key goes up
        edge_keys = edge_keys + np.uint64(1)
        edges = np.where(edge_keys == 0, np.nextafter(edges, np.inf), edges)  # past the last key
    return Calibrator(
        method="uniform_mass",
        n_samples=int(ranks[-1]) - 1,
        n_bins=n_bins,
        seed=seed,
        edges=edges,
        edge_keys=edge_keys,
        edge_labels=_fixedpoint.numbers(cuts.label, soft=soft),
        edge_ties=cuts.ties,
        values=distinct(values),
        counts=counts,
        positives=_fixedpoint.numbers(sums, soft=soft),
        interior_counts=interior_counts,
        interior_positives=_fixedpoint.numbers(interior, soft=soft),
        boundary_points=boundary_points,
        delta=delta,
    )


def calibrator_from_blocks(blocks: Blocks) -> Calibrator:
    """A bin for each block of isotonic regression; a score at a cut is above it, whatever its key."""
    soft, n_bins = blocks.soft, blocks.counts.size
    # A block's first row is a cut, and not inside, where it is the only one at its score.
    own_row = np.append(0, blocks.ties[1:] == 1)
    first = np.where(own_row[:, None] > 0, blocks.first_sums, 0)
    interior = blocks.sums - first
    interior[:, 0], interior[:, 1] = _fixedpoint.carry(interior[:, 0], interior[:, 1])
    return Calibrator(
        method="isotonic",
        n_samples=int(blocks.counts.sum()),
        n_bins=n_bins,
        seed=0,
        edges=blocks.first_scores[1:],
        edge_keys=np.zeros(n_bins - 1, np.uint64),
        edge_labels=_fixedpoint.numbers(first[1:], soft=soft),
        edge_ties=blocks.ties[1:],
        values=distinct(_fixedpoint.quotients(blocks.sums, blocks.counts, soft=soft)),
        counts=blocks.counts,
        positives=_fixedpoint.numbers(blocks.sums, soft=soft),
        interior_counts=blocks.counts - own_row,
        interior_positives=_fixedpoint.numbers(interior, soft=soft),
    )


def _uniforms(seed: int, n_bins: int) -> NDArray[np.float64]:
    """V_b of Algorithm 2, line 14: 53-bit uniforms from the hash."""
    keys = _streams.row_keys(_streams.stream(_streams.DELTA, seed), np.arange(n_bins, dtype=np.uint64))
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def distinct(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values made distinct by moving ties up in steps of 2**-52, or down from 1: at most n_bins steps.

    Then a value tells its bin, and statements about bins are statements about predictions.
    """
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    if (ascending[1:] > ascending[:-1]).all():
        return values
    moved = ascending.tolist()
    base, steps, previous = 0.0, 0, -1.0
    for i, value in enumerate(moved):
        if value > previous:
            base, steps = value, 0
        else:
            steps += 1
        previous = moved[i] = base + steps * NUDGE  # one rounding, however long the run of ties
    for steps, i in enumerate(range(len(moved) - 1, -1, -1)):
        ceiling = 1.0 - steps * NUDGE
        if moved[i] <= ceiling:
            break
        moved[i] = ceiling
    result = np.empty_like(values)
    result[order] = moved
    return result
