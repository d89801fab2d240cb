"""What a fitted calibrator promises: numbers with their assumptions, or the reason why there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ASSUMPTIONS = (
    "calibration rows and future rows are independent draws from one distribution",
    "the model that makes the scores did not see the calibration rows",
    "the number of bins, the method and the seed were not chosen by looking at these labels",
    "a score equal to a cut is broken by a fresh key (row_ids, or a generator kept between calls)",
)


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
