"""The other calibrators against scikit-learn, in one table: ``python benchmarks/method_targets.py``.

Answers are asserted before anything is timed. ``--rows`` makes it smaller, ``--json`` writes the figures to a
file.
"""

from __future__ import annotations

import numpy as np
import targets
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from targets import Row, slow_down, speed_up

import fastbin as fb


def isotonic_rows(n: int) -> list[Row]:
    rows = []
    rng = np.random.default_rng(0)
    untied = rng.beta(0.5, 2, n)
    for name, scores in {"": untied, ", 3 decimals": untied.round(3)}.items():
        labels = (rng.random(n) < scores).astype(np.uint8)
        rival = IsotonicRegression(out_of_bounds="clip").fit(scores, labels)
        ours = fb.fit_isotonic(scores, labels)
        np.testing.assert_allclose(ours.predict(scores), rival.predict(scores), atol=1e-12, rtol=0)

        def fit(scores=scores, labels=labels) -> None:
            fb.fit_isotonic(scores, labels)

        def their_fit(scores=scores, labels=labels) -> None:
            IsotonicRegression(out_of_bounds="clip").fit(scores, labels)

        rows += [
            speed_up(f"isotonic fit against scikit-learn{name}", 5, fit, their_fit),
            speed_up(
                f"isotonic predict against scikit-learn{name}", 10,
                lambda ours=ours, scores=scores: ours.predict(scores),
                lambda rival=rival, scores=scores: rival.predict(scores),
            ),
        ]  # fmt: skip
    return rows


def platt_rows(n: int) -> list[Row]:
    rng = np.random.default_rng(0)
    margins = rng.normal(0, 2, n)
    labels = (rng.random(n) < 1 / (1 + np.exp(1 - 0.7 * margins))).astype(np.uint8)
    column = margins[:, np.newaxis]

    def their_fit() -> LogisticRegression:
        return LogisticRegression(C=np.inf).fit(column, labels)

    ours = fb.fit_platt(margins, labels, on="probability")
    exact = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10).fit(column, labels)
    np.testing.assert_allclose(
        [ours.slope, ours.intercept], [exact.coef_[0, 0], exact.intercept_[0]], rtol=1e-6
    )
    rival = their_fit()
    return [
        speed_up(
            "Platt fit against scikit-learn", 5,
            lambda: fb.fit_platt(margins, labels, on="probability"), their_fit,
        ),
        speed_up(
            "the same, scikit-learn's Newton solver", 5,
            lambda: fb.fit_platt(margins, labels, on="probability"),
            lambda: LogisticRegression(C=np.inf, solver="newton-cholesky").fit(column, labels),
        ),
        speed_up(
            "Platt predict against scikit-learn", 5,
            lambda: ours.predict(margins), lambda: rival.predict_proba(column)[:, 1],
        ),
    ]  # fmt: skip


def binning_rows(n: int) -> list[Row]:
    """What the other partitions cost beside Algorithm 1."""
    rng = np.random.default_rng(0)
    scores = rng.beta(0.5, 2, n)
    labels = (rng.random(n) < scores).astype(np.uint8)

    def base() -> None:
        fb.fit_uniform_mass(scores, labels, 100)

    return [
        slow_down(
            "sample split, times Algorithm 1", 4, lambda: fb.fit_sample_split(scores, labels, 100), base
        ),
        slow_down("fixed width, times Algorithm 1", 2, lambda: fb.fit_fixed_width(scores, labels, 100), base),
        slow_down(
            "scaling-binning, times Algorithm 1", 4, lambda: fb.fit_scaling_binning(scores, labels, 100), base
        ),
        slow_down("isotonic, times Algorithm 1", 8, lambda: fb.fit_isotonic(scores, labels), base),
    ]


def main() -> None:
    """Print the table."""
    parser = targets.arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    n = arguments.rows
    groups = (lambda: isotonic_rows(n), lambda: platt_rows(n), lambda: binning_rows(n))
    targets.print_table(f"{n:,} rows", groups, arguments.json)


if __name__ == "__main__":
    main()
