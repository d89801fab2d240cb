"""The bounds against golden values, against their definitions, and one lattice step below themselves."""

from __future__ import annotations

import csv
import itertools
import math
import time
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, betabinom, binom

from fastbin import _binomial, bounds
from fastbin import _bounds_sample_split as _sample_split
from fastbin import _bounds_uniform_mass as _uniform_mass
from surgery import refuses

GOLDEN = Path(__file__).parent / "golden"


# --- golden values (T47) ----------------------------------------------------------------------------


class Golden(NamedTuple):
    name: str
    options: dict[str, float]  # what the name carries after its @
    n: int
    B: int
    alpha: float
    delta: float
    value: float


def read_golden() -> list[Golden]:
    rows = []
    with (GOLDEN / "bounds.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            name, _, rest = row["quantity"].partition("@")
            options = {key: float(v) for key, v in (pair.split("=") for pair in rest.split(";") if pair)}
            n, B = int(row["n"] or 0), int(row["B"] or 0)
            alpha, delta = float(row["alpha"] or "nan"), float(row["delta"] or "nan")
            rows.append(Golden(name, options, n, B, alpha, delta, float(row["value"])))
    return rows


ROWS = read_golden()


def conditional(method):
    return lambda g: bounds.conditional_epsilon(g.n, g.B, g.alpha, method=method)


def marginal(method):
    # The file leaves delta empty where the formula has none.
    return lambda g: bounds.marginal_epsilon(
        g.n, g.B, g.alpha, method=method, delta=0.0 if math.isnan(g.delta) else g.delta
    )


def samples(kind, method, *, first=False):
    return lambda g: bounds.required_samples(
        g.options["eps"], g.alpha, g.B, kind=kind, method=method, first=first
    )


def split_failure(kind):
    return lambda g: bounds.sample_split_failure(
        int(g.options["n1"]), int(g.options["n2"]), g.B, g.options["eps"], kind=kind, method="hoeffding"
    )


def split_samples(kind):
    """The file rounds split * n half to even; fastbin takes the floor (`test_split_sizes`)."""
    return lambda g: _sample_split.required_samples(
        g.options["eps"],
        g.alpha,
        g.B,
        kind=kind,
        method="hoeffding",
        share=g.options["frac1"],
        part=lambda n: round(g.options["frac1"] * n),
    )


def mirrored(p, value):
    """For even m the maximum is attained at p and at 1 - p; the file has now one, now the other."""
    return p if value <= 0.5 else 1 - p


# Every quantity of golden/bounds.csv and the call that must give it.
CALLS = {
    "thm1_eps": conditional("paper"),
    "thm1_eps_sharp": conditional("paper_sharp"),
    "thm2_conditional_eps": lambda g: bounds.conditional_epsilon(
        g.n, g.B, g.alpha, method="paper", delta=g.delta
    ),
    "sidak_hoeffding_eps": conditional("hoeffding"),
    "exact_bonferroni_eps": conditional("bonferroni"),
    "exact_sidak_eps": conditional("exact"),
    "cor1_eps": lambda g: bounds.original_epsilon(g.n, g.B, g.alpha),
    "thm2_marginal_eps": marginal("paper"),
    "thm2_marginal_eps_sharp": marginal("paper_sharp"),
    "exact_marginal_eps": marginal("exact"),
    "ece_expect_paper": lambda g: bounds.expected_ece(g.n, g.B, method="paper", delta=g.delta),
    "ece_l1_expect_sharp": lambda g: bounds.expected_ece(g.n, g.B, delta=g.delta),
    "ece_l2_rms_sharp": lambda g: bounds.expected_ece(g.n, g.B, p=2, delta=g.delta),
    "ece_l1_highprob_sharp": lambda g: bounds.ece_upper(g.n, g.B, g.alpha),
    "exact_binomial_eps": lambda g: bounds.binomial_epsilon(g.n, g.alpha),
    "hoeffding_eps": lambda g: bounds.hoeffding_epsilon(g.n, g.alpha),
    "tstar(eps in delta col)": lambda g: bounds.binomial_tail(g.n, g.delta),
    "max_mad": lambda g: bounds.max_mad(g.n),
    "max_mad_argp": lambda g: mirrored(bounds.max_mad_argument(g.n), g.value),
    "min_bin_count": lambda g: int(bounds.bin_sizes(g.n, g.B)[0].min()),
    "max_bin_count": lambda g: int(bounds.bin_sizes(g.n, g.B)[0].max()),
    "cp_lo(B=k)": lambda g: bounds.clopper_pearson(g.B, g.n, g.alpha)[0],
    "cp_hi(B=k)": lambda g: bounds.clopper_pearson(g.B, g.n, g.alpha)[1],
    "cs_betabinom_lo(B=k;prior .5;.5)": lambda g: bounds.confidence_sequence(g.B, g.n, g.alpha)[0],
    "cs_betabinom_hi(B=k;prior .5;.5)": lambda g: bounds.confidence_sequence(g.B, g.n, g.alpha)[1],
    "merge_group_eps(full line)": lambda g: bounds.merge_epsilon(g.n, g.B, g.alpha),
    "max_B_thm1": lambda g: bounds.max_bins(g.n, g.options["eps"], g.alpha, method="paper"),
    "min_n_thm1": samples("conditional", "paper"),
    "min_n_thm1_sharp": samples("conditional", "paper_sharp"),
    "min_n_cor1": samples("original", "paper"),
    "min_n_thm2_marginal": samples("marginal", "paper"),
    "min_n_thm2_marginal_sharp": samples("marginal", "paper_sharp"),
    "min_n_exact_sidak_all_above": samples("conditional", "exact"),
    "min_n_exact_sidak_first": samples("conditional", "exact", first=True),
    "min_n_exact_marginal_all_above": samples("marginal", "exact"),
    "min_n_exact_marginal_first": samples("marginal", "exact", first=True),
    # These two rows state the delta that they use, alpha/2 and alpha/4 of the whole budget.
    "ums_paper_Nb_min": lambda g: _sample_split.paper_parts(0.1, 2 * g.alpha, g.B)[0],
    "ums_paper_split2": lambda g: _sample_split.paper_parts(0.1, 4 * g.alpha, g.B)[2],
    "ums_paper_total": lambda g: bounds.sample_split_required(0.1, g.alpha, g.B),
    "ums_exact_min_n_marginal_hoeff": split_samples("marginal"),
    "ums_exact_min_n_conditional_hoeff": split_samples("conditional"),
    "ums_marginal_failure_hoeff": split_failure("marginal"),
    "ums_conditional_failure_hoeff": split_failure("conditional"),
}


def lattice_point(value: float, sizes: list[int]) -> Fraction | None:
    """The fraction j/(2m) that ``value`` stands for, if it does."""
    for m in sizes:
        point = Fraction(round(2 * m * value), 2 * m)
        if abs(value - float(point)) <= 4 * math.ulp(value):
            return point
    return None


def sizes_of(g: Golden) -> list[int]:
    return [g.n] if g.name == "exact_binomial_eps" else bounds.bin_sizes(g.n, g.B)[0].tolist()


def test_every_golden_quantity_has_a_call():
    assert {g.name for g in ROWS} == set(CALLS)
    assert len(ROWS) == 1024


@pytest.mark.parametrize("name", sorted({g.name for g in ROWS}))
def test_golden(name):
    for g in (g for g in ROWS if g.name == name):
        result = CALLS[name](g)
        if isinstance(result, int):
            assert result == g.value, g
            continue
        assert result == pytest.approx(g.value, rel=1e-10, abs=0), g
        point = lattice_point(g.value, sizes_of(g)) if name.startswith("exact_") else None
        if point is not None:
            assert Fraction(result) >= point, g
            assert result == _binomial.float_at_least(point), g


def test_golden_ranks():
    with (GOLDEN / "ranks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    for row in rows:
        ranks = bounds.boundary_ranks(int(row["n"]), int(row["B"]))
        assert ranks.tolist() == [int(rank) for rank in row["ranks_A0_to_AB"].split()]
        assert (np.diff(ranks) - 1).tolist() == [int(m) for m in row["bin_counts_m"].split()]


# --- ranks (T1-T3, T15, T16) ------------------------------------------------------------------------


def test_ranks_are_the_ceilings():
    for n in range(1, 400):
        for B in range(1, (n + 1) // 2 + 1):
            expected = [-(-b * (n + 1) // B) for b in range(B + 1)]  # Python integers
            assert bounds.boundary_ranks(n, B).tolist() == expected


@given(st.integers(1, 2**63 - 2), st.integers(1, 3000))
def test_ranks_do_not_overflow(n, B):
    B = min(B, n + 1)
    ranks = bounds.boundary_ranks(n, B)
    assert ranks.dtype == np.int64
    assert ranks.tolist() == [-(-b * (n + 1) // B) for b in range(B + 1)]


def test_the_largest_n_with_ranks():
    assert bounds.boundary_ranks(2**63 - 2, 1).tolist() == [0, 2**63 - 1]
    assert bounds.boundary_ranks(np.int64(2**63 - 2), 2).tolist() == [0, 2**62, 2**63 - 1]
    sizes, multiplicities = bounds.bin_sizes(2**63 - 2, 2)
    assert sizes.tolist() == [2**62 - 2, 2**62 - 1] and multiplicities.tolist() == [1, 1]
    for n in (2**63 - 1, 2**64, 1e30):
        for function in (bounds.boundary_ranks, bounds.bin_sizes):
            with pytest.raises(ValueError, match=r"^n must be at most 2\*\*63 - 2, .* got .*Pass") as caught:
                function(n, 2)
            assert repr(n) in str(caught.value)


def test_the_largest_counts():
    n = 2**62 - 1
    assert bounds.conditional_epsilon(n, 1, 0.1) == pytest.approx(1.6449 / 2 / math.sqrt(n), rel=1e-2)
    assert bounds.conditional_epsilon(n, 1, 0.1, method="paper_sharp") == bounds.hoeffding_epsilon(n, 0.1)
    assert 0 < bounds.ece_upper(n, 7, 0.1) < 1e-8
    assert 0 < bounds.expected_ece(n, 7) < bounds.expected_ece(n, 7, method="paper") < 1e-9


def test_ranks_of_four_billion():
    ranks = bounds.boundary_ranks(4_000_000_000, 1000)
    assert ranks[0] == 0 and ranks[-1] == 4_000_000_001
    assert ranks[500] == 2_000_000_001


def test_sizes_are_those_of_the_ranks():
    for n, B in itertools.product(range(1, 120), range(1, 40)):
        if n < 2 * B - 1:
            continue
        sizes, multiplicities = bounds.bin_sizes(n, B)
        counts = np.diff(bounds.boundary_ranks(n, B)) - 1
        found, copies = np.unique(counts, return_counts=True)
        assert sizes.tolist() == found.tolist()
        assert multiplicities.tolist() == copies.tolist()
        assert sizes.min() == (n + 1) // B - 1 >= 1
        assert counts.sum() == n - (B - 1)


def test_one_bin_loses_no_point():
    sizes, multiplicities = bounds.bin_sizes(17, 1)
    assert sizes.tolist() == [17] and multiplicities.tolist() == [1]


# --- T*(m, e) (T48) ---------------------------------------------------------------------------------


def brute_force_tail(m: int, e: float) -> float:
    """sup over p of P(|X/m - p| > e), from the definition, next to the breakpoints and on a grid.

    The grid stays off the breakpoints themselves, where rounding would decide whether |X/m - p| = e is more.
    """
    k = np.arange(m + 1)
    breakpoints = np.concatenate([k / m - e, k / m + e])
    grid = (np.arange(2000) + 1 / math.pi) / 2000
    p = np.concatenate([breakpoints - 1e-11, breakpoints + 1e-11, grid])
    p = p[(p >= 0) & (p <= 1)][:, None]
    choose = np.array([math.comb(m, i) for i in range(m + 1)], dtype=float)
    probabilities = choose * p**k * (1 - p) ** (m - k)
    return float((probabilities * (np.abs(k / m - p) > e)).sum(axis=1).max())


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 10, 16, 23, 31, 40])
def test_tail_is_the_supremum(m):
    for j in range(1, 2 * m):
        for shift in (0.0, 0.3, 0.9):
            e = (j + shift) / (2 * m)
            # 1e-11 from a breakpoint the probability is off by at most 1e-11 * 2m.
            assert bounds.binomial_tail(m, e) == pytest.approx(brute_force_tail(m, e), abs=1e-9), (
                m,
                j,
                shift,
            )


@pytest.mark.parametrize("m", [1, 2, 5, 12, 30])
def test_tail_on_the_lattice_in_exact_arithmetic(m):
    """A_k with rational probabilities; equal to the float result to 13 digits."""

    def exact(j: int) -> Fraction:
        best = Fraction(0)
        for k in range(j // 2 + 1, m + 1):
            p = Fraction(2 * k - j, 2 * m)
            counts = [i for i in range(m + 1) if i >= k or i <= k - j - 1]
            best = max(best, sum(math.comb(m, i) * p**i * (1 - p) ** (m - i) for i in counts))
        return best

    for j in range(1, 2 * m):
        assert bounds.binomial_tail(m, j / (2 * m)) == pytest.approx(float(exact(j)), rel=1e-13)


@pytest.mark.parametrize("m", [3, 10, 49, 401, 2000])
def test_tail_is_nonincreasing_and_right_continuous(m):
    e = np.linspace(0.2, 5, 400) / math.sqrt(m)
    e = np.sort(np.concatenate([e, np.arange(1, 2 * m, max(1, m // 100)) / (2 * m)]))
    e = e[e < 1]
    tails = bounds.binomial_tail(m, e)
    # Where T* is 1 (within reach of any p) the two tails may add up to 1 + 2e-14.
    assert (np.diff(tails) <= 1e-13).all()
    lattice = np.arange(1, m, max(1, m // 100)) / (2 * m)  # from 1/2 on one tail is empty, and nothing jumps
    at = bounds.binomial_tail(m, lattice)
    after = bounds.binomial_tail(m, lattice * (1 + 1e-13))
    before = bounds.binomial_tail(m, lattice * (1 - 1e-13))
    assert after == pytest.approx(at, rel=1e-8, abs=1e-300)
    relevant = (at > 1e-6) & (at < 0.9)
    assert relevant.any()
    assert (before[relevant] > at[relevant] * (1 + 1e-4)).all()  # it jumps *at* the point


def test_epsilon_near_a_lattice_point_is_read_as_it():
    m, j = 99, 26
    at = bounds.binomial_tail(m, float(Fraction(j, 2 * m)))
    e = j / (2 * m)
    for ulps in (-4, -1, 1, 4):
        assert bounds.binomial_tail(m, e + ulps * math.ulp(e)) == at
    assert bounds.binomial_tail(m, e - 6 * math.ulp(e)) > at * 1.001


@given(m=st.integers(401, 6000), z=st.floats(0.02, 12), on_lattice=st.booleans())
@settings(max_examples=150, deadline=None)
def test_leaving_out_hopeless_candidates_changes_nothing(m, z, on_lattice):
    e = min(z / (2 * math.sqrt(m)), 0.99)
    e = max(round(2 * m * e), 1) / (2 * m) if on_lattice else e
    (j,), (point,) = _binomial.on_lattice(np.array([m]), e)
    all_k = np.arange(j // 2 + 1, m + 1)
    full = _binomial.paired_tails(m, j, point, all_k).max()
    assert bounds.binomial_tail(m, e) == full
    assert _binomial.probe_tails(np.array([m]), np.array([j]), point)[0] <= full
    for level in (full * 0.999, full * 1.001):
        assert _binomial.tail_exceeds(m, e, level) == (full > level)
    kept = _binomial._contenders(m, int(j), float(point), full / 2)
    left_out = np.setdiff1d(all_k, kept)
    assert (_binomial.paired_tails(m, j, point, left_out) < full / 2).all()


# --- the closed form above 100,000 ------------------------------------------------------------------


def test_pinsker_with_its_second_term():
    """KL(p + d || p) >= 2 d^2 + (4/9) d^4; the 4/9 cannot be 2/3, the term of d log((1+d)/(1-d))."""
    for d in (0.01, 0.1, 0.3, 0.6):
        p = np.linspace(0, 1 - d, 20_001)[1:-1]
        q = p + d
        divergence = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
        assert (divergence >= (2 * d**2 + 4 / 9 * d**4) * (1 - 1e-11)).all()
    assert (divergence < d * math.log((1 + d) / (1 - d))).any()


@given(m=st.integers(1, 3000), z=st.floats(0.05, 15))
@settings(max_examples=150, deadline=None)
def test_the_closed_form_is_above_the_exact_tail(m, z):
    e = min(z / (2 * math.sqrt(m)), 0.999)
    assert _binomial.closed_form_tail(m, e) >= bounds.binomial_tail(m, e) * (1 - 1e-12)


@pytest.mark.parametrize("t", [0.1, 0.01, 1e-4, 1e-8])
def test_the_closed_form_takes_over_smoothly(t):
    exact, closed = bounds.binomial_epsilon([_binomial.EXACT_LIMIT, _binomial.EXACT_LIMIT + 1], t)
    assert 1 < closed / exact < 1.003
    m = 10**6
    e = bounds.binomial_epsilon(m, t)
    assert _binomial.closed_form_tail(m, e) <= t < _binomial.closed_form_tail(m, e * (1 - 1e-12))
    assert e < bounds.hoeffding_epsilon(m, t)


@given(e=st.floats(0.001, 0.24), z=st.floats(0, 1))
@settings(max_examples=150, deadline=None)
def test_the_normal_lower_form_is_below_the_exact_tail(e, z):
    m = math.ceil(4 / e * (5000 * e) ** z) if 5000 * e > 1 else math.ceil(4 / e)
    assert _binomial.normal_lower_tail(m, e) <= bounds.binomial_tail(m, e) * (1 + 1e-12)


def test_the_normal_lower_form_decreases_with_size():
    for e in (1e-4, 0.003, 0.1, 0.24):
        m = np.unique(np.geomspace(4 / e, 1e7, 400).astype(np.int64))
        assert (np.diff(_binomial.normal_lower_tail(m, e)) <= 0).all()


@pytest.mark.parametrize("level", [0.5, 0.1, 0.003])
@pytest.mark.parametrize("e", [0.02, 0.1, 0.249, 0.3])
def test_the_first_size_is_found_as_by_trying_all(e, level):
    found = _uniform_mass._first_size_within(e, level)
    tails = bounds.binomial_tail(np.arange(1, found + 1), e)
    assert tails[-1] <= level < tails[:-1].min(initial=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: bounds.binomial_epsilon(m, 0.1),
        lambda m: bounds.conditional_epsilon(m, 5, 0.1, method="paper"),
        lambda m: bounds.clopper_pearson(3, m, 0.1),
    ],
)
def test_a_fraction_among_counts_is_refused_wherever_it_stands(call):
    with refuses("integer", "150.5", error=TypeError):
        call([100.0, 150.5, 200.0])
    call([100.0, 150.0, 200.0])


def test_the_closed_form_decreases_with_size():
    m = np.unique(np.geomspace(1, 1e9, 400).astype(np.int64))
    for e in (1e-4, 0.003, 0.1, 0.7):
        assert (np.diff(_binomial.closed_form_tail(m, e)) <= 0).all()


# --- the smallest epsilon ---------------------------------------------------------------------------


def just_below(e: float, sizes: list[int]) -> float:
    """The next lattice point down if e is on a lattice; otherwise a relative 1e-9 less."""
    point = lattice_point(e, sizes)
    if point is None:
        return e * (1 - 1e-9)
    return float(max(Fraction(math.ceil(2 * m * point) - 1, 2 * m) for m in sizes))


@given(m=st.integers(1, 700), t=st.floats(1e-9, 0.9))
@settings(max_examples=200, deadline=None)
def test_binomial_epsilon_is_the_smallest(m, t):
    e = bounds.binomial_epsilon(m, t)
    assert bounds.binomial_tail(m, e) <= t
    lower = just_below(e, [m])
    assert lower == 0 or bounds.binomial_tail(m, lower) > t  # T*(m, 0) = 1
    assert e <= bounds.hoeffding_epsilon(m, t)


@pytest.mark.parametrize("m", [9_999, 50_000, 99_999])
@pytest.mark.parametrize("t", [0.1, 0.001])
def test_binomial_epsilon_is_the_smallest_for_large_bins(m, t):
    e = bounds.binomial_epsilon(m, t)
    j = round(2 * m * e)
    assert e == pytest.approx(j / (2 * m), rel=1e-15)
    whole = [
        _binomial.paired_tails(m, i, i / (2 * m), np.arange(i // 2 + 1, m + 1)).max() for i in (j, j - 1)
    ]
    assert whole[0] <= t < whole[1]


def test_a_poor_probe_costs_time_and_nothing_else(monkeypatch):
    """The search trusts its quick lower bounds only when they reject; what it accepts it checks in full."""
    cases = [((49,), 0.01), ((10,), 0.1), ((500, 501), 0.003), ((33, 34), 0.05), ((7, 80, 1000), 0.1)]

    def epsilons():
        return [_binomial.smallest_epsilon(m, _binomial.product_rule(np.ones(len(m)), t)) for m, t in cases]

    expected = epsilons()
    honest = _binomial.probe_tails
    monkeypatch.setattr(_binomial, "probe_tails", lambda *arguments: 0.6 * honest(*arguments))
    assert epsilons() == expected


@pytest.mark.parametrize("alpha", [0.9, 0.999, 0.9999999])
def test_alpha_close_to_one(alpha):
    """There the search meets tails of exactly 1."""
    for n, B in ((3, 2), (6, 2), (17, 4), (60, 7)):
        sizes, copies = bounds.bin_sizes(n, B)
        e = bounds.conditional_epsilon(n, B, alpha)
        assert np.prod((1 - bounds.binomial_tail(sizes, e)) ** copies) >= (1 - alpha) * (1 - 1e-9)


def slow_epsilon(sizes: list[int], meets) -> float:
    """Smallest e with ``meets(tails)``: walk up the lattices, then halve the last cell. Slow, but plain."""

    def tails(e, steps):
        return np.array(
            [
                _binomial.paired_tails(m, j, e, np.arange(j // 2 + 1, m + 1)).max(initial=0.0)
                for m, j in zip(sizes, steps, strict=True)
            ]
        )

    points = sorted({Fraction(j, 2 * m) for m in sizes for j in range(2 * m + 1)})
    for left, right in itertools.pairwise(points):
        if not meets(tails(float(right), [math.floor(2 * m * right) for m in sizes])):
            continue
        steps = [math.floor(2 * m * left) for m in sizes]
        low, high = float(left), float(right)
        if not meets(tails(high, steps)):
            return high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if meets(tails(middle, steps)) else (middle, high)
        return high
    raise AssertionError("T* is 0 at e = 1")


@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.4])
@pytest.mark.parametrize(("n", "B"), [(7, 3), (19, 10), (50, 7), (60, 4), (89, 10), (100, 1), (130, 6)])
def test_exact_epsilons_against_a_walk_up_the_lattices(n, B, alpha):
    sizes, copies = bounds.bin_sizes(n, B)
    masses = copies * (sizes + 1) / (n + 1)
    rules = {
        ("conditional", "exact"): lambda T: np.prod((1 - np.minimum(T, 1)) ** copies) >= 1 - alpha,
        ("conditional", "bonferroni"): lambda T: copies @ T <= alpha,
        ("marginal", "exact"): lambda T: masses @ T <= alpha,
    }
    functions = {"conditional": bounds.conditional_epsilon, "marginal": bounds.marginal_epsilon}
    for (kind, method), meets in rules.items():
        found = functions[kind](n, B, alpha, method=method)
        assert found == pytest.approx(slow_epsilon(sizes.tolist(), meets), rel=1e-12), (kind, method)


@pytest.mark.parametrize(
    ("n", "B", "alpha"),
    [
        (1000, 10, 0.1),
        (1509, 10, 0.1),
        (2900, 10, 0.05),
        (20_000, 22, 0.1),
        (30_000, 7, 0.01),
        (999, 400, 0.2),
    ],
)
def test_one_lattice_step_lower_is_too_low(n, B, alpha):
    sizes, copies = bounds.bin_sizes(n, B)
    masses = copies * (sizes + 1) / (n + 1)
    failures = {
        "exact": lambda T: -np.expm1(copies @ np.log1p(-T)),
        "bonferroni": lambda T: copies @ T,
        "marginal": lambda T: masses @ T,
    }
    epsilons = {
        "exact": bounds.conditional_epsilon(n, B, alpha),
        "bonferroni": bounds.conditional_epsilon(n, B, alpha, method="bonferroni"),
        "marginal": bounds.marginal_epsilon(n, B, alpha),
    }
    for name, e in epsilons.items():
        assert failures[name](bounds.binomial_tail(sizes, e)) <= alpha
        assert failures[name](bounds.binomial_tail(sizes, just_below(e, sizes.tolist()))) > alpha
    assert (
        epsilons["exact"] <= epsilons["bonferroni"] <= bounds.conditional_epsilon(n, B, alpha, method="paper")
    )


def test_worst_case_failure_of_the_exact_epsilon():
    """T25 and T26: at 18/98 a fair-coin law fails with probability .0974, one step lower with .1433 > .1."""
    assert bounds.conditional_epsilon(499, 10, 0.1) == pytest.approx(18 / 98, rel=1e-15)
    p_worst, p_lower = 24 / 49 - 1e-9, 0.5 - 1e-9

    def any_bin_fails(p, e):
        k = np.arange(50)
        inside = binom.pmf(k, 49, p)[np.abs(k / 49 - p) <= e].sum()
        return 1 - inside**10

    assert any_bin_fails(p_worst, 18 / 98) == pytest.approx(0.0974014, abs=1e-6)
    assert any_bin_fails(p_lower, 17 / 98) == pytest.approx(0.143291, abs=1e-6)


# --- monotonicity (T49) -----------------------------------------------------------------------------


def test_theorem_1_is_monotone():
    n = np.arange(40, 2000)
    assert (np.diff(bounds.conditional_epsilon(n, 20, 0.1, method="paper")) <= 0).all()
    B = np.arange(1, 500)
    for method in ("paper", "paper_sharp", "hoeffding"):
        assert (np.diff(bounds.conditional_epsilon(1000, B, 0.1, method=method)) >= 0).all()


def test_the_exact_epsilon_is_not_monotone():
    ups = np.diff(bounds.conditional_epsilon(np.arange(300, 400), 10, 0.1)) > 0
    assert ups.sum() == 12
    for t, expected in ((0.1, 39), (0.01, 51), (0.001, 57)):
        assert (np.diff(bounds.binomial_epsilon(np.arange(1, 301), t)) > 0).sum() == expected


# --- formulas, delta, special values ----------------------------------------------------------------


def test_delta_is_added_as_each_theorem_says():
    delta = 0.02
    for function, methods in (
        (bounds.conditional_epsilon, _uniform_mass.METHODS["conditional"]),
        (bounds.marginal_epsilon, _uniform_mass.METHODS["marginal"]),
    ):
        for method in methods:
            extra = delta if method.startswith("paper") else delta / (1 + delta)
            without = function(500, 10, 0.1, method=method)
            assert function(500, 10, 0.1, method=method, delta=delta) == pytest.approx(
                without + extra, rel=1e-14
            )
    assert bounds.expected_ece(500, 10, delta=delta) == pytest.approx(
        bounds.expected_ece(500, 10) + 0.02 / 1.02
    )
    paper = bounds.expected_ece(500, 10, delta=delta, method="paper")
    assert paper == pytest.approx(math.sqrt(10 / 1000) + 0.02)


def test_paper_without_a_point_to_spare_is_infinite():
    assert bounds.conditional_epsilon(19, 10, 0.1, method="paper") == math.inf
    assert bounds.marginal_epsilon(19, 10, 0.1, method="paper") == math.inf
    assert bounds.original_epsilon(19, 10, 0.1) == math.inf
    assert bounds.conditional_epsilon(19, 10, 0.1, method="paper_sharp") > 1  # not capped
    assert 0.9 < bounds.conditional_epsilon(19, 10, 0.1) < 1


def test_marginal_hoeffding_is_the_sharp_count():
    assert bounds.marginal_epsilon(1509, 10, 0.1, method="hoeffding") == bounds.hoeffding_epsilon(150, 0.1)


def test_false_claim_of_the_paper():
    """Theorem 2 is said to give epsilon < 0.1 at n = 1500; it does from 1510 on, the exact bound from 751."""
    assert bounds.marginal_epsilon(1500, 10, 0.1, method="paper") == pytest.approx(0.100263616852)
    assert bounds.required_samples(0.1, 0.1, 10, kind="marginal", method="paper") == 1510
    assert bounds.required_samples(0.1, 0.1, 10, kind="marginal") == 751


# --- expected calibration error ---------------------------------------------------------------------


def test_mean_deviation_is_the_supremum():
    for m in (1, 2, 3, 4, 9, 10, 33):
        p = np.linspace(0, 1, 4001)[:, None]
        p = np.vstack([p, np.arange(1, m + 1)[:, None] / (m + 1)])
        k = np.arange(m + 1)
        deviation = (binom.pmf(k, m, p) * np.abs(k / m - p)).sum(axis=1)
        assert bounds.max_mad(m) == pytest.approx(deviation.max(), rel=1e-12)
        at = bounds.max_mad_argument(m)
        assert (binom.pmf(k, m, at) * np.abs(k / m - at)).sum() == pytest.approx(deviation.max(), rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 15, 16, 17, 31, 32, 100, 1001, 5000])
def test_mean_deviation_in_exact_arithmetic(m):
    nu = (m + 1) // 2
    exact = Fraction(
        2 * nu * math.comb(m, nu) * nu**nu * (m + 1 - nu) ** (m - nu + 1), m * (m + 1) ** (m + 1)
    )
    assert bounds.max_mad(m) == pytest.approx(float(exact), rel=2e-14)


def test_mean_deviation_of_large_means():
    """sqrt(1/(2 pi m)) to first order, and no rounding noise at a billion labels."""
    m = np.array([10**6, 10**9])
    assert bounds.max_mad(m) * np.sqrt(2 * np.pi * m) == pytest.approx(
        1 + 1 / (4 * m) - 1 / (2 * m), abs=1e-6
    )
    assert (np.diff(bounds.max_mad(np.arange(1, 3000))) < 0).all()


def test_expected_squared_error_is_a_known_fraction():
    """T27: an equality for fair coins, so the numbers are exact."""
    for (n, B), square in {(7, 3): 5 / 32, (11, 4): 1 / 8, (50, 20): 0.16911764705882354}.items():
        assert bounds.expected_ece(n, B, p=2) ** 2 == pytest.approx(square, rel=1e-14)
    assert bounds.expected_ece(7, 3, p=1.5) == bounds.expected_ece(7, 3, p=2)


def test_expected_error_is_below_the_papers():
    for B in (1, 2, 7, 30):
        n = np.arange(2 * B - 1, 12 * B)
        assert (bounds.expected_ece(n, B) <= bounds.expected_ece(n, B, p=2)).all()
        assert (bounds.expected_ece(n, B, p=2) < bounds.expected_ece(n, B, method="paper")).all()


def test_high_probability_error_bound():
    assert bounds.ece_upper(999, 20, 0.1) == pytest.approx(0.1040, abs=5e-5)
    assert bounds.ece_upper(2659, 10, 0.1) == pytest.approx(0.0501, abs=5e-5)
    heaviest = beta(143 + 1, 1003 - 143).isf(0.1 / 14)  # 7 bins of 142 or 143 points
    unequal = bounds.max_mad(142) + math.sqrt(heaviest * math.log(20) / (2 * 142))
    assert bounds.ece_upper(1003, 7, 0.1) == pytest.approx(unequal, rel=1e-12)
    one_bin = bounds.max_mad(50) + math.sqrt(math.log(20) / 100)
    assert bounds.ece_upper(50, 1, 0.1) == pytest.approx(one_bin, rel=1e-14)


# --- intervals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "t", "minimum"), [(19, 0.01, 0.99055), (49, 0.01, 0.99040), (49, 0.1, 0.90151)]
)
def test_clopper_pearson_covers(m, t, minimum):
    k = np.arange(m + 1)
    lower, upper = bounds.clopper_pearson(k, m, t)
    p = np.concatenate([np.linspace(0.0005, 0.9995, 4000), lower[1:] - 1e-9, upper[:-1] + 1e-9])[:, None]
    coverage = (binom.pmf(k, m, p) * ((lower <= p) & (p <= upper))).sum(axis=1)
    assert coverage.min() >= 1 - t
    assert coverage.min() == pytest.approx(minimum, abs=1e-5)


def test_clopper_pearson_ends_are_the_tail_equations():
    k, m, t = np.arange(1, 40), 40, 0.05
    lower, upper = bounds.clopper_pearson(k, m, t)
    assert binom.sf(k - 1, m, lower) == pytest.approx(t / 2, rel=1e-9)
    assert binom.cdf(k, m, upper) == pytest.approx(t / 2, rel=1e-9)
    assert bounds.clopper_pearson(0, 0, 0.1) == (0.0, 1.0)
    assert bounds.clopper_pearson(0, 5, 0.1)[0] == 0.0
    assert bounds.clopper_pearson(5, 5, 0.1)[1] == 1.0


@pytest.mark.parametrize("p", [0.03, 0.5])
def test_confidence_sequence_holds_at_all_times(p):
    """The exact probability of a miss within 400 labels; Clopper-Pearson at every step fails."""

    def ever_missed(interval) -> float:
        alive = np.array([1.0])
        for m in range(1, 401):
            alive = np.concatenate([alive * (1 - p), [0.0]]) + np.concatenate([[0.0], alive * p])
            lower, upper = interval(np.arange(m + 1), m, 0.05)
            alive[(p < lower) | (p > upper)] = 0.0
        return 1 - alive.sum()

    assert 0.005 < ever_missed(bounds.confidence_sequence) <= 0.05
    assert ever_missed(bounds.clopper_pearson) > 0.1


def test_confidence_sequence_ends_solve_the_equation():
    k, m, t = np.array([3, 17, 60, 500]), np.array([40, 40, 60, 1000]), 0.01
    lower, upper = bounds.confidence_sequence(k, m, t)
    mixture = [math.lgamma(a + 0.5) + math.lgamma(b + 0.5) - math.lgamma(a + b + 1) - math.log(math.pi)
               for a, b in zip(k, m - k, strict=True)]  # fmt: skip
    for p in (lower, upper):
        inner = (p > 0) & (p < 1)
        likelihood = k[inner] * np.log(p[inner]) + (m - k)[inner] * np.log1p(-p[inner])
        assert likelihood == pytest.approx(np.log(t) + np.array(mixture)[inner], rel=1e-10)
    assert upper[2] == 1.0
    assert bounds.confidence_sequence(0, 0, 0.1) == (0.0, 1.0)


# --- realised counts --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "bonferroni"])
@pytest.mark.parametrize(("n", "B"), [(299, 3), (1000, 7), (1234, 50)])
def test_simultaneous_epsilon_of_uniform_mass(n, B, method):
    counts = np.diff(bounds.boundary_ranks(n, B)) - 1
    expected = bounds.conditional_epsilon(n, B, 0.1, method=method)
    assert bounds.simultaneous_epsilon(counts, 0.1, method=method) == expected
    assert bounds.simultaneous_epsilon(counts[::-1], 0.1, method=method) == expected
    assert bounds.weighted_epsilon(counts, (counts + 1) / (n + 1), 0.1) == bounds.marginal_epsilon(n, B, 0.1)


@given(st.lists(st.integers(1, 200), min_size=1, max_size=6), st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_simultaneous_epsilon_is_the_smallest(counts, alpha):
    e = bounds.simultaneous_epsilon(counts, alpha)
    sizes = sorted(set(counts))

    def failure(e):
        return -np.expm1(np.log1p(-np.minimum(bounds.binomial_tail(counts, e), 1 - 1e-16)).sum())

    assert failure(e) <= alpha * (1 + 1e-12)
    assert failure(just_below(e, sizes)) > alpha


def test_hoeffding_of_equal_counts_is_the_closed_form():
    found = bounds.simultaneous_epsilon([150] * 10, 0.1, method="hoeffding")
    assert found == pytest.approx(bounds.conditional_epsilon(1509, 10, 0.1, method="hoeffding"), rel=1e-14)
    found = bounds.weighted_epsilon([150] * 4, [0.25] * 4, 0.1, method="hoeffding")
    assert found == pytest.approx(bounds.hoeffding_epsilon(150, 0.1), rel=1e-14)


def test_unequal_hoeffding_solves_its_equation():
    counts, masses = np.array([20, 80, 300]), np.array([0.1, 0.2, 0.7])
    e = bounds.simultaneous_epsilon(counts, 0.1, method="hoeffding")
    assert np.prod(1 - 2 * np.exp(-2 * counts * e**2)) == pytest.approx(0.9, rel=1e-12)
    e = bounds.weighted_epsilon(counts, masses, 0.1, method="hoeffding")
    assert masses @ np.minimum(1, 2 * np.exp(-2 * counts * e**2)) == pytest.approx(0.1, rel=1e-12)


def test_empty_bins():
    assert bounds.weighted_epsilon([0, 100], [0.2, 0.8], 0.1) == 1.0
    assert bounds.weighted_epsilon([0, 100], [0.2, 0.8], 0.1, method="hoeffding") == math.inf
    some = bounds.weighted_epsilon([0, 100], [0.05, 0.95], 0.1)
    assert 0.95 * bounds.binomial_tail(100, some) <= 0.05
    assert 0.95 * bounds.binomial_tail(100, just_below(some, [100])) > 0.05
    with pytest.raises(ValueError, match="counts must be an integer of at least 1; got 0"):
        bounds.simultaneous_epsilon([0, 3], 0.1)


def test_counts_on_both_sides_of_the_exact_limit():
    limit = _binomial.EXACT_LIMIT
    counts = [limit - 1, limit, limit + 1, 10 * limit]
    e = bounds.simultaneous_epsilon(counts, 0.1)
    tails = bounds.binomial_tail(counts, e)
    assert np.prod(1 - tails) >= 0.9 * (1 - 1e-15)
    lower = bounds.binomial_tail(counts, just_below(e, [limit - 1, limit]))
    assert np.prod(1 - lower) < 0.9


# --- merged bins and blocks -------------------------------------------------------------------------


def test_merge_and_all_intervals():
    assert bounds.merge_epsilon(199, 20, 0.1) == bounds.hoeffding_epsilon(199, 0.1 / 210)
    assert bounds.merge_epsilon(199, 20, 0.1, method="exact") == bounds.binomial_epsilon(199, 0.1 / 210)
    assert bounds.all_intervals_epsilon(500, 10_000, 0.1) == pytest.approx(0.1461, abs=5e-5)
    t = 2 * 0.1 / (10_000 * 10_001)
    exact = bounds.all_intervals_epsilon(500, 10_000, 0.1, method="exact")
    assert exact == pytest.approx(bounds.binomial_epsilon(499, t) + 1 / 500, rel=1e-12)
    assert exact < bounds.all_intervals_epsilon(500, 10_000, 0.1)
    assert bounds.all_intervals_epsilon([1, 2], 10, 0.1)[0] == math.inf


# --- how many samples, how many bins ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "method"), [("conditional", "exact"), ("conditional", "bonferroni"), ("marginal", "exact")]
)
@pytest.mark.parametrize(
    ("epsilon", "alpha", "B"), [(0.2, 0.1, 4), (0.15, 0.3, 3), (0.3, 0.05, 7), (0.25, 0.1, 1)]
)
def test_required_samples_against_all_n(kind, method, epsilon, alpha, B):
    function = bounds.conditional_epsilon if kind == "conditional" else bounds.marginal_epsilon
    beyond = bounds.required_samples(epsilon, alpha, B, kind=kind, method="hoeffding")
    n = np.arange(2 * B - 1, beyond + 3 * B)
    good = function(n, B, alpha, method=method) <= math.nextafter(epsilon, 1)  # 0.3 is read as 3/10
    assert good[-3 * B :].all()
    all_from = n[~good].max() + 1
    assert bounds.required_samples(epsilon, alpha, B, kind=kind, method=method) == all_from
    assert bounds.required_samples(epsilon, alpha, B, kind=kind, method=method, first=True) == n[good].min()


@pytest.mark.parametrize("method", ["paper", "paper_sharp", "hoeffding"])
@pytest.mark.parametrize("kind", ["conditional", "marginal"])
def test_required_samples_of_closed_forms(kind, method):
    function = bounds.conditional_epsilon if kind == "conditional" else bounds.marginal_epsilon
    for epsilon, B in ((0.1, 10), (0.03, 7), (5.0, 4)):
        n = bounds.required_samples(epsilon, 0.1, B, kind=kind, method=method)
        assert function(n, B, 0.1, method=method) <= epsilon
        if n > 2 * B:
            assert function(n - 1, B, 0.1, method=method) > epsilon


def test_required_samples_of_large_bins():
    """Above 100,000 points in a bin the closed form decides, and it is monotone."""
    n = bounds.required_samples(0.001, 0.1, 10)
    assert n == bounds.required_samples(0.001, 0.1, 10, first=True)
    assert bounds.conditional_epsilon(n, 10, 0.1) <= 0.001 < bounds.conditional_epsilon(n - 1, 10, 0.1)


@pytest.mark.parametrize(
    ("kind", "method"), [("conditional", "exact"), ("conditional", "bonferroni"), ("marginal", "exact")]
)
def test_max_bins_against_all_bins(kind, method):
    function = bounds.conditional_epsilon if kind == "conditional" else bounds.marginal_epsilon
    for n in (1, 2, 3, 30, 99, 240, 241):
        B = np.arange(1, (n + 1) // 2 + 1)
        values = function(n, B, 0.1, method=method)
        for epsilon in (0.05, 0.12, 0.3, 0.6, 0.93):
            good = B[values <= math.nextafter(epsilon, 1)]  # 0.3 is below 3/10, and is read as 3/10
            most = bounds.max_bins(n, epsilon, 0.1, kind=kind, method=method)
            assert most == max(good, default=0), (n, epsilon)


@given(n=st.integers(10, 20_000), epsilon=st.floats(0.02, 0.9), alpha=st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_max_bins_is_reached_and_not_exceeded(n, epsilon, alpha):
    most = bounds.max_bins(n, epsilon, alpha)
    if most:
        # An epsilon within 4 ulp of a lattice point is read as that point; the bound is never below it.
        assert bounds.conditional_epsilon(n, most, alpha) <= epsilon + 4 * math.ulp(epsilon)
    following = np.arange(most + 1, min(most + 6, (n + 1) // 2 + 1))
    assert (bounds.conditional_epsilon(n, following, alpha) > epsilon).all()


def test_a_lattice_epsilon_is_met_by_its_own_bound():
    e = bounds.conditional_epsilon(1509, 10, 0.1)  # 8/75
    for read in (e, float(Fraction(8, 75)), math.nextafter(8 / 75, 0)):
        assert bounds.max_bins(1509, read, 0.1) >= 10
        assert bounds.required_samples(read, 0.1, 10, first=True) <= 1509
    assert bounds.max_bins(1509, e - 20 * math.ulp(e), 0.1) < 10


def test_max_bins_of_original_and_its_limits():
    assert bounds.max_bins(2900, 0.1, 0.1, kind="original", method="paper") == 10
    assert bounds.max_bins(7, 5.0, 0.1, method="paper_sharp") == 4  # (n + 1) // 2
    assert bounds.max_bins(7, 5.0, 0.1) == 4


# --- sample splitting -------------------------------------------------------------------------------


def test_split_failure_is_the_beta_binomial_mean():
    n1, n2, B, e = 57, 80, 4, 0.2
    gaps = np.diff(bounds.boundary_ranks(n1, B))
    N = np.arange(n2 + 1)
    tail = np.concatenate([[1.0], bounds.binomial_tail(N[1:], e)])
    conditional_sum = sum(betabinom.pmf(N, n2, a, n1 + 1 - a) @ tail for a in gaps)
    marginal_sum = sum(a / (n1 + 1) * betabinom.pmf(N, n2, a + 1, n1 + 1 - a) @ tail for a in gaps)
    found = bounds.sample_split_failure(n1, n2, B, e, kind="conditional")
    assert found == pytest.approx(conditional_sum, rel=1e-10)
    assert bounds.sample_split_failure(n1, n2, B, e) == pytest.approx(marginal_sum, rel=1e-10)
    one_bin = bounds.sample_split_failure(n1, n2, 1, e)
    assert one_bin == pytest.approx(bounds.binomial_tail(n2, e), rel=1e-12)


def test_split_failures_of_the_theory():
    assert bounds.sample_split_failure(200, 200, 5, 0.15) == pytest.approx(0.0722, abs=5e-5)
    assert bounds.sample_split_failure(200, 200, 5, 0.15, kind="conditional") == pytest.approx(
        0.3769, abs=5e-5
    )


@pytest.mark.parametrize(
    ("split", "kind", "method", "expected"),
    [
        (0.5, "marginal", "hoeffding", 3031),  # golden has 3032 with n1 = round(n/2)
        (0.5, "conditional", "hoeffding", 5393),
        (0.2, "marginal", "hoeffding", 1911),
        (0.1, "marginal", "hoeffding", 1721),
        (0.1, "conditional", "hoeffding", 3205),
        (0.5, "marginal", "exact", 1453),
        (0.5, "conditional", "exact", 3459),  # 3460 with n1 = round(n/2)
    ],
)
def test_split_sizes(split, kind, method, expected):
    n = bounds.sample_split_required(0.1, 0.1, 10, split=split, kind=kind, method=method)
    assert n == expected

    def failure(n):
        n1 = math.floor(split * n)
        return bounds.sample_split_failure(n1, n - n1, 10, 0.1, kind=kind, method=method)

    assert failure(n - 1) > 0.1
    assert all(failure(later) <= 0.1 for later in range(n, n + 50))


@pytest.mark.parametrize(("B", "split", "epsilon"), [(5, 0.2, 0.3), (8, 0.1, 0.2), (10, 0.1, 0.2)])
def test_split_sizes_where_the_first_success_is_not_the_last_failure(B, split, epsilon):
    def within(n):
        n1 = math.floor(split * n)
        return bounds.sample_split_failure(n1, n - n1, B, epsilon, method="hoeffding") <= 0.3

    found = bounds.sample_split_required(epsilon, 0.3, B, split=split, method="hoeffding")
    n = range(math.ceil((B + 1) / split), found + 200)
    failures = [number for number in n if not within(number)]
    assert found == max(failures) + 1
    assert any(within(number) for number in n if number < found)


def test_rounding_the_split_moves_the_answer_by_one():
    """Where the golden 3032 comes from: half of 3031 is 1516 by rounding to even, 1515 by the floor."""
    failures = [
        bounds.sample_split_failure(n1, 3031 - n1, 10, 0.1, method="hoeffding") for n1 in (1515, 1516)
    ]
    assert failures[0] <= 0.1 < failures[1]


def test_papers_split_does_not_depend_on_kind_or_split():
    expected = 8295 + 9579
    assert bounds.sample_split_required(0.1, 0.1, 10, kind="conditional", split=0.3) == expected
    assert _sample_split.paper_parts(0.1, 0.1, 10)[1] == pytest.approx(8294.05, abs=0.005)


# --- shapes, types, caches, speed -------------------------------------------------------------------

N = np.array([[100], [207]])
BINS = np.array([2, 5, 9])
BROADCASTS = {
    "conditional_epsilon": lambda n, b: bounds.conditional_epsilon(n, b, 0.1),
    "conditional_epsilon, paper": lambda n, b: bounds.conditional_epsilon(n, b, 0.1, method="paper"),
    "marginal_epsilon": lambda n, b: bounds.marginal_epsilon(n, b, 0.1),
    "original_epsilon": lambda n, b: bounds.original_epsilon(n, b, 0.1),
    "expected_ece": lambda n, b: bounds.expected_ece(n, b),
    "ece_upper": lambda n, b: bounds.ece_upper(n, b, 0.1),
    "binomial_epsilon": lambda m, b: bounds.binomial_epsilon(m, 0.1 / b),
    "binomial_tail": lambda m, b: bounds.binomial_tail(m, 0.02 * b),
    "hoeffding_epsilon": lambda m, b: bounds.hoeffding_epsilon(m, 0.1 / b),
    "clopper_pearson": lambda m, k: bounds.clopper_pearson(k, m, 0.1)[0],
    "confidence_sequence": lambda m, k: bounds.confidence_sequence(k, m, 0.1)[1],
    "merge_epsilon": lambda m, b: bounds.merge_epsilon(m, b, 0.1),
    "all_intervals_epsilon": lambda n, b: bounds.all_intervals_epsilon(b, n, 0.1),
    "required_samples": lambda n, b: bounds.required_samples(10 / n, 0.1, b),
    "max_bins": lambda n, b: bounds.max_bins(n, 0.1 * b, 0.1),
    "sample_split_required": lambda n, b: bounds.sample_split_required(10 / n, 0.1, b),
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_arrays_in_the_same_shape_out(name):
    function = BROADCASTS[name]
    whole = function(N, BINS)
    assert isinstance(whole, np.ndarray) and whole.shape == (2, 3)
    for i, j in np.ndindex(2, 3):
        single = function(int(N[i, 0]), int(BINS[j]))
        assert type(single) is (int if whole.dtype == np.int64 else float)
        assert single == whole[i, j]
    assert function(np.array([], dtype=int), 3).shape == (0,)


def test_numpy_scalars_and_whole_floats_are_numbers():
    expected = bounds.conditional_epsilon(1000, 10, 0.1)
    assert bounds.conditional_epsilon(np.int32(1000), np.int64(10), np.float64(0.1)) == expected
    assert bounds.conditional_epsilon(1e3, 10, 0.1) == expected


@pytest.mark.parametrize(("n", "B"), [(10**8, 100), (10**7, 100), (10**7, 1000), (10**6, 10)])
def test_large_fits_are_answered_at_once(n, B):
    _uniform_mass.exact_epsilon.cache_clear()
    start = time.perf_counter()
    assert 0 < bounds.conditional_epsilon(n, B, 0.1) < 0.03
    assert time.perf_counter() - start < 0.5  # promised; measured 0.02


# --- bad arguments ----------------------------------------------------------------------------------

REFUSED = [
    (lambda: bounds.conditional_epsilon(100, 0, 0.1), ValueError, "n_bins must be .* got 0"),
    (lambda: bounds.conditional_epsilon(100, -3, 0.1), ValueError, "n_bins must be .* got -3"),
    (lambda: bounds.conditional_epsilon(100, True, 0.1), TypeError, "n_bins must be .* bool True"),
    (lambda: bounds.conditional_epsilon(100, 10.5, 0.1), TypeError, r"n_bins must be .* 10\.5"),
    (lambda: bounds.conditional_epsilon(100, [10, 0], 0.1), ValueError, "n_bins must be .* got 0"),
    (lambda: bounds.conditional_epsilon(100, "10", 0.1), TypeError, "n_bins must be .* '10'"),
    (lambda: bounds.conditional_epsilon(18, 10, 0.1), ValueError, "at least 19 .* n_bins=9"),
    (lambda: bounds.conditional_epsilon([500, 18], 10, 0.1), ValueError, "n = 18"),
    (lambda: bounds.conditional_epsilon(0, 1, 0.1), ValueError, "n must be .* got 0"),
    (lambda: bounds.conditional_epsilon(99.5, 1, 0.1), TypeError, r"n must be .* got 99\.5"),
    (lambda: bounds.conditional_epsilon(None, 1, 0.1), TypeError, "n must be .* None"),
    (lambda: bounds.conditional_epsilon(math.nan, 1, 0.1), TypeError, "n must be .* nan"),
    (lambda: bounds.marginal_epsilon(100, 10, 0.0), ValueError, r"alpha must be .* got 0\.0"),
    (lambda: bounds.marginal_epsilon(100, 10, 1), ValueError, r"alpha must be .* got 1\.0"),
    (lambda: bounds.marginal_epsilon(100, 10, [0.1, math.nan]), ValueError, "alpha must be .* nan"),
    (lambda: bounds.marginal_epsilon(100, 10, "0.1"), TypeError, "alpha must be .* '0.1'"),
    (lambda: bounds.marginal_epsilon(100, 10, 0.1, delta=-1), ValueError, "delta must be"),
    (
        lambda: bounds.marginal_epsilon(100, 10, 0.1, method="bonferroni"),
        ValueError,
        "'exact', 'hoeffding', 'p",
    ),
    (
        lambda: bounds.conditional_epsilon(100, 10, 0.1, method="best"),
        ValueError,
        "'bonferroni'.* got 'best'",
    ),
    (lambda: bounds.original_epsilon(18, 10, 0.1), ValueError, "n_bins=9"),
    (lambda: bounds.expected_ece(100, 10, p=3), ValueError, r"p must be between 1 and 2; got 3\.0"),
    (lambda: bounds.expected_ece(100, 10, p=0.5), ValueError, "p must be"),
    (lambda: bounds.expected_ece(100, 10, method="hoeffding"), ValueError, "method must be"),
    (lambda: bounds.ece_upper(18, 10, 0.1), ValueError, "n_bins=9"),
    (lambda: bounds.max_mad(0), ValueError, "m must be .* got 0"),
    (lambda: bounds.binomial_tail(10, 0.0), ValueError, r"epsilon must be .* got 0\.0"),
    (lambda: bounds.binomial_tail(10, -0.1), ValueError, "epsilon must be"),
    (lambda: bounds.binomial_tail(10, math.inf), ValueError, "epsilon must be"),
    (lambda: bounds.binomial_epsilon(10, 1.5), ValueError, r"t must be .* got 1\.5"),
    (lambda: bounds.hoeffding_epsilon(0, 0.5), ValueError, "m must be"),
    (lambda: bounds.clopper_pearson(6, 5, 0.1), ValueError, "k must be at most m; got k = 6, m = 5"),
    (lambda: bounds.clopper_pearson(-1, 5, 0.1), ValueError, "k must be"),
    (lambda: bounds.confidence_sequence([1, 6], 5, 0.1), ValueError, "k = 6"),
    (lambda: bounds.confidence_sequence(1, 5, 0), ValueError, "t must be"),
    (lambda: bounds.merge_epsilon(10, 0, 0.1), ValueError, "n_bins must be"),
    (lambda: bounds.merge_epsilon(10, 5, 0.1, method="paper"), ValueError, "'hoeffding', 'exact'"),
    (lambda: bounds.all_intervals_epsilon(11, 10, 0.1), ValueError, "block_size must be at most n"),
    (lambda: bounds.required_samples(0, 0.1, 10), ValueError, "epsilon must be"),
    (lambda: bounds.required_samples(1e-12, 0.1, 10), ValueError, "reach of"),
    (lambda: bounds.required_samples(0.1, 0.1, 10, kind="both"), ValueError, "kind must be .* got 'both'"),
    (
        lambda: bounds.required_samples(0.1, 0.1, 10, kind="original"),
        ValueError,
        "method must be one of 'paper'",
    ),
    (lambda: bounds.max_bins(0, 0.1, 0.1), ValueError, "n must be"),
    (lambda: bounds.max_bins(100, -1, 0.1), ValueError, "epsilon must be"),
    (lambda: bounds.simultaneous_epsilon([], 0.1), ValueError, "counts must be"),
    (lambda: bounds.simultaneous_epsilon(5, 0.1), ValueError, "counts must be"),
    (lambda: bounds.simultaneous_epsilon([5], 0.1, method="paper"), ValueError, "method must be"),
    (lambda: bounds.weighted_epsilon([5, 6], [1.0], 0.1), ValueError, "masses must be"),
    (lambda: bounds.weighted_epsilon([5, 6], [1.0, -0.5], 0.1), ValueError, "masses must be"),
    (lambda: bounds.weighted_epsilon([5, 6], [1.0, math.nan], 0.1), ValueError, "masses must be"),
    (lambda: bounds.sample_split_failure(3, 10, 5, 0.1), ValueError, "n_cuts must be"),
    (lambda: bounds.sample_split_failure(30, 0, 5, 0.1), ValueError, "n_labels must be"),
    (lambda: bounds.sample_split_required(0.1, 0.1, 10, split=1.0), ValueError, "split must be"),
    (lambda: bounds.sample_split_required(0.1, 0.1, 10, kind="original"), ValueError, "kind must be"),
    (lambda: bounds.boundary_ranks(3, 5), ValueError, "n_bins must be at most n"),
    (lambda: bounds.boundary_ranks(2**63 - 1, 5), ValueError, r"n must be at most 2\*\*63 - 2"),
    (lambda: bounds.bin_sizes(18, 10), ValueError, "n_bins=9"),
    (lambda: bounds.conditional_epsilon(2**62, 1, 0.1), ValueError, r"n must be at most 2\*\*62 - 1"),
    (lambda: bounds.conditional_epsilon([5, 2**70], 1, 0.1), ValueError, r"n must be at most 2\*\*62 - 1"),
    (lambda: bounds.merge_epsilon(5, 2**63, 0.1), ValueError, r"n_bins must be at most 2\*\*62 - 1"),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_bad_arguments_get_one_clear_error(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert "Pass" in str(caught.value) or "allow" in str(caught.value)  # the remedy


def test_the_least_n_is_accepted():
    assert bounds.conditional_epsilon(19, 10, 0.1) > 0
    assert bounds.conditional_epsilon(1, 1, 0.1) == pytest.approx(0.9)
