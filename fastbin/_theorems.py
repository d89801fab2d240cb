"""Which theorem covers a fit, and the numbers it gives. Where none does, there is a reason and no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from fastbin import _validate, bounds
from fastbin.guarantees import ASSUMPTIONS, Guarantee

if TYPE_CHECKING:
    from fastbin.model import Calibrator

Method = Literal["exact", "bonferroni", "hoeffding", "paper_sharp", "paper", "a_priori"]
Epsilons = NDArray[np.float64]

BINOMIAL = ("exact", "bonferroni", "a_priori")
PAPER = ("paper", "paper_sharp")
GIVEN_COUNTS = ("exact", "bonferroni", "hoeffding")
UNION = ("exact", "hoeffding")

THEOREMS = {
    "exact": "exact binomial tails, Sidak over bins",
    "bonferroni": "exact binomial tails, union over bins",
    "hoeffding": "Hoeffding's inequality with the sharp bin count, Sidak over bins",
    "paper_sharp": "Gupta and Ramdas (2021) with the sharp bin count",
    "paper": "Gupta and Ramdas (2021) as printed",
}
GIVEN_THE_COUNTS = {
    "exact": "exact binomial tails given the bin counts, Sidak over bins",
    "bonferroni": "exact binomial tails given the bin counts, union over bins",
    "hoeffding": "Hoeffding's inequality given the bin counts, Sidak over bins",
}
TAILS = {"exact": "exact binomial tails", "hoeffding": "Hoeffding's inequality"}
NO_SCORE_ATOM = (
    "a score at which a block begins, and which only one calibration row has, has no probability of its own"
)


class _Numbers(NamedTuple):
    """What a theorem gives: epsilons, the words for it, and an assumption of its own."""

    conditional: float | None
    marginal: float | None
    expected_ece: float | None
    per_bin: Epsilons
    reason: str
    assumption: str | None = None


def guarantee(calibrator: Calibrator, alpha: float, method: Method | None, candidates: int) -> Guarantee:
    """The sharpest theorem that covers the fit, or the one asked for."""
    alpha = _validate.probability(alpha, "alpha")
    tried = _validate.at_least_one(candidates, "candidates")
    theorem, allowed = _theorem_of(calibrator)
    chosen = method or ("hoeffding" if calibrator.soft_labels else "exact")
    _validate.choice(chosen, "method", allowed if method else get_args(Method))

    def nothing(reason: str) -> Guarantee:
        return Guarantee(
            alpha, calibrator.n_samples, calibrator.n_bins, chosen, None, None, None, None, False, reason, ()
        )

    if theorem is None:
        return nothing(
            "the values are averages of scores, not of labels, and no theorem bounds how far these are off; "
            "certificate() gives the bound that the labels of this fit support"
        )
    if calibrator.soft_labels and chosen in BINOMIAL:
        return nothing(
            "exact binomial bounds are proved for 0/1 labels, and these labels are fractions; "
            "method='hoeffding' covers them"
        )
    found = theorem(calibrator, alpha / tried, chosen)
    reason = found.reason
    if tried > 1:
        reason += f", alpha shared by {tried} candidates; no bound on the expected error of a chosen fit"
    found.per_bin.flags.writeable = False
    # An average over the data says nothing about the one fit that was chosen by looking at it.
    expected_ece = found.expected_ece if tried == 1 else None
    return Guarantee(
        alpha, calibrator.n_samples, calibrator.n_bins, chosen, found.conditional, found.marginal,
        expected_ece, found.per_bin, True, reason, _assumptions(calibrator, tried, found.assumption),
    )  # fmt: skip


Theorem = Callable[["Calibrator", float, Method], _Numbers]


def _theorem_of(calibrator: Calibrator) -> tuple[Theorem | None, tuple[str, ...]]:
    """What covers this fit, and the methods it knows."""
    if calibrator.base_bins:
        return _merged, UNION
    if calibrator.method == "uniform_mass" and calibrator.boundary_points == "authors":
        return _array_split, GIVEN_COUNTS
    theorems: dict[str, tuple[Theorem | None, tuple[str, ...]]] = {
        "uniform_mass": (_uniform_mass, tuple(THEOREMS)),
        "sample_split": (_sample_split, (*GIVEN_COUNTS, "a_priori")),
        "fixed_width": (_fixed_width, GIVEN_COUNTS),
        "isotonic": (_isotonic, UNION),
        "scaling_binning": (None, get_args(Method)),
    }
    return theorems[calibrator.method]


def _assumptions(calibrator: Calibrator, candidates: int, own: str | None) -> tuple[str, ...]:
    data, model, choices, keys = ASSUMPTIONS
    if candidates > 1:
        choices = f"the labels chose among at most {candidates} combinations of bins, method and seed"
    kept = [data, model, choices]
    if calibrator.edge_keys.any():  # otherwise nothing is left to chance at a cut
        kept.append(keys)
    return tuple(kept if own is None else [*kept, own])


# --- uniform mass -----------------------------------------------------------------------------------


def _uniform_mass(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Theorems 1 and 2 and Corollary 1, in the sharpest form."""
    n, n_bins, delta = calibrator.n_samples, calibrator.n_bins, calibrator.delta
    assert method != "a_priori"
    conditional = bounds.conditional_epsilon(n, n_bins, alpha, method=method, delta=delta)
    # A union over bins plays no part in a statement about one row: its marginal form is the exact one.
    for_one_row = "exact" if method == "bonferroni" else method
    marginal = bounds.marginal_epsilon(n, n_bins, alpha, method=for_one_row, delta=delta)
    on_average: Literal["exact", "paper"] = "paper" if method == "paper" else "exact"
    expected_ece = bounds.expected_ece(n, n_bins, method=on_average, delta=delta)
    per_bin = _epsilon_of_each(calibrator.interior_counts, alpha, method)
    per_bin = per_bin + (delta if method in PAPER else delta / (1.0 + delta))
    reason = THEOREMS[method]
    if calibrator.boundary_points == "include":
        # Corollary 1: the cut's own label moves a mean of at least floor((n+1)/B) labels by at most this.
        moved = 1.0 / (n // n_bins if method == "paper" else (n + 1) // n_bins)
        conditional, marginal, per_bin = conditional + moved, marginal + moved, per_bin + moved
        expected_ece += (n_bins - 1) / (n + 1)
        reason += ", cut points averaged in (Corollary 1)"
    if delta:
        reason += f", values perturbed by delta={delta:g} (Algorithm 2)"
    return _Numbers(conditional, marginal, expected_ece, per_bin, reason)


def _array_split(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Corollary 1 for the groups of the authors' code: its argument holds for any ranks."""
    n, inside = calibrator.n_samples, calibrator.interior_counts
    filled = inside > 0
    moved = np.append(1.0 / calibrator.counts[:-1], 0.0)  # the last bin has no cut point of its own
    per_bin = np.full(
        calibrator.n_bins, np.inf
    )  # one row in a bin, and that one at its cut: nothing is known
    per_bin[filled] = _epsilon_of_each(inside[filled], alpha, method)
    conditional = marginal = np.inf
    if filled.all():
        conditional = bounds.simultaneous_epsilon(inside, alpha, method=_given_counts(method)) + moved.max()
    masses = (inside + 1) / (n + 1)
    marginal = bounds.weighted_epsilon(inside, masses, alpha, method=_for_one_row(method)) + moved.max()
    reason = f"{GIVEN_THE_COUNTS[method]}, cut points averaged in (Corollary 1), groups of numpy.array_split"
    return _Numbers(float(conditional), float(marginal), None, per_bin + moved, reason)


# --- partitions that no averaged label chose --------------------------------------------------------


def _sample_split(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Theorem UMS: given the counts of the second part, or before any data (``a_priori``)."""
    n, counts, n_bins = calibrator.n_samples, calibrator.counts, calibrator.n_bins
    n_labels = int(counts.sum())
    if method == "a_priori":
        conditional, marginal = (
            bounds.sample_split_epsilon(n - n_labels, n_labels, n_bins, alpha, kind=kind)
            for kind in ("conditional", "marginal")
        )
        reason = "sample splitting before any label is seen, exact binomial tails over the law of the counts"
        return _Numbers(conditional, marginal, None, np.full(n_bins, conditional), reason)
    found = _fixed_width(calibrator, alpha, method)
    gaps = np.diff(bounds.boundary_ranks(n - n_labels, n_bins))
    marginal = bounds.weighted_epsilon(counts, (gaps + counts) / (n + 1), alpha, method=_for_one_row(method))
    return found._replace(marginal=marginal)


def _fixed_width(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Theorem SIDAK given the counts: the cells did not look at the labels that they average."""
    counts = calibrator.counts
    filled = counts > 0
    per_bin = np.full(calibrator.n_bins, np.nan)
    per_bin[filled] = _epsilon_of_each(counts[filled], alpha, method)
    conditional = bounds.simultaneous_epsilon(counts[filled], alpha, method=_given_counts(method))
    reason = GIVEN_THE_COUNTS[method]
    if not filled.all():
        reason += f", of the {int(filled.sum())} bins that are not empty"
    return _Numbers(conditional, conditional, None, per_bin, reason)


# --- partitions that the labels chose ---------------------------------------------------------------


def _merged(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Theorem MERGE: a union over all groups of neighbouring base bins."""
    filled = calibrator.counts > 0
    per_bin = np.full(calibrator.n_bins, np.nan)
    per_bin[filled] = _by_size(
        calibrator.counts[filled],
        lambda m: bounds.merge_epsilon(m, calibrator.base_bins, alpha, method=_for_union(method)),
    )
    reason = f"{TAILS[method]}, union over all groups of the {calibrator.base_bins} bins before merging"
    return _worst(per_bin, reason)


def _isotonic(calibrator: Calibrator, alpha: float, method: Method) -> _Numbers:
    """Theorem ALL-INTERVALS, with what ties at the ends of a block add."""
    tied = calibrator.edge_ties > 1
    keys = np.stack([calibrator.counts, np.append(False, tied), np.append(tied, False)], axis=1)
    blocks, owner = np.unique(keys, axis=0, return_inverse=True)
    distinct = [
        bounds.block_epsilon(
            size, calibrator.n_samples, alpha,
            tied_start=bool(start), tied_end=bool(end), method=_for_union(method),
        )
        for size, start, end in blocks.tolist()
    ]  # fmt: skip
    per_bin = np.minimum(np.array(distinct)[owner.reshape(-1)], 1.0)
    reason = f"{TAILS[method]}, union over all intervals of calibration scores"
    if tied.any():
        reason += ", widened where a block begins or ends at tied scores"
    return _worst(per_bin, reason)._replace(assumption=NO_SCORE_ATOM)


def _worst(per_bin: Epsilons, reason: str) -> _Numbers:
    """The labels chose the cells, so a statement about one row is no better than the one about all cells."""
    worst = float(np.nanmax(per_bin))
    return _Numbers(worst, worst, None, per_bin, reason)


# --- epsilons of many bins --------------------------------------------------------------------------


def sidak_level(alpha: float, n_bins: int) -> float:
    """The level per bin at which n_bins independent statements hold together with probability 1 - alpha."""
    return float(-np.expm1(np.log1p(-alpha) / n_bins))


def _epsilon_of_each(counts: NDArray[np.int64], alpha: float, method: Method) -> Epsilons:
    """Each bin's own epsilon from its own count; smaller bins get larger ones."""
    per_size = bounds.binomial_epsilon if method in BINOMIAL else bounds.hoeffding_epsilon
    independent = method in ("exact", "hoeffding")
    level = sidak_level(alpha, counts.size) if independent else alpha / counts.size
    return _by_size(counts, lambda m: per_size(m, level))


def _by_size(counts: NDArray[np.int64], epsilon: Callable[[int], float]) -> Epsilons:
    sizes, owner = np.unique(counts, return_inverse=True)
    return np.array([float(epsilon(m)) for m in sizes.tolist()])[owner]


def _given_counts(method: Method) -> Literal["exact", "bonferroni", "hoeffding"]:
    assert method in ("exact", "bonferroni", "hoeffding")
    return method


def _for_one_row(method: Method) -> Literal["exact", "hoeffding"]:
    """A union over bins plays no part in a statement about one row."""
    return "hoeffding" if method == "hoeffding" else "exact"


def _for_union(method: Method) -> Literal["exact", "hoeffding"]:
    return "hoeffding" if method == "hoeffding" else "exact"


# --- intervals --------------------------------------------------------------------------------------


def intervals(calibrator: Calibrator, alpha: float) -> tuple[Epsilons, Epsilons]:
    """Simultaneous intervals for E[Y | bin].

    Where the labels did not choose the cells, bins are independent given the cuts, hence Sidak over those
    that are not empty. Where they did: the mean and its epsilon, or a union over groups.
    """
    alpha = _validate.probability(alpha, "alpha")
    if calibrator.method == "isotonic":
        per_bin = guarantee(calibrator, alpha, None, 1).per_bin
        assert per_bin is not None
        return np.maximum(calibrator.values - per_bin, 0.0), np.minimum(calibrator.values + per_bin, 1.0)
    counts, positives = calibrator.interior_counts, calibrator.interior_positives
    base = calibrator.base_bins
    level = 2 * alpha / (base * (base + 1)) if base else sidak_level(alpha, int((counts > 0).sum()))
    if not calibrator.soft_labels:
        lower, upper = bounds.clopper_pearson(positives, counts, level)
        return np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    half_width = np.full(counts.size, np.inf)
    half_width[counts > 0] = bounds.hoeffding_epsilon(counts[counts > 0], level)
    means = positives / np.maximum(counts, 1)
    return np.maximum(means - half_width, 0.0), np.minimum(means + half_width, 1.0)


def certificate(calibrator: Calibrator, alpha: float) -> Epsilons:
    """How far each value can be from any point of its bin's interval."""
    lower, upper = intervals(calibrator, alpha)
    return np.maximum(calibrator.values - lower, upper - calibrator.values)
