"""Pool-adjacent-violators on groups of rows, their label means compared exactly.

A group is a row of (rows, high, low): how many rows, and the two limbs of their label sum.
"""

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.ties import HALF_LIMB, HALF_MASK, LIMB, LIMB_MASK

LOW_UNIT = 0.5**LIMB  # of the low limb, in units of the high one
# Two products of rounded factors are off by under 2**-50 of themselves.
CLOSE = 0.5**48
# Two fractions with divisors below 2**44 differ by more than 2**-88, so in their first 95 bits: five digits.
FRACTION_DIGITS = 5


@jit
def compare_means(rows, high, low, other_rows, other_high, other_low):
    """1, 0 or -1 as the first group's mean is above, equal to or below the other's, exactly. O(1).

    Cross products decide in floating point where they are well apart; else long division does, digit by
    digit, in which nothing overflows below 2**39 rows (a product of integers would, from 3e9 rows on).
    """
    one = (high + low * LOW_UNIT) * other_rows
    other = (other_high + other_low * LOW_UNIT) * rows
    if abs(one - other) > CLOSE * (one + other):
        return 1 if one > other else -1

    digit, other_digit = high // rows, other_high // other_rows
    rest, other_rest = high - digit * rows, other_high - other_digit * other_rows
    for place in range(2 + FRACTION_DIGITS):
        if digit != other_digit:
            return 1 if digit > other_digit else -1
        if rest == 0 and other_rest == 0 and (place >= 2 or (low == 0 and other_low == 0)):
            return 0
        # The two halves of the low limb come down one after the other, then zeros.
        rest, other_rest = rest << HALF_LIMB, other_rest << HALF_LIMB
        if place == 0:
            rest, other_rest = rest | (low >> HALF_LIMB), other_rest | (other_low >> HALF_LIMB)
        elif place == 1:
            rest, other_rest = rest | (low & HALF_MASK), other_rest | (other_low & HALF_MASK)
        digit, other_digit = rest // rows, other_rest // other_rows
        rest, other_rest = rest - digit * rows, other_rest - other_digit * other_rows
    return np.sign(digit - other_digit)


@jit
def pool_violators(groups, first, blocks):
    """Pool neighbours until the means strictly increase; returns the number of blocks. O(groups).

    ``first`` takes the first group of each block, ``blocks`` its totals; both have room for every group.
    """
    n_blocks = 0
    for i in range(groups.shape[0]):
        begin, rows, high, low = i, groups[i, 0], groups[i, 1], groups[i, 2]
        while n_blocks > 0:
            left_rows, left_high, left_low = (
                blocks[n_blocks - 1, 0],
                blocks[n_blocks - 1, 1],
                blocks[n_blocks - 1, 2],
            )
            if compare_means(left_rows, left_high, left_low, rows, high, low) < 0:
                break
            n_blocks -= 1
            begin = first[n_blocks]
            rows, high, low = rows + left_rows, high + left_high, low + left_low
            high, low = high + (low >> LIMB), low & LIMB_MASK
        first[n_blocks] = begin
        blocks[n_blocks, 0], blocks[n_blocks, 1], blocks[n_blocks, 2] = rows, high, low
        n_blocks += 1
    return n_blocks


@jit
def find_open(groups, first, blocks, high_unit, margin, is_open):
    """Mark the groups inside which a block of finer groups may begin, or with which one does. O(groups).

    A group of m rows with label sum s has its corner m - s rows on, at the height where it began. It is
    marked where that is not above its block's line by more than the margin (in rows). Where all its labels
    are 0, or all are 1, its points lie on a line: no vertex is among them. Low limbs are added up without a
    carry: for fewer than 2**25 groups.
    """
    full = np.int64(1.0 / high_unit)
    for b in range(first.size):
        end = first[b + 1] if b + 1 < first.size else groups.shape[0]
        slope = (blocks[b, 1] + blocks[b, 2] * LOW_UNIT) * high_unit / blocks[b, 0]
        rows_before, high_before, low_before = 0, 0, 0
        for i in range(first[b], end):
            rows, high, low = groups[i, 0], groups[i, 1], groups[i, 2]
            corner = rows_before + rows - (high + low * LOW_UNIT) * high_unit
            height = (high_before + low_before * LOW_UNIT) * high_unit
            is_mixed = high < rows * full and (high > 0 or low > 0)
            is_open[i] = is_mixed and height <= slope * corner + margin
            rows_before, high_before, low_before = rows_before + rows, high_before + high, low_before + low
        is_open[first[b]] = True


@jit
def group_ties(order, keys, labels, group_keys, groups):
    """Rows, visited in an order that sorts their keys, as one group for each key; returns how many. O(n)."""
    at = -1
    for i in range(order.size):
        row = order[i]
        if at < 0 or keys[row] != group_keys[at]:
            at += 1
            group_keys[at] = keys[row]
            groups[at, 0], groups[at, 1], groups[at, 2] = 0, 0, 0
        low = groups[at, 2] + (labels[row] & LIMB_MASK)
        groups[at, 0] += 1
        groups[at, 1] += (labels[row] >> LIMB) + (low >> LIMB)
        groups[at, 2] = low & LIMB_MASK
    return at + 1


@jit
def group_binary_ties(negatives, positives, group_keys, groups):
    """The same from the ascending keys of the rows with label 0 and of those with label 1. O(n)."""
    at = 0
    i, j = 0, 0
    while i + j < negatives.size + positives.size:
        if j == positives.size or (i < negatives.size and negatives[i] < positives[j]):
            key = negatives[i]
        else:
            key = positives[j]
        begin, first_positive = i + j, j
        while i < negatives.size and negatives[i] == key:
            i += 1
        while j < positives.size and positives[j] == key:
            j += 1
        group_keys[at] = key
        groups[at, 0], groups[at, 1], groups[at, 2] = i + j - begin, j - first_positive, 0
        at += 1
    return at
