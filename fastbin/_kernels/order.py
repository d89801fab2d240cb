"""Ordering rows by (key, hash): scatter into cells, sort words of (key bits, row), settle what is left.

A word holds the high bits of a key's offset in its cell above the row's number, so that sorting plain
64-bit integers sorts the rows; runs of equal offset are then settled by the full key and the row's hash.
"""

import numpy as np

from fastbin._jit import jit
from fastbin._kernels.cells import cell_of
from fastbin._kernels.hashing import row_key

FULLEST_SLOT = 48


@jit
def count_cells(keys, cell_map, counts, key_span):
    """Rows per cell, and its smallest and largest key (``key_span`` comes in as 2**64 - 1 and 0). O(n)."""
    for i in range(keys.size):
        key = keys[i]
        cell = cell_of(key, cell_map)
        counts[cell] += 1
        key_span[cell, 0] = min(key_span[cell, 0], key)
        key_span[cell, 1] = max(key_span[cell, 1], key)


@jit
def scatter_words(keys, first_row, cell_map, lowest, shifts, row_bits, places, words):
    """Write each row's word at its cell's next free place. O(n)."""
    for i in range(keys.size):
        cell = cell_of(keys[i], cell_map)
        offset = (keys[i] - lowest[cell]) >> shifts[cell]
        words[places[cell]] = (offset << row_bits) | np.uint64(first_row + i)
        places[cell] += 1


@jit
def hash_of(row, ids, state):
    """The tie key of a local row; ``ids`` are the rows' numbers in the caller's array (empty: the same)."""
    return row_key(state, np.uint64(ids[row]) if ids.size else np.uint64(row))


@jit
def fill_hashes(ids, first_row, state, hashes):
    """The tie keys of rows first_row, first_row + 1, ... O(rows)."""
    for i in range(hashes.size):
        hashes[i] = hash_of(first_row + i, ids, state)


@jit
def fill_hashes_if_equal(scores, value, first_row, state, hashes):
    """The tie keys of rows first_row, ...; returns whether all scores equal the value. O(rows)."""
    all_equal = True
    for i in range(scores.size):
        all_equal &= scores[i] == value
        hashes[i] = row_key(state, np.uint64(first_row + i))
    return all_equal


@jit
def has_one_key(words, keys, row_bits):
    """Whether all rows of these words have the same key. O(words)."""
    mask = (np.uint64(1) << row_bits) - np.uint64(1)
    for i in range(1, words.size):  # noqa: SIM110 - numba knows no generators
        if keys[words[i] & mask] != keys[words[0] & mask]:
            return False
    return True


@jit
def hash_words(words, ids, state, row_bits):
    """Put the high bits of each row's tie key in place of its key's. O(words)."""
    mask = (np.uint64(1) << row_bits) - np.uint64(1)
    for i in range(words.size):
        row = words[i] & mask
        words[i] = (hash_of(np.int64(row), ids, state) & ~mask) | row


@jit
def sort_words(words, scratch, counts):
    """Sort distinct words in place: spread by their leading bits, then insertion. O(n) for even words.

    Returns False, with nothing moved, where more than FULLEST_SLOT words share a slot. 3 ns a word where
    numpy.sort takes 11 to 28 (Zen 4).
    """
    low, high = words[0], words[0]
    for i in range(words.size):
        low, high = min(low, words[i]), max(high, words[i])
    shift = np.uint64(0)
    # Not `+ 2 > counts.size`: words 0 and 2**64 - 1 are possible, and the sum would wrap around.
    while ((high - low) >> shift) > np.uint64(counts.size - 2):
        shift += np.uint64(1)
    counts[:] = 0
    for i in range(words.size):
        counts[((words[i] - low) >> shift) + np.uint64(1)] += 1
    for slot in range(1, counts.size):
        if counts[slot] > FULLEST_SLOT:
            return False
        counts[slot] += counts[slot - 1]
    for i in range(words.size):
        slot = (words[i] - low) >> shift
        scratch[counts[slot]] = words[i]
        counts[slot] += 1
    for i in range(words.size):
        word = scratch[i]
        j = i
        while j > 0 and words[j - 1] > word:
            words[j] = words[j - 1]
            j -= 1
        words[j] = word
    return True


@jit
def settle_runs(words, keys, ids, state, row_bits, longest, long_runs):
    """Order each run of equal offset by (key, hash) of its rows; runs over ``longest`` are listed instead.

    Returns how many were listed, as (begin, end) rows of ``long_runs``. O(n + sum of squares of run lengths).
    """
    mask = (np.uint64(1) << row_bits) - np.uint64(1)
    listed = 0
    begin = 0
    while begin < words.size:
        end = begin + 1
        while end < words.size and (words[end] ^ words[begin]) <= mask:
            end += 1
        if end - begin > longest:
            long_runs[listed, 0] = begin
            long_runs[listed, 1] = end
            listed += 1
        elif end - begin > 1:
            for i in range(begin + 1, end):  # insertion sort
                word = words[i]
                row = np.int64(word & mask)
                key, tie = keys[row], hash_of(row, ids, state)
                j = i
                while j > begin:
                    other = np.int64(words[j - 1] & mask)
                    if keys[other] < key or (keys[other] == key and hash_of(other, ids, state) < tie):
                        break
                    words[j] = words[j - 1]
                    j -= 1
                words[j] = word
        begin = end
    return listed


@jit
def write_rows(words, row_bits, rows):
    """The row numbers out of the words. O(n)."""
    mask = (np.uint64(1) << row_bits) - np.uint64(1)
    for i in range(words.size):
        rows[i] = np.int64(words[i] & mask)
