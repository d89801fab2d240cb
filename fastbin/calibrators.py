"""The fit functions: validate, run the passes over threads, return a frozen calibrator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastbin import _fixedpoint, _fixedwidth, _splitting, _streams, _validate
from fastbin._cellmaps import keys_of, sample_of
from fastbin._cuts import find_cuts
from fastbin._fixedwidth import Empty
from fastbin._isotonic import isotonic_blocks
from fastbin._parallel import parallel_map, row_ranges
from fastbin._pools import Pool
from fastbin._scalingbinning import with_mean_scores
from fastbin._steps import Partial, run_step
from fastbin._values import calibrator_from_blocks, calibrator_from_cuts
from fastbin.bounds import boundary_ranks
from fastbin.model import BoundaryPoints, Calibrator, Compat, Rng
from fastbin.passes import COLLECT_ROWS, GATHER_ROWS, FitPlan
from fastbin.planning import auto_bins

if TYPE_CHECKING:
    from fastbin.platt import PlattScaler

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
    positive: object = None,
    compat: Compat | None = None,
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
    positive : object, optional
        Which label value counts as 1, for labels that are text or other codes; all others count as 0.
    compat : {"authors"}, optional
        The authors' published code in place of their algorithm: the ranks are cut as by numpy.array_split,
        cells are right-closed, and the row at a cut is averaged into the bin below it.

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
    score_column, label_column = _validate.scores_and_labels(scores, labels, positive)
    n = score_column.size
    if compat is not None:
        _validate.choice(compat, "compat", ("authors",))
        if boundary_points != "exclude" or delta != 0:
            raise ValueError(
                f"compat='authors' fixes the boundary points and has no delta; got boundary_points="
                f"{boundary_points!r} and delta={delta}. Leave them out."
            )
    # Handing a small job to another thread takes longer than the job.
    n_threads = _validate.thread_number(1 if threads is None and n <= COLLECT_ROWS else threads)
    plan = FitPlan(
        n_bins,
        boundary_points=boundary_points if compat is None else compat,
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


def fit_sample_split(
    scores: ArrayLike,
    labels: ArrayLike,
    n_bins: int,
    *,
    split: float = 0.5,
    rng: Rng = 0,
    threads: int | None = None,
    positive: object = None,
) -> Calibrator:
    """Fit uniform-mass binning with sample splitting: one part of the rows cuts, the other part is averaged.

    Parameters
    ----------
    scores, labels
        As for :func:`fit_uniform_mass`.
    n_bins : int
        Number of bins; needs ``floor(split * n) >= 2 * n_bins - 1``.
    split : float
        Share of the rows that choose the cuts: the ``floor(split * n)`` rows whose positions have the
        smallest hash. So the result depends on the order of the rows.
    rng : int, numpy.random.Generator or None
        Seed of the split and of the tie keys.
    threads : int, optional
        None means all cores of the process. The result does not depend on it.
    positive : object, optional
        Which label value counts as 1.

    Returns
    -------
    Calibrator
        ``counts`` are the rows of the second part. A bin in which none fell has their overall mean label for
        its value, and no guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.random(10_000)
    >>> labels = rng.random(10_000) < scores**2
    >>> calibrator = fb.fit_sample_split(scores, labels, n_bins=5, split=0.2)
    >>> int(calibrator.counts.sum())
    8000
    >>> round(calibrator.guarantee(alpha=0.1).conditional, 3)
    0.029
    """
    score_column, label_column = _validate.scores_and_labels(scores, labels, positive)
    return _splitting.fit(
        score_column,
        label_column,
        _validate.bin_number(n_bins),
        _validate.probability(split, "split"),
        _streams.seed_from(rng),
        _validate.thread_number(threads),
    )


def fit_fixed_width(
    scores: ArrayLike,
    labels: ArrayLike,
    n_bins: int,
    *,
    empty: Empty = "midpoint",
    threads: int | None = None,
    positive: object = None,
) -> Calibrator:
    """Fit histogram binning on cells of equal width over [0, 1].

    Parameters
    ----------
    scores : array_like
        Probabilities in [0, 1].
    labels : array_like
        As for :func:`fit_uniform_mass`.
    n_bins : int
        Number of cells; cell i is ``[i/n_bins, (i+1)/n_bins)``, the last one closed.
    empty : {"midpoint", "nearest", "raise"}
        What stands in a cell without rows: its midpoint, the value of the nearest cell that has some (of two
        the lower), or an error.
    threads : int, optional
        None means all cores of the process. The result does not depend on it.
    positive : object, optional
        Which label value counts as 1.

    Returns
    -------
    Calibrator

    Examples
    --------
    >>> import fastbin as fb
    >>> calibrator = fb.fit_fixed_width([0.1, 0.2, 0.3, 0.8], [0, 1, 1, 1], n_bins=4)
    >>> calibrator.counts, calibrator.values
    (array([2, 1, 0, 1]), array([0.5  , 1.   , 0.625, 1.   ]))
    """
    score_column, label_column = _validate.scores_and_labels(scores, labels, positive)
    number = _validate.bin_number(n_bins)
    _validate.choice(empty, "empty", ("midpoint", "nearest", "raise"))
    n_threads = _validate.thread_number(threads)
    _validate.unit_scores(score_column)
    return _fixedwidth.fit(score_column, label_column, number, empty, n_threads)


def fit_isotonic(
    scores: ArrayLike, labels: ArrayLike, *, threads: int | None = None, positive: object = None
) -> Calibrator:
    """Fit isotonic regression as a binning: the step function of the pooled adjacent violators.

    Parameters
    ----------
    scores, labels
        As for :func:`fit_uniform_mass`. Rows of equal score are pooled, exactly.
    threads : int, optional
        None means all cores of the process. The result does not depend on it.
    positive : object, optional
        Which label value counts as 1.

    Returns
    -------
    Calibrator
        One bin for each block: it begins at the block's first score and ends where the next block begins.

    Notes
    -----
    At the calibration scores it is the usual isotonic regression; between blocks it does not interpolate,
    because a binning is what the theory covers. The guarantee is a union over all intervals.

    Examples
    --------
    >>> import fastbin as fb
    >>> calibrator = fb.fit_isotonic([0.1, 0.2, 0.3, 0.4, 0.5], [0, 1, 0, 1, 1])
    >>> calibrator.edges, calibrator.values
    (array([0.2, 0.4]), array([0. , 0.5, 1. ]))
    """
    score_column, label_column = _validate.scores_and_labels(scores, labels, positive)
    blocks = isotonic_blocks(score_column, label_column, _validate.thread_number(threads))
    return calibrator_from_blocks(blocks)


def fit_scaling_binning(
    scores: ArrayLike,
    labels: ArrayLike,
    n_bins: int,
    *,
    rng: Rng = 0,
    threads: int | None = None,
    positive: object = None,
) -> Calibrator:
    """Fit scaling-binning: the cuts of uniform mass, and in each bin the mean score, not the mean label.

    Parameters
    ----------
    scores : array_like
        Probabilities in [0, 1], for example those of a fitted scaling.
    labels, n_bins, rng, threads, positive
        As for :func:`fit_uniform_mass`.

    Returns
    -------
    Calibrator
        Without a guarantee beforehand; ``certificate()`` gives the bound that these labels support.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> scores = np.linspace(0, 1, 99)
    >>> calibrator = fb.fit_scaling_binning(scores, scores > 0.5, n_bins=4)
    >>> calibrator.values.round(3)
    array([0.117, 0.372, 0.628, 0.883])
    >>> calibrator.guarantee().holds, calibrator.certificate().round(2)
    (False, array([0.12, 0.37, 0.37, 0.12]))
    """
    column = _validate.score_array(scores)
    fitted = fit_uniform_mass(column, labels, n_bins, rng=rng, threads=threads, positive=positive)
    _validate.unit_scores(column)
    return with_mean_scores(fitted, column, _validate.thread_number(threads))


def fit(
    scores: ArrayLike,
    labels: ArrayLike,
    method: str = "uniform_mass",
    n_bins: int | Literal["auto"] = "auto",
    *,
    rng: Rng = 0,
    threads: int | None = None,
    **options: Any,
) -> Calibrator | PlattScaler:
    """Fit a calibrator by the name of its method.

    Parameters
    ----------
    scores, labels
        As for :func:`fit_uniform_mass`.
    method : str
        "uniform_mass", "uniform_mass_original" (the cut's own row averaged in), "sample_split",
        "fixed_width", "isotonic", "scaling_binning" or "platt".
    n_bins : int or "auto"
        "auto": the cube root of n, or the most bins whose exact conditional epsilon is at most 0.1 at alpha =
        0.1, whichever is less; at least 1. Choice and reason are in the result's ``note``. Isotonic
        regression and Platt scaling choose for themselves.
    rng : int, numpy.random.Generator or None
        For methods that draw.
    threads : int, optional
        None means all cores of the process.
    **options
        What the function of that method takes besides.

    Returns
    -------
    Calibrator or PlattScaler

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> scores = np.linspace(0, 1, 1000)
    >>> calibrator = fb.fit(scores, scores > 0.5)
    >>> calibrator.n_bins, calibrator.note[:46]
    (6, 'n_bins = 6: the most bins that keep every valu')
    """
    _validate.choice(method, "method", tuple(_METHODS))
    if isinstance(n_bins, str):
        _validate.choice(n_bins, "n_bins", ("auto",))
    function, uses, given = _METHODS[method]
    arguments: dict[str, Any] = {**given, **options}
    if "rng" in uses:
        arguments["rng"] = rng
    if "threads" in uses:
        arguments["threads"] = threads
    if "n_bins" not in uses:
        if n_bins != "auto":
            raise ValueError(f"n_bins must be left out for method={method!r}, which chooses; got {n_bins}.")
        fitted: Calibrator | PlattScaler = function(scores, labels, **arguments)
        return fitted
    if n_bins != "auto":
        chosen: Calibrator = function(scores, labels, n_bins, **arguments)
        return chosen
    number, reason = auto_bins(max(_validate.score_array(scores).size, 1))
    automatic: Calibrator = function(scores, labels, number, **arguments)
    return replace(automatic, note=f"n_bins = {number}: {reason}")


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


def _fit_platt(scores: ArrayLike, labels: ArrayLike, **options: Any) -> PlattScaler:
    from fastbin.platt import fit_platt  # noqa: PLC0415 - no other method needs it

    return fit_platt(scores, labels, **options)


_METHODS: dict[str, tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = {
    "uniform_mass": (fit_uniform_mass, ("n_bins", "rng", "threads"), {}),
    "uniform_mass_original": (
        fit_uniform_mass,
        ("n_bins", "rng", "threads"),
        {"boundary_points": "include"},
    ),
    "sample_split": (fit_sample_split, ("n_bins", "rng", "threads"), {}),
    "fixed_width": (fit_fixed_width, ("n_bins", "threads"), {}),
    "isotonic": (fit_isotonic, ("threads",), {}),
    "scaling_binning": (fit_scaling_binning, ("n_bins", "rng", "threads"), {}),
    "platt": (_fit_platt, (), {}),
}
