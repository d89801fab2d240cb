"""Choosing the cells of the histogram pass: about equal mass per cell, from a small sample of the scores.

The choice affects speed only. Whatever the cells, the fit finishes the few that hold a cut exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin._kernels.cells import CellMap, cell_of
from fastbin._kernels.hashing import order_keys
from fastbin._validate import score_block

Keys = NDArray[np.uint64]

PREFIX_BITS = 16
SAMPLE_ROWS = 4096
# Coarse enough that a prefix without samples holds next to nothing: about 16 sampled rows for each.
MOST_PREFIXES = SAMPLE_ROWS // 16
NO_ATOM = np.uint64(0)  # the order key of a NaN
ATOM_ROWS = 4  # a score this often in the sample is counted apart from its cell
CONSTANT_SHIFT = 63  # a prefix without samples: no bit of the offset tells cells apart


@dataclass(frozen=True)
class Cells:
    """A cell map; for each cell, the lowest key in it, and a key that many rows seem to share.

    A cell without such an atom has NO_ATOM, a key that no number has; ``atoms`` is None if all cells are.
    """

    cell_map: CellMap
    lowest: Keys
    atoms: Keys | None = None

    def key_ranges(self) -> tuple[Keys, Keys]:
        """Lowest and highest key of each cell."""
        return self.lowest, np.append(self.lowest[1:] - np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF))


def keys_of(scores: NDArray[Any]) -> Keys:
    """Order keys of a short score array."""
    keys = np.empty(scores.size, np.uint64)
    order_keys(score_block(scores), keys)
    return keys


def scores_of(keys: Keys) -> NDArray[np.float64]:
    """The scores that have these order keys."""
    sign_bit = np.uint64(1 << 63)
    return np.where(keys & sign_bit, keys ^ sign_bit, ~keys).view(np.float64)


def sample_of(scores: NDArray[Any]) -> NDArray[Any]:
    """Some rows, one at a random place in each of SAMPLE_ROWS stretches: no period of the data can hide."""
    n = scores.size
    if n <= SAMPLE_ROWS:
        return scores
    places = np.arange(SAMPLE_ROWS) + np.random.default_rng(0).random(SAMPLE_ROWS)
    return scores[(places * (n / SAMPLE_ROWS)).astype(np.int64)]


@lru_cache(maxsize=4)
def default_cells(n_cells: int) -> Cells:
    """Cells for when nothing is known: most for probabilities, some for tiny ones and for logits."""
    quarter = np.arange(1, 1025) / 1025
    logits = np.log(quarter / (1 - quarter))
    tiny = np.geomspace(1e-12, 1e-2, 512)
    return cells_from_sample(
        np.concatenate(
            [quarter, quarter**2, 1 - quarter**2, tiny, logits[::4], 8 * logits[::16], [0.0, 1.0]]
        ),
        n_cells,
    )


def cells_from_sample(sample: NDArray[Any], n_cells: int) -> Cells:
    """At most ``n_cells`` cells, dense where the sample of scores is, with the atoms that it shows."""
    keys = np.sort(keys_of(sample[sample == sample]))
    if keys.size == 0:
        return default_cells(n_cells)
    cells = cells_from_keys(keys, n_cells)
    return replace(cells, atoms=_atoms(keys, cells.lowest))


def _atoms(keys: Keys, lowest: Keys) -> Keys | None:
    """The most frequent key of each cell, where the ascending sample has it often enough."""
    distinct, copies = np.unique(keys, return_counts=True)
    often = copies >= ATOM_ROWS
    if not often.any():
        return None
    by_frequency = np.argsort(copies[often], kind="stable")
    candidates = distinct[often][by_frequency]
    atoms = np.full(lowest.size, NO_ATOM)
    atoms[np.searchsorted(lowest, candidates, side="right") - 1] = candidates  # the last one written stays
    return atoms


def cells_from_keys(keys: Keys, n_cells: int) -> Cells:
    """At most ``n_cells`` cells, dense where the ascending sample of order keys is."""
    base, top = int(keys[0]), int(keys[-1])
    offsets = keys - np.uint64(base)
    shift = max(0, (top - base).bit_length() - PREFIX_BITS)
    most = min(MOST_PREFIXES, n_cells // 4)
    while _n_prefixes(offsets, shift) > most and shift < min((top - base).bit_length(), CONSTANT_SHIFT):
        shift += 1
    occupied, counted = np.unique(offsets >> np.uint64(shift), return_counts=True)
    prefixes, mass = occupied.astype(np.int64), counted.astype(np.int64)

    # Each occupied prefix gets 2**bits cells by its share of the sample; each gap between them gets one.
    budget = max(n_cells - 2 * prefixes.size - 1, 1)
    bits = np.log2(1.0 + mass * (budget / keys.size)).astype(np.int64)
    bits = np.minimum(bits, shift)
    gap_follows = np.append(np.diff(prefixes) > 1, False)
    own_cells = np.int64(1) << bits
    first_cell = np.cumsum(own_cells + gap_follows) - own_cells - gap_follows

    table = _table(prefixes, first_cell, own_cells, shift - bits, shift, top - base)
    lowest, highest = scores_of(np.array([base, top], np.uint64)).tolist()
    cell_map = CellMap(np.uint64(base), np.uint64(top), lowest, highest, lowest >= 0, np.uint64(shift), table)
    cell_starts = _lowest_keys(prefixes, first_cell, own_cells, gap_follows, bits, base, shift)
    # Keys above the sample are clamped into the cell of its top; the cells behind that one stay empty.
    return Cells(cell_map, cell_starts[: int(cell_of(np.uint64(top), cell_map)) + 1])


def _n_prefixes(offsets: Keys, shift: int) -> int:
    """How many distinct prefixes ascending offsets have."""
    prefixes = offsets >> np.uint64(shift)
    return 1 + int(np.count_nonzero(prefixes[1:] != prefixes[:-1]))


def _table(
    prefixes: NDArray[np.int64],
    first_cell: NDArray[np.int64],
    own_cells: NDArray[np.int64],
    shifts: NDArray[np.int64],
    shift: int,
    span: int,
) -> Keys:
    """One entry per prefix: how far to shift the offset, and what to add (modulo 2**32) to get the cell."""
    everything = np.arange((span >> shift) + 1)
    owner = np.searchsorted(prefixes, everything, side="right") - 1
    is_gap = prefixes[owner] != everything
    cell = first_cell[owner] + np.where(is_gap, own_cells[owner], 0)
    entry_shift = np.where(is_gap, CONSTANT_SHIFT, shifts[owner]).astype(np.uint64)
    start = everything.astype(np.uint64) << np.uint64(shift)
    addend = (cell.astype(np.uint64) - (start >> entry_shift)) & np.uint64(0xFFFFFFFF)
    return (entry_shift << np.uint64(32)) | addend


def _lowest_keys(
    prefixes: NDArray[np.int64],
    first_cell: NDArray[np.int64],
    own_cells: NDArray[np.int64],
    gap_follows: NDArray[np.bool_],
    bits: NDArray[np.int64],
    base: int,
    shift: int,
) -> Keys:
    owner = np.repeat(np.arange(prefixes.size), own_cells + gap_follows)
    within = np.arange(owner.size) - first_cell[owner]
    step_bits = (shift - bits[owner]).astype(np.uint64)
    # A gap's "within" is own_cells, one past the prefix's own cells: its start is the next prefix's start.
    lowest = (
        np.uint64(base)
        + (prefixes[owner].astype(np.uint64) << np.uint64(shift))
        + (within.astype(np.uint64) << step_bits)
    )
    lowest[0] = 0  # keys below the sample are clamped into the first cell
    return lowest
