"""A fit as passes over the data: which step comes next, and what the merged results mean.

Uniform-mass binning needs n_bins - 1 order statistics and the label sums between them. One pass counts
rows and labels in order-preserving cells; cells that hold a cut are refined while they are too heavy, then
their rows are gathered, and the cuts are found among them exactly. Every partial result is integers with
an associative, commutative merge, so threads, batches of a file and partitions on a cluster give the same
bits. The driver decides how parts are made and run; this module does not know.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _streams, _validate
from fastbin._cellmaps import Cells, cells_from_sample, default_cells
from fastbin._cuts import Pieces, find_cuts
from fastbin._kernels.cells import Ranges, Subcells
from fastbin._pools import NO_ROWS, Pool
from fastbin._steps import Partial, Step, merge
from fastbin._values import calibrator_from_cuts
from fastbin.bounds import boundary_ranks
from fastbin.model import BoundaryPoints, Calibrator, Compat, Rng

COLLECT_ROWS = 1 << 15  # a fit this small gathers everything in its first step
FEWEST_CELLS = 1 << 12
DEFAULT_CELLS = 1 << 16
MOST_CELLS = 1 << 22
CELLS_PER_BIN = 64
GATHER_ROWS = 1 << 18
ROWS_PER_CELL = 4  # finer cells than this cost more to go through than they save


class FitPlan:
    """The steps of a uniform-mass fit, free of any engine.

    Ask for a step, run it on every part of the data with :func:`run_step`, feed the partial results back,
    until there is no further step. How many passes there are depends on the data: usually two.

    Parameters
    ----------
    n_bins : int
        Number of bins.
    boundary_points : {"exclude", "include", "authors"}
        Whether a cut's own label stays out of the means (Algorithm 1) or goes into the bin below; "authors":
        as ``fit_uniform_mass`` with ``compat="authors"``.
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
        boundary_points: BoundaryPoints | Compat = "exclude",
        delta: float = 0.0,
        rng: Rng = 0,
        n_samples: int | None = None,
        hint: ArrayLike | None = None,
        n_cells: int | None = None,
        gather_rows: int = GATHER_ROWS,
        threads: int = 1,
    ) -> None:
        self.n_bins = _validate.bin_number(n_bins)
        self.boundary_points = _validate.choice(
            boundary_points, "boundary_points", ("exclude", "include", "authors")
        )
        self.delta = _validate.perturbation(delta)
        self.seed = _streams.seed_from(rng)
        self.gather_rows = _validate.at_least_one(gather_rows, "gather_rows")
        self.threads = _validate.thread_number(threads)
        self.n_samples = n_samples
        if n_samples is not None:
            self._ranks_of(_validate.at_least_one(n_samples, "n_samples"))
        self._n = 0
        self._soft = False
        self._hint = None if hint is None else _validate.score_array(hint, "hint")
        self._most_cells = (
            _good_number_of_cells(self.n_bins, n_samples)
            if n_cells is None
            else _validate.at_least_one(n_cells, "n_cells")
        )
        self._plan_token, self._n_steps = secrets.token_hex(8), 0
        self._cells: Cells | None = None
        self._ranks = self._total = np.zeros(0, np.int64)
        self._pieces: Pieces
        self._heavy: Pieces | None = None
        self._calibrator: Calibrator | None = None
        small = n_samples is not None and n_samples <= COLLECT_ROWS
        self._step: Step | None = Step("collect", self._next_token()) if small else self._histogram_step()

    def step(self) -> Step | None:
        """The step to run next, or None when the fit can be finished.

        Returns
        -------
        Step or None

        Examples
        --------
        >>> import fastbin as fb
        >>> fb.FitPlan(n_bins=2).step().kind
        'histogram'
        """
        return self._step

    def feed(self, partials: Iterable[Partial]) -> None:
        """Merge the partial results of the current step, in any order, and decide what comes next.

        Parameters
        ----------
        partials : iterable of Partial
            One for each part of the data, from :func:`run_step` with the current step.

        Examples
        --------
        >>> import fastbin as fb
        >>> plan = fb.FitPlan(n_bins=2, n_samples=3)
        >>> plan.feed([fb.run_step(plan.step(), [0.2, 0.9, 0.5], [0, 1, 0])])
        >>> plan.step() is None
        True
        """
        step = self._step
        if step is None:
            raise RuntimeError("this fit has no step left; call finish().")
        merged = merge(step, partials)
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
            self._n = merged.n_rows
            self._ranks = self._ranks_of(self._n)
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
            self._finish(self._pieces, merged.pool)

    def finish(self) -> Calibrator:
        """The fitted calibrator, after the last step was fed.

        Returns
        -------
        Calibrator

        Examples
        --------
        >>> import fastbin as fb
        >>> plan = fb.FitPlan(n_bins=2, n_samples=3)
        >>> plan.feed([fb.run_step(plan.step(), [0.2, 0.9, 0.5], [0, 1, 0])])
        >>> plan.finish().values
        array([0., 1.])
        """
        if self._calibrator is None:
            raise RuntimeError("this fit is not done; feed the results of step() until it returns None.")
        return self._calibrator

    def _ranks_of(self, n: int) -> NDArray[np.int64]:
        """The ranks of the cuts among n rows, with 0 and n + 1 around them; refuses too few rows."""
        if self.boundary_points != "authors":
            _validate.enough_samples(n, self.n_bins)
            return boundary_ranks(n, self.n_bins)
        if n < self.n_bins:
            raise ValueError(
                f"n_bins={self.n_bins} needs at least as many rows; got n = {n}. Pass at most n_bins={n}."
            )
        # numpy.array_split: the first n % B groups have one row more.
        groups = np.arange(1, self.n_bins)
        ends = groups * (n // self.n_bins) + np.minimum(groups, n % self.n_bins)
        return np.concatenate([[0], ends, [n + 1]])

    def _next_token(self) -> str:
        """A partial result of another step, or of another plan, must not be taken for one of this step."""
        self._n_steps += 1
        return f"{self._plan_token}-{self._n_steps}"

    def _histogram_step(self) -> Step:
        if self._hint is not None and self._hint.size:
            self._cells = cells_from_sample(self._hint, self._most_cells)
        else:
            self._cells = default_cells(self._most_cells)
        cells = self._cells
        return Step(
            "histogram",
            self._next_token(),
            soft=self._soft,
            cell_map=cells.cell_map,
            n_cells=cells.lowest.size,
            atoms=None if self._soft else cells.atoms,  # a sum of fractions does not say which ones they are
        )

    def _take_collected(self, merged: Partial) -> None:
        pool = merged.pool
        self._soft = merged.soft
        self._total = np.array([pool.keys.size, *_fixedpoint.total(pool.labels, soft=merged.soft)], np.int64)
        self._finish(None, pool)

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
            self._finish(pieces, NO_ROWS)

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
        ranges = Ranges(first[1:] > first[:-1], first, low, high)
        return Step(kind, self._next_token(), soft=self._soft, cell_map=self._cells.cell_map, ranges=ranges)

    def _finish(self, pieces: Pieces | None, pool: Pool) -> None:
        cuts = find_cuts(
            pieces,
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


def _good_number_of_cells(n_bins: int, n_samples: int | None) -> int:
    """A power of two: enough that a cell with a cut is light, not more than the rows are worth."""
    wanted = max(DEFAULT_CELLS, CELLS_PER_BIN * n_bins)
    if n_samples is not None:
        wanted = min(wanted, max(n_samples // ROWS_PER_CELL, FEWEST_CELLS))
    return 1 << (min(wanted, MOST_CELLS) - 1).bit_length()
