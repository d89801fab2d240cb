"""Exact two-sided binomial tails, and the smallest epsilon that keeps them in check.

Symbols, as in the proofs: ``m`` labels in a bin, ``X ~ Bin(m, p)``, ``e`` the tolerance,

    T*(m, e) = sup over p of P(|X/m - p| > e).

T*(., e) is a step-and-slope function of e: its jumps sit on the lattice ``j/(2m)``, and between two
lattice points ``j = floor(2me)`` is constant. With that j (theorem EXACT),

    T*(m, e) = max over k in {j//2 + 1, ..., m} of  A_k = P(X >= k) + P(X <= k - j - 1)  at  p = k/m - e,

and T* is nonincreasing and right-continuous in e, so a smallest e exists for every monotone criterion.
Points of the lattice are handled as fractions: whether a tail includes one more point is decided by
integers, never by a rounded product.

Nothing here validates its arguments; `fastbin.bounds` does. A bin without labels has T*(0, e) = 1 for e < 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtr

from fastbin._bounds_arguments import FloatArray, IntArray

Criterion = Callable[[FloatArray], bool]

EXACT_LIMIT = 100_000
"""Largest bin size with exact tails; above it the closed form costs up to 0.3 % of epsilon (t <= 0.1)."""

_ALL_CANDIDATES = 400  # up to this size, evaluating every k is quicker than choosing which k matter
# The maximising k lies about z^2/3 below m(1/2 + e), z the normal quantile of the tail: here z < 8 is
# covered.
_PROBE_OFFSETS = np.arange(-24, 9)
_SLACK = 1 - 1e-9  # rounding of the closed form, when it decides that a k cannot matter


# --- one tail ---------------------------------------------------------------------------------------


def paired_tails(m: npt.ArrayLike, j: npt.ArrayLike, e: npt.ArrayLike, k: npt.ArrayLike) -> FloatArray:
    """A_k, elementwise. Needs ``j//2 < k <= m`` and ``j <= 2me <= j + 1``."""
    m, j, k = np.asarray(m), np.asarray(j), np.asarray(k)
    p = np.maximum(k / m - e, 0.0)
    q = np.minimum((m - k) / m + e, 1.0)
    below = k - j - 1
    at_least_k = betainc(k, m - k + 1, p)
    at_most_below = np.where(below >= 0, betainc(m - below, np.maximum(below, 0) + 1, q), 0.0)
    return np.asarray(at_least_k + at_most_below, dtype=np.float64)


def closed_form_tail(m: npt.ArrayLike, e: npt.ArrayLike) -> FloatArray:
    """An upper bound on T*(m, e), elementwise, nonincreasing in m and in e, at O(1).

    Zubkov and Serov (2013): ``P(X >= k) <= Phi(-sqrt(2 m KL((k-1)/m || p)))``, and the mirror image. With
    k > m(p + e) the divergence is at least that over a gap of d = e - 1/m, and a gap of d costs at least
    ``2 d^2 + (4/9) d^4`` whatever p is (Pinsker's inequality with its second term, Kullback 1967).
    """
    m = np.asarray(m, dtype=np.float64)
    gap = np.maximum(np.asarray(e) - 1 / np.maximum(m, 1), 0.0)
    divergence = 2 * gap**2 + 4 / 9 * gap**4
    bound = 2 * ndtr(-np.sqrt(2 * m * divergence))
    return np.where(np.asarray(e) >= 1, 0.0, bound)


def normal_lower_tail(m: npt.ArrayLike, e: float) -> FloatArray:
    """A lower bound on T*(m, e) for ``m (1/2 - e) >= 1``, elementwise, at O(1).

    Zubkov and Serov (2013) from the other side, at p = 1/2: ``P(X <= k) >= Phi(-sqrt(2 m KL(k/m || 1/2)))``,
    and the largest k below m(1/2 - e) has k/m >= 1/2 - e - 1/m. Decreasing in m from ``1/e`` on.
    """
    m = np.asarray(m, dtype=np.float64)
    gap = 2 * (e + 1 / m)
    divergence = ((1 + gap) * np.log1p(gap) + (1 - gap) * np.log1p(-gap)) / 2
    return np.asarray(2 * ndtr(-np.sqrt(2 * m * divergence)))


def _divergence(q: float, p: float) -> float:
    """KL(Bernoulli(q) || Bernoulli(p)) for 0 < p < 1."""
    first = q * math.log(q / p) if q > 0 else 0.0
    second = (1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0
    return max(first + second, 0.0)


def _normal_bound(m: int, e: float, k: int) -> float:
    """Zubkov and Serov's bound on A_k, for ``e >= 1/m``."""
    p, gap = k / m - e, e - 1 / m
    if not 0 < p < 1:
        return 0.0
    upper = math.erfc(math.sqrt(m * _divergence(min(p + gap, 1.0), p))) / 2
    lower = math.erfc(math.sqrt(m * _divergence(p - gap, p))) / 2 if p >= gap else 0.0
    return upper + lower


def smallest(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """Smallest i in [low, high] with ``holds(i)``, a property that stays true; ``high`` is taken to hold."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _contenders(m: int, j: int, e: float, level: float) -> IntArray:
    """All k whose A_k may reach ``level``: about m**0.75 of them, where the proof of T* looks at m.

    With d = e - 1/m, KL(p + d || p) and KL(p - d || p) are convex in p and have their minima between (1-d)/2
    and (1+d)/2. So left of that range `_normal_bound` increases with k, right of it it decreases, and
    bisection finds where it is too small. Every k outside is excluded by a proof, not by a guess.
    """
    first, gap = j // 2 + 1, e - 1 / m
    if m <= _ALL_CANDIDATES or gap <= 0:
        return np.arange(first, m + 1)
    centre_left = max(first, math.floor(m * (e + (1 - gap) / 2)) - 1)
    centre_right = min(m, math.ceil(m * (e + (1 + gap) / 2)) + 1)
    if centre_left >= centre_right:
        return np.arange(first, m + 1)
    level *= _SLACK
    left = smallest(first, centre_left, lambda k: _normal_bound(m, e, k) >= level)
    right = m - smallest(0, m - centre_right, lambda i: _normal_bound(m, e, m - i) >= level)
    return np.arange(left, right + 1)


def probe_tails(m: IntArray, j: IntArray, e: npt.ArrayLike, offsets: IntArray = _PROBE_OFFSETS) -> FloatArray:
    """A lower bound on T*(m, e) for an array of sizes, nearly always equal to it: A_k for a few central k.

    Above `EXACT_LIMIT`, the closed form, which is what stands for T* there.
    """
    e = np.broadcast_to(np.asarray(e, dtype=np.float64), m.shape)
    tails = closed_form_tail(m, e)
    exact = np.flatnonzero((m > 0) & (m <= EXACT_LIMIT) & (j // 2 < m))
    size, steps, tolerance = m[exact, None], j[exact, None], e[exact, None]
    k = np.clip(np.floor(size * (0.5 + tolerance)).astype(np.int64) + offsets, steps // 2 + 1, size)
    tails[exact] = paired_tails(size, steps, tolerance, k).max(axis=1)
    tails[(m > 0) & (j // 2 >= m)] = 0.0
    return tails


def on_lattice(m: IntArray, e: float) -> tuple[IntArray, FloatArray]:
    """``floor(2me)`` and e, where an e within 4 ulp of a lattice point j/(2m) is read as that point."""
    e = min(e, 1.0)  # nothing can miss by more than 1, and the product below stays an int64
    doubled = 2 * np.maximum(m, 1)
    nearest = np.rint(doubled * e)
    point = nearest / doubled
    snaps = np.abs(e - point) <= 4 * math.ulp(e)
    return np.where(snaps, nearest, np.floor(doubled * e)).astype(np.int64), np.where(snaps, point, e)


def max_tail(m: int, j: int, e: float) -> float:
    """T*(m, e) with ``j = floor(2me)``; above `EXACT_LIMIT` its closed-form upper bound."""
    probe = float(probe_tails(np.array([m]), np.array([j]), e)[0])
    if m > EXACT_LIMIT or j // 2 >= m:  # includes m = 0
        return probe
    return float(paired_tails(m, j, e, _contenders(m, j, e, probe)).max())


@lru_cache(maxsize=65_536)
def tail(m: int, e: float) -> float:
    """T*(m, e), with e read by `on_lattice`."""
    (j,), (e,) = on_lattice(np.array([m]), e)
    return max_tail(m, int(j), float(e))


def tail_exceeds(m: int, e: float, level: float) -> bool:
    """Whether T*(m, e) > level, looking only at the k that can decide it."""
    j, point = on_lattice(np.array([m]), e)
    if probe_tails(np.array([m]), j, point)[0] > level:
        return True
    if m > EXACT_LIMIT or j[0] // 2 >= m:
        return False
    k = _contenders(m, int(j[0]), float(point[0]), level)
    return bool((paired_tails(m, j[0], point[0], k) > level).any())


# --- the smallest epsilon ---------------------------------------------------------------------------


def smallest_epsilon(sizes: Iterable[int], satisfied: Criterion) -> float:
    """Smallest e such that ``satisfied`` holds for the vector of T*(m, e), m in ``sizes``.

    ``satisfied`` must be monotone: if it holds for some tails it holds for smaller ones. The search runs on
    `probe_tails`, lower bounds, so a point they reject is rejected for good; every point that is accepted in
    the end has been checked with the full T*. The result is thus never too small, and it is the smallest.
    """
    search = _Search(sizes, satisfied)
    cell = search.lattice_cell()
    return search.smallest_inside(*cell)


def hoeffding_tail(m: npt.ArrayLike, e: float) -> FloatArray:
    """Hoeffding's bound on T*(m, e), min(1, 2 exp(-2 m e^2)); labels in [0, 1]."""
    exponent = -2 * np.asarray(m, dtype=np.float64) * e**2
    return np.asarray(np.minimum(1.0, 2 * np.exp(exponent)), dtype=np.float64)


def smallest_hoeffding_epsilon(sizes: Iterable[int], satisfied: Criterion) -> float:
    """As `smallest_epsilon`, with Hoeffding's bound for T*; infinite if empty bins alone are too many."""
    m = np.array(list(sizes))
    if not satisfied((m == 0).astype(np.float64)):
        return math.inf
    enough = 1.0
    while not satisfied(hoeffding_tail(m, enough)):
        enough *= 2
    epsilon = _smallest_float(0.0, enough, lambda e: satisfied(hoeffding_tail(m, e)))
    assert epsilon is not None  # `enough` satisfies
    return epsilon


class _Search:
    def __init__(self, sizes: Iterable[int], satisfied: Criterion) -> None:
        self.sizes = np.array(sorted(sizes), dtype=np.int64)
        self.satisfied = satisfied
        # Python integers: numerators of fractions must not wrap around.
        self.lattice_sizes = [int(m) for m in self.sizes if 0 < m <= EXACT_LIMIT]

    def steps_at(self, point: Fraction) -> IntArray:
        """floor(2 m e) for every size, at an exact e."""
        return np.array(
            [2 * int(m) * point.numerator // point.denominator for m in self.sizes], dtype=np.int64
        )

    def probe(self, e: float, steps: IntArray) -> bool:
        return self.satisfied(probe_tails(self.sizes, steps, e))

    def check(self, e: float, steps: IntArray) -> bool:
        tails = [max_tail(int(m), int(j), e) for m, j in zip(self.sizes, steps, strict=True)]
        return self.satisfied(np.array(tails))

    def probe_at(self, point: Fraction) -> bool:
        return self.probe(float(point), self.steps_at(point))

    def lattice_cell(self) -> tuple[Fraction, Fraction]:
        """Neighbours in the union of the lattices: the left one fails, the right one is satisfied."""
        if not self.lattice_sizes:
            return Fraction(0), Fraction(1)
        finest = 2 * max(self.lattice_sizes)
        j = smallest(1, finest, lambda j: self.probe_at(Fraction(j, finest)))
        low, high = Fraction(j - 1, finest), Fraction(j, finest)
        inside = sorted(point for point in self._next_points(low) if point <= high)
        i = smallest(0, len(inside) - 1, lambda i: self.probe_at(inside[i]))
        low, high = (inside[i - 1] if i else low), inside[i]
        while high < 1 and not self.check(float(high), self.steps_at(high)):
            low, high = high, min(self._next_points(high))
        return low, high

    def _next_points(self, point: Fraction) -> set[Fraction]:
        """For every size the first lattice point to the right of ``point``."""
        return {Fraction(math.floor(2 * m * point) + 1, 2 * m) for m in self.lattice_sizes}

    def smallest_inside(self, low: Fraction, high: Fraction) -> float:
        """Smallest satisfied e in (low, high], where only ``high`` may be a lattice point."""
        steps = self.steps_at(low)
        e = _smallest_float(float(low), float(high), lambda e: self.probe(e, steps))
        if e is not None and not self.check(e, steps):
            # A k that the probe does not look at decides. Not seen so far, and not excluded by a proof.
            e = _smallest_float(e, float(high), lambda e: self.check(e, steps))
        return float_at_least(high) if e is None else e


def _smallest_float(low: float, high: float, holds: Callable[[float], bool]) -> float | None:
    """Smallest double in (low, high] with ``holds``, a property that stays true; None if ``high`` fails."""
    if not holds(high):
        return None
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def float_at_least(point: Fraction) -> float:
    """The smallest double that is not below ``point``."""
    rounded = float(point)
    return math.nextafter(rounded, math.inf) if Fraction(rounded) < point else rounded


# --- criteria ---------------------------------------------------------------------------------------


def product_rule(multiplicities: npt.ArrayLike, alpha: float) -> Criterion:
    """All bins at once (theorem SIDAK): the bins are independent, so prod (1 - T*) must reach 1 - alpha."""
    copies, budget = np.asarray(multiplicities), math.log1p(-alpha)
    return lambda tails: bool(tails.max() < 1 and copies @ np.log1p(-tails) >= budget)


def sum_rule(weights: npt.ArrayLike, alpha: float) -> Criterion:
    """A weighted sum of T* within alpha: the union bound, or the average over where a point falls (MARG)."""
    shares = np.asarray(weights)
    return lambda tails: bool(shares @ tails <= alpha)


# --- epsilons by a criterion ------------------------------------------------------------------------


@lru_cache(maxsize=16_384)
def epsilon_of_one_bin(m: int, t: float) -> float:
    """Smallest e with T*(m, e) <= t."""
    return smallest_epsilon((m,), sum_rule([1.0], t))


@lru_cache(maxsize=1024)
def epsilon_of_counts(
    sizes: tuple[int, ...],
    weights: tuple[float, ...],
    alpha: float,
    rule: Literal["product", "sum"],
    tails: Literal["exact", "hoeffding"],
) -> float:
    """Smallest e for bins of these sizes, with multiplicities ("product") or weights ("sum")."""
    satisfied = (product_rule if rule == "product" else sum_rule)(weights, alpha)
    if tails == "hoeffding":
        return smallest_hoeffding_epsilon(sizes, satisfied)
    return smallest_epsilon(sizes, satisfied)
