"""The fit functions: validate, run the passes over threads, return a frozen calibrator."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _streams, _validate
from fastbin._cellmaps import keys_of, sample_of
from fastbin._cuts import find_cuts
from fastbin._parallel import parallel_map, row_ranges
from fastbin._pools import Pool
from fastbin._steps import Partial, run_step
from fastbin._values import calibrator_from_cuts
from fastbin.bounds import boundary_ranks
from fastbin.model import BoundaryPoints, Calibrator, Rng
from fastbin.passes import COLLECT_ROWS, GATHER_ROWS, FitPlan

ROWS_PER_GATHERED = 128  # in memory, gathering this share of the rows is cheaper than another pass
PART_ROWS = 1 << 22  # a part's result is about a megabyte; Ctrl-C waits for one part


def fit_uniform_mass(
    scores: ArrayLike,
    labels: ArrayLike,
    n_bins: int,
    *,
    boundary_points: BoundaryPoints = "exclude",
    delta: float = 0.0,
    rng: Rng = 0,
    threads: int | None = None,
) -> Calibrator:
    """Fit uniform-mass histogram binning without sample splitting (Algorithm 1 of Gupta and Ramdas).

    Parameters
    ----------
    scores : array_like
        One-dimensional scores of held-out rows: any real numbers, probabilities or logits. Not NaN.
    labels : array_like
        0/1 labels of any dtype, or soft labels in [0, 1].
    n_bins : int
        Number of bins; needs ``len(scores) >= 2 * n_bins - 1``.
    boundary_points : {"exclude", "include"}
        "exclude" is Algorithm 1: the rows at the cuts are averaged into no bin. "include" is the original
        method (Corollary 1): the row at a cut is averaged into the bin below it.
    delta : float
        Algorithm 2's perturbation of the values. They are distinct even at 0, by a nudge of at most
        ``n_bins * 2**-52``.
    rng : int, numpy.random.Generator or None
        Seed of the tie keys; with the default the same data always give the same calibrator.
    threads : int, optional
        None means all cores of the process. The result does not depend on it.

    Returns
    -------
    Calibrator

    Notes
    -----
    The cuts are the order statistics of ranks ceil(b * (n + 1) / n_bins), ties broken by a second key.
    The result is a function of the multiset of (score, label) and the seed: row order, threads and float32
    against float64 change no bit of it.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(10_000)
    >>> labels = rng.random(10_000) < scores**2
    >>> calibrator = fb.fit_uniform_mass(scores, labels, n_bins=5)
    >>> calibrator.values.round(2)
    array([0.01, 0.09, 0.25, 0.48, 0.78])
    >>> round(calibrator.guarantee(alpha=0.1).conditional, 3)
    0.026
    """
    score_column, label_column = _validate.scores_and_labels(scores, labels)
    n = score_column.size
    # Handing a small job to another thread takes longer than the job.
    n_threads = _validate.thread_number(1 if threads is None and n <= COLLECT_ROWS else threads)
    plan = FitPlan(
        n_bins,
        boundary_points=boundary_points,
        delta=delta,
        rng=rng,
        n_samples=n,
        hint=sample_of(score_column) if n > COLLECT_ROWS else None,
        gather_rows=max(GATHER_ROWS, n // ROWS_PER_GATHERED),
        threads=n_threads,
    )
    if n <= COLLECT_ROWS:
        n_threads = 1
    parts = row_ranges(n, n_threads, PART_ROWS)
    while (step := plan.step()) is not None:

        def run(rows: tuple[int, int], step=step) -> Partial:  # type: ignore[no-untyped-def]
            part = slice(*rows)
            return run_step(step, score_column[part], label_column[part], rows[0])

        plan.feed(parallel_map(run, parts, n_threads))
    return plan.finish()


def fit_counts(
    scores: ArrayLike, positives: ArrayLike, totals: ArrayLike, n_bins: int, *, rng: Rng = 0
) -> Calibrator:
    """Fit uniform-mass binning from a GROUP BY: one row per distinct score, with its counts.

    Parameters
    ----------
    scores : array_like
        Scores; one that appears twice is the same as one row with the counts added.
    positives, totals : array_like of int
        Rows with label 1, and all rows, at each score. Rows with a total of 0 are allowed.
    n_bins : int
        Number of bins.
    rng : int, numpy.random.Generator or None
        Seed of the tie keys.

    Returns
    -------
    Calibrator
        The same, bit for bit, as ``fit_uniform_mass`` on the rows written out.

    Examples
    --------
    >>> import fastbin as fb
    >>> from_counts = fb.fit_counts([0.2, 0.5, 0.8], [1, 4, 9], [10, 10, 10], n_bins=3)
    >>> scores = [0.2] * 10 + [0.5] * 10 + [0.8] * 10
    >>> labels = [1] + [0] * 9 + [1] * 4 + [0] * 6 + [1] * 9 + [0]
    >>> from_counts == fb.fit_uniform_mass(scores, labels, n_bins=3)
    True
    """
    column = _validate.score_array(scores)
    ones, everyone = _count_column(positives, "positives"), _count_column(totals, "totals")
    if not column.size == ones.size == everyone.size:
        raise ValueError(
            f"scores, positives and totals must have the same length; got {column.size}, {ones.size} and "
            f"{everyone.size}. Pass one row per distinct score."
        )
    if column.size == 0:
        raise ValueError("scores must not be empty; got 0 rows. Pass at least one score with its counts.")
    if (ones > everyone).any():
        first = int(np.flatnonzero(ones > everyone)[0])
        raise ValueError(
            f"positives must not exceed totals; found {ones[first]} of {everyone[first]} at row {first}. "
            "Check the order of the arguments."
        )
    if np.isnan(column).any():
        wrong = np.flatnonzero(np.isnan(column))
        raise _validate.nan_error(wrong.size, int(wrong[0]), "Drop those rows.")
    number, seed, n = _validate.bin_number(n_bins), _streams.seed_from(rng), sum(everyone.tolist())
    if n >= np.iinfo(np.int64).max:
        raise ValueError(f"totals must add up to less than 2**63 - 1; got {n}. Check the counts.")
    _validate.enough_samples(n, number)

    keys = keys_of(column)
    present = everyone > 0
    pool = Pool(
        np.concatenate([keys[present], keys[present]]),
        _fixedpoint.binary_words(np.repeat(np.array([1, 0]), int(present.sum()))),
        np.concatenate([ones[present], (everyone - ones)[present]]),
    )
    total = np.array([n, int(ones.sum()), 0])
    ranks = boundary_ranks(n, number)
    cuts = find_cuts(
        None,
        pool,
        ranks[1:-1],
        total,
        seed,
        soft=False,
        threads=_validate.thread_number(None),
    )
    return calibrator_from_cuts(
        cuts, ranks=ranks, n_bins=number, seed=seed, soft=False, boundary_points="exclude", delta=0.0
    )


def _count_column(values: ArrayLike, name: str) -> NDArray[np.int64]:
    """Counts: integers of at least 0."""
    array = _validate.unmasked(values, name)
    if array.shape == (0,):
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must be a one-dimensional array of integers; got {array.dtype} of shape {array.shape}. "
            f"Pass counts, for example {name}.astype(int)."
        )
    if array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must be below 2**63; found {array.max()}. Check the counts.")
    if array.size and int(array.min()) < 0:
        first = int(np.flatnonzero(array < 0)[0])
        raise ValueError(f"{name} must be at least 0; found {array[first]} at row {first}. Check the counts.")
    return array.astype(np.int64)
