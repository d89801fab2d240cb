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

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import (
    betainccinv,
    betaincinv,
    betaln,
    gammaln,
    xlog1py,
    xlogy,
)

from fastbin import _binomial
from fastbin._binomial import FloatArray, IntArray
from fastbin._validate import bin_number, choice, enough_samples, perturbation, probability, real

__all__ = [
    "all_intervals_epsilon",
    "bin_sizes",
    "binomial_epsilon",
    "binomial_tail",
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
    "sample_split_failure",
    "sample_split_required",
    "simultaneous_epsilon",
    "weighted_epsilon",
]

FloatOrArray = float | FloatArray
IntOrArray = int | IntArray

_METHODS = {
    "conditional": ("exact", "bonferroni", "hoeffding", "paper_sharp", "paper"),
    "marginal": ("exact", "hoeffding", "paper_sharp", "paper"),
    "original": ("paper",),
}
# The rule of `_binomial.uniform_mass_rule` behind a kind and an exact method.
_EXACT_RULES = {
    ("conditional", "exact"): "sidak",
    ("conditional", "bonferroni"): "bonferroni",
    ("marginal", "exact"): "marginal",
}


# --- arguments --------------------------------------------------------------------------------------


def _checked(value: npt.ArrayLike, check: Callable[[Any], float]) -> npt.NDArray[Any]:
    """``value`` as an array all of whose entries pass ``check``, a rule that holds between two that pass."""
    array = np.asarray(value)
    if array.size == 0:
        return array
    is_numeric = array.dtype.kind in "biuf"
    for extreme in (array.min(), array.max()) if is_numeric else array.ravel()[:1]:
        check(extreme.item() if isinstance(extreme, np.generic) else extreme)
    return array


def check_count(name: str, least: int) -> Callable[[Any], int]:
    """A check for a number of points: an integer, or a float such as 1e8 that is one."""
    rule = f"an integer of at least {least}"

    def check(value: Any) -> int:
        number = real(value, name, rule)
        if not (math.isfinite(number) and number == math.floor(number)):
            raise TypeError(f"{name} must be {rule}; got {value!r}. Pass an integer.")
        if number < least:
            raise ValueError(
                f"{name} must be {rule}; got {value!r}. Pass for example {name}={max(least, 100)}."
            )
        return int(number)

    return check


def _counts(value: npt.ArrayLike, name: str, least: int = 1) -> IntArray:
    return _checked(value, check_count(name, least)).astype(np.int64)


def _bins(n_bins: npt.ArrayLike) -> IntArray:
    return _checked(n_bins, bin_number).astype(np.int64)


def _probabilities(value: npt.ArrayLike, name: str) -> FloatArray:
    return _checked(value, lambda number: probability(number, name)).astype(np.float64)


def _deltas(delta: npt.ArrayLike) -> FloatArray:
    return _checked(delta, perturbation).astype(np.float64)


def check_epsilon(value: Any) -> float:
    """A tolerance: a finite number above 0."""
    number = real(value, "epsilon", "a finite number above 0")
    if not (math.isfinite(number) and number > 0):
        raise ValueError(
            f"epsilon must be a finite number above 0; got {number}. Pass for example epsilon=0.1."
        )
    return number


def _tolerances(epsilon: npt.ArrayLike) -> FloatArray:
    return _checked(epsilon, check_epsilon).astype(np.float64)


def _reachable(epsilon: FloatArray, alpha: FloatArray, n_bins: IntArray) -> None:
    """Refuse an epsilon for which the number of samples would not be an int64."""
    samples = n_bins * np.log(2 * n_bins / alpha) / (2 * epsilon**2)
    for where in np.argwhere(samples > 2.0**60)[:1]:
        raise ValueError(
            f"epsilon must be within the reach of 2**60 samples; "
            f"got {np.broadcast_to(epsilon, samples.shape)[tuple(where)]}. Pass for example epsilon=0.01."
        )


def _samples_and_bins(n: npt.ArrayLike, n_bins: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    samples, bins = np.broadcast_arrays(_counts(n, "n"), _bins(n_bins))
    for too_few in np.argwhere(samples < 2 * bins - 1)[:1]:
        enough_samples(int(samples[tuple(too_few)]), int(bins[tuple(too_few)]))
    return samples, bins


def _successes(k: npt.ArrayLike, m: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    successes, trials = np.broadcast_arrays(_counts(k, "k", 0), _counts(m, "m", 0))
    for where in np.argwhere(successes > trials)[:1]:
        found_k, found_m = successes[tuple(where)], trials[tuple(where)]
        raise ValueError(
            f"k must be at most m; got k = {found_k}, m = {found_m}. Pass the positives among the m labels."
        )
    return successes, trials


def _elementwise(function: Callable[..., float], *arguments: npt.NDArray[Any]) -> npt.NDArray[Any]:
    arrays = np.broadcast_arrays(*arguments)
    points = zip(*(array.ravel().tolist() for array in arrays), strict=True)
    return np.array([function(*point) for point in points]).reshape(arrays[0].shape)


def _float_result(values: npt.ArrayLike) -> FloatOrArray:
    array = np.asarray(values, dtype=np.float64)
    return array if array.ndim else float(array)


def _int_result(values: npt.ArrayLike) -> IntOrArray:
    array = np.asarray(values, dtype=np.int64)
    return array if array.ndim else int(array)


# --- ranks and sizes --------------------------------------------------------------------------------


def boundary_ranks(n: int, n_bins: int) -> IntArray:
    """Ranks A_0, ..., A_B of Algorithm 1: bin b holds the points strictly between ranks A_{b-1} and A_b.

    Parameters
    ----------
    n : int
        Number of calibration points.
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
    total, bins = check_count("n", 1)(n) + 1, bin_number(n_bins)
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
    samples, bins = _samples_and_bins(check_count("n", 1)(n), bin_number(n_bins))
    quotient, n_larger = divmod(int(samples) + 1, int(bins))
    sizes = np.array([quotient - 1, quotient], dtype=np.int64)
    multiplicities = np.array([bins - n_larger, n_larger], dtype=np.int64)
    occurs = multiplicities > 0
    return sizes[occurs], multiplicities[occurs]


# --- conditional and marginal calibration -----------------------------------------------------------


def conditional_epsilon(
    n: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    alpha: npt.ArrayLike,
    *,
    method: str = "exact",
    delta: npt.ArrayLike = 0.0,
) -> FloatOrArray:
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
    return _uniform_mass_epsilon("conditional", n, n_bins, alpha, method, delta)


def marginal_epsilon(
    n: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    alpha: npt.ArrayLike,
    *,
    method: str = "exact",
    delta: npt.ArrayLike = 0.0,
) -> FloatOrArray:
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
    return _uniform_mass_epsilon("marginal", n, n_bins, alpha, method, delta)


def original_epsilon(n: npt.ArrayLike, n_bins: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatOrArray:
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
    samples, bins = _samples_and_bins(n, n_bins)
    return _float_result(_closed_form("original", "paper", samples, bins, _probabilities(alpha, "alpha")))


def _uniform_mass_epsilon(
    kind: str,
    n: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    alpha: npt.ArrayLike,
    method: str,
    delta: npt.ArrayLike,
) -> FloatOrArray:
    choice(method, "method", _METHODS[kind])
    samples, bins = _samples_and_bins(n, n_bins)
    level, shift = _probabilities(alpha, "alpha"), _deltas(delta)
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        epsilon = _closed_form(kind, method, samples, bins, level)
    else:
        epsilon = _elementwise(lambda *point: _exact_epsilon(rule, *point), samples, bins, level)
    # |p - (v + delta u)/(1 + delta)| exceeds |p - v| by at most delta/(1 + delta); the paper rounds it up to
    # delta.
    return _float_result(epsilon + (shift if method.startswith("paper") else shift / (1 + shift)))


def _closed_form(kind: str, method: str, n: IntArray, n_bins: IntArray, alpha: FloatArray) -> FloatArray:
    """The bounds by Hoeffding's inequality, for valid arguments."""
    count = n // n_bins - 1 if method == "paper" else (n + 1) // n_bins - 1
    if kind == "marginal":
        t = alpha
    elif method == "hoeffding":
        t = -np.expm1(np.log1p(-alpha) / n_bins)
    else:
        t = alpha / n_bins
    boundary_points = 1 / (n // n_bins) if kind == "original" else 0.0
    return _hoeffding(count, t) + boundary_points


def _hoeffding(m: npt.NDArray[Any], t: npt.NDArray[Any]) -> FloatArray:
    """sqrt(log(2/t) / 2m), infinite without points."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(np.log(2 / t) / (2 * m)), dtype=np.float64)


@lru_cache(maxsize=16_384)
def _exact_epsilon(rule: str, n: int, n_bins: int, alpha: float) -> float:
    return _binomial.smallest_epsilon(*_binomial.uniform_mass_rule(rule, n, n_bins, alpha))


# --- realised counts --------------------------------------------------------------------------------


def simultaneous_epsilon(counts: npt.ArrayLike, alpha: float, *, method: str = "exact") -> float:
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
    choice(method, "method", ("exact", "bonferroni", "hoeffding"))
    level = probability(alpha, "alpha")
    sizes, multiplicities = np.unique(_count_column(counts, least=1), return_counts=True)
    rule = "union" if method == "bonferroni" else "product"
    return _epsilon_of_counts(tuple(sizes.tolist()), tuple(multiplicities.tolist()), level, rule, method)


def weighted_epsilon(
    counts: npt.ArrayLike, masses: npt.ArrayLike, alpha: float, *, method: str = "exact"
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
    choice(method, "method", ("exact", "hoeffding"))
    level = probability(alpha, "alpha")
    column = _count_column(counts, least=0)
    shares = np.asarray(masses, dtype=np.float64)
    if shares.shape != column.shape or not (np.isfinite(shares).all() and (shares >= 0).all()):
        raise ValueError(
            f"masses must be one finite number of at least 0 for each of the {column.size} counts; "
            f"got {masses!r}. Pass the probability of each bin."
        )
    sizes, group = np.unique(column, return_inverse=True)
    weights = np.bincount(group, weights=shares)
    return _epsilon_of_counts(tuple(sizes.tolist()), tuple(weights.tolist()), level, "union", method)


def _count_column(counts: npt.ArrayLike, least: int) -> IntArray:
    column = _counts(counts, "counts", least)
    if column.ndim != 1 or column.size == 0:
        raise ValueError(
            f"counts must be a one-dimensional array, not empty; got shape {column.shape}. Pass one per bin."
        )
    return column


@lru_cache(maxsize=1024)
def _epsilon_of_counts(
    sizes: tuple[int, ...], weights: tuple[float, ...], alpha: float, rule: str, method: str
) -> float:
    satisfied = (_binomial.product_rule if rule == "product" else _binomial.sum_rule)(weights, alpha)
    if method == "hoeffding":
        return _binomial.smallest_hoeffding_epsilon(sizes, satisfied)
    return _binomial.smallest_epsilon(sizes, satisfied)


# --- expected calibration error ---------------------------------------------------------------------


def expected_ece(
    n: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    *,
    p: float = 1,
    method: str = "exact",
    delta: npt.ArrayLike = 0.0,
) -> FloatOrArray:
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
    choice(method, "method", ("exact", "paper"))
    order = real(p, "p", "a number between 1 and 2")
    if not 1 <= order <= 2:
        raise ValueError(
            f"p must be between 1 and 2; got {order}. No bound is known for other orders. Pass p=2."
        )
    samples, bins = _samples_and_bins(n, n_bins)
    shift = _deltas(delta)
    if method == "paper":
        return _float_result(np.sqrt(bins / (2 * samples)) + shift)
    smaller, n_larger = (samples + 1) // bins - 1, (samples + 1) % bins
    larger_share = n_larger * (smaller + 2) / (samples + 1)
    if order == 1:
        bound = _mix(_binomial.max_mean_deviation, smaller, larger_share)
    else:
        bound = np.sqrt(_mix(lambda size: 1 / (4 * size), smaller, larger_share))
    return _float_result(bound + shift / (1 + shift))


def _mix(error: Callable[[IntArray], FloatArray], smaller: IntArray, larger_share: FloatArray) -> FloatArray:
    """Mean of ``error`` over the bin of a new point, of the larger size with probability ``larger_share``."""
    return (1 - larger_share) * error(smaller) + larger_share * error(smaller + 1)


def ece_upper(n: npt.ArrayLike, n_bins: npt.ArrayLike, alpha: npt.ArrayLike) -> FloatOrArray:
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
    samples, bins = _samples_and_bins(n, n_bins)
    level = _probabilities(alpha, "alpha")
    smaller = (samples + 1) // bins - 1
    largest = -(-(samples + 1) // bins) - 1
    expected = np.maximum(_binomial.max_mean_deviation(smaller), _binomial.max_mean_deviation(largest))
    # One bin has mass 1. (Beta(n + 1, 0) would say so, but scipy answers NaN.)
    others = np.maximum(samples - largest, 1)
    heaviest = np.where(bins == 1, 1.0, betainccinv(largest + 1, others, level / (2 * bins)))
    return _float_result(expected + np.sqrt(heaviest * np.log(2 / level) / (2 * smaller)))


def max_mad(m: npt.ArrayLike) -> FloatOrArray:
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
    return _float_result(_binomial.max_mean_deviation(_counts(m, "m")))


def max_mad_argument(m: npt.ArrayLike) -> FloatOrArray:
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
    size = _counts(m, "m")
    return _float_result((size + 1) // 2 / (size + 1))


# --- one bin ----------------------------------------------------------------------------------------


def binomial_tail(m: npt.ArrayLike, epsilon: npt.ArrayLike) -> FloatOrArray:
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
    return _float_result(_elementwise(_binomial.tail, _counts(m, "m"), _tolerances(epsilon)))


def binomial_epsilon(m: npt.ArrayLike, t: npt.ArrayLike) -> FloatOrArray:
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
    return _float_result(_elementwise(_single_bin_epsilon, _counts(m, "m"), _probabilities(t, "t")))


@lru_cache(maxsize=16_384)
def _single_bin_epsilon(m: int, t: float) -> float:
    return _binomial.smallest_epsilon((m,), _binomial.sum_rule([1.0], t))


def hoeffding_epsilon(m: npt.ArrayLike, t: npt.ArrayLike) -> FloatOrArray:
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
    return _float_result(_hoeffding(_counts(m, "m"), _probabilities(t, "t")))


def clopper_pearson(
    k: npt.ArrayLike, m: npt.ArrayLike, t: npt.ArrayLike
) -> tuple[FloatOrArray, FloatOrArray]:
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
    successes, trials = _successes(k, m)
    half = _probabilities(t, "t") / 2
    failures = trials - successes
    lower = np.where(successes > 0, betaincinv(np.maximum(successes, 1), failures + 1, half), 0.0)
    upper = np.where(failures > 0, betainccinv(successes + 1, np.maximum(failures, 1), half), 1.0)
    return _float_result(lower), _float_result(upper)


def confidence_sequence(
    k: npt.ArrayLike, m: npt.ArrayLike, t: npt.ArrayLike
) -> tuple[FloatOrArray, FloatOrArray]:
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
    successes, trials = _successes(k, m)
    failures = trials - successes
    averaged = betaln(successes + 0.5, failures + 0.5) - betaln(0.5, 0.5)
    threshold = np.log(_probabilities(t, "t")) + averaged

    def plausible(p: FloatArray) -> npt.NDArray[np.bool_]:
        return np.asarray(xlogy(successes, p) + xlog1py(failures, -p) > threshold)

    centre = np.broadcast_to(np.where(trials > 0, successes / np.maximum(trials, 1), 0.5), threshold.shape)
    lower = _edge_of(plausible, centre, np.zeros_like(centre))
    upper = _edge_of(plausible, centre, np.ones_like(centre))
    return _float_result(lower), _float_result(upper)


def _edge_of(
    holds: Callable[[FloatArray], npt.NDArray[np.bool_]], inside: FloatArray, outside: FloatArray
) -> FloatArray:
    """Where ``holds`` ends between ``inside`` and ``outside``, elementwise; errs to the outside."""
    for _ in range(100):
        middle = (inside + outside) / 2
        held = holds(middle)
        inside, outside = np.where(held, middle, inside), np.where(held, outside, middle)
    return outside


# --- merged bins and isotonic blocks ----------------------------------------------------------------


def merge_epsilon(
    m: npt.ArrayLike, n_bins: npt.ArrayLike, alpha: npt.ArrayLike, *, method: str = "hoeffding"
) -> FloatOrArray:
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
    bins = _bins(n_bins)
    return _union_epsilon(_counts(m, "m"), bins * (bins + 1.0) / 2, alpha, method)


def all_intervals_epsilon(
    block_size: npt.ArrayLike, n: npt.ArrayLike, alpha: npt.ArrayLike, *, method: str = "hoeffding"
) -> FloatOrArray:
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
    size, samples = _counts(block_size, "block_size"), _counts(n, "n")
    size, samples = np.broadcast_arrays(size, samples)
    for where in np.argwhere(size > samples)[:1]:
        raise ValueError(
            f"block_size must be at most n; got {size[tuple(where)]} with n = {samples[tuple(where)]}. "
            f"Pass the number of calibration points in the block."
        )
    inner = _union_epsilon(np.maximum(size - 1, 1), samples * (samples + 1.0) / 2, alpha, method)
    return _float_result(np.where(size > 1, inner + 1 / size, np.inf))


def _union_epsilon(m: IntArray, n_sets: FloatArray, alpha: npt.ArrayLike, method: str) -> FloatOrArray:
    choice(method, "method", ("hoeffding", "exact"))
    t = _probabilities(alpha, "alpha") / n_sets
    if method == "hoeffding":
        return _float_result(_hoeffding(m, t))
    return _float_result(_elementwise(_single_bin_epsilon, m, t))


# --- how many samples, how many bins ----------------------------------------------------------------


def required_samples(
    epsilon: npt.ArrayLike,
    alpha: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    *,
    kind: str = "conditional",
    method: str = "exact",
    first: bool = False,
) -> IntOrArray:
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
    _check_kind(kind, method)
    arguments = _tolerances(epsilon), _probabilities(alpha, "alpha"), _bins(n_bins)
    _reachable(*arguments)
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        return _int_result(
            _elementwise(lambda *point: _closed_form_samples(kind, method, *point), *arguments)
        )
    return _int_result(_elementwise(lambda *point: _exact_samples(rule, *point, first), *arguments))


def max_bins(
    n: npt.ArrayLike,
    epsilon: npt.ArrayLike,
    alpha: npt.ArrayLike,
    *,
    kind: str = "conditional",
    method: str = "exact",
) -> IntOrArray:
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
    _check_kind(kind, method)
    arguments = _counts(n, "n"), _tolerances(epsilon), _probabilities(alpha, "alpha")
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        return _int_result(_elementwise(lambda *point: _closed_form_bins(kind, method, *point), *arguments))
    return _int_result(_elementwise(lambda *point: _exact_bins(rule, *point), *arguments))


def _check_kind(kind: str, method: str) -> None:
    choice(kind, "kind", tuple(_METHODS))
    choice(method, "method", _METHODS[kind])


@lru_cache(maxsize=1024)
def _exact_samples(rule: str, epsilon: float, alpha: float, n_bins: int, first: bool) -> int:
    return _binomial.required_samples(rule, epsilon, alpha, n_bins, first=first)


@lru_cache(maxsize=1024)
def _exact_bins(rule: str, n: int, epsilon: float, alpha: float) -> int:
    return _binomial.max_bins(rule, n, epsilon, alpha)


def _closed_form_samples(kind: str, method: str, epsilon: float, alpha: float, n_bins: int) -> int:
    """These bounds decrease with the guaranteed count: every n after the first that will do, does too."""
    unused = 0 if method == "paper" else 1  # the paper counts n // B points, the sharp count (n + 1) // B

    def within(count: int) -> bool:
        n = count * n_bins - unused
        return bool(_closed_form(kind, method, np.array(n), np.array(n_bins), np.array(alpha)) <= epsilon)

    enough = 2
    while not within(enough):
        enough *= 2
    return _binomial.smallest(2, enough, within) * n_bins - unused


def _closed_form_bins(kind: str, method: str, n: int, epsilon: float, alpha: float) -> int:
    def beyond(n_bins: int) -> bool:
        return bool(_closed_form(kind, method, np.array(n), np.array(n_bins), np.array(alpha)) > epsilon)

    return _binomial.smallest(1, (n + 1) // 2 + 1, beyond) - 1


# --- sample splitting -------------------------------------------------------------------------------


def sample_split_failure(
    n_cuts: int, n_labels: int, n_bins: int, epsilon: float, *, kind: str = "marginal", method: str = "exact"
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
    choice(kind, "kind", ("marginal", "conditional"))
    choice(method, "method", ("exact", "hoeffding"))
    if cuts < bins - 1:
        raise ValueError(
            f"n_cuts must be at least n_bins - 1; got {cuts} with n_bins={bins}. Pass more points."
        )
    return _split_failure(cuts, labels, bins, check_epsilon(epsilon), kind, method)


def _split_failure(n_cuts: int, n_labels: int, n_bins: int, epsilon: float, kind: str, method: str) -> float:
    quotient, n_wider = divmod(n_cuts + 1, n_bins)
    total = 0.0
    for gap, copies in ((quotient, n_bins - n_wider), (quotient + 1, n_wider)):
        if copies == 0:
            continue
        tilt = 1 if kind == "marginal" else 0
        weight = gap / (n_cuts + 1) if kind == "marginal" else 1.0
        total += copies * weight * _expected_tail(n_labels, gap + tilt, n_cuts + 1 - gap, epsilon, method)
    return total


def _expected_tail(n: int, a: int, b: int, epsilon: float, method: str) -> float:
    """E f(N), N ~ BetaBinomial(n; a, b), f(0) = 1; b = 0 puts all points into the one bin."""
    count = np.arange(n + 1)
    if b == 0:
        probabilities = (count == n).astype(np.float64)
    else:
        log_choose = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
        probabilities = np.exp(log_choose + betaln(count + a, n - count + b) - betaln(a, b))
        probabilities /= probabilities.sum()  # removes most of the rounding of log-gammas of order n log n
    if method == "hoeffding":
        tails = _binomial.hoeffding_tail(count, epsilon)
    else:
        # Counts that next to never occur are taken as failures: an error of n * 1e-16, on the safe side.
        tails = np.ones(n + 1)
        matters = np.flatnonzero((probabilities > 1e-16) & (count > 0))
        tails[matters] = [_binomial.tail(m, epsilon) for m in matters.tolist()]
    return float(probabilities @ tails)


def sample_split_required(
    epsilon: npt.ArrayLike,
    alpha: npt.ArrayLike,
    n_bins: npt.ArrayLike,
    *,
    split: float = 0.5,
    kind: str = "marginal",
    method: str = "paper",
) -> IntOrArray:
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
    choice(kind, "kind", ("marginal", "conditional"))
    choice(method, "method", ("paper", "hoeffding", "exact"))
    arguments = _tolerances(epsilon), _probabilities(alpha, "alpha"), _bins(n_bins)
    _reachable(*arguments)
    if method == "paper":
        return _int_result(
            _elementwise(lambda *point: sum(map(math.ceil, _paper_split(*point)[1:])), *arguments)
        )

    def search(*point: Any) -> int:
        return _split_samples(
            *point, kind=kind, method=method, share=share, part=lambda n: math.floor(share * n)
        )

    return _int_result(_elementwise(search, *arguments))


def _paper_split(epsilon: float, alpha: float, n_bins: int) -> tuple[float, float, float]:
    """Points needed in the emptiest bin, in the first part and in the second: the paper's Appendix."""
    per_bin = math.log(2 * n_bins / (alpha / 2)) / (2 * epsilon**2)
    # Kumar et al. (2019), Lemma 4.3, with the constant 100 that the paper grants it in place of 2000.
    first_part = 100 * n_bins * math.log(10 * n_bins / (alpha / 4))
    # n'/(2B) - sqrt(n' log(2B/delta)/2) = ceil(per_bin), a quadratic equation in sqrt(n').
    spread = math.sqrt(math.log(2 * n_bins / (alpha / 4)) / 2)
    root = n_bins * (spread + math.sqrt(spread**2 + 2 * math.ceil(per_bin) / n_bins))
    return per_bin, first_part, root**2


def _split_samples(
    epsilon: float,
    alpha: float,
    n_bins: int,
    *,
    kind: str,
    method: str,
    share: float,
    part: Callable[[int], int],
) -> int:
    """`sample_split_required` for one point; the first part has ``part(n)`` points, about ``share * n``."""

    @cache
    def within(n: int) -> bool:
        return _split_failure(part(n), n - part(n), n_bins, epsilon, kind, method) <= alpha

    least = math.ceil((n_bins + 1) / share)
    enough = least
    while not within(enough):
        enough *= 2
    # The bound wobbles with the remainders of the part sizes, so bisection only gets close: it finds some n
    # that will do after one that will not. From there on, wait for a whole cycle of remainders without a
    # failure.
    n = _binomial.smallest(least, enough, within)
    last_failure = n - 1
    while n <= last_failure + math.ceil(2 * n_bins / share):
        if not within(n):
            last_failure = n
        n += 1
    return last_failure + 1
