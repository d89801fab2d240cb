"""A fit as passes over the data: steps, their partial results, their merge, the finish.

Uniform-mass binning needs n_bins - 1 order statistics and the label sums between them. One pass counts
rows and labels in order-preserving cells; cells that hold a cut are refined while they are too heavy, then
their rows are gathered, and the cuts are found among them exactly. Every partial result is integers with
an associative, commutative merge, so threads, batches of a file and partitions on a cluster give the same
bits. The driver decides how parts are made and run; this module does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _streams, _validate
from fastbin._cellmaps import Cells, cells_from_sample, default_cells
from fastbin._cuts import Pieces, Pool, find_cuts
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
from fastbin._values import calibrator_from_cuts
from fastbin.bounds import boundary_ranks
from fastbin.model import Calibrator

BLOCK_ROWS = 1 << 17  # rows that one kernel call sees: its scratch stays in the L2 cache
COLLECT_ROWS = 1 << 15  # a fit this small gathers everything in its first step
MOST_CELLS = 1 << 22
DEFAULT_CELLS = 1 << 16
CELLS_PER_BIN = 64
ROWS_PER_HALF_WORD = 1 << 30  # a packed entry counts fewer than 2**32 rows and positives
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
NO_ROWS = Pool.joined([])

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
            raise ValueError(
                f"scores must not be NaN; found {self.n_nan} NaN, first at row {self.first_nan}. "
                "Drop those rows from scores and labels alike."
            )
        if self.n_labels:
            raise ValueError(
                f"labels must be 0/1 or lie in [0, 1]; found {self.n_labels} values outside, "
                f"first {self.label} at row {self.first_label}. Pass (labels == positive_class)."
            )


NO_FAULTS = Faults()


@dataclass(frozen=True)
class Step:
    """What to do with each part of the data: plain arrays, picklable.

    ``kind`` is "collect" (take every row), "histogram", "refine" or "gather"; ``soft`` says whether labels
    are fractions.
    """

    kind: Literal["collect", "histogram", "refine", "gather"]
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
    kind
        The kind of step it belongs to.
    n_rows
        Rows in the part.
    soft
        Whether some label is a fraction.
    totals
        (cells, 3) int64: rows and the two limbs of the label sum, per cell or subcell.
    key_span
        (subcells, 2) uint64: smallest and largest order key.
    pool
        Gathered rows.
    faults
        Rows that cannot be used.
    """

    kind: str
    n_rows: int
    soft: bool = False
    totals: NDArray[np.int64] | None = None
    key_span: NDArray[np.uint64] | None = None
    pool: Pool = NO_ROWS
    faults: Faults = NO_FAULTS


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
    score_column, label_column = _validate.score_array(scores), _validate.label_array(labels)
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


def _nan_faults(n_nan: int, scores: Column, start: int) -> Faults:
    if not n_nan:
        return NO_FAULTS
    return Faults(n_nan=int(n_nan), first_nan=start + int(np.flatnonzero(scores != scores)[0]))


def _label_faults(labels: Column, start: int) -> Faults:
    """Labels that are not in [0, 1]; for integers, everything that is neither 0 nor 1 is outside."""
    outside = ~((labels >= 0) & (labels <= 1))
    if not outside.any():
        return NO_FAULTS
    first = int(np.flatnonzero(outside)[0])
    return Faults(n_labels=int(outside.sum()), first_label=start + first, label=labels[first].item())


def _limbs(labels: Column, *, soft: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Label limbs of one block, after the first pass has found the labels to be sound."""
    if soft:
        return _fixedpoint.split(labels)
    narrow = _validate.binary_block(labels)
    if narrow is None:
        raise RuntimeError("labels changed between two passes of a fit; fit from data that stays as it is.")
    return narrow, np.zeros(narrow.size, np.uint8)


def _run_collect(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    keys = np.empty(scores.size, np.uint64)
    block = _validate.score_block(scores)
    faults = _nan_faults(order_keys(block, keys), block, offset)
    narrow = _validate.binary_block(labels)
    if narrow is not None:
        pool = Pool(keys, narrow.astype(np.int64), np.zeros(keys.size, np.int64))
    else:
        faults += _label_faults(labels, offset)
        pool = Pool(keys, *_fixedpoint.split(np.zeros(labels.size) if faults.n_labels else labels))
    return Partial("collect", scores.size, soft=narrow is None, pool=pool, faults=faults)


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
            return Partial("histogram", scores.size, soft=True)
        if step.atoms is None:
            n_nan = histogram_binary(block, narrow, step.cell_map, packed)
        else:
            n_nan = histogram_atoms(block, narrow, step.cell_map, step.atoms, packed)
        faults += _nan_faults(n_nan, block, offset + start)
        if _is_due(start, block.size, ROWS_PER_HALF_WORD) or start + block.size == scores.size:
            totals[:, 0] += (packed & np.uint64(0xFFFFFFFF)).astype(np.int64)
            totals[:, 1] += (packed >> np.uint64(32)).astype(np.int64)
            packed[:] = 0
    return Partial("histogram", scores.size, totals=totals, faults=faults)


def _count_soft(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    """Rows and label limbs per cell."""
    faults = NO_FAULTS
    totals = np.zeros((step.n_cells, 3), np.int64)
    for start, block, label_block in _blocks(scores, labels):
        wrong = _label_faults(label_block, offset + start)
        limbs = _fixedpoint.split(np.zeros(block.size) if wrong.n_labels else label_block)
        n_nan = histogram_soft(block, *limbs, step.cell_map, totals)
        faults += wrong + _nan_faults(n_nan, block, offset + start)
        if _is_due(start, block.size, _fixedpoint.ROWS_BETWEEN_CARRIES):
            _carry(totals)
    _carry(totals)
    return Partial("histogram", scores.size, soft=True, totals=totals, faults=faults)


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
        high, low = _limbs(label_block, soft=step.soft)
        refine(block, high, low, step.cell_map, step.ranges, step.subcells, totals, key_span)
        if _is_due(start, block.size, _fixedpoint.ROWS_BETWEEN_CARRIES):
            _carry(totals)
    _carry(totals)
    return Partial("refine", scores.size, soft=step.soft, totals=totals, key_span=key_span)


def _run_gather(step: Step, scores: Column, labels: Column, offset: int) -> Partial:
    size = min(BLOCK_ROWS, scores.size)
    keys, rows = np.empty(size, np.uint64), np.empty(size, np.int64)
    pools = []
    for _, block, label_block in _blocks(scores, labels):
        found = gather(block, step.cell_map, step.ranges, keys, rows)
        if found:
            high, low = _limbs(label_block[rows[:found]], soft=step.soft)
            pools.append(Pool(keys[:found].copy(), high.astype(np.int64), low.astype(np.int64)))
    pool = Pool.joined(pools)
    return Partial("gather", scores.size, soft=step.soft, pool=pool.folded() if step.soft else pool)


_RUNNERS = {
    "collect": _run_collect,
    "histogram": _run_histogram,
    "refine": _run_refine,
    "gather": _run_gather,
}


class FitPlan:
    """The steps of a uniform-mass fit, free of any engine.

    Ask for a step, run it on every part of the data with :func:`run_step`, feed the partial results back,
    until there is no further step. How many passes there are depends on the data: usually two.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    boundary_points : {"exclude", "include"}
        Whether a cut's own label stays out of the means (Algorithm 1) or goes into the bin below.
    delta : float
        Algorithm 2's perturbation of the values.
    rng : int, numpy.random.Generator or None
        Where the seed of the tie keys comes from.
    n_samples : int, optional
        Rows in all parts together, if known: a small fit then takes one pass.
    hint : array_like, optional
        Some of the scores, to choose good cells. Affects speed only, never a bit of the result.
    n_cells : int, optional
        Cells of the histogram.
    gather_rows : int
        Rows that may be gathered; heavier cells are refined first.
    threads : int
        Threads for splitting very large tie groups.

    Examples
    --------
    >>> import fastbin as fb
    >>> plan = fb.FitPlan(n_bins=2, rng=0)
    >>> while (step := plan.step()) is not None:
    ...     plan.feed([fb.run_step(step, [0.2, 0.9, 0.5], [0, 1, 0])])
    >>> calibrator = plan.finish()
    >>> calibrator.n_samples, calibrator.edges
    (3, array([0.5]))
    """

    def __init__(
        self,
        n_bins: int,
        *,
        boundary_points: str = "exclude",
        delta: float = 0.0,
        rng: int | np.random.Generator | None = 0,
        n_samples: int | None = None,
        hint: ArrayLike | None = None,
        n_cells: int | None = None,
        gather_rows: int = 1 << 18,
        threads: int = 1,
    ) -> None:
        self.n_bins = _validate.bin_number(n_bins)
        self.boundary_points = _validate.choice(boundary_points, "boundary_points", ("exclude", "include"))
        self.delta = _validate.perturbation(delta)
        self.seed = _streams.seed_from(rng)
        self.gather_rows = _validate.at_least_one(gather_rows, "gather_rows")
        self.threads = _validate.thread_number(threads)
        self.n_samples = n_samples
        if n_samples is not None:
            _validate.enough_samples(_validate.at_least_one(n_samples, "n_samples"), self.n_bins)
        self._n = 0
        self._soft = False
        self._hint = None if hint is None else _validate.score_array(hint, "hint")
        wanted = min(max(DEFAULT_CELLS, CELLS_PER_BIN * self.n_bins), MOST_CELLS)
        self._most_cells = 1 << (wanted - 1).bit_length()
        if n_cells is not None:
            self._most_cells = _validate.at_least_one(n_cells, "n_cells")
        self._cells: Cells | None = None
        self._ranks = self._total = np.zeros(0, np.int64)
        self._pieces: Pieces
        self._heavy: Pieces | None = None
        self._calibrator: Calibrator | None = None
        small = n_samples is not None and n_samples <= COLLECT_ROWS
        self._step: Step | None = Step("collect") if small else self._histogram_step()

    def step(self) -> Step | None:
        """The step to run next, or None when the fit can be finished."""
        return self._step

    def feed(self, partials: Iterable[Partial]) -> None:
        """Merge the partial results of the current step, in any order, and decide what comes next."""
        step = self._step
        if step is None:
            raise RuntimeError("this fit has no step left; call finish().")
        merged = _merge(step, partials)
        if step.kind == "histogram" and merged.soft and not step.soft:
            self._soft = True  # a label that is not 0/1 turned up: count again, every label in fixed point
            self._step = self._histogram_step()
            return
        if step.kind in ("collect", "histogram"):
            merged.faults.raise_if_any()
            if self.n_samples not in (None, merged.n_rows):
                raise ValueError(
                    f"n_samples must be the number of rows fed; it was given as {self.n_samples}, and "
                    f"{merged.n_rows} rows were fed. Feed every part once, or leave n_samples out."
                )
            _validate.enough_samples(merged.n_rows, self.n_bins)
            self._n = merged.n_rows
            self._ranks = boundary_ranks(self._n, self.n_bins)
        elif merged.n_rows != self._n:
            raise RuntimeError(
                f"the data changed during the fit: {self._n} rows in the first pass, {merged.n_rows} now. "
                "Fit from data that stays as it is."
            )
        if step.kind == "collect":
            self._take_collected(merged)
        elif step.kind == "histogram":
            self._take_histogram(step, merged)
        elif step.kind == "refine":
            self._take_refinement(step, merged)
        else:
            self._finish(merged.pool)

    def finish(self) -> Calibrator:
        """The fitted calibrator, after the last step was fed."""
        if self._calibrator is None:
            raise RuntimeError("this fit is not done; feed the results of step() until it returns None.")
        return self._calibrator

    def _histogram_step(self) -> Step:
        if self._hint is not None and self._hint.size:
            self._cells = cells_from_sample(self._hint, self._most_cells)
        else:
            self._cells = default_cells(self._most_cells)
        cells = self._cells
        return Step(
            "histogram",
            soft=self._soft,
            cell_map=cells.cell_map,
            n_cells=cells.lowest.size,
            atoms=None if self._soft else cells.atoms,  # a sum of fractions does not say which ones they are
        )

    def _take_collected(self, merged: Partial) -> None:
        pool = merged.pool
        self._soft = merged.soft
        low = pool.low.sum() if merged.soft else np.int64(0)
        self._total = np.array([pool.keys.size, *_fixedpoint.carry(pool.high.sum(), low)], np.int64)
        self._pieces = Pieces.of_everything(self._total, self.n_bins - 1)
        self._finish(pool)

    def _take_histogram(self, step: Step, merged: Partial) -> None:
        assert merged.totals is not None and self._cells is not None
        self._total = merged.totals.sum(axis=0)
        self._total[1:] = _fixedpoint.carry(self._total[1], self._total[2])
        whole = Pieces.of_everything(self._total, self.n_bins - 1)
        low, high = self._cells.key_ranges()
        totals = merged.totals if step.atoms is None else merged.totals[0::2] + merged.totals[1::2]
        self._pieces = whole.cut(self._ranks[1:-1], np.zeros(1, np.int64), totals, low, high)
        if step.atoms is not None:
            home = np.searchsorted(low, self._pieces.low)
            self._pieces = self._pieces.with_atoms(step.atoms[home], merged.totals[0::2][home])
        self._decide()

    def _take_refinement(self, step: Step, merged: Partial) -> None:
        assert merged.totals is not None and merged.key_span is not None and step.subcells is not None
        assert self._heavy is not None
        low, high = np.ascontiguousarray(merged.key_span.T)
        finer = self._heavy.cut(self._ranks[1:-1], step.subcells.first, merged.totals, low, high)
        if not self._soft:
            single = finer.is_single()
            finer = finer.with_atoms(finer.low, np.where(single[:, None], finer.inside, 0))
        self._pieces = self._pieces.joined_with(finer)
        self._decide()

    def _decide(self) -> None:
        """Refine what is too heavy, else gather what is open, else finish."""
        pieces = self._pieces
        counts = np.where(pieces.is_single(), 0, pieces.to_gather())
        heavy = np.zeros(counts.size, np.bool_)
        if counts.sum() > self.gather_rows:
            by_weight = np.argsort(-counts, kind="stable")
            left_over = counts.sum() - np.cumsum(counts[by_weight])
            n_heavy = 1 + int(np.searchsorted(-left_over, -(self.gather_rows // 2)))
            heavy[by_weight[:n_heavy]] = True
        is_open = pieces.to_gather() > 0
        # With fewer than two subcells each, refining would not get ahead: then gather, whatever it costs.
        if heavy.any() and 2 * heavy.sum() <= self._most_cells:
            self._heavy, self._pieces = pieces.take(heavy), pieces.take(~heavy)
            self._step = self._refine_step(self._heavy)
        elif is_open.any():
            self._step = self._ranged_step("gather", *pieces.take(is_open).gaps())
        else:
            self._finish(NO_ROWS)

    def _refine_step(self, heavy: Pieces) -> Step:
        bits = (self._most_cells // heavy.low.size).bit_length() - 1
        spans = heavy.high - heavy.low
        shifts = np.array([max(0, int(span).bit_length() - bits) for span in spans], np.uint64)
        sizes = ((spans >> shifts) + np.uint64(1)).astype(np.int64)
        first = np.cumsum(sizes) - sizes
        step = self._ranged_step("refine", heavy.low, heavy.high)
        return replace(step, n_cells=int(sizes.sum()), subcells=Subcells(first, shifts))

    def _ranged_step(
        self, kind: Literal["refine", "gather"], low: NDArray[np.uint64], high: NDArray[np.uint64]
    ) -> Step:
        """A step that looks at these ranges of keys only, found through the histogram's cells."""
        assert self._cells is not None
        lowest = self._cells.lowest
        home = np.searchsorted(lowest, low, side="right") - 1  # a range never leaves its cell
        first = np.searchsorted(home, np.arange(lowest.size + 1)).astype(np.int32)
        ranges = Ranges(first, low, high)
        return Step(kind, soft=self._soft, cell_map=self._cells.cell_map, ranges=ranges)

    def _finish(self, pool: Pool) -> None:
        cuts = find_cuts(
            self._pieces,
            pool,
            self._ranks[1:-1],
            self._total,
            self.seed,
            soft=self._soft,
            threads=self.threads,
        )
        self._calibrator = calibrator_from_cuts(
            cuts,
            ranks=self._ranks,
            n_bins=self.n_bins,
            seed=self.seed,
            soft=self._soft,
            boundary_points=self.boundary_points,
            delta=self.delta,
        )
        self._step = None


def _merge(step: Step, partials: Iterable[Partial]) -> Partial:
    """One partial result for all parts: sums, extremes, concatenation."""
    n_rows, soft, faults = 0, step.soft, NO_FAULTS
    totals, key_span = None, None
    pools = []
    for partial in partials:
        if partial.kind != step.kind:
            raise ValueError(
                f"partials must come from the current step; expected {step.kind!r}, got {partial.kind!r}. "
                "Run run_step with the step that step() returns now."
            )
        n_rows += partial.n_rows
        soft |= partial.soft
        if partial.faults is not NO_FAULTS:
            faults += partial.faults
        if partial.pool is not NO_ROWS:
            pools.append((partial.soft, partial.pool))
        if partial.totals is not None:
            totals = partial.totals.copy() if totals is None else totals + partial.totals
            _carry(totals)
        if partial.key_span is not None:
            lows, highs = partial.key_span[:, 0], partial.key_span[:, 1]
            if key_span is None:
                key_span = partial.key_span.copy()
            else:
                key_span = np.stack(
                    [np.minimum(key_span[:, 0], lows), np.maximum(key_span[:, 1], highs)], axis=1
                )
    # Where some part has fractions, the others' 0/1 labels are brought to the same units.
    pool = Pool.joined([one.with_fractions() if soft and not own_soft else one for own_soft, one in pools])
    return Partial(step.kind, n_rows, soft, totals, key_span, pool, faults)
