"""One pass over one part of the data: what to do (Step), what comes out (Partial), and how parts merge."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _validate
from fastbin._kernels.cells import (
    CellMap,
    Ranges,
    Subcells,
    gather,
    histogram_atoms,
    histogram_binary,
    histogram_soft,
    refine,
)
from fastbin._kernels.hashing import order_keys
from fastbin._pools import NO_ROWS, Pool

BLOCK_ROWS = 1 << 17  # rows that one kernel call sees: its scratch stays in the L2 cache
ROWS_PER_HALF_WORD = 1 << 30  # a packed entry counts fewer than 2**32 rows and positives
FOLD_ROWS = 1 << 16  # a part's gathered rows are folded from here on, so that an atom stays small
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)

Column = NDArray[Any]


@dataclass(frozen=True)
class Faults:
    """What is wrong with the rows seen so far; merged like every other partial."""

    n_nan: int = 0
    first_nan: int = -1
    n_labels: int = 0
    first_label: int = -1
    label: float = 0.0

    def __add__(self, other: Faults) -> Faults:
        first = min((f for f in (self, other) if f.n_labels), key=lambda f: f.first_label, default=self)
        return Faults(
            self.n_nan + other.n_nan,
            min((f.first_nan for f in (self, other) if f.n_nan), default=-1),
            self.n_labels + other.n_labels,
            first.first_label,
            first.label,
        )

    def raise_if_any(self) -> None:
        """One error for all rows that cannot be used."""
        if self.n_nan:
            raise _validate.nan_error(
                self.n_nan, self.first_nan, "Drop those rows from scores and labels alike."
            )
        if self.n_labels:
            raise _validate.label_error(self.n_labels, self.first_label, self.label)


NO_FAULTS = Faults()


@dataclass(frozen=True)
class Step:
    """What to do with each part of the data: plain arrays, picklable.

    ``kind`` is "collect" (take every row), "histogram", "refine" or "gather"; ``soft`` says whether labels
    are fractions; ``token`` tells this step from every other, of this plan and of others.
    """

    kind: Literal["collect", "histogram", "refine", "gather"]
    token: str
    soft: bool = False
    cell_map: CellMap | None = None
    n_cells: int = 0
    atoms: NDArray[np.uint64] | None = None
    ranges: Ranges | None = None
    subcells: Subcells | None = None


@dataclass(frozen=True)
class Partial:
    """What one part of the data contributes to a step.

    Attributes
    ----------
    token
        The step it belongs to.
    n_rows
        Rows in the part.
    soft
        Whether some label is neither 0 nor 1.
    totals
        (cells, 3) int64: rows and the two limbs of the label sum, per cell or subcell.
    key_span
        (subcells, 2) uint64: smallest and largest order key.
    pool
        Gathered rows.
    faults
        Rows that cannot be used.
    serial
        Tells it from every other, so that it is not counted twice.
    """

    token: str
    n_rows: int
    soft: bool = False
    totals: NDArray[np.int64] | None = None
    key_span: NDArray[np.uint64] | None = None
    pool: Pool = NO_ROWS
    faults: Faults = NO_FAULTS
    serial: bytes = field(default_factory=lambda: os.urandom(8))


def run_step(step: Step, scores: ArrayLike, labels: ArrayLike, offset: int = 0) -> Partial:
    """Run one step of a fit on one part of the data.

    Parameters
    ----------
    step : Step
        What ``FitPlan.step`` returned.
    scores, labels : array_like
        This part's rows; they may be empty.
    offset : int
        Position of the part's first row in the whole data, for error messages.

    Returns
    -------
    Partial
        To be handed to ``FitPlan.feed``, in any order.

    Examples
    --------
    >>> import fastbin as fb
    >>> plan = fb.FitPlan(n_bins=2)
    >>> parts = [([0.1, 0.7], [0, 1]), ([0.4], [0])]
    >>> while (step := plan.step()) is not None:
    ...     plan.feed(fb.run_step(step, s, y) for s, y in parts)
    >>> plan.finish().edges
    array([0.4])
    """
    if not isinstance(step, Step):
        raise TypeError(f"step must be what FitPlan.step() returned; got {type(step).__name__}.")
    score_column, label_column = _validate.score_array(scores), _validate.label_array(labels)
    offset = _validate.at_least_zero(offset, "offset")
    if score_column.size != label_column.size:
        raise ValueError(
            f"scores and labels must have the same length; the part at row {offset} has "
            f"{score_column.size} scores and {label_column.size} labels. Cut both at the same rows."
        )
    return _RUNNERS[step.kind](step, score_column, label_column, offset)


def _blocks(scores: Column, labels: Column) -> Iterator[tuple[int, Column, Column]]:
    for start in range(0, scores.size, BLOCK_ROWS):
        stop = start + BLOCK_ROWS
        yield start, _validate.score_block(scores[start:stop]), labels[start:stop]


def nan_faults(has_nan: bool, scores: Column, start: int) -> Faults:
    """What is to be said of NaN scores, if there are any."""
    if not has_nan:
        return NO_FAULTS
    rows = np.flatnonzero(scores != scores)
    return Faults(n_nan=rows.size, first_nan=start + int(rows[0]))


def label_faults(labels: Column, start: int) -> Faults:
    """Labels that are not in [0, 1]; for integers, everything that is neither 0 nor 1 is outside."""
    outside = ~((labels >= 0) & (labels <= 1))
    if not outside.any():
        return NO_FAULTS
    first = int(np.flatnonzero(outside)[0])
    return Faults(n_labels=int(outside.sum()), first_label=start + first, label=labels[first].item())


def soft_words(labels: Column, faults: Faults) -> NDArray[np.int64]:
    """Label words, or zeros where the labels are unsound: then the fit ends in an error anyway."""
    return _fixedpoint.words(np.zeros(labels.size) if faults.n_labels else labels)


def _words(labels: Column, *, soft: bool) -> NDArray[np.int64]:
    """Label words after the first pass has found the labels to be sound."""
    if soft:
        return _fixedpoint.words(labels)
    narrow = _validate.binary_block(labels)
    if narrow is None:
        raise RuntimeError("labels changed between two passes of a fit; fit from data that stays as it is.")
    return _fixedpoint.binary_words(narrow)


def _run_collect(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    keys = np.empty(scores.size, np.uint64)
    block = _validate.score_block(scores)
    faults = nan_faults(order_keys(block, keys) > 0, block, offset)
    narrow = _validate.binary_block(labels)
    if narrow is not None:
        return Partial(
            step.token, keys.size, pool=Pool(keys, _fixedpoint.binary_words(narrow)), faults=faults
        )
    wrong = label_faults(labels, offset)
    pool = Pool(keys, soft_words(labels, wrong))
    return Partial(step.token, keys.size, soft=True, pool=pool, faults=faults + wrong)


def _run_histogram(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    count = _count_soft if step.soft else _count_binary
    return count(step, scores, labels, offset)


def _count_binary(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    """Rows and positives per cell. A part with other labels is only marked, to be counted again."""
    faults = NO_FAULTS
    entries = step.n_cells if step.atoms is None else 2 * step.n_cells  # each cell's atom, its others
    packed = np.zeros(entries, np.uint64)
    totals = np.zeros((entries, 3), np.int64)
    for start, block, label_block in _blocks(scores, labels):
        narrow = _validate.binary_block(label_block)
        if narrow is None:
            return Partial(step.token, scores.size, soft=True)
        if step.atoms is None:
            has_nan = histogram_binary(block, narrow, step.cell_map, packed)
        else:
            has_nan = histogram_atoms(block, narrow, step.cell_map, step.atoms, packed)
        faults += nan_faults(has_nan, block, offset + start)
        if _is_due(start, block.size, ROWS_PER_HALF_WORD) or start + block.size == scores.size:
            totals[:, 0] += (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
            totals[:, 1] += (packed >> np.uint64(32)).astype(np.int64)
            packed[:] = 0
    return Partial(step.token, scores.size, totals=totals, faults=faults)


def _count_soft(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    """Rows and label limbs per cell."""
    faults = NO_FAULTS
    totals = np.zeros((step.n_cells, 3), np.int64)
    for start, block, label_block in _blocks(scores, labels):
        wrong = label_faults(label_block, offset + start)
        has_nan = histogram_soft(block, soft_words(label_block, wrong), step.cell_map, totals)
        faults += wrong + nan_faults(has_nan, block, offset + start)
        if _is_due(start, block.size, _fixedpoint.ROWS_BETWEEN_CARRIES):
            _carry(totals)
    _carry(totals)
    return Partial(step.token, scores.size, soft=True, totals=totals, faults=faults)


def _is_due(start: int, size: int, every: int) -> bool:
    """Whether a multiple of ``every`` rows is reached in this block: time to empty an accumulator."""
    return (start + size) // every > start // every


def _carry(totals: NDArray[np.int64]) -> None:
    totals[:, 1], totals[:, 2] = _fixedpoint.carry(totals[:, 1], totals[:, 2])


def _run_refine(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    totals = np.zeros((step.n_cells, 3), np.int64)
    key_span = np.zeros((step.n_cells, 2), np.uint64)
    key_span[:, 0] = NO_KEY
    for start, block, label_block in _blocks(scores, labels):
        words = _words(label_block, soft=step.soft)
        refine(block, words, step.cell_map, step.ranges, step.subcells, totals, key_span)
        if _is_due(start, block.size, _fixedpoint.ROWS_BETWEEN_CARRIES):
            _carry(totals)
    _carry(totals)
    return Partial(step.token, scores.size, soft=step.soft, totals=totals, key_span=key_span)


def _run_gather(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    size = min(BLOCK_ROWS, scores.size)
    keys, rows = np.empty(size, np.uint64), np.empty(size, np.int64)
    pools = []
    for _, block, label_block in _blocks(scores, labels):
        found = gather(block, step.cell_map, step.ranges, keys, rows)
        if found:
            pools.append(Pool(keys[:found].copy(), _words(label_block[rows[:found]], soft=step.soft)))
    pool = Pool.joined(pools)
    pool = pool.folded() if step.soft and pool.keys.size > FOLD_ROWS else pool
    return Partial(step.token, scores.size, soft=step.soft, pool=pool)


_RUNNERS = {
    "collect": _run_collect,
    "histogram": _run_histogram,
    "refine": _run_refine,
    "gather": _run_gather,
}


def merge(step: Step, partials: Iterable[Partial]) -> Partial:
    """One partial result for all parts: sums, extremes, concatenation."""
    n_rows, soft, faults = 0, step.soft, NO_FAULTS
    totals, key_span = None, None
    pools: list[Partial] = []
    seen: set[bytes] = set()
    for partial in partials:
        if not isinstance(partial, Partial):
            raise TypeError(f"partials must be what run_step returned; got {type(partial).__name__}.")
        if partial.token != step.token:
            raise ValueError(
                "partials must come from the plan's current step; got one of another step or plan. "
                "Run run_step with the step that step() returns now, and feed each result once."
            )
        if partial.serial in seen:
            raise ValueError(
                "partials must be one for each part; got the same one twice. Feed each part's result once."
            )
        seen.add(partial.serial)
        n_rows += partial.n_rows
        soft |= partial.soft
        if partial.faults is not NO_FAULTS:
            faults += partial.faults
        if partial.pool is not NO_ROWS:
            pools.append(partial)
        if partial.totals is not None:
            if totals is None:
                totals = partial.totals
            else:
                totals = totals + partial.totals
                _carry(totals)
        if partial.key_span is not None:
            key_span = _wider(key_span, partial.key_span)
    # Where some part has fractions, the 0/1 labels of the others are brought to the same units.
    joined = Pool.joined([_in_units(partial, soft=soft) for partial in pools])
    return Partial(step.token, n_rows, soft, totals, key_span, joined, faults)


def _in_units(partial: Partial, *, soft: bool) -> Pool:
    pool = partial.pool
    if partial.soft == soft:
        return pool
    return Pool(pool.keys, _fixedpoint.soft_from_binary(pool.labels), pool.copies)


def _wider(one: NDArray[np.uint64] | None, other: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Smallest and largest keys of both."""
    if one is None:
        return other
    return np.stack([np.minimum(one[:, 0], other[:, 0]), np.maximum(one[:, 1], other[:, 1])], axis=1)
