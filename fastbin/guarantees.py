"""Which theorem covers a fit, and the number it gives. Where none does, there is a reason and no number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fastbin import _validate, bounds

if TYPE_CHECKING:
    from fastbin.model import Calibrator

Method = Literal["exact", "bonferroni", "hoeffding", "paper_sharp", "paper"]
METHODS: tuple[Method, ...] = get_args(Method)
BINOMIAL_METHODS = ("exact", "bonferroni")

ASSUMPTIONS = (
    "calibration rows and future rows are independent draws from one distribution",
    "the model that makes the scores did not see the calibration rows",
    "the number of bins, the method and the seed were not chosen by looking at these labels",
    "a score equal to a cut is broken by a fresh key (row_ids, or a generator kept between calls)",
)

THEOREMS = {
    "exact": "exact binomial tails, Sidak over bins",
    "bonferroni": "exact binomial tails, union over bins",
    "hoeffding": "Hoeffding's inequality with the sharp bin count, Sidak over bins",
    "paper_sharp": "Gupta and Ramdas (2021) with the sharp bin count",
    "paper": "Gupta and Ramdas (2021) as printed",
}


@dataclass(frozen=True, repr=False, eq=False)
class Guarantee:
    """What is known about a calibrator's values, whatever the distribution of the data.

    Attributes
    ----------
    alpha : float
        Probability, over the calibration data and the seed, that the statement fails.
    n_samples, n_bins : int
        What it was computed for.
    method : str
        The theorem used.
    conditional : float or None
        With probability 1 - alpha, no bin's value is off by more than this.
    marginal : float or None
        A future row's value is off by more than this with probability at most alpha.
    expected_ece : float or None
        Bound on the expected l1 calibration error.
    per_bin : ndarray or None
        A bound for each bin; all hold at once with probability 1 - alpha.
    holds : bool
        Whether a theorem covers this fit.
    reason : str
        The theorem, or why there is none.
    assumptions : tuple of str
        What it takes for the statement to be true.

    Notes
    -----
    The bounds are those of the theorems for the bin means; the values are the means to within
    ``n_bins * 2**-52`` (they are made distinct), which is not added.

    Examples
    --------
    >>> import numpy as np
    >>> import fastbin as fb
    >>> scores = np.linspace(0, 1, 1000)
    >>> guarantee = fb.fit_uniform_mass(scores, scores > 0.7, n_bins=10).guarantee(alpha=0.1)
    >>> guarantee.holds, round(guarantee.marginal, 4)
    (True, 0.0859)
    """

    alpha: float
    n_samples: int
    n_bins: int
    method: str
    conditional: float | None
    marginal: float | None
    expected_ece: float | None
    per_bin: NDArray[np.float64] | None
    holds: bool
    reason: str
    assumptions: tuple[str, ...] = ASSUMPTIONS

    def __repr__(self) -> str:
        return (
            f"Guarantee(alpha={self.alpha}, n_samples={self.n_samples}, n_bins={self.n_bins}, "
            f"method={self.method!r}, conditional={self.conditional}, marginal={self.marginal}, "
            f"expected_ece={self.expected_ece}, holds={self.holds})"
        )

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Guarantee) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.alpha, self.n_samples, self.n_bins, self.method, self.conditional, self.marginal))

    def __str__(self) -> str:
        bins = "1 bin" if self.n_bins == 1 else f"{self.n_bins} bins"
        rows = "1 calibration row" if self.n_samples == 1 else f"{self.n_samples:,} calibration rows"
        what = f"{bins} fitted on {rows}"
        if not self.holds:
            return f"No guarantee for {what}: {self.reason}."
        sentences = []
        if self.conditional is not None and self.conditional >= 1:
            sentences.append(
                f"Nothing is promised for every bin at once of the {what}: too few rows per bin, epsilon >= 1"
            )
        elif self.conditional is not None:
            sentences.append(
                f"With probability at least {1 - self.alpha:g} over the calibration data and the seed, "
                f"{f'the {what} is not' if self.n_bins == 1 else f'none of the {what} is'} off by more than "
                f"{self.conditional:.4g} from the true probability, "
                "whatever the distribution of the data"
            )
        if self.marginal is not None and self.marginal < 1:
            sentences.append(
                f"a new row's prediction is off by more than {self.marginal:.4g} with probability at most "
                f"{self.alpha:g}"
            )
        if self.expected_ece is not None:
            sentences.append(f"the expected calibration error is at most {self.expected_ece:.4g} on average")
        return f"{'; '.join(sentences)} ({self.reason}). Assumes: {'; '.join(self.assumptions)}."

    def to_dict(self) -> dict[str, object]:
        """The same as plain Python data, for JSON, which has no infinity: a bound that is one becomes None.

        Returns
        -------
        dict

        Examples
        --------
        >>> import fastbin as fb
        >>> fb.fit_uniform_mass([0.1, 0.2, 0.3], [0, 1, 1], n_bins=1).guarantee().to_dict()["holds"]
        True
        """
        return {
            "alpha": self.alpha,
            "n_samples": self.n_samples,
            "n_bins": self.n_bins,
            "method": self.method,
            "conditional": _for_json(self.conditional),
            "marginal": _for_json(self.marginal),
            "expected_ece": _for_json(self.expected_ece),
            "per_bin": None if self.per_bin is None else [_for_json(e) for e in self.per_bin.tolist()],
            "holds": self.holds,
            "reason": self.reason,
            "assumptions": list(self.assumptions),
        }


def _for_json(bound: float | None) -> float | None:
    return bound if bound is not None and np.isfinite(bound) else None


def uniform_mass_guarantee(
    calibrator: Calibrator, alpha: float, method: Method | None, candidates: int
) -> Guarantee:
    """Theorems 1 and 2 and Corollary 1 for a uniform-mass fit, in the sharpest form that covers it."""
    alpha = _validate.probability(alpha, "alpha")
    tried = _validate.at_least_one(candidates, "candidates")
    if method is None:
        method = "hoeffding" if calibrator.soft_labels else "exact"
    _validate.choice(method, "method", METHODS)
    n, n_bins, level = calibrator.n_samples, calibrator.n_bins, alpha / tried
    if calibrator.soft_labels and method in BINOMIAL_METHODS:
        return Guarantee(
            alpha, n, n_bins, method, None, None, None, None, False,
            "exact binomial bounds are proved for 0/1 labels, and these labels are fractions; "
            "method='hoeffding' covers them",
            (),
        )  # fmt: skip

    delta = calibrator.delta
    conditional = bounds.conditional_epsilon(n, n_bins, level, method=method, delta=delta)
    # A union over bins plays no part in a statement about one row: its marginal form is the exact one.
    for_one_row = "exact" if method == "bonferroni" else method
    marginal = bounds.marginal_epsilon(n, n_bins, level, method=for_one_row, delta=delta)
    on_average: Literal["exact", "paper"] = "paper" if method == "paper" else "exact"
    # An average over the data says nothing about the one fit that was chosen by looking at it.
    expected_ece = bounds.expected_ece(n, n_bins, method=on_average, delta=delta) if tried == 1 else None
    per_bin = _per_bin_epsilon(calibrator, level, method)
    reason = THEOREMS[method]
    if calibrator.boundary_points == "include":
        # Corollary 1: the cut's own label moves a mean of at least floor((n+1)/B) labels by at most this.
        smallest = n // n_bins if method == "paper" else (n + 1) // n_bins
        conditional += 1.0 / smallest
        marginal += 1.0 / smallest
        if expected_ece is not None:
            expected_ece += (n_bins - 1) / (n + 1)
        per_bin = per_bin + 1.0 / smallest
        reason += ", cut points averaged in (Corollary 1)"
    if delta:
        reason += f", values perturbed by delta={delta:g} (Algorithm 2)"
    if tried > 1:
        reason += f", alpha shared by {tried} candidates; no bound on the expected error of a chosen fit"
    per_bin.flags.writeable = False
    return Guarantee(
        alpha, n, n_bins, method, conditional, marginal, expected_ece, per_bin, True, reason,
        _assumptions(tried),
    )  # fmt: skip


def _assumptions(candidates: int) -> tuple[str, ...]:
    if candidates == 1:
        return ASSUMPTIONS
    chosen = f"the labels chose among at most {candidates} combinations of bins, method and seed"
    return (*ASSUMPTIONS[:2], chosen, *ASSUMPTIONS[3:])


def sidak_level(alpha: float, n_bins: int) -> float:
    """The level per bin at which n_bins independent statements hold together with probability 1 - alpha."""
    return float(-np.expm1(np.log1p(-alpha) / n_bins))


def _per_bin_epsilon(calibrator: Calibrator, alpha: float, method: str) -> NDArray[np.float64]:
    """Each bin's own epsilon from its own count; smaller bins get larger ones."""
    per_size = bounds.binomial_epsilon if method in BINOMIAL_METHODS else bounds.hoeffding_epsilon
    independent = method in ("exact", "hoeffding")
    level = sidak_level(alpha, calibrator.n_bins) if independent else alpha / calibrator.n_bins
    sizes, owner = np.unique(calibrator.interior_counts, return_inverse=True)
    delta = calibrator.delta
    extra = delta if method in ("paper", "paper_sharp") else delta / (1.0 + delta)
    return np.asarray(np.array([float(per_size(int(m), level)) for m in sizes])[owner] + extra)


def intervals(calibrator: Calibrator, alpha: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Simultaneous intervals for E[Y | bin]: independent across bins given the cuts, hence Sidak."""
    level = sidak_level(_validate.probability(alpha, "alpha"), calibrator.n_bins)
    counts, positives = calibrator.interior_counts, calibrator.interior_positives
    if not calibrator.soft_labels:
        lower, upper = bounds.clopper_pearson(positives, counts, level)
        return np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    means, half_width = positives / counts, np.asarray(bounds.hoeffding_epsilon(counts, level))
    return np.maximum(means - half_width, 0.0), np.minimum(means + half_width, 1.0)


def certificate(calibrator: Calibrator, alpha: float) -> NDArray[np.float64]:
    """How far each value can be from any point of its bin's interval."""
    lower, upper = intervals(calibrator, alpha)
    return np.maximum(calibrator.values - lower, upper - calibrator.values)
