"""The two halves of binning as plain functions: scores to bins, and label means per bin."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _validate
from fastbin._kernels.lookup import bin_sums
from fastbin._lookup import CutTable
from fastbin._parallel import parallel_map, row_ranges
from fastbin._rowids import positions

BLOCK_ROWS = 1 << 17


def bin_index(scores: ArrayLike, edges: ArrayLike, *, threads: int | None = None) -> NDArray[np.int64]:
    """The left-closed cell of each score: how many edges are <= it.

    Parameters
    ----------
    scores : array_like
        One-dimensional scores without NaN.
    edges : array_like
        Ascending cuts; k edges make k + 1 cells.
    threads : int, optional
        None means all cores of the process.

    Returns
    -------
    ndarray of int64
        0 .. len(edges), the same as ``numpy.searchsorted(edges, scores, side="right")``.

    Examples
    --------
    >>> import fastbin as fb
    >>> fb.bin_index([0.1, 0.5, 0.9], [0.5])
    array([0, 1, 1])
    """
    column = _validate.score_array(scores)
    cuts = _validate.score_array(edges, "edges").astype(np.float64)
    n_threads = _validate.thread_number(threads)
    if np.isnan(cuts).any():
        raise ValueError("edges must not be NaN; found NaN. Drop it.")
    if not (cuts[1:] >= cuts[:-1]).all():
        raise ValueError("edges must ascend; got edges out of order. Pass numpy.sort(edges).")
    bins = np.empty(column.size, np.int64)
    table = CutTable(cuts, np.zeros(cuts.size, np.uint64))  # a zero key: every tie goes up
    _, n_nan = table.look_up(column, np.arange(cuts.size + 1), bins, positions, 0, n_threads)
    if n_nan:
        first = int(np.flatnonzero(np.isnan(column))[0])
        raise ValueError(f"scores must not be NaN; found {n_nan} NaN, first at row {first}. Drop those rows.")
    return bins


def bin_means(
    labels: ArrayLike, bins: ArrayLike, n_bins: int, *, threads: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Mean label and number of rows in each bin.

    Parameters
    ----------
    labels : array_like
        0/1 labels, or soft labels in [0, 1].
    bins : array_like of int
        Bin of each row, 0 .. n_bins - 1.
    n_bins : int
        Number of bins.
    threads : int, optional
        None means all cores of the process.

    Returns
    -------
    means : ndarray of float64
        NaN for an empty bin. Sums do not depend on the order of the rows: each mean is rounded once.
    counts : ndarray of int64

    Examples
    --------
    >>> import fastbin as fb
    >>> means, counts = fb.bin_means([0, 1, 1, 1], [0, 0, 1, 1], n_bins=2)
    >>> means, counts
    (array([0.5, 1. ]), array([2, 2]))
    """
    number = _validate.bin_number(n_bins)
    label_column = _validate.label_array(labels)
    bin_column = _validate.unmasked(bins, "bins")
    if bin_column.shape == (0,):
        bin_column = bin_column.astype(np.int64)
    n_threads = _validate.thread_number(threads)
    if bin_column.ndim != 1 or bin_column.dtype.kind not in "iu":
        raise TypeError(
            f"bins must be a one-dimensional array of integers; got {bin_column.dtype} of shape "
            f"{bin_column.shape}. Pass what bin_index or assign returned."
        )
    if bin_column.size != label_column.size:
        raise ValueError(
            f"labels and bins must have the same length; got {label_column.size} labels and "
            f"{bin_column.size} bins. Pass one bin for each label."
        )
    if bin_column.size and not (bin_column.min() >= 0 and bin_column.max() < number):
        outside = (bin_column < 0) | (bin_column >= number)
        first = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"bins must lie in 0..{number - 1}; found {int(outside.sum())} outside, first "
            f"{bin_column[first]} at row {first}. Pass the n_bins that made these bins."
        )
    inside = (label_column >= 0) & (label_column <= 1)
    if not inside.all():
        first = int(np.flatnonzero(~inside)[0])
        raise _validate.label_error(int((~inside).sum()), first, label_column[first].item())

    def one_block(rows: tuple[int, int]) -> NDArray[np.int64]:
        # Always as soft labels: a 0/1 label is exact as one, and the sums are then of one kind.
        block = np.zeros((number, 3), np.int64)
        bin_sums(
            bin_column[slice(*rows)].astype(np.int64), _fixedpoint.words(label_column[slice(*rows)]), block
        )
        return block

    totals = np.zeros((number, 3), np.int64)
    for block in parallel_map(one_block, row_ranges(label_column.size, n_threads, BLOCK_ROWS), n_threads):
        totals += block
        totals[:, 1], totals[:, 2] = _fixedpoint.carry(totals[:, 1], totals[:, 2])
    counts = totals[:, 0].copy()
    means = np.full(number, np.nan)
    filled = counts > 0
    means[filled] = _fixedpoint.quotients(totals[filled, 1:], counts[filled], soft=True)
    return means, counts
