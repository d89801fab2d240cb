"""Order-preserving cells on the score line: the histogram, refinement and gather passes of a fit.

A *cell map* sends an order key to a cell by one table look-up: the key's offset from ``base`` is cut to a
prefix, and the prefix's table entry says how many further bits of the offset tell its cells apart. So any
distribution gets cells of about equal mass (logits, probabilities near 0, 300 decades alike), and a cell
is always an interval of keys.
"""

from typing import NamedTuple

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.hashing import ONE, SHIFT_32, SHIFT_63, SIGN_BIT, ZERO, order_key
from fastbin._kernels.ties import LIMB, LIMB_MASK

MASK_32 = np.uint64(0xFFFFFFFF)


class CellMap(NamedTuple):
    """Keys are clamped to [base, top]; a ``table`` entry is a shift (high half) and an addend (low half).

    ``lowest`` and ``highest`` are the scores of base and top; ``no_sign`` says that they are not negative.
    """

    base: np.uint64
    top: np.uint64
    lowest: float
    highest: float
    no_sign: bool
    shift: np.uint64
    table: np.ndarray


class Ranges(NamedTuple):
    """Disjoint ascending key ranges [low, high]; cell c holds ranges first[c] .. first[c + 1] - 1.

    ``wanted[c]`` is whether that is any: for most scores one byte is all that is looked at.
    """

    wanted: np.ndarray
    first: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Subcells(NamedTuple):
    """Range j is cut into subcells, from ``first[j]`` on, of 2**shift[j] keys each."""

    first: np.ndarray
    shift: np.ndarray


@jit
def cell_at(offset, cell_map):
    """The cell of a key by its offset from the base."""
    entry = cell_map.table[offset >> cell_map.shift]
    return (entry + (offset >> (entry >> SHIFT_32))) & MASK_32


@jit
def cell_of(key, cell_map):
    """The cell of a key: monotone in the key. O(1)."""
    return cell_at(min(max(key, cell_map.base), cell_map.top) - cell_map.base, cell_map)


@jit
def cell_of_score(score, cell_map):
    """``cell_of(order_key(score))`` in fewer operations: clamped before there is a key. NaN: the first cell.

    The compiler takes the test of ``no_sign`` out of the loop. 1.3 against 1.75 ns a row in the histogram.
    """
    inside = np.float64(score)
    inside = inside if inside > cell_map.lowest else cell_map.lowest  # noqa: FURB136 - max() may keep a NaN
    inside = inside if inside < cell_map.highest else cell_map.highest  # noqa: FURB136
    if cell_map.no_sign:
        return cell_at((np.float64(inside).view(np.uint64) | SIGN_BIT) - cell_map.base, cell_map)
    return cell_at(order_key(inside) - cell_map.base, cell_map)


@jit
def range_of(key, low, high, begin, end):
    """Which of the ranges begin .. end-1 holds the key, or -1. O(log(end - begin)), O(1) for one range."""
    while end - begin > 1:
        middle = (begin + end) // 2
        if high[middle - 1] < key:
            begin = middle
        else:
            end = middle
    if low[begin] <= key <= high[begin]:
        return begin
    return -1


@jit
def histogram_binary(scores, labels, cell_map, packed):
    """Add each row to its cell: 1 in the low half, the 0/1 label in the high half.

    Returns whether a score is NaN. Fewer than 2**31 rows may be added to one ``packed`` array. O(n).
    """
    last_nan = 0.0
    for i in range(scores.size):
        score = scores[i]
        last_nan = score if score != score else last_nan  # a count would take three operations more
        packed[cell_of_score(score, cell_map)] += ONE | (np.uint64(labels[i]) << SHIFT_32)
    return last_nan != last_nan


@jit
def histogram_atoms(scores, labels, cell_map, atoms, packed):
    """The same with two entries a cell: rows at its atom in 2 * cell, others in the next. O(n)."""
    last_nan = 0.0
    for i in range(scores.size):
        score = scores[i]
        last_nan = score if score != score else last_nan  # a count would take three operations more
        key = order_key(score)
        cell = cell_of(key, cell_map)
        # 0 or 1 by arithmetic: with a comparison the compiler branches, three times slower on random atoms.
        difference = key ^ atoms[cell]
        differs = (difference | (ZERO - difference)) >> SHIFT_63
        packed[cell + cell + differs] += ONE | (np.uint64(labels[i]) << SHIFT_32)
    return last_nan != last_nan


@jit
def histogram_soft(scores, labels, cell_map, totals):
    """Rows and label limbs per cell, added to (cells, 3) ``totals``. Returns whether any is NaN. O(n)."""
    last_nan = 0.0
    for i in range(scores.size):
        score = scores[i]
        last_nan = score if score != score else last_nan  # a count would take three operations more
        cell = cell_of_score(score, cell_map)
        totals[cell, 0] += 1
        totals[cell, 1] += labels[i] >> LIMB
        totals[cell, 2] += labels[i] & LIMB_MASK
    return last_nan != last_nan


@jit
def refine(scores, labels, cell_map, ranges, subcells, totals, key_span):
    """Per subcell of the wanted ranges: rows, label limbs (``totals``) and extreme keys (``key_span``). O(n).

    The extremes show a subcell that is one value: an atom needs no gathering.
    """
    wanted, first, low, high = ranges.wanted, ranges.first, ranges.low, ranges.high
    for i in range(scores.size):
        cell = cell_of_score(scores[i], cell_map)
        if not wanted[cell]:
            continue
        key = order_key(scores[i])
        at = range_of(key, low, high, np.int64(first[cell]), np.int64(first[cell + ONE]))
        if at < 0:
            continue
        sub = subcells.first[at] + np.int64((key - low[at]) >> subcells.shift[at])
        totals[sub, 0] += 1
        totals[sub, 1] += labels[i] >> LIMB
        totals[sub, 2] += labels[i] & LIMB_MASK
        key_span[sub, 0] = min(key_span[sub, 0], key)
        key_span[sub, 1] = max(key_span[sub, 1], key)


@jit
def gather(scores, cell_map, ranges, keys, rows):
    """Keys and row numbers of the scores inside the ranges; returns how many were found. O(n)."""
    wanted, first, low, high = ranges.wanted, ranges.first, ranges.low, ranges.high
    found = 0
    for i in range(scores.size):
        cell = cell_of_score(scores[i], cell_map)
        if wanted[cell]:
            key = order_key(scores[i])
            if range_of(key, low, high, np.int64(first[cell]), np.int64(first[cell + ONE])) >= 0:
                keys[found] = key
                rows[found] = i
                found += 1
    return found
