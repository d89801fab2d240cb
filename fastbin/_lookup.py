"""Scores to bins for any caller: a small batch by NumPy alone, a large one by the compiled grid look-up.

Both give the same bits. A service that scores a few records never loads the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastbin import _streams
from fastbin._lazy import lazy
from fastbin._parallel import parallel_map, row_ranges
from fastbin._validate import is_score_block, score_block

if TYPE_CHECKING:
    from fastbin._kernels.lookup import CellGrid, Grid

SMALL_BATCH = 2048  # below this, NumPy is as fast as the kernel and needs no compiler
PART_ROWS = 1 << 20  # one task: handing out smaller ones takes as long as looking some of them up
BLOCK_ROWS = 1 << 15  # rows converted at a time, where the kernel cannot take the scores as they are
TIE_ROWS = 1 << 14  # tied rows listed at a time
FEWEST_CELLS = 1 << 8
MOST_GRID_CELLS = 1 << 14  # beyond, its table leaves the L1 cache, and the cell map is as good
MOST_CELLS = 1 << 17
CELLS_PER_CUT = 4

NO_ROWS: NDArray[np.int64] = np.empty(0, np.int64)

# Row ids of the rows at these positions, as 64-bit words.
IdsOf = Callable[[NDArray[np.int64]], NDArray[np.uint64]]


@dataclass(frozen=True, eq=False)
class CutTable:
    """The cuts of a partition, ready for looking scores up: ascending scores, and the tie key of each."""

    edges: NDArray[np.float64]
    keys: NDArray[np.uint64]

    def look_up(
        self,
        scores: NDArray[Any],
        table: NDArray[Any],
        out: NDArray[Any],
        ids_of: IdsOf,
        state: int,
        threads: int,
    ) -> tuple[NDArray[np.int64], int]:
        """Fill ``out`` with the table entry of each score's bin.

        Returns the positions of the rows whose score equals a cut (first block that has any; none where no
        cut has a key, for then they all belong above), and the number of NaN scores.
        """
        if scores.size <= SMALL_BATCH:
            return self._look_up_small(scores, table, out, ids_of, state)
        from fastbin._kernels.lookup import resolve_ties  # noqa: PLC0415 - loads the compiler

        look_up, grid, bins_reached = self._narrow if scores.dtype == np.float32 else self._wide
        reached = table[bins_reached]  # by place among the distinct cuts, not by bin
        # A block that must be converted is copied: then it had better be small.
        block_rows = PART_ROWS if is_score_block(scores) else BLOCK_ROWS

        def one_part(part: tuple[int, int]) -> tuple[NDArray[np.int64], int]:
            tied, n_nan = NO_ROWS, 0
            tie_rows, tie_places = np.empty((2, TIE_ROWS), np.int64)
            for start in range(*part, block_rows):
                stop = min(start + block_rows, part[1])
                block, target = score_block(scores[start:stop]), out[start:stop]
                row = 0
                while row < block.size:
                    row, n_ties, found_nan = look_up(block, row, grid, reached, target, tie_rows, tie_places)
                    n_nan += found_nan
                    if n_ties:
                        listed = tie_rows[:n_ties]
                        ids = ids_of(listed + start)
                        resolve_ties(
                            block, listed, tie_places[:n_ties], ids, np.uint64(state), bins_reached,
                            self.edges, self.keys, table, target,
                        )  # fmt: skip
                        tied = tied if tied.size else listed + start
            return tied, n_nan

        some_ties, n_nan = NO_ROWS, 0
        for tied, part_nan in parallel_map(one_part, row_ranges(scores.size, threads, PART_ROWS), threads):
            some_ties = some_ties if some_ties.size else tied
            n_nan += part_nan
        return some_ties, n_nan

    def _look_up_small(
        self, scores: NDArray[Any], table: NDArray[Any], out: NDArray[Any], ids_of: IdsOf, state: int
    ) -> tuple[NDArray[np.int64], int]:
        block = score_block(scores)
        bins = np.searchsorted(self.edges, block, side="right")
        n_nan = int(np.count_nonzero(block != block))
        if n_nan:  # NumPy sorts NaN to the end
            bins[block != block] = 0
        at_cut = np.flatnonzero(self._cut_below[bins] == block) if self._keyed else NO_ROWS
        if at_cut.size:
            keys = _streams.row_keys(state, ids_of(at_cut))
            begin, end = np.searchsorted(self.edges, block[at_cut]), bins[at_cut]
            while (begin < end).any():  # bisection among the cuts at each row's score
                middle = (begin + end) // 2
                up = (begin < end) & (self.keys[np.minimum(middle, self.keys.size - 1)] <= keys)
                begin, end = np.where(up, middle + 1, begin), np.where(up, end, middle)
            bins[at_cut] = begin
        out[:] = table[bins]  # numpy.take would first convert what is in a float32 out, garbage included
        return at_cut, n_nan

    @lazy
    def _keyed(self) -> bool:
        """Whether some row at a cut can fall below it: none does below key 0."""
        return bool(self.keys.any())

    @lazy
    def _cut_below(self) -> NDArray[np.float64]:
        """The cut at the lower end of each bin; NaN below the first, so that nothing equals it."""
        return np.concatenate([[np.nan], self.edges])

    @lazy
    def _wide(self) -> _Prepared:
        """For float64 scores, and for those that become float64."""
        return _prepared(self.edges, keyed=self._keyed)

    @lazy
    def _narrow(self) -> _Prepared:
        """For float32 scores: one is at or above a cut if it is so for the next float32 number upwards.

        A score at the rounded cut is listed as a tie, and settled by the cut itself.
        """
        return _prepared(_rounded_up(self.edges), keyed=self._keyed)


class _Prepared(NamedTuple):
    """The kernel for a set of cuts, its tables, and the bin above the first j distinct cuts, j = 0, 1, ..."""

    look_up: Callable[..., tuple[int, int, int]]
    grid: Grid | CellGrid
    bins_reached: NDArray[np.int64]


def _prepared(edges: NDArray[Any], *, keyed: bool) -> _Prepared:
    """Tables for scores of the same dtype as the cuts."""
    from fastbin._kernels.lookup import look_up_cells, look_up_grid  # noqa: PLC0415 - loads the compiler

    distinct = np.unique(edges)  # cuts on one atom cannot be told apart by the score
    bins_reached = np.append(0, np.searchsorted(edges, distinct, side="right"))
    grid = _grid(distinct, keyed=keyed)
    if grid is not None:
        return _Prepared(look_up_grid, grid, bins_reached)
    return _Prepared(look_up_cells, _cell_grid(distinct, keyed=keyed), bins_reached)


def _rounded_up(edges: NDArray[np.float64]) -> NDArray[np.float32]:
    """The smallest float32 numbers that are not below these."""
    with np.errstate(over="ignore"):
        nearest = edges.astype(np.float32)
    return np.where(nearest < edges, np.nextafter(nearest, np.float32(np.inf)), nearest)


def _grid(distinct: NDArray[Any], *, keyed: bool) -> Grid | None:
    """Equal cells over the range of the cuts, if few enough of them part all cuts."""
    from fastbin._kernels.lookup import Grid  # noqa: PLC0415 - loads the compiler

    number = distinct.dtype.type
    finite = distinct[np.isfinite(distinct)]
    origin = finite[0] if finite.size else number(0)
    with np.errstate(over="ignore"):
        span = finite[-1] - origin if finite.size else number(0)
    for n_cells in _powers_of_two(CELLS_PER_CUT * distinct.size, FEWEST_CELLS, MOST_GRID_CELLS):
        scale = _grid_scale(span, n_cells)
        cells = _grid_cells(distinct, origin, scale, n_cells)
        if _fullest(cells) <= 1:
            start = np.searchsorted(cells, np.arange(n_cells)).astype(np.uint16)  # 2**14 cuts at most
            return Grid(origin, scale, number(0), number(n_cells - 1), start, _padded(distinct, 1), keyed)
    return None


def _cell_grid(distinct: NDArray[Any], *, keyed: bool) -> CellGrid:
    """Cells that are dense where the cuts are."""
    from fastbin._cellmaps import cells_from_keys, keys_of  # noqa: PLC0415 - loads the compiler
    from fastbin._kernels.lookup import CellGrid  # noqa: PLC0415 - loads the compiler

    keys = keys_of(distinct)
    for n_cells in _powers_of_two(2 * CELLS_PER_CUT * keys.size, FEWEST_CELLS, MOST_CELLS):
        cells = cells_from_keys(keys, n_cells)
        home = np.searchsorted(cells.lowest, keys, side="right") - 1
        if _fullest(home) <= 1:
            break
    steps = max(1, _fullest(home).bit_length())
    start = np.searchsorted(home, np.arange(cells.lowest.size)).astype(np.uint32)
    return CellGrid(cells.cell_map, steps, start, _padded(distinct, 1 << steps), keyed)


def _padded(distinct: NDArray[Any], behind: int) -> NDArray[Any]:
    """The cuts with NaN around them."""
    nan = np.full(behind, np.nan, distinct.dtype)
    return np.concatenate([nan[:1], distinct, nan])


def _powers_of_two(at_least: int, fewest: int, most: int) -> Iterator[int]:
    """Powers of two from the first that is enough, up to ``most``; ``most`` itself in any case."""
    number = fewest
    while number < min(at_least, most):
        number *= 2
    while number <= most:
        yield number
        number *= 2


def _grid_scale(span: np.floating[Any], n_cells: int) -> np.floating[Any]:
    """Cells per unit of score; 0 (everything in one cell) where the cuts are too close or too far apart."""
    number = type(span)
    with np.errstate(over="ignore", divide="ignore"):
        scale = number(n_cells) / span
    return scale if np.isfinite(scale) else number(0)


def _grid_cells(
    cuts: NDArray[Any], origin: np.floating[Any], scale: np.floating[Any], n_cells: int
) -> NDArray[np.int64]:
    """The cell of each cut, by the kernel's own formula."""
    with np.errstate(invalid="ignore", over="ignore"):
        step = (cuts - origin) * scale
    step = np.where(step > 0.0, step, 0.0)
    return np.minimum(step, n_cells - 1).astype(np.int64)


def _fullest(cells: NDArray[np.int64]) -> int:
    return int(np.bincount(cells).max()) if cells.size else 0
