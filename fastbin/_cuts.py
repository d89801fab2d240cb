"""Where a fit ends: order statistics found exactly, and the label sum below each.

``Pieces`` are the stretches of the score line in which the cuts are known to lie; ``find_cuts`` turns them,
and the rows gathered from them, into the cuts, splitting tie groups by canonical keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastbin import _fixedpoint, _streams
from fastbin._kernels.ties import (
    count_around_cuts,
    gather_row_keys,
    histogram_row_keys,
    row_keys,
    split_binary_groups,
    tie_state,
)
from fastbin._parallel import parallel_map, row_ranges
from fastbin._pools import NO_COPIES, Ints, Keys, Pool

SMALL_GROUP = 1 << 14  # up to here a tie group's keys are simply sorted
GROUP_CELL_BITS = 14
ROWS_PER_TASK = 1 << 20


@dataclass(frozen=True, eq=False)
class Pieces:
    """Disjoint ascending stretches [low, high] of keys, each with the ranks that lie in it.

    ``below``, ``inside`` and ``at_atom`` are (pieces, 3): rows and the two limbs of the label sum, under the
    piece, in it, and at its ``atom``, a key whose rows need not be gathered (no rows: no atom). Piece p holds
    ranks rank_begin[p] .. rank_end[p] - 1 of the plan's ascending ranks.
    """

    low: Keys
    high: Keys
    below: Ints
    inside: Ints
    atom: Keys
    at_atom: Ints
    rank_begin: Ints
    rank_end: Ints

    @staticmethod
    def of_everything(total: Ints, n_ranks: int) -> Pieces:
        """The whole line as one piece that holds every rank (no piece where there is no cut)."""
        one = slice(0, 1 if n_ranks else 0)
        nothing = np.zeros((1, 3), np.int64)[one]
        return Pieces(
            np.zeros(1, np.uint64)[one],
            np.array([0xFFFFFFFFFFFFFFFF], np.uint64)[one],
            nothing,
            total[None, :][one],
            np.zeros(1, np.uint64)[one],
            nothing,
            np.zeros(1, np.int64)[one],
            np.array([n_ranks])[one],
        )

    def is_single(self) -> NDArray[np.bool_]:
        """Pieces that are one single value."""
        return np.equal(self.low, self.high)

    def to_gather(self) -> Ints:
        """Rows of each piece that are not at its atom."""
        return np.subtract(self.inside[:, 0], self.at_atom[:, 0])

    def check_gathered(self, pool: Pool) -> None:
        """All rows of the pieces are there."""
        wanted = self.inside[:, 0].sum()
        if self.low.size and pool.n_rows() != wanted:
            raise RuntimeError(
                f"the data changed during the fit: {wanted} rows were to be gathered, {pool.n_rows()} were "
                "found. Fit from data that stays as it is."
            )

    def piece_of_rank(self) -> Ints:
        """The piece of each rank that lies in one of these pieces, ascending."""
        return np.repeat(np.arange(self.low.size), self.rank_end - self.rank_begin)

    def take(self, chosen: NDArray[Any]) -> Pieces:
        """Some of the pieces, by mask or position."""
        return Pieces(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))

    def joined_with(self, other: Pieces) -> Pieces:
        """Both sets of pieces, ascending."""
        columns = [
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in self.__dataclass_fields__
        ]
        return Pieces(*columns).take(np.argsort(columns[0]))

    def with_atoms(self, atom: Keys, at_atom: Ints) -> Pieces:
        """The same pieces, with the rows of each that share one key known."""
        return replace(self, atom=atom, at_atom=at_atom)

    def gaps(self) -> tuple[Keys, Keys]:
        """The key ranges to gather: the pieces with their atoms left out, ascending."""
        has_atom = self.at_atom[:, 0] > 0
        one = np.uint64(1)
        low = np.concatenate([self.low, self.atom[has_atom] + one])
        high = np.concatenate([np.where(has_atom, self.atom - one, self.high), self.high[has_atom]])
        # A piece that begins or ends with its atom has no keys on that side (and low - 1 may wrap around).
        empty = np.concatenate([has_atom & (self.atom == self.low), (self.atom == self.high)[has_atom]])
        order = np.argsort(low[~empty])
        return low[~empty][order], high[~empty][order]

    def atom_rows(self) -> Pool:
        """The rows at the atoms, 0/1 labels, counted and not written out."""
        found = self.at_atom[:, 0] > 0
        keys, (rows, positives, _) = self.atom[found], self.at_atom[found].T
        return Pool(
            np.concatenate([keys, keys]),
            _fixedpoint.binary_words(np.repeat(np.array([1, 0]), keys.size)),
            np.concatenate([positives, rows - positives]),
        )

    def cut(self, ranks: Ints, first_cell: Ints, totals: Ints, low: Keys, high: Keys) -> Pieces:
        """The cells that hold a rank; piece p was cut into cells first_cell[p], first_cell[p] + 1, ..."""
        sums = np.zeros((totals.shape[0] + 1, 3), np.int64)
        np.cumsum(totals, axis=0, out=sums[1:])
        parent = self.piece_of_rank()
        sizes = self.rank_end - self.rank_begin
        rank_ids = np.arange(parent.size) + (self.rank_begin - np.cumsum(sizes) + sizes)[parent]
        # A rank inside its piece becomes a rank among all the cells laid side by side.
        wanted = ranks[rank_ids] - self.below[parent, 0] + sums[first_cell[parent], 0]
        cell = np.searchsorted(sums[1:, 0], wanted)
        starts = np.flatnonzero(np.append(True, cell[1:] > cell[:-1])[: cell.size])
        cells, parents = cell[starts], parent[starts]
        below = self.below[parents] + sums[cells] - sums[first_cell[parents]]
        ends = np.append(starts[1:], cell.size)[: starts.size]
        return Pieces(
            low[cells],
            high[cells],
            _carried(below),
            totals[cells],
            np.zeros(cells.size, np.uint64),
            np.zeros((cells.size, 3), np.int64),
            rank_ids[starts],
            rank_ids[ends - 1] + 1,
        )


@dataclass(frozen=True, eq=False)
class Cuts:
    """The cuts of a fit, ascending.

    ``keys`` order the scores, ``tie_keys`` the rows of equal score; ``label`` is the (cuts, 2) limbs of the
    cut's own label, ``before`` those of the sum of all labels before it, ``ties`` the rows at its score, and
    ``total`` the limbs of the sum of all labels.
    """

    keys: Keys
    tie_keys: Keys
    label: Ints
    before: Ints
    ties: Ints
    total: Ints


def find_cuts(
    pieces: Pieces | None,
    pool: Pool,
    ranks: Ints,
    total: Ints,
    seed: int,
    *,
    soft: bool,
    threads: int,
) -> Cuts:
    """The rows at the given ranks in the order of (score, canonical key).

    ``pool`` holds the rows of the pieces but those at their atoms, or all rows if there are no pieces;
    ``total`` is rows and label limbs of the whole data.
    """
    if pieces is not None and pieces.at_atom.any():
        pool = Pool.joined([pool, pieces.atom_rows()])
    if soft:
        pool = pool.folded()
    keys, below, equal = _select(pieces, pool, ranks)
    atom_seed = np.uint64(_streams.stream(_streams.ATOM, seed))
    n = np.int64(total[0])
    if soft:
        tie_keys, label, inside = _split_soft(atom_seed, n, ranks, keys, below, equal, pool)
    else:
        tie_keys, label, inside = _split_binary(atom_seed, n, ranks, keys, below, equal, threads)
    return Cuts(keys, tie_keys, label, _carried(below[:, 1:] + inside), equal[:, 0], total[1:])


def _carried(sums: Ints) -> Ints:
    """Carry the low limb (last column) into the high one (the column before it)."""
    sums[:, -2], sums[:, -1] = _fixedpoint.carry(sums[:, -2], sums[:, -1])
    return sums


def _select(pieces: Pieces | None, pool: Pool, ranks: Ints) -> tuple[Keys, Ints, Ints]:
    """For each rank: the key of its row, and rows and label limbs below and at that key."""
    if pieces is None:
        floors, bases = np.zeros(ranks.size, np.uint64), np.zeros((ranks.size, 3), np.int64)
        places = ranks - 1
    else:
        pieces.check_gathered(pool)
        rank_piece = pieces.piece_of_rank()
        floors, bases = pieces.low[rank_piece], pieces.below[rank_piece]
        # A rank in the data becomes a place among the gathered rows: the pieces laid side by side.
        inside = pieces.inside[:, 0]
        places = ranks - (bases[:, 0] - (np.cumsum(inside) - inside)[rank_piece]) - 1
    if pool.copies is None:
        keys = np.sort(pool.keys)[places]
    else:
        order = np.argsort(pool.keys)
        keys = pool.keys[order][np.searchsorted(np.cumsum(pool.copies[order]), places, side="right")]
    below, equal = np.zeros((2, ranks.size, 3), np.int64)
    copies = NO_COPIES if pool.copies is None else pool.copies
    count_around_cuts(pool.keys, pool.labels, copies, keys, floors, bases, below, equal)
    return keys, below, equal


def _groups(keys: Keys) -> list[slice]:
    """Runs of equal keys: the cuts that share a tie group."""
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: keys.size]).tolist()
    return [slice(begin, end) for begin, end in pairwise([*starts, keys.size])]


def _split_binary(
    seed: np.uint64, n: np.int64, ranks: Ints, keys: Keys, below: Ints, equal: Ints, threads: int
) -> tuple[Keys, Ints, Ints]:
    """Per rank: tie key, label limbs, label limbs of the rows of its group with smaller keys."""
    tie_keys = np.zeros(ranks.size, np.uint64)
    label, before = np.zeros((2, ranks.size, 2), np.int64)
    split_binary_groups(seed, n, ranks, keys, below, equal, SMALL_GROUP, tie_keys, label, before)
    if (equal[:, 0] > SMALL_GROUP).any():
        for own in _groups(keys):
            size, positives = equal[own.start, :2].tolist()
            if size > SMALL_GROUP:
                state = np.uint64(tie_state(seed, n, below, equal, own.start))
                local = ranks[own] - below[own.start, 0]
                tie_keys[own], label[own, 0], before[own, 0] = _split_large_group(
                    state, size, positives, local, threads
                )
    return tie_keys, label, before


def select_row_key(state: np.uint64, n: int, rank: int, threads: int) -> np.uint64:
    """The key of that rank among those of rows 0 .. n - 1 of a stream; many are generated, never stored."""
    if n <= SMALL_GROUP:
        few = np.empty(n, np.uint64)
        row_keys(state, few)
        return np.uint64(np.partition(few, rank - 1)[rank - 1])
    keys, _, _ = _split_large_group(state, n, 0, np.array([rank]), threads)
    return np.uint64(keys[0])


def _split_large_group(
    state: np.uint64, size: int, positives: int, ranks: Ints, threads: int
) -> tuple[Keys, Ints, Ints]:
    """The ordinary selection, on (key, label) pairs that are generated, counted and gathered on the fly."""
    shift = np.uint64(64 - GROUP_CELL_BITS)
    n_cells = 1 << GROUP_CELL_BITS

    def tasks() -> Iterator[tuple[int, int, int]]:  # rows begin .. end - 1, all of one label
        for first, rows, label in ((0, positives, 1), (positives, size - positives, 0)):
            for start, stop in row_ranges(rows, threads, ROWS_PER_TASK):
                yield first + start, first + stop, label

    def count(task: tuple[int, int, int]) -> Keys:
        packed = np.zeros(n_cells, np.uint64)
        histogram_row_keys(state, task[0], task[1], np.uint64(task[2]), shift, packed)
        return packed

    totals = np.zeros((n_cells, 3), np.int64)
    for packed in parallel_map(count, tasks(), threads):
        totals[:, 0] += (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
        totals[:, 1] += (packed >> np.uint64(32)).astype(np.int64)

    low = np.arange(n_cells, dtype=np.uint64) << shift
    high = low + ((np.uint64(1) << shift) - np.uint64(1))
    total = np.array([size, positives, 0])
    pieces = Pieces.of_everything(total, ranks.size).cut(ranks, np.zeros(1, np.int64), totals, low, high)
    wanted = np.zeros(n_cells, np.bool_)
    wanted[(pieces.low >> shift).astype(np.int64)] = True
    most = int(pieces.inside[:, 0].sum())

    def collect(task: tuple[int, int, int]) -> Pool:
        keys = np.empty(min(most, task[1] - task[0]), np.uint64)
        found = gather_row_keys(state, task[0], task[1], shift, wanted, keys)
        return Pool(keys[:found].copy(), _fixedpoint.binary_words(np.full(found, task[2])))

    pool = Pool.joined(list(parallel_map(collect, tasks(), threads)))
    keys, below, equal = _select(pieces, pool, ranks)
    return keys, equal[:, 1], below[:, 1]


def _split_soft(
    seed: np.uint64, n: np.int64, ranks: Ints, keys: Keys, below: Ints, equal: Ints, pool: Pool
) -> tuple[Keys, Ints, Ints]:
    """``_split_binary`` for fractions: each group's labels, largest first, are keyed and sorted."""
    tie_keys = np.zeros(ranks.size, np.uint64)
    label, before = np.zeros((2, ranks.size, 2), np.int64)
    for own in _groups(keys):
        words = pool.labels_at(keys[own.start])
        row_tie_keys = np.empty(words.size, np.uint64)
        row_keys(np.uint64(tie_state(seed, n, below, equal, own.start)), row_tie_keys)
        order = np.argsort(row_tie_keys)
        places = ranks[own] - below[own.start, 0] - 1
        tie_keys[own] = row_tie_keys[order][places]
        high, low = words[order] >> _fixedpoint.LOW_BITS, words[order] & _fixedpoint.LOW_MASK
        label[own, 0], label[own, 1] = high[places], low[places]
        # The low limb is summed in halves, so that 2**44 rows would fit.
        half, mask = _fixedpoint.LOW_BITS // 2, (1 << _fixedpoint.LOW_BITS // 2) - 1
        fine = (np.cumsum(low & mask) - (low & mask))[places]
        coarse = (np.cumsum(low >> half) - (low >> half))[places] + (fine >> half)
        before[own, 0] = (np.cumsum(high) - high)[places] + (coarse >> half)
        before[own, 1] = ((coarse & mask) << half) | (fine & mask)
    return tie_keys, label, before
