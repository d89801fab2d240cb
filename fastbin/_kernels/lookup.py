"""From scores to bins: a grid look-up, a few branch-free comparisons, and ties put aside."""

from typing import NamedTuple

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.hashing import row_key


class Grid(NamedTuple):
    """Equal cells over the range of the cuts.

    ``start[c]`` cuts lie in cells below c; no cell holds more than 2**steps - 1 cuts. ``cuts`` is the cut
    scores between NaNs, one in front and 2**steps behind: no comparison with them is ever true.
    """

    origin: float
    scale: float
    last_cell: float
    steps: int
    start: np.ndarray
    cuts: np.ndarray


@jit
def count_cuts(score, grid):
    """How many cuts are <= score. O(1) where cells hold one cut; NaN gives 0."""
    # The map is monotone: subtraction and multiplication by a positive number round monotonically.
    place = (np.float64(score) - grid.origin) * grid.scale
    place = max(0.0, place)
    place = min(grid.last_cell, place)
    bin_ = np.uint64(grid.start[np.uint64(place)])
    for step in range(grid.steps - 1, -1, -1):
        half = np.uint64(1) << np.uint64(step)
        bin_ += half * np.uint64(grid.cuts[bin_ + half] <= score)
    return bin_


@jit
def look_up(scores, grid, table, out, tie_rows):
    """out[i] = table[bin of score i], cells left-closed; rows whose score equals a cut are listed. O(n).

    Returns how many rows were listed, and how many scores are NaN (their ``out`` means nothing).
    """
    n_ties, n_nan = 0, 0
    for i in range(scores.size):
        score = scores[i]
        bin_ = count_cuts(score, grid)
        out[i] = table[bin_]
        n_nan += score != score
        if grid.cuts[bin_] == score:
            tie_rows[n_ties] = i
            n_ties += 1
    return n_ties, n_nan


@jit
def resolve_ties(scores, tie_rows, ids, state, grid, cut_keys, table, out):
    """Rows at a cut's score stay above the cut only if their key is not below the cut's key. O(ties)."""
    for at in range(tie_rows.size):
        row = tie_rows[at]
        score = scores[row]
        key = row_key(state, ids[at])
        bin_ = np.int64(count_cuts(score, grid))
        while bin_ > 0 and grid.cuts[bin_] == score and key < cut_keys[bin_ - 1]:
            bin_ -= 1
        out[row] = table[bin_]


@jit
def bin_sums(bins, labels, counts, sums):
    """Add rows to ``counts`` and 0/1 or fixed-point labels to ``sums``, per bin. O(n)."""
    for i in range(bins.size):
        counts[bins[i]] += 1
        sums[bins[i]] += labels[i]
