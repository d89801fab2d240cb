"""Uniform-mass binning of n points: epsilon, and its inverses in n and in the number of bins.

Bins have one of two sizes, ``(n + 1) // n_bins - 1`` or one more. The exact forms rest on `fastbin._binomial`
and its symbols, the closed forms on Hoeffding's inequality. A pair (kind, method) says which is meant.

Nothing here validates its arguments; `fastbin.bounds` does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from fastbin._binomial import (
    EXACT_LIMIT,
    Criterion,
    closed_form_tail,
    normal_lower_tail,
    on_lattice,
    probe_tails,
    product_rule,
    smallest,
    smallest_epsilon,
    sum_rule,
    tail,
    tail_exceeds,
)
from fastbin._bounds_arguments import FloatArray, IntArray, elementwise

Kind = Literal["conditional", "marginal", "original"]
ConditionalMethod = Literal["exact", "bonferroni", "hoeffding", "paper_sharp", "paper"]
MarginalMethod = Literal["exact", "hoeffding", "paper_sharp", "paper"]
Rule = Literal["sidak", "bonferroni", "marginal"]

METHODS: Mapping[Kind, tuple[str, ...]] = {
    "conditional": get_args(ConditionalMethod),
    "marginal": get_args(MarginalMethod),
    "original": ("paper",),
}
_EXACT_RULES: Mapping[tuple[Kind, ConditionalMethod], Rule] = {
    ("conditional", "exact"): "sidak",
    ("conditional", "bonferroni"): "bonferroni",
    ("marginal", "exact"): "marginal",
}

_SCAN_OFFSETS = np.array([-2, 0])  # enough to rule out most sizes in a scan over thousands of them
_SCAN_CHUNK = 4096


# --- the three questions ----------------------------------------------------------------------------


def epsilon(
    kind: Kind, method: ConditionalMethod, n: IntArray, n_bins: IntArray, alpha: FloatArray
) -> FloatArray:
    """Epsilon, elementwise."""
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        return _closed_form(kind, method, n, n_bins, alpha)
    return elementwise(lambda *point: exact_epsilon(rule, *point), n, n_bins, alpha)


def required_samples(
    kind: Kind, method: ConditionalMethod, e: float, alpha: float, n_bins: int, *, first: bool
) -> int:
    """First n with an epsilon of at most e, or the n from which on all have one."""
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        return _closed_form_samples(kind, method, e, alpha, n_bins)
    return _exact_samples(rule, e, alpha, n_bins, first)


def max_bins(kind: Kind, method: ConditionalMethod, n: int, e: float, alpha: float) -> int:
    """Most bins with an epsilon of at most e; 0 if none have one."""
    rule = _EXACT_RULES.get((kind, method))
    if rule is None:
        return _closed_form_bins(kind, method, n, e, alpha)
    return _exact_bins(rule, n, e, alpha)


# --- closed forms -----------------------------------------------------------------------------------


def hoeffding(m: npt.NDArray[Any], t: npt.NDArray[Any]) -> FloatArray:
    """sqrt(log(2/t) / 2m), infinite without points."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(np.log(2 / t) / (2 * m)), dtype=np.float64)


def _closed_form(
    kind: Kind, method: ConditionalMethod, n: IntArray, n_bins: IntArray, alpha: FloatArray
) -> FloatArray:
    count = n // n_bins - 1 if method == "paper" else (n + 1) // n_bins - 1
    if kind == "marginal":
        t = alpha
    elif method == "hoeffding":
        t = -np.expm1(np.log1p(-alpha) / n_bins)
    else:
        t = alpha / n_bins
    boundary_points = 1 / (n // n_bins) if kind == "original" else 0.0
    return hoeffding(count, t) + boundary_points


def _closed_form_samples(kind: Kind, method: ConditionalMethod, e: float, alpha: float, n_bins: int) -> int:
    """These bounds decrease with the guaranteed count: every n after the first that will do, does too."""
    unused = 0 if method == "paper" else 1  # the paper counts n // B points, the sharp count (n + 1) // B

    def within(count: int) -> bool:
        n = count * n_bins - unused
        return bool(_closed_form(kind, method, np.array(n), np.array(n_bins), np.array(alpha)) <= e)

    enough = 2
    while not within(enough):
        enough *= 2
    return smallest(2, enough, within) * n_bins - unused


def _closed_form_bins(kind: Kind, method: ConditionalMethod, n: int, e: float, alpha: float) -> int:
    def beyond(n_bins: int) -> bool:
        return bool(_closed_form(kind, method, np.array(n), np.array(n_bins), np.array(alpha)) > e)

    return smallest(1, (n + 1) // 2 + 1, beyond) - 1


# --- exact forms ------------------------------------------------------------------------------------


@lru_cache(maxsize=16_384)
def exact_epsilon(rule: Rule, n: int, n_bins: int, alpha: float) -> float:
    """Smallest e that meets the rule."""
    return smallest_epsilon(*_sizes_and_criterion(rule, n, n_bins, alpha))


def _sizes_and_criterion(rule: Rule, n: int, n_bins: int, alpha: float) -> tuple[tuple[int, ...], Criterion]:
    """The bin sizes that occur, and the criterion on their tails."""
    smaller, n_larger = (n + 1) // n_bins - 1, (n + 1) % n_bins
    sizes = (smaller, smaller + 1) if n_larger else (smaller,)
    multiplicities = np.array([n_bins - n_larger, n_larger][: len(sizes)])
    if rule == "sidak":
        return sizes, product_rule(multiplicities, alpha)
    if rule == "bonferroni":
        return sizes, sum_rule(multiplicities, alpha)
    # E P_b = (m_b + 1)/(n + 1): the masses of the bins are Dirichlet(m_b + 1).
    return sizes, sum_rule(multiplicities * (np.array(sizes) + 1) / (n + 1), alpha)


def _level_per_bin(rule: Rule, n_bins: npt.ArrayLike, alpha: float) -> FloatArray:
    """The t for which bins of one size m meet the rule exactly when T*(m, e) <= t."""
    n_bins = np.asarray(n_bins, dtype=np.float64)
    if rule == "sidak":
        return np.asarray(-np.expm1(math.log1p(-alpha) / n_bins))
    return alpha / n_bins if rule == "bonferroni" else np.full_like(n_bins, alpha)


def _meets(rule: Rule, n: int, n_bins: int, alpha: float, e: float) -> bool:
    sizes, satisfied = _sizes_and_criterion(rule, n, n_bins, alpha)
    return satisfied(np.array([tail(m, e) for m in sizes]))


@lru_cache(maxsize=1024)
def _exact_samples(rule: Rule, e: float, alpha: float, n_bins: int, first: bool) -> int:
    """First n that meets the rule, or the n from which on all do.

    With T*(m) <= t for both sizes m of an n the rule is met, with T*(m) > t for both it is not. So the answer
    lies where one size fails and the next passes; between them the rule is linear in the number of larger
    bins.
    """
    level = float(_level_per_bin(rule, n_bins, alpha))
    m = _first_size_within(e, level) - 1 if first else _last_size_beyond(e, level)
    if m == 0:
        return 2 * n_bins - 1
    n_larger = smallest(1, n_bins, lambda r: _meets(rule, (m + 1) * n_bins + r - 1, n_bins, alpha, e))
    return (m + 1) * n_bins + n_larger - 1


def _closed_form_size(e: float, level: float) -> int:
    """Size from which on the closed form, and so T*, is within ``level``."""
    enough = 1
    while closed_form_tail(enough, e) > level:
        enough *= 2
    return smallest(1, enough, lambda m: bool(closed_form_tail(m, e) <= level))


def _last_size_beyond(e: float, level: float) -> int:
    """Largest m with T*(m, e) > level; 0 if there is none."""
    last = _closed_form_size(e, level) - 1
    if last > EXACT_LIMIT:
        return last
    while last > 0 and not tail_exceeds(last, e, level):
        last -= 1
    return last


def _first_size_within(e: float, level: float) -> int:
    """Smallest m with T*(m, e) <= level. T* is not monotone in m, so every m before it has to fail."""
    bound = _closed_form_size(e, level)
    last = min(bound, EXACT_LIMIT)
    few, resume = _sizes_that_fail(e, level, last)
    for start in [*range(1, few + 1, _SCAN_CHUNK), *range(resume, last + 1, _SCAN_CHUNK)]:
        sizes = np.arange(start, min(start + _SCAN_CHUNK, (few if start <= few else last) + 1))
        possible = probe_tails(sizes, *on_lattice(sizes, e), _SCAN_OFFSETS) <= level
        for m in sizes[possible].tolist():
            if not tail_exceeds(m, e, level):
                return int(m)
    return max(bound, EXACT_LIMIT + 1)


def _sizes_that_fail(e: float, level: float, last: int) -> tuple[int, int]:
    """(few, resume): every size between them has T* > level, by a lower bound that decreases from few on."""
    if e >= 1 / 4:
        return 0, 1
    few = min(math.ceil(4 / e), last)  # at least 1/e, and m(1/2 - e) is at least 1
    return few, smallest(few + 1, last + 1, lambda m: bool(normal_lower_tail(m, e) <= level))


@lru_cache(maxsize=1024)
def _exact_bins(rule: Rule, n: int, e: float, alpha: float) -> int:
    """Most bins that meet the rule; 0 if none do. Excludes every larger number: it may not be monotone.

    The numbers of bins whose smaller size is q - 1 are neighbours, and within such a block the rule is linear
    in the number of bins: its two ends decide. There are at most 2 sqrt(n + 1) blocks.
    """
    for quotients in _quotients(n + 1):
        fewest, most = (n + 1) // (quotients + 1) + 1, (n + 1) // quotients
        # A block can only hold an answer if one of its two sizes passes at the level of its fewest bins.
        sizes = np.stack([quotients - 1, quotients]).ravel()
        probes = probe_tails(sizes, *on_lattice(sizes, e), _SCAN_OFFSETS).reshape(2, -1)
        possible = probes.min(axis=0) <= _level_per_bin(rule, fewest, alpha)
        for low, high in zip(fewest[possible].tolist(), most[possible].tolist(), strict=True):
            if _meets(rule, n, high, alpha, e):
                return int(high)
            if _meets(rule, n, low, alpha, e):
                return int(smallest(low, high, lambda n_bins: not _meets(rule, n, n_bins, alpha, e))) - 1
    return 0


def _quotients(total: int) -> Iterator[IntArray]:
    """All total // B for B = total // 2, ..., 1, increasing (one may come twice), a chunk at a time."""
    root = math.isqrt(total)
    for start in range(2, root + 1, _SCAN_CHUNK):
        yield np.arange(start, min(start + _SCAN_CHUNK, root + 1))
    for start in range(root, 0, -_SCAN_CHUNK):
        quotients = total // np.arange(start, max(start - _SCAN_CHUNK, 0), -1)
        yield quotients[quotients >= 2]
