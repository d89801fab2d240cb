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


class Grid(NamedTuple):
    """Equal cells: the score's is ``(score - origin) * scale``, clamped to 0 .. last_cell.

    ``start[c]`` distinct cuts lie in cells below c. ``cuts`` is the distinct cuts with NaN in front and
    behind: no comparison with NaN is ever true.
    """

    origin: float
    scale: float
    last_cell: float
    start: np.ndarray
    cuts: np.ndarray


class CellGrid(NamedTuple):
    """Cells of a cell map, none with more than 2**steps - 1 cuts; ``start`` and ``cuts`` as in a Grid."""

    cell_map: CellMap
    steps: int
    start: np.ndarray
    cuts: np.ndarray


@jit
def look_up_grid(scores, grid, table, out, tie_rows):
    """out[i] = table[place of score i]; rows whose score equals a cut are listed. O(n); one cut a cell.

    Returns how many rows were listed, and how many scores are NaN (their ``out`` means nothing).
    """
    origin, scale, last_cell = grid.origin, grid.scale, grid.last_cell
    start, cuts = grid.start, grid.cuts
    n_ties, n_nan = 0, 0
    for i in range(scores.size):
        score = scores[i]
        # Monotone in the score: subtraction, and multiplication by a positive number, round monotonically.
        step = (np.float64(score) - origin) * scale
        # Not max(): it may keep a NaN, and NaN has no place in the table.
        step = step if step > 0.0 else 0.0  # noqa: FURB136
        step = step if step < last_cell else last_cell  # noqa: FURB136
        # Through int64: a direct conversion to unsigned takes a branch on machines without AVX-512.
        place = np.uint64(start[np.uint64(np.int64(step))])
        place += np.uint64(cuts[place + ONE] <= score)
        out[i] = table[place]
        n_nan += score != score
        if cuts[place] == score:
            tie_rows[n_ties] = i
            n_ties += 1
    return n_ties, n_nan


@jit
def look_up_cells(scores, grid, table, out, tie_rows):
    """The same through a cell map: any cuts, O(log) in those that share a cell."""
    start, cuts, more_steps = grid.start, grid.cuts, grid.steps - 1
    n_ties, n_nan = 0, 0
    for i in range(scores.size):
        score = scores[i]
        place = np.uint64(start[cell_of(order_key(score), grid.cell_map)])
        for step in range(more_steps, 0, -1):  # most often none
            half = ONE << np.uint64(step)
            place += half * np.uint64(cuts[place + half] <= score)
        place += np.uint64(cuts[place + ONE] <= score)
        out[i] = table[place]
        n_nan += score != score
        if cuts[place] == score:
            tie_rows[n_ties] = i
            n_ties += 1
    return n_ties, n_nan


@jit
def resolve_ties(scores, tie_rows, ids, state, edges, edge_keys, table, out):
    """Rows at a cut's score stay above the cut only if their key is not below the cut's key.

    O(log(edges) + cuts at that score) for each tied row.
    """
    for at in range(tie_rows.size):
        row = tie_rows[at]
        score = scores[row]
        key = row_key(state, ids[at])
        bin_ = np.searchsorted(edges, score, side="right")
        while bin_ > 0 and edges[bin_ - 1] == score and key < edge_keys[bin_ - 1]:
            bin_ -= 1
        out[row] = table[bin_]


@jit
def bin_sums(bins, labels, totals):
    """Add rows and label limbs to the (bins, 3) ``totals``. O(n)."""
    for i in range(bins.size):
        totals[bins[i], 0] += 1
        totals[bins[i], 1] += labels[i] >> LIMB
        totals[bins[i], 2] += labels[i] & LIMB_MASK
