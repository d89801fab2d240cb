"""Sorting rows by score with ties in uniformly random, reproducible order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _streams, _validate
from fastbin._cellmaps import Cells, cells_from_keys, sample_of
from fastbin._kernels.hashing import order_keys
from fastbin._kernels.order import (
    count_cells,
    fill_hashes,
    has_one_key,
    hash_words,
    scatter_words,
    settle_runs,
    write_rows,
)
from fastbin._parallel import parallel_map, row_ranges

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]

SMALL = 1 << 12
BLOCK_ROWS = 1 << 20
SORT_CELLS = 1 << 11  # more cells would not fit the write buffers of the scatter, fewer sort slower
HEAVY_SHARE = 16  # a cell with over 1/16 of the rows is sorted by all threads together
LONGEST_RUN = 32


def tie_broken_argsort(
    scores: ArrayLike, *, rng: int | np.random.Generator | None = 0, threads: int | None = None
) -> Rows:
    """The permutation that sorts the scores, ties in uniformly random order.

    Parameters
    ----------
    scores : array_like
        One-dimensional scores without NaN.
    rng : int, numpy.random.Generator or None
        Seed of the tie keys: a row's key is a hash of the seed and its position.
    threads : int, optional
        None means all cores of the process.

    Returns
    -------
    ndarray of int64
        Row numbers in ascending order of (score, key); the same for any number of threads.

    Examples
    --------
    >>> import fastbin as fb
    >>> fb.tie_broken_argsort([0.3, 0.1, 0.2])
    array([1, 2, 0])
    >>> fb.tie_broken_argsort([1.0, 1.0, 1.0, 0.0], rng=1)
    array([3, 2, 0, 1])
    """
    column = _validate.score_array(scores)
    n_threads = _validate.thread_number(threads)
    state = _streams.stream(_streams.SORT, _streams.seed_from(rng))
    keys = np.empty(column.size, np.uint64)

    def fill(rows: tuple[int, int]) -> int:
        return int(order_keys(_validate.score_block(column[slice(*rows)]), keys[slice(*rows)]))

    n_nan = sum(parallel_map(fill, row_ranges(column.size, n_threads, BLOCK_ROWS), n_threads))
    if n_nan:
        first = int(np.flatnonzero(np.isnan(column))[0])
        raise ValueError(f"scores must not be NaN; found {n_nan} NaN, first at row {first}. Drop those rows.")
    return _sorted_rows(keys, np.empty(0, np.int64), state, n_threads)


def _hashes(n: int, ids: Rows, state: int, threads: int) -> Keys:
    """Tie keys of n rows."""
    hashes = np.empty(n, np.uint64)

    def fill(rows: tuple[int, int]) -> None:
        fill_hashes(ids, rows[0], np.uint64(state), hashes[slice(*rows)])

    for _ in parallel_map(fill, row_ranges(n, threads, BLOCK_ROWS), threads):
        pass
    return hashes


def _sorted_rows(keys: Keys, ids: Rows, state: int, threads: int) -> Rows:
    """Local rows in the order of (key, hash); ``ids`` are their numbers for the hash, empty: the same."""
    n = keys.size
    if n <= SMALL:
        return np.lexsort((_hashes(n, ids, state, 1), keys))
    extremes = [keys.min(), keys.max()]
    if extremes[0] == extremes[1]:  # an atom: only the hashes differ, and they are distinct
        keys = _hashes(n, ids, state, threads)
        extremes = [keys.min(), keys.max()]
    # The extremes are in the sample, so that they fall into different cells: recursion always gets ahead.
    cells = cells_from_keys(np.sort(np.append(sample_of(keys), extremes)), SORT_CELLS)
    row_bits = (n - 1).bit_length()
    words, starts = _scatter(keys, cells, row_bits, threads)
    order = np.empty(n, np.int64)
    sizes = np.diff(starts)
    heavy = sizes > max(n // HEAVY_SHARE, SMALL)

    def sort_cell(cell: int) -> None:
        own = slice(starts[cell], starts[cell + 1])
        _sort_words(words[own], keys, ids, state, row_bits)
        write_rows(words[own], np.uint64(row_bits), order[own])

    light = np.flatnonzero(~heavy & (sizes > 0))
    for _ in parallel_map(sort_cell, light.tolist(), threads):
        pass
    for cell in np.flatnonzero(heavy):
        own = slice(starts[cell], starts[cell + 1])
        rows = np.empty(sizes[cell], np.int64)
        write_rows(words[own], np.uint64(row_bits), rows)
        local = _sorted_rows(keys[rows], ids[rows] if ids.size else rows, state, threads)
        order[own] = rows[local]
    return order


def _scatter(keys: Keys, cells: Cells, row_bits: int, threads: int) -> tuple[Keys, Rows]:
    """Words grouped by cell, and where each cell's words start."""
    lowest, highest = cells.key_ranges()
    span_bits = np.array([int(span).bit_length() for span in highest - lowest])
    shifts = np.maximum(span_bits - (64 - row_bits), 0).astype(np.uint64)
    blocks = row_ranges(keys.size, threads, max(BLOCK_ROWS, keys.size // threads))

    def count(rows: tuple[int, int]) -> Rows:
        counts = np.zeros(lowest.size, np.int64)
        count_cells(keys[slice(*rows)], cells.cell_map, counts)
        return counts

    counts = np.array(list(parallel_map(count, blocks, threads)))
    totals = counts.sum(axis=0)
    starts = np.concatenate([[0], np.cumsum(totals)])
    places = starts[:-1] + np.cumsum(counts, axis=0) - counts  # one row of places for each block
    words = np.empty(keys.size, np.uint64)

    def write(task: tuple[int, tuple[int, int]]) -> None:
        block, rows = task
        scatter_words(
            keys[slice(*rows)],
            rows[0],
            cells.cell_map,
            lowest,
            shifts,
            np.uint64(row_bits),
            places[block],
            words,
        )

    for _ in parallel_map(write, enumerate(blocks), threads):
        pass
    return words, starts


def _sort_words(words: Keys, keys: Keys, ids: Rows, state: int, row_bits: int) -> None:
    """Sort the words of one cell in place; equal offsets by full key and hash."""
    words.sort()
    bits, hash_state = np.uint64(row_bits), np.uint64(state)
    long_runs = np.empty((words.size // LONGEST_RUN + 1, 2), np.int64)
    listed = settle_runs(words, keys, ids, hash_state, bits, LONGEST_RUN, long_runs)
    for begin, end in long_runs[:listed].tolist():
        run = words[begin:end]
        if has_one_key(run, keys, bits):
            hash_words(run, ids, hash_state, bits)
            run.sort()
            settle_runs(run, keys, ids, hash_state, bits, run.size, long_runs)
        else:  # distinct keys closer than the words can tell, beside a cell's few others: rare
            rows = (run & np.uint64((1 << row_bits) - 1)).astype(np.int64)
            own_ids = (ids[rows] if ids.size else rows).astype(np.uint64)
            run[:] = run[np.lexsort((_streams.row_keys(state, own_ids), keys[rows]))]
