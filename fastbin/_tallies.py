"""Rows and label sums per bin of a given partition: one pass, in parts over threads, merged as integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint, _validate
from fastbin._kernels.lookup import bin_sums
from fastbin._kernels.order import fill_hashes
from fastbin._lookup import CutTable
from fastbin._parallel import parallel_map, row_ranges
from fastbin._rowids import positions
from fastbin._steps import NO_FAULTS, Faults, label_faults, nan_faults, soft_words

BLOCK_ROWS = 1 << 17  # rows that one kernel call sees
PART_ROWS = 1 << 20  # rows that one thread takes at a time

Column = NDArray[Any]
Ints = NDArray[np.int64]

NO_IDS: Ints = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Tally:
    """What the bins hold: rows, (bins, 2) label limbs, and how many rows are at each cut's score."""

    counts: Ints
    sums: Ints
    at_cuts: Ints
    soft: bool = False
    faults: Faults = NO_FAULTS

    def __add__(self, other: Tally) -> Tally:
        soft = self.soft or other.soft
        sums = self.in_units(soft=soft) + other.in_units(soft=soft)
        sums[:, 0], sums[:, 1] = _fixedpoint.carry(sums[:, 0], sums[:, 1])
        return Tally(
            self.counts + other.counts, sums, self.at_cuts + other.at_cuts, soft, self.faults + other.faults
        )

    def in_units(self, *, soft: bool) -> Ints:
        """The sums as limbs of soft labels, where some other part has fractions."""
        if self.soft == soft:
            return self.sums
        return np.stack([self.sums[:, 0] << _fixedpoint.HIGH_BITS, self.sums[:, 1]], axis=1)

    def means(self) -> NDArray[np.float64]:
        """Mean label of each bin, NaN where there is no row."""
        means = np.full(self.counts.size, np.nan)
        filled = self.counts > 0
        means[filled] = _fixedpoint.quotients(self.sums[filled], self.counts[filled], soft=self.soft)
        return means

    def overall_mean(self) -> float:
        """Mean label of all rows."""
        high, low = _fixedpoint.carry(self.sums[:, 0].sum(), self.sums[:, 1].sum())
        everything = np.array([[high, low]])
        return float(_fixedpoint.quotients(everything, self.counts.sum(keepdims=True), soft=self.soft)[0])


def check_rows(scores: Column, labels: Column, threads: int) -> None:
    """One error for NaN scores and labels outside [0, 1]; for fits that look at their rows in pieces."""

    def faults_of(rows: tuple[int, int]) -> Faults:
        found = NO_FAULTS
        for start in range(*rows, BLOCK_ROWS):
            own = slice(start, min(start + BLOCK_ROWS, rows[1]))
            block, label_block = scores[own], labels[own]
            if _validate.binary_block(label_block) is None:
                found += label_faults(label_block, start)
            found += nan_faults(bool(np.isnan(block.max())), block, start)
        return found

    faults = NO_FAULTS
    for found in parallel_map(faults_of, row_ranges(scores.size, threads, PART_ROWS), threads):
        faults += found
    faults.raise_if_any()


def tally(
    scores: Column,
    labels: Column,
    cuts: CutTable,
    threads: int,
    *,
    state: int = 0,
    chosen: tuple[int, np.uint64] | None = None,
) -> Tally:
    """Count rows and labels between cuts; a row at a cut is keyed by its position in the stream ``state``.

    ``chosen`` = (stream, key): only the rows whose key in that stream is above the given one.
    """

    def one_part(rows: tuple[int, int]) -> Tally:
        total = _empty(cuts)
        for start in range(*rows, BLOCK_ROWS):
            total += _tally_block(
                scores, labels, cuts, state, start, min(start + BLOCK_ROWS, rows[1]), chosen
            )
        return total

    total = _empty(cuts)
    for part in parallel_map(one_part, row_ranges(scores.size, threads, PART_ROWS), threads):
        total += part
    total.faults.raise_if_any()
    return total


def _empty(cuts: CutTable) -> Tally:
    n_bins = cuts.edges.size + 1
    return Tally(np.zeros(n_bins, np.int64), np.zeros((n_bins, 2), np.int64), np.zeros(n_bins - 1, np.int64))


def _tally_block(
    scores: Column,
    labels: Column,
    cuts: CutTable,
    state: int,
    start: int,
    stop: int,
    chosen: tuple[int, np.uint64] | None,
) -> Tally:
    rows = np.arange(start, stop)
    block, label_block = _validate.score_block(scores[start:stop]), labels[start:stop]
    narrow = _validate.binary_block(label_block)
    faults = NO_FAULTS if narrow is not None else label_faults(label_block, start)
    words = soft_words(label_block, faults) if narrow is None else _fixedpoint.binary_words(narrow)
    if chosen is not None:
        keep = np.flatnonzero(stream_keys(chosen[0], start, stop) > chosen[1])
        rows, block, words = rows[keep], _validate.score_block(block[keep]), words[keep]
    bins = np.empty(rows.size, np.int64)
    n_bins = cuts.edges.size + 1
    _, n_nan = cuts.look_up(block, np.arange(n_bins), bins, lambda at: positions(rows[at]), state, 1)
    if n_nan:
        faults += nan_faults(True, _validate.score_block(scores[start:stop]), start)
        bins[block != block] = 0
    totals = np.zeros((n_bins, 3), np.int64)
    bin_sums(bins, words, totals)
    totals[:, 1], totals[:, 2] = _fixedpoint.carry(totals[:, 1], totals[:, 2])
    return Tally(totals[:, 0], totals[:, 1:], _rows_at(cuts.edges, block, bins), narrow is None, faults)


def stream_keys(state: int, start: int, stop: int) -> NDArray[np.uint64]:
    """Keys of the rows start .. stop - 1 in a stream."""
    keys = np.empty(stop - start, np.uint64)
    fill_hashes(NO_IDS, start, np.uint64(state), keys)
    return keys


def _rows_at(edges: NDArray[np.float64], block: Column, bins: Ints) -> Ints:
    """How many scores equal each cut: such a row is in a bin on one side of it or between equal cuts."""
    around = np.concatenate([[np.nan], edges, [np.nan]])
    tied = block[(around[bins] == block) | (around[bins + 1] == block)]
    distinct, owner = np.unique(edges, return_inverse=True)
    return np.bincount(np.searchsorted(distinct, tied), minlength=distinct.size)[owner]
