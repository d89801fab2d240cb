"""Isotonic regression as blocks of rows, without ordering all of them.

The blocks are the segments of the greatest convex minorant of the points (rows so far, label sum so far),
rows in the order of their scores, ties taken together (Barlow et al. 1972). A histogram of order-preserving
cells gives some of these points exactly, and the minorant of some points lies nowhere below that of all.
Labels lie in [0, 1], so inside a cell the points stay on or above its *corner*: first all the zeros, then all
the ones. Where the corner is above the minorant already, no block begins inside the cell, and its rows can
stay together. Only the other cells' rows are gathered, ordered and grouped by score: of a million rows, or of
ten, about 1 in 13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint
from fastbin._cellmaps import SAMPLE_ROWS, Cells, cells_from_sample, sample_of, scores_of
from fastbin._cuts import Pieces
from fastbin._kernels.cells import Ranges, Subcells
from fastbin._kernels.pava import find_open, group_binary_ties, group_ties, pool_violators
from fastbin._parallel import parallel_map, row_ranges
from fastbin._pools import NO_ROWS, Ints, Keys, Pool
from fastbin._steps import FOLD_ROWS, Partial, Step, merge, run_step
from fastbin.ordering import NO_IDS, _sorted_rows

COLLECT_ROWS = 1 << 15  # this few rows are simply ordered
FEWEST_CELLS, MOST_CELLS = 1 << 12, 1 << 18
ROWS_PER_CELL = 16
PART_ROWS = 1 << 22  # Ctrl-C waits for one part
GATHER_ROWS = 1 << 17
ROWS_PER_GATHERED = 8  # ordering this share of the rows is cheaper than another pass
HEAVY_CELLS = 4
ARGSORT_ROWS = 1 << 20  # up to here NumPy's argsort is as fast as ours
SAMPLES, ROWS_PER_SAMPLED = 16, 32
# Rows by which a corner must be above the minorant: rounding moves it by less, up to 2**44 rows.
MARGIN = 0.5**6
TOKEN = "isotonic"  # noqa: S105 - of a step; every step's results are used up before the next begins


@dataclass(frozen=True, eq=False)
class Blocks:
    """Runs of rows in the order of their scores, with strictly increasing label means.

    Attributes
    ----------
    first_scores
        float64: the smallest score of each block.
    ties
        int64: how many rows have that score.
    first_sums
        (blocks, 2) int64: the limbs of their label sum (`fastbin._fixedpoint`).
    counts
        int64: rows of each block.
    sums
        (blocks, 2) int64: the limbs of their label sum.
    soft
        Whether some label is neither 0 nor 1.
    """

    first_scores: NDArray[np.float64]
    ties: Ints
    first_sums: Ints
    counts: Ints
    sums: Ints
    soft: bool


@dataclass(frozen=True, eq=False)
class _Groups:
    """Rows that stay together, ascending: the lowest key of each group, and (groups, 3) rows and limbs."""

    keys: Keys
    totals: Ints


def isotonic_blocks(scores: NDArray[Any], labels: NDArray[Any], threads: int) -> Blocks:
    """The blocks of the isotonic regression of labels on scores; the same bits for any threads and row order.

    The columns come from ``_validate.scores_and_labels``; NaN and labels outside [0, 1] are found here.
    """
    n = scores.size

    def run(step: Step, most_rows: int = PART_ROWS) -> Partial:
        def run_part(rows: tuple[int, int]) -> Partial:
            part = slice(*rows)
            return run_step(step, scores[part], labels[part], rows[0])

        return merge(step, parallel_map(run_part, row_ranges(n, threads, most_rows), threads))

    if n <= COLLECT_ROWS:
        threads = 1  # handing a small job to another thread takes longer than the job
        collected = run(Step("collect", TOKEN))
        collected.faults.raise_if_any()
        return _blocks(_tie_groups(collected.pool, threads, soft=collected.soft), soft=collected.soft)

    n_cells = _good_number_of_cells(n)
    search = _Search(run, cells_from_sample(_sample(scores), n_cells), threads)
    pieces = search.histogram()
    is_open = _open(pieces, soft=search.soft)
    # Far more rows than a cell should have: mostly ties, which a refinement shows to be one score.
    heavy = is_open & (pieces.to_gather() > HEAVY_CELLS * (n // n_cells))
    if pieces.to_gather()[heavy].sum() > max(GATHER_ROWS, n // ROWS_PER_GATHERED):
        pieces = search.refined(pieces, heavy, n_cells)
        is_open = _open(pieces, soft=search.soft)
    return _blocks(search.gathered(pieces, is_open), soft=search.soft)


class _Search:
    """The passes over the data, and what they say about the score line as a whole."""

    def __init__(self, run: Callable[..., Partial], cells: Cells, threads: int) -> None:
        self.soft = False
        self._run = run
        self._cells = cells
        self._threads = threads

    def histogram(self) -> Pieces:
        """Rows and labels of each cell; a cell whose rows are all at its atom becomes that single value."""
        cells = self._cells
        n_cells = cells.lowest.size
        counted = self._run(Step("histogram", TOKEN, False, cells.cell_map, n_cells, cells.atoms))
        atoms = cells.atoms
        if counted.soft:  # a label that is not 0/1 turned up: count again, every label in fixed point
            self.soft, atoms = True, None
            counted = self._run(Step("histogram", TOKEN, True, cells.cell_map, n_cells))
        counted.faults.raise_if_any()
        assert counted.totals is not None
        low, high = cells.key_ranges()
        if atoms is None:
            return _pieces(low, high, counted.totals)
        at_atom, others = counted.totals[0::2], counted.totals[1::2]
        single = others[:, 0] == 0
        low, high = np.where(single, atoms, low), np.where(single, atoms, high)
        return _pieces(low, high, at_atom + others, atoms, at_atom)

    def refined(self, pieces: Pieces, heavy: NDArray[np.bool_], n_cells: int) -> Pieces:
        """The same pieces with the heavy ones cut again, each over its own range, into n_cells in all."""
        step = self._ranged_step(pieces.take(heavy).low, pieces.take(heavy).high)
        assert step.ranges is not None
        bits = (n_cells // int(heavy.sum())).bit_length() - 1
        spans = step.ranges.high - step.ranges.low
        shifts = np.array([max(0, span.bit_length() - bits) for span in spans.tolist()], np.uint64)
        sizes = ((spans >> shifts) + np.uint64(1)).astype(np.int64)
        subcells = Subcells(np.cumsum(sizes) - sizes, shifts)
        counted = self._run(
            Step("refine", TOKEN, self.soft, step.cell_map, int(sizes.sum()), None, step.ranges, subcells)
        )
        assert counted.totals is not None and counted.key_span is not None
        low, high = np.ascontiguousarray(counted.key_span.T)
        return pieces.take(~heavy).joined_with(_pieces(low, high, counted.totals))

    def gathered(self, pieces: Pieces, is_open: NDArray[np.bool_]) -> _Groups:
        """Closed pieces as they are, the rows of open ones by score."""
        closed, opened = np.flatnonzero(~is_open), pieces.take(np.flatnonzero(is_open))
        pool = self._rows_of(opened) if opened.low.size else NO_ROWS
        ties = _tie_groups(pool, self._threads, soft=self.soft)
        known = opened.at_atom[:, 0] > 0
        keys = np.concatenate([pieces.low[closed], ties.keys, opened.atom[known]])
        totals = np.concatenate([pieces.inside[closed], ties.totals, opened.at_atom[known]])
        order = np.argsort(keys, kind="stable")  # three ascending runs: merged, not sorted
        return _Groups(keys[order], totals[order])

    def _rows_of(self, pieces: Pieces) -> Pool:
        """The rows of the pieces but for those at their atoms."""
        # A part this small is not folded: ordering its rows here is faster.
        part_rows = FOLD_ROWS if self.soft else PART_ROWS
        pool = self._run(self._ranged_step(*pieces.gaps()), part_rows).pool
        wanted = pieces.to_gather().sum()
        if pool.keys.size != wanted:
            raise RuntimeError(
                f"the data changed during the fit: {wanted} rows were to be gathered, {pool.keys.size} were "
                "found. Fit from data that stays as it is."
            )
        return pool

    def _ranged_step(self, low: Keys, high: Keys) -> Step:
        """A gather step for these ranges of keys, none of which leaves its cell."""
        lowest = self._cells.lowest
        home = np.searchsorted(lowest, low, side="right") - 1
        first = np.searchsorted(home, np.arange(lowest.size + 1)).astype(np.int32)
        ranges = Ranges(first[1:] > first[:-1], first, low, high)
        return Step("gather", TOKEN, self.soft, self._cells.cell_map, ranges=ranges)


def _good_number_of_cells(n: int) -> int:
    """A power of two, as in ``fastbin.passes``."""
    return 1 << (min(MOST_CELLS, max(n // ROWS_PER_CELL, FEWEST_CELLS)) - 1).bit_length()


def _sample(scores: NDArray[Any]) -> NDArray[Any]:
    """Enough rows that scores of four decimals show as atoms."""
    n = scores.size
    stretches = row_ranges(n, min(SAMPLES, n // (ROWS_PER_SAMPLED * SAMPLE_ROWS) + 1), n)
    return np.concatenate([sample_of(scores[slice(*rows)]) for rows in stretches])


def _pieces(
    low: Keys, high: Keys, inside: Ints, atom: Keys | None = None, at_atom: Ints | None = None
) -> Pieces:
    """The stretches that have rows, as pieces that hold no rank: here nothing is looked for by rank."""
    nothing, no_rank = np.zeros((low.size, 3), np.int64), np.zeros(low.size, np.int64)
    filled = np.flatnonzero(inside[:, 0])
    atom = low if atom is None else atom
    at_atom = nothing if at_atom is None else at_atom
    return Pieces(low, high, nothing, inside, atom, at_atom, no_rank, no_rank).take(filled)


def _open(pieces: Pieces, *, soft: bool) -> NDArray[np.bool_]:
    """Pieces inside which a block may begin, or whose first score may be a block's first score.

    A block that begins with a whole piece does so at a vertex of the pieces' own minorant, because the points
    between pieces are among all points.
    """
    first, blocks = _pooled(pieces.inside)
    is_open = np.empty(pieces.low.size, np.bool_)
    high_unit = 0.5**_fixedpoint.HIGH_BITS if soft else 1.0
    find_open(pieces.inside, first, blocks, high_unit, MARGIN, is_open)
    return is_open & ~pieces.is_single()


def _tie_groups(pool: Pool, threads: int, *, soft: bool) -> _Groups:
    """The rows of a pool, one group for each score."""
    n = pool.keys.size
    keys, totals = np.empty(n, np.uint64), np.empty((n, 3), np.int64)
    if soft:
        n_groups = group_ties(_any_order(pool.keys, threads), pool.keys, pool.labels, keys, totals)
    else:
        # Keys of each label sorted apart: no permutation, 4 ns a row where an argsort takes 13 (AVX-512).
        ones = pool.labels > 0
        negatives, positives = parallel_map(np.sort, (pool.keys[~ones], pool.keys[ones]), threads)
        n_groups = group_binary_ties(negatives, positives, keys, totals)
    return _Groups(keys[:n_groups], totals[:n_groups])


def _any_order(keys: Keys, threads: int) -> Ints:
    """A permutation that sorts the keys, ties in any order: they are pooled."""
    if keys.size <= ARGSORT_ROWS:
        return np.argsort(keys)
    return _sorted_rows(keys.copy(), NO_IDS, 0, threads)


def _pooled(totals: Ints) -> tuple[Ints, Ints]:
    """The first group and the totals of each block."""
    first, blocks = np.empty(totals.shape[0], np.int64), np.empty_like(totals)
    n_blocks = pool_violators(np.ascontiguousarray(totals), first, blocks)
    return first[:n_blocks].copy(), blocks[:n_blocks].copy()


def _blocks(groups: _Groups, *, soft: bool) -> Blocks:
    """Every block begins with a group that is a single score: see ``_open``."""
    first, blocks = _pooled(groups.totals)
    return Blocks(
        first_scores=scores_of(groups.keys[first]),
        ties=groups.totals[first, 0],
        first_sums=groups.totals[first, 1:],
        counts=blocks[:, 0].copy(),
        sums=blocks[:, 1:].copy(),
        soft=soft,
    )
