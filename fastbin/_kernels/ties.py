"""Finishing a fit exactly: what lies below each cut, and tie groups split by their canonical keys.

The k rows of a tie group that holds a cut are numbered by decreasing label and keyed by hash, so the
split depends on the multiset of rows and the seed alone, not on any order of the rows.
"""

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.hashing import ONE, SHIFT_32, absorb, row_key

LIMB = 38  # bits of the low limb of a label sum
LIMB_MASK = (1 << LIMB) - 1
HALF_LIMB = LIMB // 2
HALF_MASK = (1 << HALF_LIMB) - 1


@jit
def row_keys(state, keys):
    """Fill ``keys`` with the keys of rows 0, 1, 2, ... of a stream. O(rows)."""
    for i in range(keys.size):
        keys[i] = row_key(state, np.uint64(i))


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
def add_labels(target, at, copies, word):
    """Add rows and label limbs, the low limb in halves and carried, so that no number of copies overflows."""
    high, low = word >> LIMB, word & LIMB_MASK
    coarse = (low >> HALF_LIMB) * copies
    fine = (low & HALF_MASK) * copies
    coarse += fine >> HALF_LIMB
    low_sum = target[at, 2] + ((coarse & HALF_MASK) << HALF_LIMB) + (fine & HALF_MASK)
    target[at, 0] += copies
    target[at, 1] += copies * high + (coarse >> HALF_LIMB) + (low_sum >> LIMB)
    target[at, 2] = low_sum & LIMB_MASK


@jit
def carry(target, at):
    """Bring the low limb of one row of sums to 0 <= low < 2**38."""
    target[at, 1] += target[at, 2] >> LIMB
    target[at, 2] &= LIMB_MASK


@jit
def count_around_cuts(keys, labels, copies, cuts, floors, bases, below, equal):
    """For each cut: rows and label limbs (n, 3) below it and at it, among all rows of the data.

    ``cuts`` ascend and may repeat. The rows given are those of the pieces that the cuts lie in; ``floors`` is
    the lowest key of each cut's piece, ``bases`` what lies below that piece; no ``copies`` means one of each.
    O(rows log cuts).
    """
    distinct = np.empty(cuts.size, np.uint64)
    first = np.empty(cuts.size + 1, np.int64)
    n_distinct = 0
    for r in range(cuts.size):
        if r == 0 or cuts[r] != cuts[r - 1]:
            distinct[n_distinct] = cuts[r]
            first[n_distinct] = r
            n_distinct += 1
    first[n_distinct] = cuts.size

    for i in range(keys.size):
        at = first_not_below(distinct, keys[i], 0, n_distinct)
        if at == n_distinct or keys[i] < floors[first[at]]:
            continue  # above the last cut of its piece
        target = equal if keys[i] == distinct[at] else below
        add_labels(target, first[at], copies[i] if copies.size else 1, labels[i])

    for at in range(n_distinct):
        r = first[at]
        same_piece = at > 0 and floors[r] == floors[r - 1]
        for column in range(3):
            below[r, column] += (
                below[r - 1, column] + equal[r - 1, column] if same_piece else bases[r, column]
            )
        carry(below, r)
        for other in range(r + 1, first[at + 1]):
            below[other] = below[r]
            equal[other] = equal[r]


@jit
def tie_state(seed, n, below, equal, r):
    """The hash state that keys the rows of the tie group of cut r; ``seed`` has absorbed tag and seed."""
    state = absorb(seed, np.uint64(n))
    for column in range(3):
        state = absorb(state, np.uint64(below[r, column]))
    for column in range(3):
        state = absorb(state, np.uint64(equal[r, column]))
    return state


@jit
def split_binary_groups(seed, n, ranks, cuts, below, equal, largest, cut_keys, label, before):
    """Split every tie group of at most ``largest`` rows with 0/1 labels at the cuts that lie in it.

    Cuts of one group have equal entries in ``cuts``. Per cut: the key of its row, the limbs of the row's
    label, and of the group's positives with smaller keys; they come in as zeros. O(k log k) for k rows.
    """
    begin = 0
    while begin < cuts.size:
        end = begin + 1
        while end < cuts.size and cuts[end] == cuts[begin]:
            end += 1
        size, positives = equal[begin, 0], equal[begin, 1]
        if size == 1:
            cut_keys[begin] = row_key(tie_state(seed, n, below, equal, begin), np.uint64(0))
            label[begin, 0] = positives
        elif size <= largest:
            keys = np.empty(size, np.uint64)
            row_keys(tie_state(seed, n, below, equal, begin), keys)
            ordered = np.sort(keys)
            for r in range(begin, end):
                cut_keys[r] = ordered[ranks[r] - below[r, 0] - 1]
            # Rows 0 .. positives-1 are the positives: count each below the first cut that is above it.
            for i in range(positives):
                r = first_not_below(cut_keys, keys[i], begin, end)
                if r < end and cut_keys[r] == keys[i]:
                    label[r, 0] = 1
                    r += 1
                if r < end:
                    before[r, 0] += 1
            for r in range(begin + 1, end):
                before[r, 0] += before[r - 1, 0]
        begin = end


@jit
def sums_between_cuts(before, label, total, interior):
    """Label limbs strictly between cuts: all below the next, less all that ends with this one. O(bins)."""
    last = before.shape[0]
    for b in range(last + 1):
        for limb in range(2):
            upper = before[b, limb] if b < last else total[limb]
            lower = before[b - 1, limb] + label[b - 1, limb] if b > 0 else 0
            interior[b, limb] = upper - lower
        interior[b, 0] += interior[b, 1] >> LIMB
        interior[b, 1] &= LIMB_MASK


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
