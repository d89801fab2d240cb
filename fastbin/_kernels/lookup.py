"""From scores to bins: a table look-up, one comparison, and ties put aside.

Both look-ups find ``place``, how many distinct cuts are <= the score: the number of cuts in cells below the
score's cell plus those of its own cell that are <= it. The cells are equal steps of the score where that
puts at most one cut in each (five operations a row), otherwise those of a cell map (thirteen), which can be
dense anywhere.
"""

from typing import NamedTuple

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.cells import CellMap, cell_of
from fastbin._kernels.hashing import ONE, order_key, row_key
from fastbin._kernels.ties import LIMB, LIMB_MASK

TILE = 4096  # rows between two looks at whether the list of tied rows is full


class Grid(NamedTuple):
    """Equal cells: the score's is ``(score - origin) * scale``, clamped to first_cell (0) .. last_cell.

    ``start[c]`` distinct cuts lie in cells below c. ``cuts`` is the distinct cuts with NaN in front and
    behind: no comparison with NaN is ever true. Numbers are of the scores' own type: what a float32 score
    gains is lost where it is widened first. Without ``keyed`` all rows at a cut belong above it, and none is
    listed.
    """

    origin: np.floating
    scale: np.floating
    first_cell: np.floating
    last_cell: np.floating
    start: np.ndarray
    cuts: np.ndarray
    keyed: bool


class CellGrid(NamedTuple):
    """Cells of a cell map, none with more than 2**steps - 1 cuts; the rest as in a Grid."""

    cell_map: CellMap
    steps: int
    start: np.ndarray
    cuts: np.ndarray
    keyed: bool


@jit
def grid_cell(score, origin, scale, first_cell, last_cell):
    """The cell of a score; NaN goes to the first. Monotone: every operation rounds monotonically."""
    step = (score - origin) * scale
    # Not max(): it may keep a NaN, and NaN has no place in the table.
    step = step if step > first_cell else first_cell  # noqa: FURB136
    step = step if step < last_cell else last_cell  # noqa: FURB136
    # Through int64: a direct conversion to unsigned takes a branch on machines without AVX-512.
    return np.uint64(np.int64(step))


@jit
def look_up_grid(scores, first, grid, table, out, tie_rows, tie_places):
    """out[i] = table[place of score i] from row ``first`` on; rows at a cut are listed with their places.

    Stops where ``tie_rows`` (at least TILE long) has no room for another tile. Returns the row it came to,
    how many rows were listed, and how many scores were NaN (their ``out`` means nothing). O(n).
    """
    origin, scale = grid.origin, grid.scale
    first_cell, last_cell = grid.first_cell, grid.last_cell
    start, cuts, keyed = grid.start, grid.cuts, grid.keyed
    at_a_cut = last_cell if keyed else first_cell
    n_ties, n_nan = 0, 0
    while first < scores.size and n_ties + TILE <= tie_rows.size:
        tile, target = scores[first : first + TILE], out[first : first + TILE]
        # Flags of the scores' own type, not 0 after a NaN or a tie: to move the outcome of a comparison from
        # a vector register to an integer one is what limits this loop (1.6 against 1.0 ns a row, Zen 4).
        saw_nan, saw_tie = first_cell, first_cell
        for i in range(tile.size):
            score = tile[i]
            place = np.uint64(start[grid_cell(score, origin, scale, first_cell, last_cell)])
            next_cut = cuts[place + ONE]
            target[i] = table[place + np.uint64(next_cut <= score)]
            saw_nan = score if score != score else saw_nan
            saw_tie = at_a_cut if next_cut == score else saw_tie
        if saw_nan != first_cell or saw_tie != first_cell:
            for i in range(tile.size):
                score = tile[i]
                n_nan += score != score
                place = np.uint64(start[grid_cell(score, origin, scale, first_cell, last_cell)])
                if keyed and cuts[place + ONE] == score:
                    tie_rows[n_ties] = first + i
                    tie_places[n_ties] = place + ONE
                    n_ties += 1
        first += tile.size
    return first, n_ties, n_nan


@jit
def look_up_cells(scores, first, grid, table, out, tie_rows, tie_places):
    """The same through a cell map: any cuts, O(log) in those that share a cell."""
    start, cuts, keyed, more_steps = grid.start, grid.cuts, grid.keyed, grid.steps - 1
    n_ties, n_nan = 0, 0
    while first < scores.size and n_ties + TILE <= tie_rows.size:
        tile, target = scores[first : first + TILE], out[first : first + TILE]
        for i in range(tile.size):
            score = tile[i]
            place = np.uint64(start[cell_of(order_key(score), grid.cell_map)])
            for step in range(more_steps, 0, -1):  # most often none
                half = ONE << np.uint64(step)
                place += half * np.uint64(cuts[place + half] <= score)
            place += np.uint64(cuts[place + ONE] <= score)
            target[i] = table[place]
            n_nan += score != score
            if keyed and cuts[place] == score:
                tie_rows[n_ties] = first + i
                tie_places[n_ties] = place
                n_ties += 1
        first += tile.size
    return first, n_ties, n_nan


@jit
def resolve_ties(scores, tie_rows, tie_places, ids, state, bins_reached, edges, edge_keys, table, out):
    """Rows at a cut's score stay above the cut only if their key is not below the cut's key.

    The cuts that a place stands for are bins_reached[place - 1] .. bins_reached[place] - 1; a row's bin is
    how many of all cuts are <= it, by score and then by key. O(log(cuts at that score)) for each tied row.
    """
    for at in range(tie_rows.size):
        row, place = tie_rows[at], tie_places[at]
        score, key = scores[row], row_key(state, ids[at])
        begin, end = bins_reached[place - 1], bins_reached[place]
        while begin < end:
            middle = (begin + end) // 2
            if edges[middle] < score or (edges[middle] == score and edge_keys[middle] <= key):
                begin = middle + 1
            else:
                end = middle
        out[row] = table[begin]


@jit
def bin_sums(bins, labels, totals):
    """Add rows and label limbs to the (bins, 3) ``totals``. O(n)."""
    for i in range(bins.size):
        totals[bins[i], 0] += 1
        totals[bins[i], 1] += labels[i] >> LIMB
        totals[bins[i], 2] += labels[i] & LIMB_MASK
