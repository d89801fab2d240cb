"""Scores to bins for any caller: a small batch by NumPy alone, a large one by the compiled grid look-up.

Both give the same bits. A service that scores a few records never loads the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _streams
from fastbin._lazy import lazy
from fastbin._parallel import parallel_map, row_ranges
from fastbin._validate import score_block

if TYPE_CHECKING:
    from fastbin._kernels.lookup import CellGrid, Grid

SMALL_BATCH = 2048  # below this, NumPy is as fast as the kernel and needs no compiler
PART_ROWS = 1 << 19  # one task: handing a block to another thread takes as long as looking it up
BLOCK_ROWS = 1 << 15  # one kernel call; its list of tied rows is a quarter of a megabyte
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

        Returns the positions of the rows whose score equals a cut (first block that has any), and the number
        of NaN scores.
        """
        if scores.size <= SMALL_BATCH:
            return self._look_up_small(scores, table, out, ids_of, state)
        from fastbin._kernels.lookup import resolve_ties  # noqa: PLC0415 - loads the compiler

        grid, look_up = self._compiled
        reached = table[self._bins_reached]  # by place among the distinct cuts, not by bin

        def one_part(part: tuple[int, int]) -> tuple[NDArray[np.int64], int]:
            tied, n_nan = NO_ROWS, 0
            rows = np.empty(min(BLOCK_ROWS, part[1] - part[0]), np.int64)  # one list for all blocks
            for start in range(*part, BLOCK_ROWS):
                stop = min(start + BLOCK_ROWS, part[1])
                block, target = score_block(scores[start:stop]), out[start:stop]
                n_ties, block_nan = look_up(block, grid, reached, target, rows)
                n_nan += block_nan
                if n_ties:
                    listed = rows[:n_ties]
                    ids = ids_of(listed + start)
                    resolve_ties(block, listed, ids, np.uint64(state), self.edges, self.keys, table, target)
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
        at_cut = np.flatnonzero(self._cut_below[bins] == block)
        if at_cut.size:
            keys = _streams.row_keys(state, ids_of(at_cut))
            tied_bins, tied_scores = bins[at_cut], block[at_cut]
            down = keys < self.keys[tied_bins - 1]
            while down.any():  # once per cut inside the atom
                tied_bins -= down
                down &= (self._cut_below[tied_bins] == tied_scores) & (keys < self.keys[tied_bins - 1])
            bins[at_cut] = tied_bins
        out[:] = table[bins]  # numpy.take would first convert what is in a float32 out, garbage included
        return at_cut, n_nan

    @lazy
    def _cut_below(self) -> NDArray[np.float64]:
        """The cut at the lower end of each bin; NaN below the first, so that nothing equals it."""
        return np.concatenate([[np.nan], self.edges])

    @lazy
    def _distinct(self) -> NDArray[np.float64]:
        """The cuts without repetition: cuts on one atom cannot be told apart by the score."""
        return np.unique(self.edges)

    @lazy
    def _bins_reached(self) -> NDArray[np.int64]:
        """The bin above the first j distinct cuts, j = 0, 1, ...: past all cuts at an equal score."""
        return np.append(0, np.searchsorted(self.edges, self._distinct, side="right"))

    @lazy
    def _compiled(self) -> tuple[Any, Callable[..., tuple[int, int]]]:
        """The look-up's tables, and the kernel that reads them."""
        from fastbin._kernels.lookup import look_up_cells, look_up_grid  # noqa: PLC0415 - loads the compiler

        grid = self._grid()
        if grid is not None:
            return grid, look_up_grid
        return self._cell_grid(), look_up_cells

    def _grid(self) -> Grid | None:
        """Equal cells over the range of the cuts, if few enough of them part all cuts."""
        from fastbin._kernels.lookup import Grid  # noqa: PLC0415 - loads the compiler

        finite = self._distinct[np.isfinite(self._distinct)]
        origin = float(finite[0]) if finite.size else 0.0
        with np.errstate(over="ignore"):
            span = float(finite[-1] - origin) if finite.size else 0.0
        for n_cells in _powers_of_two(CELLS_PER_CUT * self._distinct.size, FEWEST_CELLS, MOST_GRID_CELLS):
            cells = _grid_cells(self._distinct, origin, _grid_scale(span, n_cells), n_cells)
            if _fullest(cells) <= 1:
                start = np.searchsorted(cells, np.arange(n_cells)).astype(np.uint32)
                scale = _grid_scale(span, n_cells)
                return Grid(origin, scale, float(n_cells - 1), start, self._padded_cuts(1))
        return None

    def _cell_grid(self) -> CellGrid:
        """Cells that are dense where the cuts are."""
        from fastbin._cellmaps import cells_from_keys, keys_of  # noqa: PLC0415 - loads the compiler
        from fastbin._kernels.lookup import CellGrid  # noqa: PLC0415 - loads the compiler

        keys = keys_of(self._distinct)
        for n_cells in _powers_of_two(2 * CELLS_PER_CUT * keys.size, FEWEST_CELLS, MOST_CELLS):
            cells = cells_from_keys(keys, n_cells)
            home = np.searchsorted(cells.lowest, keys, side="right") - 1
            if _fullest(home) <= 1:
                break
        steps = max(1, _fullest(home).bit_length())
        start = np.searchsorted(home, np.arange(cells.lowest.size)).astype(np.uint32)
        return CellGrid(cells.cell_map, steps, start, self._padded_cuts(1 << steps))

    def _padded_cuts(self, behind: int) -> NDArray[np.float64]:
        return np.concatenate([[np.nan], self._distinct, np.full(behind, np.nan)])


def _powers_of_two(at_least: int, fewest: int, most: int) -> Iterator[int]:
    """Powers of two from the first that is enough, up to ``most``; ``most`` itself in any case."""
    number = fewest
    while number < min(at_least, most):
        number *= 2
    while number <= most:
        yield number
        number *= 2


def _grid_scale(span: float, n_cells: int) -> float:
    """Cells per unit of score; 0 (everything in one cell) where the cuts are too close or too far apart."""
    with np.errstate(over="ignore", divide="ignore"):
        scale = float(np.float64(n_cells) / np.float64(span))
    return scale if np.isfinite(scale) else 0.0


def _grid_cells(cuts: NDArray[np.float64], origin: float, scale: float, n_cells: int) -> NDArray[np.int64]:
    """The cell of each cut, by the kernel's own formula."""
    with np.errstate(invalid="ignore", over="ignore"):
        step = (cuts - origin) * scale
    step = np.where(step > 0.0, step, 0.0)
    return np.minimum(step, float(n_cells - 1)).astype(np.int64)


def _fullest(cells: NDArray[np.int64]) -> int:
    return int(np.bincount(cells).max()) if cells.size else 0
