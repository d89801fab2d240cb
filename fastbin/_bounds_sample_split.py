"""Sample splitting: one part of the points chooses the cuts, the labels of the other part are averaged.

Nothing here validates its arguments; `fastbin.bounds` does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaln

from fastbin import _binomial

Kind = Literal["marginal", "conditional"]
Tail = Literal["exact", "hoeffding"]
Law = NDArray[np.float64]


def failure(n_cuts: int, n_labels: int, n_bins: int, epsilon: float, kind: Kind, method: Tail) -> float:
    """Theorem UMS: the sum over bins of the expected tail, weighted by the bin's mass if marginal."""
    return sum(
        weight * float(law @ _tails(law, epsilon, method))
        for weight, law in _weighted_laws(n_cuts, n_labels, n_bins, kind)
    )


def epsilon(n_cuts: int, n_labels: int, n_bins: int, alpha: float, kind: Kind, method: Tail) -> float:
    """An epsilon with a `failure` of at most alpha, the smallest but for rounding; infinite if none has."""
    laws = list(_weighted_laws(n_cuts, n_labels, n_bins, kind))
    if sum(weight * law[0] for weight, law in laws) > alpha:
        return math.inf  # bins that stay empty are failures enough

    def fails(e: float, tails: Tail | Literal["probe"]) -> bool:
        return sum(weight * float(law @ _tails(law, e, tails)) for weight, law in laws) > alpha

    # Lower bounds on the tails, nearly always equal to them and much faster, find the place to be checked.
    quick: Tail | Literal["probe"] = "probe" if method == "exact" else method
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if fails(middle, quick) else (low, middle)
    step = 1e-12
    while high < 1.0 and fails(high, method):
        high, step = high * (1 + step), 2 * step
    return high


def _weighted_laws(n_cuts: int, n_labels: int, n_bins: int, kind: Kind) -> Iterator[tuple[float, Law]]:
    """For each width of a bin in ranks: how much it weighs, and the law of the labels in it."""
    quotient, n_wider = divmod(n_cuts + 1, n_bins)
    for gap, copies in ((quotient, n_bins - n_wider), (quotient + 1, n_wider)):
        if copies:
            tilt = 1 if kind == "marginal" else 0
            weight = gap / (n_cuts + 1) if kind == "marginal" else 1.0
            yield copies * weight, _law(n_labels, gap + tilt, n_cuts + 1 - gap)


def _law(n: int, a: int, b: int) -> Law:
    """BetaBinomial(n; a, b) on 0 .. n; b = 0 puts all points into the one bin."""
    count = np.arange(n + 1)
    if b == 0:
        return np.asarray(count == n, np.float64)
    log_choose = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
    probabilities = np.exp(log_choose + betaln(count + a, n - count + b) - betaln(a, b))
    # The quotient removes most of the rounding of log-gammas of order n log n.
    return np.asarray(probabilities / probabilities.sum())


def _tails(law: Law, epsilon: float, method: Tail | Literal["probe"]) -> Law:
    """The tail of a bin for each number of labels in it, 1 for none."""
    count = np.arange(law.size)
    if method == "hoeffding":
        return _binomial.hoeffding_tail(count, epsilon)
    # Counts that next to never occur are taken as failures: an error of n * 1e-16, on the safe side.
    tails = np.ones(law.size)
    matters = np.flatnonzero((law > 1e-16) & (count > 0))
    if method == "probe":
        tails[matters] = _binomial.probe_tails(matters, *_binomial.on_lattice(matters, epsilon))
    else:
        tails[matters] = [_binomial.tail(m, epsilon) for m in matters.tolist()]
    return tails


def required_samples(
    epsilon: float,
    alpha: float,
    n_bins: int,
    *,
    kind: Kind,
    method: Tail,
    share: float,
    part: Callable[[int], int],
) -> int:
    """Points from which on `failure` is within alpha; the first part has ``part(n)``, about ``share * n``."""

    @cache
    def within(n: int) -> bool:
        return failure(part(n), n - part(n), n_bins, epsilon, kind, method) <= alpha

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


def paper_samples(epsilon: float, alpha: float, n_bins: int) -> int:
    """Points by the paper's Appendix, both parts rounded up."""
    _, first_part, second_part = paper_parts(epsilon, alpha, n_bins)
    return math.ceil(first_part) + math.ceil(second_part)


def paper_parts(epsilon: float, alpha: float, n_bins: int) -> tuple[float, float, float]:
    """Points needed in the emptiest bin, in the first part and in the second: the paper's Appendix."""
    per_bin = math.log(2 * n_bins / (alpha / 2)) / (2 * epsilon**2)
    # Kumar et al. (2019), Lemma 4.3, with the constant 100 that the paper grants it in place of 2000.
    first_part = 100 * n_bins * math.log(10 * n_bins / (alpha / 4))
    # n'/(2B) - sqrt(n' log(2B/delta)/2) = ceil(per_bin), a quadratic equation in sqrt(n').
    spread = math.sqrt(math.log(2 * n_bins / (alpha / 4)) / 2)
    root = n_bins * (spread + math.sqrt(spread**2 + 2 * math.ceil(per_bin) / n_bins))
    return per_bin, first_part, root**2
