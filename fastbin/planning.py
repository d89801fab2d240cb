"""How many bins, how many samples: the bounds of `fastbin.bounds` laid out for a decision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any, Literal, get_args

from fastbin import bounds
from fastbin._bounds_arguments import check_bins, check_count, check_epsilon
from fastbin._bounds_uniform_mass import ConditionalMethod
from fastbin._validate import choice, enough_samples, probability

__all__ = ["BinsRow", "Plan", "SamplesRow", "auto_bins", "plan"]

# What n_bins="auto" asks of a calibrator: every value within 0.1 of the truth, with probability 0.9.
AUTO_EPSILON = 0.1
AUTO_ALPHA = 0.1

Kind = Literal["conditional", "marginal"]

_LADDER_STEPS = (1, 2, 5, 10, 15, 20, 25, 50)
_USELESS = 0.5  # the value 1/2 is always within 1/2 of the truth: rows beyond it help nobody
_VACUOUS = 1.0  # every value is always within 1 of the truth: no promise at all
_NO_PROMISE = ">= 1"


@dataclass(frozen=True)
class BinsRow:
    """What n samples promise with one number of bins.

    Attributes
    ----------
    n_bins : int
        Number of bins.
    points_per_bin : int
        Points averaged in the emptiest bin.
    epsilon : float
        ``conditional`` or ``marginal``, whichever the plan is about.
    conditional, marginal : float
        Exact bounds: for all bins at once, and for the bin of a new point.
    paper : float
        The paper's bound of the plan's kind; infinite where it does not apply.
    expected_ece : float
        Bound on the expected l_1 calibration error.
    note : str
        Why the row is there, if not for comparison.
    """

    n_bins: int
    points_per_bin: int
    epsilon: float
    conditional: float
    marginal: float
    paper: float
    expected_ece: float
    note: str


@dataclass(frozen=True)
class SamplesRow:
    """Samples that one number of bins needs.

    Attributes
    ----------
    n_bins : int
        Number of bins.
    exact : int
        From this n on, every n keeps the exact bound within epsilon.
    first : int
        The first n that does; some n between the two do not.
    hoeffding, paper : int
        The same by Hoeffding's inequality with the sharp count, and by the paper's formula.
    """

    n_bins: int
    exact: int
    first: int
    hoeffding: int
    paper: int


@dataclass(frozen=True)
class Plan:
    """The answer of `plan`; ``print`` it.

    Attributes
    ----------
    alpha : float
        Allowed probability of failure.
    kind : str
        "conditional" (all bins at once) or "marginal" (the bin of a new point).
    n, epsilon, n_bins : int, float, int or None
        What was asked.
    rows : tuple of BinsRow or SamplesRow
        One row for each number of bins.
    recommended : int or None
        Number of bins by the automatic rule, `auto_bins`; None if n is not known.
    reason : str
        Why.

    Examples
    --------
    >>> from fastbin.planning import plan
    >>> answer = plan(5000, epsilon=0.05)
    >>> answer.recommended
    17
    >>> [row.n_bins for row in answer.rows if row.note == "most bins within 0.05"]
    [8]
    """

    alpha: float
    kind: Kind
    n: int | None
    epsilon: float | None
    n_bins: int | None
    rows: tuple[BinsRow, ...] | tuple[SamplesRow, ...]
    recommended: int | None
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON types.

        Returns
        -------
        dict
            One key for each attribute; ``rows`` is a list of dicts. An infinite bound becomes None.

        Examples
        --------
        >>> from fastbin.planning import plan
        >>> plan(epsilon=0.1, n_bins=10).to_dict()["rows"]
        [{'n_bins': 10, 'exact': 1702, 'first': 1658, 'hoeffding': 2639, 'paper': 2660}]
        """
        answer = asdict(self)
        answer["rows"] = [{key: _finite(value) for key, value in row.items()} for row in answer["rows"]]
        return answer

    def __str__(self) -> str:
        return "\n".join(_bins_page(self) if self.n is not None else _samples_page(self))


def plan(
    n: int | None = None,
    *,
    alpha: float = 0.1,
    epsilon: float | None = None,
    n_bins: int | None = None,
    kind: Kind = "conditional",
) -> Plan:
    """How many bins do n samples support, or how many samples does a tolerance need?

    Parameters
    ----------
    n : int, optional
        Number of calibration samples. Given: epsilon against the number of bins. Not given: the samples
        needed for ``epsilon``.
    alpha : float
        Allowed probability of failure, in (0, 1).
    epsilon : float, optional
        Wanted tolerance: how far a calibrated value may be from the truth.
    n_bins : int, optional
        A number of bins to look at in particular.
    kind : {"conditional", "marginal"}
        Is epsilon to hold for all bins at once, or for the bin of a new point?

    Returns
    -------
    Plan
        A table; `Plan.to_dict` for programs.

    Examples
    --------
    >>> print(plan(epsilon=0.1, n_bins=10))
    Samples needed to keep every bin within epsilon = 0.1 of the truth with probability 90 %
    <BLANKLINE>
      bins  exact: every n from  exact: first n  Hoeffding  paper
        10                1,702           1,658      2,639  2,660
    <BLANKLINE>
    exact: binomial tails, 0/1 labels. Hoeffding: labels in [0, 1]. paper: Gupta and Ramdas 2021.
    """
    level = probability(alpha, "alpha")
    choice(kind, "kind", get_args(Kind))
    tolerance = None if epsilon is None else check_epsilon(epsilon)
    asked_bins = None if n_bins is None else check_bins(n_bins)
    if n is not None:
        return _bins_plan(check_count("n", 1)(n), level, tolerance, asked_bins, kind)
    if tolerance is None:
        raise ValueError(
            "plan must be given n or epsilon; got neither. "
            "Pass plan(5000) for what 5000 samples support, or plan(epsilon=0.1) for the samples needed."
        )
    return _samples_plan(level, tolerance, asked_bins, kind)


def auto_bins(n: int) -> tuple[int, str]:
    """Number of bins for n samples, and why: what ``n_bins="auto"`` means.

    Parameters
    ----------
    n : int
        Number of calibration samples.

    Returns
    -------
    n_bins : int
        The cube root of n, or the most bins whose exact conditional epsilon is at most 0.1 at alpha = 0.1,
        whichever is less; at least 1.
    reason : str
        Which of the two it was.

    Notes
    -----
    The squared error of B bins is about ``v B/n + L^2/(12 B^2)``, v the mean label variance and L the slope
    of the calibration curve on the scale of ranks. A perfectly calibrated uniform score has v = 1/6 and L =
    1, and the best B is the cube root of n.

    Examples
    --------
    >>> auto_bins(1000)
    (6, 'the most bins that keep every value within 0.1 of the truth with probability 90 %')
    """
    samples = check_count("n", 1)(n)
    by_error = _cube_root(samples)
    by_bound = bounds.max_bins(samples, AUTO_EPSILON, AUTO_ALPHA)
    promise = f"every value within {AUTO_EPSILON:g} of the truth with probability {_certainty(AUTO_ALPHA)}"
    if by_bound == 0:
        return 1, f"with n = {samples:,}, not even one bin keeps {promise}"
    if by_bound < by_error:
        return by_bound, f"the most bins that keep {promise}"
    return by_error, "the cube root of n, which balances noise within bins against their width"


# --- small things -----------------------------------------------------------------------------------


def _cube_root(n: int) -> int:
    """Largest integer whose cube is at most n."""
    root = round(math.cbrt(n))
    while root**3 > n:
        root -= 1
    while (root + 1) ** 3 <= n:
        root += 1
    return root


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and math.isinf(value) else value


# --- the two questions ------------------------------------------------------------------------------


def _ladder(most: int) -> list[int]:
    """1, 2, 5, 10, 15, 20, 25, 50, then 100, 200, 500, 1000, ... up to ``most``."""
    steps = list(_LADDER_STEPS)
    while steps[-1] < most:
        decade = 10 ** len(str(steps[-1]))
        steps += [decade, 2 * decade, 5 * decade]
    return [step for step in steps if step <= most]


def _bins_plan(n: int, alpha: float, epsilon: float | None, n_bins: int | None, kind: Kind) -> Plan:
    recommended, reason = auto_bins(n)
    notes: dict[int, list[str]] = {}

    def note(number: int, text: str) -> None:
        notes.setdefault(number, []).append(text)

    note(_cube_root(n), "n^(1/3)")
    if epsilon is not None:
        reaching = bounds.max_bins(n, epsilon, alpha, kind=kind)
        if reaching:
            note(reaching, f"most bins within {epsilon:g}")
    if n_bins is not None:
        enough_samples(n, n_bins)
        note(n_bins, "asked for")
    note(recommended, "recommended")
    rows = []
    for number in sorted({*_ladder((n + 1) // 2), *notes}):
        row = _bins_row(n, number, alpha, kind, ", ".join(notes.get(number, [])))
        if number in notes or number == 1 or row.conditional < _USELESS:
            rows.append(row)
    return Plan(alpha, kind, n, epsilon, n_bins, tuple(rows), recommended, reason)


def _bins_row(n: int, n_bins: int, alpha: float, kind: Kind, note: str) -> BinsRow:
    conditional = bounds.conditional_epsilon(n, n_bins, alpha)
    marginal = bounds.marginal_epsilon(n, n_bins, alpha)
    if kind == "conditional":
        epsilon, paper = conditional, bounds.conditional_epsilon(n, n_bins, alpha, method="paper")
    else:
        epsilon, paper = marginal, bounds.marginal_epsilon(n, n_bins, alpha, method="paper")
    return BinsRow(
        n_bins=n_bins,
        points_per_bin=int(bounds.bin_sizes(n, n_bins)[0].min()),
        epsilon=epsilon,
        conditional=conditional,
        marginal=marginal,
        paper=paper,
        expected_ece=bounds.expected_ece(n, n_bins),
        note=note,
    )


def _samples_plan(alpha: float, epsilon: float, n_bins: int | None, kind: Kind) -> Plan:
    numbers = _ladder(1000) if n_bins is None else [n_bins]
    rows = tuple(_samples_row(epsilon, alpha, number, kind) for number in numbers)
    return Plan(alpha, kind, None, epsilon, n_bins, rows, None, "pass n to have a number of bins recommended")


def _samples_row(epsilon: float, alpha: float, n_bins: int, kind: Kind) -> SamplesRow:
    def needed(method: ConditionalMethod, first: bool = False) -> int:
        return bounds.required_samples(epsilon, alpha, n_bins, kind=kind, method=method, first=first)

    return SamplesRow(
        n_bins=n_bins,
        exact=needed("exact"),
        first=needed("exact", first=True),
        hoeffding=needed("hoeffding"),
        paper=needed("paper"),
    )


# --- the pages --------------------------------------------------------------------------------------


def _bins_page(plan: Plan) -> Iterable[str]:
    certainty = _certainty(plan.alpha)
    yield f"Uniform-mass binning of n = {plan.n:,} calibration samples, alpha = {plan.alpha:g}"
    yield ""
    heads = [
        "bins",
        "points/bin",
        "every bin",
        "new point",
        f"paper, {_scope(plan.kind)}",
        "expected ECE",
        "",
    ]
    rows = [row for row in plan.rows if isinstance(row, BinsRow)]
    smallest = min(row.expected_ece for row in rows)
    decimals = max(4, 1 - math.floor(math.log10(smallest)))
    yield from _table(heads, [_bins_cells(row, decimals) for row in rows])
    yield ""
    yield f"every bin: with probability {certainty}, all values are within this of the truth at once (exact)."
    yield (
        f"new point: with probability {certainty} over data and point, "
        f"its value is within this of the truth (exact)."
    )
    yield "paper: the formula of Gupta and Ramdas 2021. expected ECE: upper bound on the mean l_1 error."
    if any(bound >= _VACUOUS for row in rows for bound in _bounds_shown(row)):
        yield f"{_NO_PROMISE}: no promise, because every value is within 1 of the truth."
    yield from _vacuous_question(plan.epsilon)
    if plan.epsilon is not None and not any("most bins" in row.note for row in rows):
        yield f"No number of bins keeps {_scope(plan.kind)} within {plan.epsilon:g}."
    yield f"Recommended: {plan.recommended} {'bin' if plan.recommended == 1 else 'bins'}: {plan.reason}."


def _bins_cells(row: BinsRow, decimals: int) -> list[str]:
    shown = [_NO_PROMISE if bound >= _VACUOUS else f"{bound:.{decimals}f}" for bound in _bounds_shown(row)]
    return [f"{row.n_bins:,}", f"{row.points_per_bin:,}", *shown, row.note]


def _bounds_shown(row: BinsRow) -> tuple[float, ...]:
    return row.conditional, row.marginal, row.paper, row.expected_ece


def _vacuous_question(epsilon: float | None) -> Iterable[str]:
    if epsilon is not None and epsilon >= _VACUOUS:
        yield f"epsilon = {epsilon:g} asks for nothing: every value is within 1 of the truth."


def _samples_page(plan: Plan) -> Iterable[str]:
    yield (
        f"Samples needed to keep {_scope(plan.kind)} within epsilon = {plan.epsilon:g} of the truth "
        f"with probability {_certainty(plan.alpha)}"
    )
    yield ""
    heads = ["bins", "exact: every n from", "exact: first n", "Hoeffding", "paper"]
    yield from _table(
        heads,
        [
            [f"{number:,}" for number in (row.n_bins, row.exact, row.first, row.hoeffding, row.paper)]
            for row in plan.rows
            if isinstance(row, SamplesRow)
        ],
    )
    yield ""
    yield "exact: binomial tails, 0/1 labels. Hoeffding: labels in [0, 1]. paper: Gupta and Ramdas 2021."
    yield from _vacuous_question(plan.epsilon)


def _scope(kind: Kind) -> str:
    return "every bin" if kind == "conditional" else "a new point"


def _certainty(alpha: float) -> str:
    """The probability 1 - alpha in per cent, never rounded to certainty."""
    rounded = f"{100 * (1 - alpha):.6g}"
    return f"{(100 - 100 * Decimal(repr(alpha))).normalize():f} %" if rounded == "100" else f"{rounded} %"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """Right-aligned columns, two blanks apart; a last column without a head is left-aligned."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for cells in (heads, *rows):
        padded = [
            cell.rjust(width) if head else cell
            for head, cell, width in zip(heads, cells, widths, strict=True)
        ]
        yield "  " + "  ".join(padded).rstrip()
