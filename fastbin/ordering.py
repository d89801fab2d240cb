"""Sorting rows by score with ties in uniformly random, reproducible order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _streams, _validate
from fastbin._cellmaps import Cells, cells_from_keys, sample_of
from fastbin._kernels.hashing import order_keys
from fastbin._kernels.order import (
    count_cells,
    fill_hashes,
    fill_hashes_if_equal,
    has_one_key,
    hash_words,
    scatter_words,
    settle_runs,
    sort_words,
    write_rows,
)
from fastbin._parallel import parallel_map, row_ranges
from fastbin.model import Rng

Keys = NDArray[np.uint64]
Rows = NDArray[np.int64]

SMALL = 1 << 16
BLOCK_ROWS = 1 << 20
# A cell of this many rows sorts within the L1 cache; of 10 million rows, with the most cells, within L2. More
# cells would scatter slower.
ROWS_PER_CELL = 1 << 12
FEWEST_CELLS, MOST_CELLS = 1 << 4, 1 << 10
LARGEST_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
HEAVY_SHARE = 16  # a cell with over 1/16 of the rows is sorted by all threads together
LONGEST_RUN = 32
NO_IDS: Rows = np.empty(0, np.int64)


def tie_broken_argsort(scores: ArrayLike, *, rng: Rng = 0, threads: int | None = None) -> Rows:
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
    if _fill_if_equal(keys, column, state, n_threads):
        return _sorted_distinct(keys, [np.uint64(0), LARGEST_KEY], NO_IDS, state, n_threads)

    def fill(rows: tuple[int, int]) -> int:
        return int(order_keys(_validate.score_block(column[slice(*rows)]), keys[slice(*rows)]))

    n_nan = sum(parallel_map(fill, row_ranges(column.size, n_threads, BLOCK_ROWS), n_threads))
    if n_nan:
        raise _validate.nan_error(n_nan, int(np.flatnonzero(np.isnan(column))[0]), "Drop those rows.")
    return _sorted_rows(keys, NO_IDS, state, n_threads)


def _fill_if_equal(hashes: Keys, column: NDArray[Any], state: int, threads: int) -> bool:
    """Tie keys of all rows if the scores are all equal; not even tried where a sample shows two scores."""
    sample = sample_of(column)
    if column.size <= SMALL or (sample != sample[0]).any():
        return False
    value = _validate.score_block(sample[:1])[0]

    def fill(rows: tuple[int, int]) -> bool:
        block = _validate.score_block(column[slice(*rows)])
        return bool(fill_hashes_if_equal(block, value, rows[0], np.uint64(state), hashes[slice(*rows)]))

    return all(parallel_map(fill, row_ranges(column.size, threads, BLOCK_ROWS), threads))


def _fill_hashes(hashes: Keys, ids: Rows, state: int, threads: int) -> None:
    """Tie keys of the rows 0, 1, 2, ..."""

    def fill(rows: tuple[int, int]) -> None:
        fill_hashes(ids, rows[0], np.uint64(state), hashes[slice(*rows)])

    for _ in parallel_map(fill, row_ranges(hashes.size, threads, BLOCK_ROWS), threads):
        pass


def _sorted_rows(keys: Keys, ids: Rows, state: int, threads: int) -> Rows:
    """Local rows in the order of (key, hash); ``ids`` are their numbers for the hash, empty: the same.

    ``keys`` is scratch afterwards.
    """
    n = keys.size
    if n <= SMALL:
        return _sorted_few(keys, ids, state)
    extremes = [keys.min(), keys.max()]
    if extremes[0] == extremes[1]:  # an atom: only the hashes differ, and they are distinct
        _fill_hashes(keys, ids, state, threads)
        extremes = [np.uint64(0), LARGEST_KEY]
    return _sorted_distinct(keys, extremes, ids, state, threads)


def _sorted_distinct(keys: Keys, extremes: list[Any], ids: Rows, state: int, threads: int) -> Rows:
    """The same for keys of which at least two differ, or might."""
    n = keys.size
    # The extremes are in the sample, so that they fall into different cells: recursion always gets ahead.
    n_cells = min(max(n // ROWS_PER_CELL, FEWEST_CELLS), MOST_CELLS)
    cells = cells_from_keys(np.sort(np.append(sample_of(keys), extremes)), n_cells)
    scattered = _scatter(keys, cells, threads)
    words, starts, row_bits = scattered.words, scattered.starts, scattered.row_bits
    order = np.empty(n, np.int64)
    sizes = np.diff(starts)
    heavy = sizes > max(n // HEAVY_SHARE, SMALL)

    def sort_cell(cell: int) -> None:
        own = slice(starts[cell], starts[cell + 1])
        _sort_cell(words[own], keys, ids, state, row_bits, is_atom=bool(scattered.is_atom[cell]))
        write_rows(words[own], row_bits, order[own])

    light = np.flatnonzero(~heavy & (sizes > 0))
    for _ in parallel_map(sort_cell, light.tolist(), threads):
        pass
    for cell in np.flatnonzero(heavy):
        own = slice(starts[cell], starts[cell + 1])
        rows = np.empty(sizes[cell], np.int64)
        write_rows(words[own], row_bits, rows)
        local = _sorted_rows(keys[rows], ids[rows] if ids.size else rows, state, threads)
        order[own] = rows[local]
    return order


def _sorted_few(keys: Keys, ids: Rows, state: int) -> Rows:
    """The same by NumPy: for this many rows, scattering takes longer than sorting."""
    order = np.argsort(keys)
    ascending = keys[order]
    if (ascending[1:] != ascending[:-1]).all():
        return order
    hashes = np.empty(keys.size, np.uint64)
    _fill_hashes(hashes, ids, state, 1)
    return np.lexsort((hashes, keys))


@dataclass(frozen=True, eq=False)
class _Scattered:
    """Words grouped by cell, where each cell's words start, and which cells hold one key only."""

    words: Keys
    starts: Rows
    row_bits: np.uint64
    is_atom: NDArray[np.bool_]


def _scatter(keys: Keys, cells: Cells, threads: int) -> _Scattered:
    """Count the rows of each cell, then write each row's word among those of its cell."""
    n_cells = cells.lowest.size
    blocks = row_ranges(keys.size, threads, max(BLOCK_ROWS, keys.size // threads))

    def count(rows: tuple[int, int]) -> tuple[Rows, Keys]:
        counts, span = np.zeros(n_cells, np.int64), np.zeros((n_cells, 2), np.uint64)
        span[:, 0] = LARGEST_KEY
        count_cells(keys[slice(*rows)], cells.cell_map, counts, span)
        return counts, span

    results = list(parallel_map(count, blocks, threads))
    counts = np.array([block_counts for block_counts, _ in results])
    lowest = np.min([span[:, 0] for _, span in results], axis=0)
    highest = np.max([span[:, 1] for _, span in results], axis=0)
    row_bits = (keys.size - 1).bit_length()
    span_bits = [int(high).bit_length() for high in np.maximum(highest, lowest) - lowest]
    shifts = np.maximum(np.array(span_bits) - (64 - row_bits), 0).astype(np.uint64)

    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    places = starts[:-1] + np.cumsum(counts, axis=0) - counts  # one row of places for each block
    words = np.empty(keys.size, np.uint64)

    def write(task: tuple[int, tuple[int, int]]) -> None:
        block, rows = task
        part = keys[slice(*rows)]
        scatter_words(
            part, rows[0], cells.cell_map, lowest, shifts, np.uint64(row_bits), places[block], words
        )

    for _ in parallel_map(write, enumerate(blocks), threads):
        pass
    return _Scattered(words, starts, np.uint64(row_bits), lowest == highest)


def _sort_in_place(words: Keys) -> None:
    """Ascending; by NumPy where the words are too uneven for the kernel."""
    if not sort_words(words, np.empty(words.size, np.uint64), np.empty(words.size // 2 + 2, np.int64)):
        words.sort()


def _sort_cell(words: Keys, keys: Keys, ids: Rows, state: int, row_bits: np.uint64, *, is_atom: bool) -> None:
    """Sort the words of one cell in place; equal offsets by full key and hash."""
    hash_state = np.uint64(state)
    if is_atom:
        hash_words(words, ids, hash_state, row_bits)
    _sort_in_place(words)
    long_runs = np.empty((words.size // LONGEST_RUN + 1, 2), np.int64)
    listed = settle_runs(words, keys, ids, hash_state, row_bits, LONGEST_RUN, long_runs)
    for begin, end in long_runs[:listed].tolist():
        run = words[begin:end]
        if has_one_key(run, keys, row_bits):
            hash_words(run, ids, hash_state, row_bits)
            _sort_in_place(run)
            settle_runs(run, keys, ids, hash_state, row_bits, run.size, long_runs)
        else:  # distinct keys closer than the words can tell, beside a cell's few others: rare
            rows = (run & ((np.uint64(1) << row_bits) - np.uint64(1))).astype(np.int64)
            own_ids = (ids[rows] if ids.size else rows).astype(np.uint64)
            run[:] = run[np.lexsort((_streams.row_keys(state, own_ids), keys[rows]))]
