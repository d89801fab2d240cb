"""Finishing a fit exactly: what lies below each cut, and tie groups split by their canonical keys.

The k rows of a tie group that holds a cut are numbered by decreasing label and keyed by hash, so the
split depends on the multiset of rows and the seed alone, not on any order of the rows.
"""

from typing import NamedTuple

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.hashing import ONE, absorb, row_key

SHIFT_32 = np.uint64(32)
LIMB = 38  # bits of the low limb of a label sum
LIMB_MASK = (1 << LIMB) - 1
HALF_LIMB = LIMB // 2
HALF_MASK = (1 << HALF_LIMB) - 1


class Groups(NamedTuple):
    """Tie groups that hold cuts, one column each, and the cuts' ranks inside them (1-based, ascending).

    Group g holds ranks first_rank[g] .. first_rank[g + 1] - 1. Label sums are fixed-point limb pairs.
    """

    below: np.ndarray
    below_high: np.ndarray
    below_low: np.ndarray
    size: np.ndarray
    high: np.ndarray
    low: np.ndarray
    first_rank: np.ndarray
    ranks: np.ndarray


@jit
def first_not_below(values, value, begin, end):
    """First position in sorted ``values[begin:end]`` that is not below ``value``. O(log n)."""
    while begin < end:
        middle = (begin + end) // 2
        if values[middle] < value:
            begin = middle + 1
        else:
            end = middle
    return begin


@jit
def add_labels(target, at, copies, high, low):
    """Add rows and label limbs, the low limb in halves and carried, so that no number of copies overflows."""
    coarse = (low >> HALF_LIMB) * copies
    fine = (low & HALF_MASK) * copies
    coarse += fine >> HALF_LIMB
    low_sum = target[at, 2] + ((coarse & HALF_MASK) << HALF_LIMB) + (fine & HALF_MASK)
    target[at, 0] += copies
    target[at, 1] += copies * high + (coarse >> HALF_LIMB) + (low_sum >> LIMB)
    target[at, 2] = low_sum & LIMB_MASK


@jit
def tally_around_cuts(keys, high_limbs, low_limbs, copies, cuts, floors, below, equal):
    """For each cut: rows and label limbs with floor <= key < cut and above the cut before it; and at the cut.

    ``cuts`` ascend and are distinct; ``below`` and ``equal`` are (cuts, 3) and added to. O(rows log cuts).
    """
    for i in range(keys.size):
        key = keys[i]
        at = first_not_below(cuts, key, 0, cuts.size)
        if at == cuts.size or key < floors[at]:
            continue
        target = equal if key == cuts[at] else below
        add_labels(target, at, copies[i], high_limbs[i], low_limbs[i])


@jit
def tie_state(seed, n, groups, g):
    """The hash state that keys the rows of tie group g."""
    state = absorb(seed, np.uint64(n))
    state = absorb(state, np.uint64(groups.below[g]))
    state = absorb(state, np.uint64(groups.below_high[g]))
    state = absorb(state, np.uint64(groups.below_low[g]))
    state = absorb(state, np.uint64(groups.size[g]))
    state = absorb(state, np.uint64(groups.high[g]))
    return absorb(state, np.uint64(groups.low[g]))


@jit
def split_binary_groups(seed, n, groups, largest, cut_keys, cut_labels, positives_before):
    """Split every tie group of at most ``largest`` rows with 0/1 labels; ``seed`` has absorbed tag and seed.

    Per rank: the key of that row, its label, and the positives of its group with smaller keys.
    O(k log k) for a group of k rows.
    """
    for g in range(groups.size.size):
        size = groups.size[g]
        if size > largest:
            continue
        state = tie_state(seed, n, groups, g)
        begin, end = groups.first_rank[g], groups.first_rank[g + 1]
        if size == 1:
            cut_keys[begin] = row_key(state, np.uint64(0))
            cut_labels[begin] = groups.high[g]
            continue
        keys = np.empty(size, np.uint64)
        for i in range(size):
            keys[i] = row_key(state, np.uint64(i))
        ordered = np.sort(keys)
        for r in range(begin, end):
            cut_keys[r] = ordered[groups.ranks[r] - 1]
        # Rows 0 .. positives-1 are the positives: count each below the first cut that is above it.
        for i in range(groups.high[g]):
            r = first_not_below(cut_keys, keys[i], begin, end)
            if r < end and cut_keys[r] == keys[i]:
                cut_labels[r] = 1
                r += 1
            if r < end:
                positives_before[r] += 1
        for r in range(begin + 1, end):
            positives_before[r] += positives_before[r - 1]


@jit
def row_keys(state, keys):
    """Fill ``keys`` with the keys of rows 0, 1, 2, ... of a stream. O(rows)."""
    for i in range(keys.size):
        keys[i] = row_key(state, np.uint64(i))


@jit
def histogram_row_keys(state, start, stop, label, shift, packed):
    """Count rows start..stop-1 of a stream, all of one 0/1 label, by the top bits of their keys. O(rows)."""
    one_row = ONE | (label << SHIFT_32)
    for i in range(start, stop):
        packed[row_key(state, np.uint64(i)) >> shift] += one_row


@jit
def gather_row_keys(state, start, stop, shift, wanted, keys):
    """Keys of rows start..stop-1 that fall into wanted cells; returns how many (written while they fit)."""
    found = 0
    for i in range(start, stop):
        key = row_key(state, np.uint64(i))
        if wanted[key >> shift]:
            if found < keys.size:
                keys[found] = key
            found += 1
    return found
