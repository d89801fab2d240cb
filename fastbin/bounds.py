"""The theorems as functions of (n, n_bins, alpha): how far can a calibrated value be from the truth?

Every function takes scalars or arrays, broadcasts them, and returns the same shape. Nothing is capped at 1: a
bound above 1 says that these samples promise nothing. The families of ``method``:

=========== ===========================================================================================
paper       Gupta and Ramdas (2021) as printed, with at least ``n // n_bins - 1`` points in a bin
paper_sharp the same with the count that always holds and is always attained, ``(n + 1) // n_bins - 1``
hoeffding   the sharp count, and the product over independent bins in place of the union bound (Sidak)
bonferroni  exact binomial tails, union bound over bins
exact       exact binomial tails, product over bins: 13 to 33 % below the paper
=========== ===========================================================================================

The exact forms hold for 0/1 labels; soft labels in [0, 1] have the Hoeffding forms. The tails are exact up to
100,000 points in a bin; above it a closed-form upper bound makes epsilon up to 0.3 % larger (alpha <= 0.1).

References
----------
C. Gupta and A. Ramdas, "Distribution-free calibration guarantees for histogram binning without sample
splitting", ICML 2021.
"""

# mypy: disable-error-code="overload-overlap"
# A scalar is array-like too, so the two overloads of a function overlap; the first that fits is right.

from __future__ import annotations

import math
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from fastbin import _binomial
from fastbin import _bounds_calibration_error as _calibration_error
from fastbin import _bounds_intervals as _intervals
from fastbin import _bounds_sample_split as _sample_split
from fastbin import _bounds_uniform_mass as _uniform_mass
from fastbin._bounds_arguments import (
    LARGEST_RANKED,
    FloatArray,
    IntArray,
    Integer,
    Number,
    bin_numbers,
    check_count,
    check_epsilon,
    count_column,
    counts_of,
    elementwise,
    float_result,
    int_result,
    perturbations,
    probabilities,
    samples_and_bins,
    successes_and_trials,
    tolerances,
    tolerances_within_reach,
)
from fastbin._bounds_uniform_mass import ConditionalMethod, Kind, MarginalMethod
from fastbin._validate import bin_number, choice, enough_samples, probability, real

__all__ = [
    "all_intervals_epsilon",
    "bin_sizes",
    "binomial_epsilon",
    "binomial_tail",
    "block_epsilon",
    "boundary_ranks",
    "clopper_pearson",
    "conditional_epsilon",
    "confidence_sequence",
    "ece_upper",
    "expected_ece",
    "hoeffding_epsilon",
    "marginal_epsilon",
    "max_bins",
    "max_mad",
    "max_mad_argument",
    "merge_epsilon",
    "original_epsilon",
    "required_samples",
    "sample_split_epsilon",
    "sample_split_failure",
    "sample_split_required",
    "simultaneous_epsilon",
    "weighted_epsilon",
]

UnionMethod = Literal["hoeffding", "exact"]
CountsMethod = Literal["exact", "bonferroni", "hoeffding"]
WeightedMethod = Literal["exact", "hoeffding"]
ErrorMethod = Literal["exact", "paper"]
SplitMethod = Literal["paper", "hoeffding", "exact"]

# What the gaps beside tied scores may take of alpha: it costs the labels two parts in 100,000 of epsilon.
_SHARE_OF_GAPS = 1 / 1024


# --- ranks and sizes --------------------------------------------------------------------------------


def boundary_ranks(n: int, n_bins: int) -> IntArray:
    """Ranks A_0, ..., A_B of Algorithm 1: bin b holds the points strictly between ranks A_{b-1} and A_b.

    Parameters
    ----------
    n : int
        Number of calibration points, at most ``2**63 - 2``.
    n_bins : int
        Number of bins B, at most ``n + 1``.

    Returns
    -------
    ndarray of int64, shape (n_bins + 1,)
        ``A_b = ceil(b (n + 1) / B)``, from 0 to n + 1.

    Notes
    -----
    Integers throughout: ``ceil(b * ((n + 1) / B))`` in floating point gives rank 26 of 25 at n = 24, B = 11.

    Examples
    --------
    >>> boundary_ranks(7, 3)
    array([0, 3, 6, 8])
    """
    total, bins = check_count("n", 1, LARGEST_RANKED)(n) + 1, bin_number(n_bins)
    if bins > total:
        raise ValueError(
            f"n_bins must be at most n + 1; got n_bins={bins}, n = {total - 1}. Pass n_bins={total}."
        )
    # A_b = b*q + ceil(b*r/B): the product b*(n+1) could pass 2^63, these cannot.
    quotient, remainder = divmod(total, bins)
    b = np.arange(bins + 1, dtype=np.int64)
    return b * quotient + (b * remainder + bins - 1) // bins


def bin_sizes(n: int, n_bins: int) -> tuple[IntArray, IntArray]:
    """Number of points strictly inside a bin: the one or two sizes that occur, and how many bins have each.

    Parameters
    ----------
    n : int
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int
        Number of bins B.

    Returns
    -------
    sizes, multiplicities : ndarray of int64
        Smaller size first. ``(n + 1) % B`` bins have ``ceil((n + 1)/B) - 1`` points, the others one less.

    Examples
    --------
    >>> bin_sizes(1500, 10)
    (array([149, 150]), array([9, 1]))
    >>> bin_sizes(1509, 10)
    (array([150]), array([10]))
    """
    samples, bins = check_count("n", 1, LARGEST_RANKED)(n), bin_number(n_bins)
    enough_samples(samples, bins)
    quotient, n_larger = divmod(samples + 1, bins)
    sizes = np.array([quotient - 1, quotient], dtype=np.int64)
    multiplicities = np.array([bins - n_larger, n_larger], dtype=np.int64)
    occurs = multiplicities > 0
    return sizes[occurs], multiplicities[occurs]


# --- conditional and marginal calibration -----------------------------------------------------------


@overload
def conditional_epsilon(
    n: Number, n_bins: Integer, alpha: Number, *, method: ConditionalMethod = "exact", delta: Number = 0.0
) -> float: ...
@overload
def conditional_epsilon(
    n: ArrayLike,
    n_bins: ArrayLike,
    alpha: ArrayLike,
    *,
    method: ConditionalMethod = "exact",
    delta: ArrayLike = 0.0,
) -> FloatArray: ...
def conditional_epsilon(
    n: ArrayLike,
    n_bins: ArrayLike,
    alpha: ArrayLike,
    *,
    method: ConditionalMethod = "exact",
    delta: ArrayLike = 0.0,
) -> float | FloatArray:
    """With probability 1 - alpha, *every* value of uniform-mass binning is within epsilon of the truth.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int or array
        Number of bins.
    alpha : float or array
        Allowed probability of failure, in (0, 1).
    method : {"exact", "bonferroni", "hoeffding", "paper_sharp", "paper"}
        See the module's table. "paper" is infinite where ``n // n_bins`` is 1.
    delta : float or array
        Algorithm 2's perturbation of the values. The paper adds delta, the others delta / (1 + delta).

    Returns
    -------
    float or ndarray
        Epsilon.

    Notes
    -----
    Theorems 1 and 2(a) of the paper; "exact" is theorem SIDAK: the smallest epsilon with ``prod_b (1 -
    T*(m_b, epsilon)) >= 1 - alpha`` over the bin sizes m_b, `binomial_tail` being T*. No smaller epsilon
    holds for every distribution when n_bins divides n + 1. It is not monotone in n.

    Examples
    --------
    >>> round(conditional_epsilon(1000, 10, 0.1), 6)
    0.131313
    >>> conditional_epsilon([1000, 5000], 10, 0.1, method="paper").round(6)
    array([0.163582, 0.072862])
    """
    choice(method, "method", _uniform_mass.METHODS["conditional"])
    samples, bins = samples_and_bins(n, n_bins)
    level, shift = probabilities(alpha, "alpha"), perturbations(delta)
    epsilon = _uniform_mass.epsilon("conditional", method, samples, bins, level)
    return float_result(epsilon + _moved_by(shift, method))


@overload
def marginal_epsilon(
    n: Number, n_bins: Integer, alpha: Number, *, method: MarginalMethod = "exact", delta: Number = 0.0
) -> float: ...
@overload
def marginal_epsilon(
    n: ArrayLike,
    n_bins: ArrayLike,
    alpha: ArrayLike,
    *,
    method: MarginalMethod = "exact",
    delta: ArrayLike = 0.0,
) -> FloatArray: ...
def marginal_epsilon(
    n: ArrayLike,
    n_bins: ArrayLike,
    alpha: ArrayLike,
    *,
    method: MarginalMethod = "exact",
    delta: ArrayLike = 0.0,
) -> float | FloatArray:
    """With probability 1 - alpha over data *and* a new point, its value is within epsilon of the truth.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int or array
        Number of bins.
    alpha : float or array
        Allowed probability of failure, in (0, 1).
    method : {"exact", "hoeffding", "paper_sharp", "paper"}
        "hoeffding" and "paper_sharp" differ in how they treat delta only.
    delta : float or array
        Algorithm 2's perturbation of the values. The paper adds delta, the others delta / (1 + delta).

    Returns
    -------
    float or ndarray
        Epsilon.

    Notes
    -----
    Theorem 2(b) of the paper; "exact" is theorem MARG: the smallest epsilon with
    ``sum_b (m_b + 1)/(n + 1) T*(m_b, epsilon) <= alpha``, since bin b has expected mass (m_b + 1)/(n + 1). A
    statement about the bin of the new point, and about its value because fastbin keeps values distinct.

    Examples
    --------
    >>> round(marginal_epsilon(1000, 10, 0.1), 6)
    0.085859
    >>> round(marginal_epsilon(1510, 10, 0.1, method="paper"), 6)
    0.099929
    """
    choice(method, "method", _uniform_mass.METHODS["marginal"])
    samples, bins = samples_and_bins(n, n_bins)
    level, shift = probabilities(alpha, "alpha"), perturbations(delta)
    epsilon = _uniform_mass.epsilon("marginal", method, samples, bins, level)
    return float_result(epsilon + _moved_by(shift, method))


@overload
def original_epsilon(n: Number, n_bins: Integer, alpha: Number) -> float: ...
@overload
def original_epsilon(n: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike) -> FloatArray: ...
def original_epsilon(n: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike) -> float | FloatArray:
    """Corollary 1: the conditional epsilon when the points on the cuts are averaged in as well.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int or array
        Number of bins.
    alpha : float or array
        Allowed probability of failure, in (0, 1).

    Returns
    -------
    float or ndarray
        Theorem 1's epsilon plus ``1 / (n // n_bins)``.

    Notes
    -----
    One more label moves a mean of n // n_bins labels by at most ``1 / (n // n_bins)``.

    Examples
    --------
    >>> round(original_epsilon(2900, 10, 0.1), 6)
    0.099191
    """
    samples, bins = samples_and_bins(n, n_bins)
    level = probabilities(alpha, "alpha")
    return float_result(_uniform_mass.epsilon("original", "paper", samples, bins, level))


def _moved_by(delta: FloatArray, method: ConditionalMethod) -> FloatArray:
    """How much further from p a value can be after Algorithm 2's perturbation."""
    # |p - (v + delta u)/(1 + delta)| exceeds |p - v| by at most delta/(1 + delta); the paper rounds it up to
    # delta.
    return delta if method in ("paper", "paper_sharp") else delta / (1 + delta)


# --- realised counts --------------------------------------------------------------------------------


def simultaneous_epsilon(counts: ArrayLike, alpha: float, *, method: CountsMethod = "exact") -> float:
    """Epsilon for all bins at once, from the numbers of points that they really hold.

    Parameters
    ----------
    counts : array of int
        Points averaged in each bin, all at least 1: nothing can be said of an empty bin, leave it out.
    alpha : float
        Allowed probability of failure, in (0, 1).
    method : {"exact", "bonferroni", "hoeffding"}
        "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float
        Smallest epsilon with ``prod_b (1 - T*(m_b, epsilon)) >= 1 - alpha`` ("bonferroni": ``sum_b T* <=
        alpha``; "hoeffding": ``min(1, 2 exp(-2 m epsilon^2))`` in place of T*).

    Notes
    -----
    Theorem SIDAK, given the counts: for bins that were fixed before these labels were seen.

    Examples
    --------
    >>> simultaneous_epsilon([99, 99, 99], 0.1) == conditional_epsilon(299, 3, 0.1)
    True
    """
    choice(method, "method", get_args(CountsMethod))
    level = probability(alpha, "alpha")
    sizes, multiplicities = np.unique(count_column(counts, least=1), return_counts=True)
    return _binomial.epsilon_of_counts(
        tuple(sizes.tolist()),
        tuple(multiplicities.tolist()),
        level,
        rule="sum" if method == "bonferroni" else "product",
        tails="hoeffding" if method == "hoeffding" else "exact",
    )


def weighted_epsilon(
    counts: ArrayLike, masses: ArrayLike, alpha: float, *, method: WeightedMethod = "exact"
) -> float:
    """Epsilon for the bin of a new point, from the realised counts and the expected masses of the bins.

    Parameters
    ----------
    counts : array of int
        Points averaged in each bin. An empty bin counts as a failure, whatever epsilon below 1.
    masses : array of float
        Probability that a new point falls into each bin, not negative.
    alpha : float
        Allowed probability of failure, in (0, 1).
    method : {"exact", "hoeffding"}
        "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float
        Smallest epsilon with ``sum_b masses_b T*(m_b, epsilon) <= alpha``. With "hoeffding" it is infinite
        when the empty bins alone weigh more than alpha.

    Notes
    -----
    Theorem MARG, given the counts.

    Examples
    --------
    >>> round(weighted_epsilon([99, 0], [0.99, 0.01], 0.1), 6)
    0.085859
    """
    choice(method, "method", get_args(WeightedMethod))
    level = probability(alpha, "alpha")
    column = count_column(counts, least=0)
    shares = np.asarray(masses, dtype=np.float64)
    if shares.shape != column.shape or not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise ValueError(
            f"masses must be one finite number of at least 0 for each of the {column.size} counts; "
            f"got {masses!r}. Pass the probability of each bin."
        )
    sizes, group = np.unique(column, return_inverse=True)
    weights = np.bincount(group, weights=shares)
    return _binomial.epsilon_of_counts(
        tuple(sizes.tolist()), tuple(weights.tolist()), level, rule="sum", tails=method
    )


# --- expected calibration error ---------------------------------------------------------------------


@overload
def expected_ece(
    n: Number, n_bins: Integer, *, p: float = 1, method: ErrorMethod = "exact", delta: Number = 0.0
) -> float: ...
@overload
def expected_ece(
    n: ArrayLike, n_bins: ArrayLike, *, p: float = 1, method: ErrorMethod = "exact", delta: ArrayLike = 0.0
) -> FloatArray: ...
def expected_ece(
    n: ArrayLike, n_bins: ArrayLike, *, p: float = 1, method: ErrorMethod = "exact", delta: ArrayLike = 0.0
) -> float | FloatArray:
    """Upper bound on the expected l_p calibration error of uniform-mass binning, 1 <= p <= 2.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int or array
        Number of bins.
    p : float
        Order of the calibration error, between 1 and 2.
    method : {"exact", "paper"}
        "paper" is ``sqrt(n_bins / (2 n)) + delta`` for every p.
    delta : float or array
        Algorithm 2's perturbation of the values; "exact" adds delta / (1 + delta).

    Returns
    -------
    float or ndarray
        The bound.

    Notes
    -----
    p = 1, theorem ECE-1: ``D1 = sum_b (m_b + 1)/(n + 1) max_mad(m_b)``, about ``0.40 sqrt(n_bins/n)``. 1 < p
    <= 2, theorem ECE-2: the root of ``C2 = sum_b (m_b + 1)/(n + 1) / (4 m_b)``, about ``0.5 sqrt(n_bins/n)``;
    an equality for fair coins. Soft labels in [0, 1] are covered: for a given mean, 0/1 labels deviate most.

    Examples
    --------
    >>> round(expected_ece(1000, 10), 6), round(expected_ece(1000, 10, p=2), 6)
    (0.040176, 0.050227)
    >>> round(expected_ece(1000, 10, method="paper"), 6)
    0.070711
    """
    choice(method, "method", get_args(ErrorMethod))
    order = real(p, "p", "a number between 1 and 2")
    if not 1 <= order <= 2:
        raise ValueError(
            f"p must be between 1 and 2; got {order}. No bound is known for other orders. Pass p=2."
        )
    samples, bins = samples_and_bins(n, n_bins)
    shift = perturbations(delta)
    if method == "paper":
        return float_result(np.sqrt(bins / (2 * samples)) + shift)
    expected = _calibration_error.mean_absolute if order == 1 else _calibration_error.root_mean_square
    return float_result(expected(samples, bins) + _moved_by(shift, method))


@overload
def ece_upper(n: Number, n_bins: Integer, alpha: Number) -> float: ...
@overload
def ece_upper(n: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike) -> FloatArray: ...
def ece_upper(n: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike) -> float | FloatArray:
    """With probability 1 - alpha, the l_1 calibration error of uniform-mass binning is below this.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least ``2 * n_bins - 1``.
    n_bins : int or array
        Number of bins.
    alpha : float or array
        Allowed probability of failure, in (0, 1).

    Returns
    -------
    float or ndarray
        The bound.

    Notes
    -----
    Theorem ECE-HP: ``max_mad(m) + sqrt(q log(2/alpha) / (2m))``, m the smallest bin size and q the level that
    the mass of the heaviest bin exceeds with probability at most alpha/2. Given the cuts, the expected error
    is at most the largest `max_mad`, and one label moves the error by at most P_b/m_b (McDiarmid).

    Examples
    --------
    >>> round(ece_upper(9999, 50, 0.1), 6)
    0.041923
    """
    samples, bins = samples_and_bins(n, n_bins)
    return float_result(_calibration_error.upper_bound(samples, bins, probabilities(alpha, "alpha")))


@overload
def max_mad(m: Number) -> float: ...
@overload
def max_mad(m: ArrayLike) -> FloatArray: ...
def max_mad(m: ArrayLike) -> float | FloatArray:
    """Largest mean absolute deviation of a mean of m labels: the sup over p of E|Bin(m, p)/m - p|.

    Parameters
    ----------
    m : int or array
        Number of labels, at least 1.

    Returns
    -------
    float or ndarray
        The largest deviation.

    Notes
    -----
    De Moivre's formula; the maximum is at `max_mad_argument`, which is 1/2 for odd m only.

    Examples
    --------
    >>> round(max_mad(2) * 27, 12)
    8.0
    """
    return float_result(_calibration_error.max_mean_deviation(counts_of(m, "m")))


@overload
def max_mad_argument(m: Number) -> float: ...
@overload
def max_mad_argument(m: ArrayLike) -> FloatArray: ...
def max_mad_argument(m: ArrayLike) -> float | FloatArray:
    """The probability at or below 1/2 at which `max_mad` is attained (1 minus it is the other one).

    Parameters
    ----------
    m : int or array
        Number of labels, at least 1.

    Returns
    -------
    float or ndarray
        ``((m + 1) // 2) / (m + 1)``.

    Examples
    --------
    >>> max_mad_argument([1, 3, 4])
    array([0.5, 0.5, 0.4])
    """
    size = counts_of(m, "m")
    return float_result((size + 1) // 2 / (size + 1))


# --- one bin ----------------------------------------------------------------------------------------


@overload
def binomial_tail(m: Number, epsilon: Number) -> float: ...
@overload
def binomial_tail(m: ArrayLike, epsilon: ArrayLike) -> FloatArray: ...
def binomial_tail(m: ArrayLike, epsilon: ArrayLike) -> float | FloatArray:
    """T*(m, epsilon): the largest probability, over p, that a mean of m labels misses p by more than epsilon.

    Parameters
    ----------
    m : int or array
        Number of labels, at least 1.
    epsilon : float or array
        Tolerance, above 0. Within 4 ulp of a multiple of 1/(2m) it is read as that multiple.

    Returns
    -------
    float or ndarray
        T*; an upper bound on it for m above 100,000.

    Notes
    -----
    Theorem EXACT: T* jumps down at every multiple of 1/(2m), is right-continuous and nonincreasing in
    epsilon, and is the maximum of m explicit sums of two binomial tails. It is not monotone in m.

    Examples
    --------
    >>> round(binomial_tail(5, 0.2), 6)
    0.424
    """
    return float_result(elementwise(_binomial.tail, counts_of(m, "m"), tolerances(epsilon)))


@overload
def binomial_epsilon(m: Number, t: Number) -> float: ...
@overload
def binomial_epsilon(m: ArrayLike, t: ArrayLike) -> FloatArray: ...
def binomial_epsilon(m: ArrayLike, t: ArrayLike) -> float | FloatArray:
    """Smallest epsilon with ``binomial_tail(m, epsilon) <= t``, never rounded down.

    Parameters
    ----------
    m : int or array
        Number of labels, at least 1.
    t : float or array
        Allowed probability of failure, in (0, 1).

    Returns
    -------
    float or ndarray
        Epsilon; mostly a multiple of 1/(2m).

    Notes
    -----
    Theorem EXACT. Not monotone in m: a ninth label beats a tenth at t = 0.1.

    Examples
    --------
    >>> binomial_epsilon([50, 150], 0.1)
    array([0.12, 0.07])
    """
    return float_result(elementwise(_binomial.epsilon_of_one_bin, counts_of(m, "m"), probabilities(t, "t")))


@overload
def hoeffding_epsilon(m: Number, t: Number) -> float: ...
@overload
def hoeffding_epsilon(m: ArrayLike, t: ArrayLike) -> FloatArray: ...
def hoeffding_epsilon(m: ArrayLike, t: ArrayLike) -> float | FloatArray:
    """Epsilon of Hoeffding's inequality, ``sqrt(log(2/t) / (2m))``; holds for labels in [0, 1].

    Parameters
    ----------
    m : int or array
        Number of labels, at least 1.
    t : float or array
        Allowed probability of failure, in (0, 1).

    Returns
    -------
    float or ndarray
        Epsilon, not capped at 1.

    Examples
    --------
    >>> round(hoeffding_epsilon(150, 0.1), 6)
    0.099929
    """
    return float_result(_uniform_mass.hoeffding(counts_of(m, "m"), probabilities(t, "t")))


@overload
def clopper_pearson(k: Number, m: Number, t: Number) -> tuple[float, float]: ...
@overload
def clopper_pearson(k: ArrayLike, m: ArrayLike, t: ArrayLike) -> tuple[FloatArray, FloatArray]: ...
def clopper_pearson(
    k: ArrayLike, m: ArrayLike, t: ArrayLike
) -> tuple[float | FloatArray, float | FloatArray]:
    """Exact confidence interval for p from k positives among m labels; narrow near 0 and 1.

    Parameters
    ----------
    k : int or array
        Number of positive labels.
    m : int or array
        Number of labels; 0 gives (0, 1).
    t : float or array
        Allowed probability of failure, in (0, 1); t/2 on each side.

    Returns
    -------
    lower, upper : float or ndarray
        The interval.

    Notes
    -----
    Theorem CP: with ``t = 1 - (1 - alpha)**(1/n_bins)`` all bins are covered at once with probability 1 -
    alpha.

    Examples
    --------
    >>> lower, upper = clopper_pearson(0, 49, 0.01)
    >>> lower, round(upper, 6)
    (0.0, 0.102488)
    """
    successes, trials = successes_and_trials(k, m)
    lower, upper = _intervals.clopper_pearson(successes, trials, probabilities(t, "t"))
    return float_result(lower), float_result(upper)


@overload
def confidence_sequence(k: Number, m: Number, t: Number) -> tuple[float, float]: ...
@overload
def confidence_sequence(k: ArrayLike, m: ArrayLike, t: ArrayLike) -> tuple[FloatArray, FloatArray]: ...
def confidence_sequence(
    k: ArrayLike, m: ArrayLike, t: ArrayLike
) -> tuple[float | FloatArray, float | FloatArray]:
    """Confidence interval for p that holds at all times at once: look after every label, stop when you like.

    Parameters
    ----------
    k : int or array
        Number of positive labels so far.
    m : int or array
        Number of labels so far; 0 gives (0, 1).
    t : float or array
        Allowed probability that p is missed at any time, in (0, 1).

    Returns
    -------
    lower, upper : float or ndarray
        The interval.

    Notes
    -----
    Theorem CS: all p whose likelihood exceeds t times the likelihood averaged over Beta(1/2, 1/2) (Ville's
    inequality). The log-likelihood is concave in p, so the set is an interval.

    Examples
    --------
    >>> lower, upper = confidence_sequence(9, 19, 0.1)
    >>> round(lower, 6), round(upper, 6)
    (0.187079, 0.773367)
    """
    successes, trials = successes_and_trials(k, m)
    lower, upper = _intervals.confidence_sequence(successes, trials, probabilities(t, "t"))
    return float_result(lower), float_result(upper)


# --- merged bins and isotonic blocks ----------------------------------------------------------------


@overload
def merge_epsilon(
    m: Number, n_bins: Integer, alpha: Number, *, method: UnionMethod = "hoeffding"
) -> float: ...
@overload
def merge_epsilon(
    m: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike, *, method: UnionMethod = "hoeffding"
) -> FloatArray: ...
def merge_epsilon(
    m: ArrayLike, n_bins: ArrayLike, alpha: ArrayLike, *, method: UnionMethod = "hoeffding"
) -> float | FloatArray:
    """Epsilon for a group of neighbouring bins, for all groups at once: the labels may choose the groups.

    Parameters
    ----------
    m : int or array
        Points strictly between the outer cuts of the group; the points on its inner cuts are averaged in.
    n_bins : int or array
        Number of base bins before merging.
    alpha : float or array
        Allowed probability that any group fails, in (0, 1).
    method : {"hoeffding", "exact"}
        "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float or ndarray
        Epsilon.

    Notes
    -----
    Theorem MERGE: a group lies between two order statistics, so its inner labels are independent; there are
    ``n_bins (n_bins + 1)/2`` groups, and each gets that share of alpha.

    Examples
    --------
    >>> round(merge_epsilon(9999, 50, 0.1), 6)
    0.022525
    """
    bins = bin_numbers(n_bins)
    return float_result(_union_epsilon(counts_of(m, "m"), bins * (bins + 1.0) / 2, alpha, method))


@overload
def all_intervals_epsilon(
    block_size: Number, n: Number, alpha: Number, *, method: UnionMethod = "hoeffding"
) -> float: ...
@overload
def all_intervals_epsilon(
    block_size: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, method: UnionMethod = "hoeffding"
) -> FloatArray: ...
def all_intervals_epsilon(
    block_size: ArrayLike, n: ArrayLike, alpha: ArrayLike, *, method: UnionMethod = "hoeffding"
) -> float | FloatArray:
    """Epsilon for a block of isotonic regression, valid for all blocks at once.

    Parameters
    ----------
    block_size : int or array
        Calibration points in the block.
    n : int or array
        Number of calibration points.
    alpha : float or array
        Allowed probability that any block fails, in (0, 1).
    method : {"hoeffding", "exact"}
        "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float or ndarray
        Epsilon; infinite for a block of one point, which has no point inside.

    Notes
    -----
    Theorem ALL-INTERVALS, corollary: a block of N points reaches from its own first score to the next block's
    first. Its N - 1 inner labels are independent given these two order statistics, of which there are n(n +
    1)/2 pairs; the first label moves the mean by at most 1/N. Needs both of these scores to be untied.

    Examples
    --------
    >>> round(all_intervals_epsilon(500, 10_000, 0.1), 4)
    0.1461
    """
    size, samples = counts_of(block_size, "block_size"), counts_of(n, "n")
    size, samples = np.broadcast_arrays(size, samples)
    for where in np.argwhere(size > samples)[:1]:
        raise ValueError(
            f"block_size must be at most n; got {size[tuple(where)]} with n = {samples[tuple(where)]}. "
            f"Pass the number of calibration points in the block."
        )
    inner = _union_epsilon(np.maximum(size - 1, 1), samples * (samples + 1.0) / 2, alpha, method)
    return float_result(np.where(size > 1, inner + 1 / size, np.inf))


def block_epsilon(
    block_size: int,
    n: int,
    alpha: float,
    *,
    tied_start: bool,
    tied_end: bool,
    method: UnionMethod = "hoeffding",
) -> float:
    """Epsilon for a block of isotonic regression that may begin or end at tied scores; all blocks at once.

    Parameters
    ----------
    block_size : int
        Calibration points in the block.
    n : int
        Number of calibration points.
    alpha : float
        Allowed probability that any block fails, in (0, 1).
    tied_start : bool
        Whether the block's first score is shared by several points. The lowest block has no start.
    tied_end : bool
        Whether the next block's first score is. The highest block has no end.
    method : {"hoeffding", "exact"}
        "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float
        Epsilon; infinite where no point is left inside.

    Notes
    -----
    A block is predicted for all scores from its first to the next block's first. Where such a score is tied,
    it is no cut between two points: the block ends somewhere in the gap between two neighbours on the scale
    of ranks. Take the points next to the block outside it as ends instead; the points between them are
    independent given these two, as in `all_intervals_epsilon`, and what is too much at such an end is at most
    the gap beside it. Of m independent points each end gap has a share above x with probability (1 - x)^m;
    all gaps of all n(n + 1)/2 intervals keep their bound but with probability alpha/1024, and the labels get
    the rest of alpha. Leaving out a share x of the points' mass moves the mean by at most x.

    Examples
    --------
    >>> round(block_epsilon(500, 10_000, 0.1, tied_start=False, tied_end=False), 4)
    0.1461
    >>> round(block_epsilon(500, 10_000, 0.1, tied_start=True, tied_end=False), 4)
    0.1978
    """
    all_intervals_epsilon(block_size, n, alpha)  # checks the arguments
    labels, gaps = (1 - _SHARE_OF_GAPS) * alpha, _SHARE_OF_GAPS * alpha
    if not (tied_start or tied_end):
        return all_intervals_epsilon(block_size, n, labels, method=method)
    inside = block_size if tied_start else block_size - 1
    if inside == 0:
        return math.inf
    intervals = n * (n + 1.0) / 2
    epsilon = float(_union_epsilon(np.array(inside), np.array(intervals), labels, method))
    gap = -math.expm1(math.log(gaps / (2 * intervals)) / inside)  # two ends of each interval
    return epsilon + (tied_start + tied_end) * gap + (0.0 if tied_start else 1 / block_size)


def _union_epsilon(m: IntArray, n_sets: FloatArray, alpha: ArrayLike, method: UnionMethod) -> FloatArray:
    """Epsilon of m labels when one of ``n_sets`` sets of labels was chosen, each with its share of alpha."""
    choice(method, "method", get_args(UnionMethod))
    t = probabilities(alpha, "alpha") / n_sets
    if method == "hoeffding":
        return _uniform_mass.hoeffding(m, t)
    return elementwise(_binomial.epsilon_of_one_bin, m, t)


# --- how many samples, how many bins ----------------------------------------------------------------


@overload
def required_samples(
    epsilon: Number,
    alpha: Number,
    n_bins: Integer,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
    first: bool = False,
) -> int: ...
@overload
def required_samples(
    epsilon: ArrayLike,
    alpha: ArrayLike,
    n_bins: ArrayLike,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
    first: bool = False,
) -> IntArray: ...
def required_samples(
    epsilon: ArrayLike,
    alpha: ArrayLike,
    n_bins: ArrayLike,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
    first: bool = False,
) -> int | IntArray:
    """How many calibration points make epsilon small enough: the n from which on *every* n does.

    Parameters
    ----------
    epsilon : float or array
        Wanted tolerance, above 0.
    alpha : float or array
        Allowed probability of failure, in (0, 1).
    n_bins : int or array
        Number of bins.
    kind : {"conditional", "marginal", "original"}
        Which of `conditional_epsilon`, `marginal_epsilon`, `original_epsilon` is to reach the tolerance.
    method : str
        As in that function; "original" knows "paper" only.
    first : bool
        The first n that will do. Exact bounds are not monotone in n, and a few n after it may fail.

    Returns
    -------
    int or ndarray
        The number of points.

    Notes
    -----
    Exact bounds: from some bin size on a closed form that decreases with the size is within the per-bin
    level, so all larger n will do; the scan goes down from there.

    Examples
    --------
    >>> required_samples(0.1, 0.1, 10), required_samples(0.1, 0.1, 10, first=True)
    (1702, 1658)
    >>> required_samples(0.1, 0.1, 10, method="paper")
    2660
    """
    choice(kind, "kind", get_args(Kind))
    choice(method, "method", _uniform_mass.METHODS[kind])
    arguments = tolerances_within_reach(epsilon, alpha, n_bins)

    def samples(*point: Any) -> int:
        return _uniform_mass.required_samples(kind, method, *point, first=first)

    return int_result(elementwise(samples, *arguments))


@overload
def max_bins(
    n: Number,
    epsilon: Number,
    alpha: Number,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
) -> int: ...
@overload
def max_bins(
    n: ArrayLike,
    epsilon: ArrayLike,
    alpha: ArrayLike,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
) -> IntArray: ...
def max_bins(
    n: ArrayLike,
    epsilon: ArrayLike,
    alpha: ArrayLike,
    *,
    kind: Kind = "conditional",
    method: ConditionalMethod = "exact",
) -> int | IntArray:
    """Most bins for which n calibration points keep the bound within epsilon; 0 if not even one bin does.

    Parameters
    ----------
    n : int or array
        Number of calibration points, at least 1.
    epsilon : float or array
        Wanted tolerance, above 0.
    alpha : float or array
        Allowed probability of failure, in (0, 1).
    kind : {"conditional", "marginal", "original"}
        Which of `conditional_epsilon`, `marginal_epsilon`, `original_epsilon` is to stay within the
        tolerance.
    method : str
        As in that function; "original" knows "paper" only.

    Returns
    -------
    int or ndarray
        The number of bins, at most ``(n + 1) // 2``.

    Notes
    -----
    The closed forms increase with the number of bins; for the exact forms that is not proved, so all numbers
    of bins above the answer are excluded one by one (in blocks that share a bin size).

    Examples
    --------
    >>> max_bins([1000, 10_000], 0.1, 0.1)
    array([ 6, 42])
    >>> max_bins(1000, 0.1, 0.1, method="paper")
    4
    """
    choice(kind, "kind", get_args(Kind))
    choice(method, "method", _uniform_mass.METHODS[kind])
    arguments = counts_of(n, "n"), tolerances(epsilon), probabilities(alpha, "alpha")

    def bins(*point: Any) -> int:
        return _uniform_mass.max_bins(kind, method, *point)

    return int_result(elementwise(bins, *arguments))


# --- sample splitting -------------------------------------------------------------------------------


def sample_split_failure(
    n_cuts: int,
    n_labels: int,
    n_bins: int,
    epsilon: float,
    *,
    kind: _sample_split.Kind = "marginal",
    method: _sample_split.Tail = "exact",
) -> float:
    """Bound on the probability that binning with sample splitting misses by more than epsilon, a priori.

    Parameters
    ----------
    n_cuts : int
        Points of the first part, which choose the cuts; at least ``n_bins - 1``.
    n_labels : int
        Points of the second part, whose labels are averaged.
    n_bins : int
        Number of bins.
    epsilon : float
        Tolerance, above 0.
    kind : {"marginal", "conditional"}
        The bin of a new point, or any bin.
    method : {"exact", "hoeffding"}
        Tail of one bin.

    Returns
    -------
    float
        The bound, not capped at 1. Empty bins count as failures.

    Notes
    -----
    Theorem UMS: between cuts that are a ranks apart the second part has N ~ BetaBinomial(n_labels; a, n_cuts
    + 1 - a) points. Conditional: the sum over bins of E f(N), f the tail. Marginal: the sum of a/(n_cuts + 1)
    E f(N), with N tilted to BetaBinomial(n_labels; a + 1, n_cuts + 1 - a) because a new point prefers heavy
    bins.

    Examples
    --------
    >>> round(sample_split_failure(200, 200, 5, 0.15), 4)
    0.0722
    """
    cuts, labels, bins = (
        check_count("n_cuts", 1)(n_cuts),
        check_count("n_labels", 1)(n_labels),
        bin_number(n_bins),
    )
    choice(kind, "kind", get_args(_sample_split.Kind))
    choice(method, "method", get_args(_sample_split.Tail))
    if cuts < bins - 1:
        raise ValueError(
            f"n_cuts must be at least n_bins - 1; got {cuts} with n_bins={bins}. Pass more points."
        )
    return _sample_split.failure(cuts, labels, bins, check_epsilon(epsilon), kind, method)


def sample_split_epsilon(
    n_cuts: int,
    n_labels: int,
    n_bins: int,
    alpha: float,
    *,
    kind: _sample_split.Kind = "marginal",
    method: _sample_split.Tail = "exact",
) -> float:
    """Epsilon of binning with sample splitting before any data: its `sample_split_failure` is alpha.

    Parameters
    ----------
    n_cuts, n_labels : int
        Points of the first part, which choose the cuts, and of the second, whose labels are averaged.
    n_bins : int
        Number of bins.
    alpha : float
        Allowed probability of failure, in (0, 1).
    kind : {"marginal", "conditional"}
        The bin of a new point, or any bin.
    method : {"exact", "hoeffding"}
        Tail of one bin; "hoeffding" holds for soft labels in [0, 1] too.

    Returns
    -------
    float
        Infinite where bins that stay empty alone are too likely.

    Examples
    --------
    >>> round(sample_split_epsilon(726, 727, 10, 0.1), 3)
    0.1
    """
    level = probability(alpha, "alpha")
    sample_split_failure(n_cuts, n_labels, n_bins, 1.0, kind=kind, method="hoeffding")  # checks the rest
    choice(method, "method", get_args(_sample_split.Tail))
    return _sample_split.epsilon(int(n_cuts), int(n_labels), int(n_bins), level, kind, method)


@overload
def sample_split_required(
    epsilon: Number,
    alpha: Number,
    n_bins: Integer,
    *,
    split: float = 0.5,
    kind: _sample_split.Kind = "marginal",
    method: SplitMethod = "paper",
) -> int: ...
@overload
def sample_split_required(
    epsilon: ArrayLike,
    alpha: ArrayLike,
    n_bins: ArrayLike,
    *,
    split: float = 0.5,
    kind: _sample_split.Kind = "marginal",
    method: SplitMethod = "paper",
) -> IntArray: ...
def sample_split_required(
    epsilon: ArrayLike,
    alpha: ArrayLike,
    n_bins: ArrayLike,
    *,
    split: float = 0.5,
    kind: _sample_split.Kind = "marginal",
    method: SplitMethod = "paper",
) -> int | IntArray:
    """How many points binning with sample splitting needs for what uniform mass does with `required_samples`.

    Parameters
    ----------
    epsilon : float or array
        Wanted tolerance, above 0.
    alpha : float or array
        Allowed probability of failure, in (0, 1).
    n_bins : int or array
        Number of bins.
    split : float
        Share of the points that choose the cuts, ``floor(split * n)``; in (0, 1). "paper" sizes the two parts
        itself and does not use it.
    kind : {"marginal", "conditional"}
        "paper" has one number for both.
    method : {"paper", "hoeffding", "exact"}
        The paper's Appendix on earlier work (about 17,500 at epsilon = alpha = 0.1 with 10 bins, 17,874 when
        nothing is rounded down), or the bound of `sample_split_failure`.

    Returns
    -------
    int or ndarray
        The number of points. For "hoeffding" and "exact": the smallest n that will do and after which
        every n of a whole cycle of the part sizes, ``2 n_bins / split`` numbers, does too.

    Examples
    --------
    >>> sample_split_required(0.1, 0.1, 10)
    17874
    >>> sample_split_required(0.1, 0.1, 10, method="exact")
    1453
    """
    share = probability(split, "split")
    choice(kind, "kind", get_args(_sample_split.Kind))
    choice(method, "method", get_args(SplitMethod))
    arguments = tolerances_within_reach(epsilon, alpha, n_bins)

    def samples(*point: Any) -> int:
        if method == "paper":
            return _sample_split.paper_samples(*point)
        return _sample_split.required_samples(
            *point, kind=kind, method=method, share=share, part=lambda n: math.floor(share * n)
        )

    return int_result(elementwise(samples, *arguments))
