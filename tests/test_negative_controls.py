"""Defects that must be caught, each beside the sound twin that must pass (theory notes, section 2.4).

n = 500, B = 10, alpha = 0.1 and Theorem 1's epsilon. A replicate fails when in some bin of positive mass the
value is further than epsilon from the true mean label of that bin.
"""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy import stats

import fastbin as fb
import reference as ref
import zoo
from harness import (
    assert_claim_holds,
    assert_claim_is_rejected,
    critical,
    replicates,
    theorem_1_epsilon,
)
from surgery import with_edge_keys

statistical = pytest.mark.statistical

N, B, ALPHA, R = 500, 10, 0.1, 200
EPSILON = theorem_1_epsilon(N, B, ALPHA)


def fails(values, masses, means):
    """Is some bin of positive mass off by more than epsilon?"""
    reached = masses > 0
    return bool((np.abs(values - means)[reached] > EPSILON).any())


def run(law, defect):
    """Failure of each replicate: `defect(scores, labels, seed)` gives (values, masses, means)."""
    return [fails(*defect(*row)) for row in replicates(law, N, R, [1, *law.name.encode()])]


def sound(law):
    def fit(scores, labels, seed):
        cal = fb.fit_uniform_mass(scores, labels, B, rng=seed, threads=1)
        return cal.values, *law.truth(cal.edges, cal.edge_keys)

    return fit


# --- the harness --------------------------------------------------------------------------------------

CRITICAL = {
    0.10: {200: 44, 500: 86, 1000: 149, 2000: 268, 5000: 605, 20000: 2206},
    0.05: {200: 28, 500: 52, 1000: 87, 2000: 150, 5000: 327, 20000: 1151},
    0.01: {200: 13, 500: 20, 1000: 29, 2000: 45, 5000: 88, 20000: 271},
}


@pytest.mark.parametrize("alpha", CRITICAL)
def test_the_critical_counts_are_those_of_the_notes(alpha):
    for n, c in CRITICAL[alpha].items():
        assert critical(n, alpha) == c
        assert stats.binom.sf(c - 1, n, alpha) <= 1e-6 < stats.binom.sf(c - 2, n, alpha)


# --- the sound code passes ----------------------------------------------------------------------------


@statistical
@pytest.mark.parametrize("law", ["D2", "D3", "D5", "D7", "D8", "D10", "D11"])
def test_the_fit_keeps_theorem_1(law):
    assert_claim_holds(run(zoo.ALL[law], sound(zoo.ALL[law])), ALPHA)


# --- NC1, NC2: defects at fit -------------------------------------------------------------------------


def ordered_fit(scores, labels, order):
    """Algorithm 1 on rows put in `order` by someone else: (calibrator on ranks, rows of the cuts)."""
    rank = np.empty(N)
    rank[order] = np.arange(N)
    cal = fb.fit_uniform_mass(rank, labels, B, threads=1)
    return cal, order[fb.boundary_ranks(N, B)[1:-1] - 1]


@statistical
def test_nc1_a_stable_sort_without_tie_key_is_rejected():
    law = zoo.D7

    def defect(scores, labels, seed):
        cal, cuts = ordered_fit(scores, labels, np.argsort(scores, kind="stable"))
        bins = fb.bin_index(law.table[:, 0], scores[cuts])
        return cal.values, *law.truth_by_atom(bins, B)

    assert_claim_is_rejected(run(law, defect), ALPHA)
    assert_claim_holds(run(law, sound(law)), ALPHA)


@statistical
def test_nc2_ties_sorted_by_label_are_rejected():
    """The keys are fresh uniforms, but dealt out in the order of the labels."""
    law = zoo.D7

    def defect(scores, labels, seed):
        order = np.lexsort((labels, scores))
        cal, cuts = ordered_fit(scores, labels, order)
        keys = np.random.default_rng(seed).integers(2**64, size=N, dtype=np.uint64)
        keys = keys[np.lexsort((keys, scores))]  # ascending inside each tie group
        edge_keys = keys[fb.boundary_ranks(N, B)[1:-1] - 1]
        return cal.values, *law.truth(scores[cuts], edge_keys)

    assert_claim_is_rejected(run(law, defect), ALPHA)
    assert_claim_holds(run(law, sound(law)), ALPHA)


# --- NC3, NC4, NC18: defects at predict ---------------------------------------------------------------


def predict_defect(assign):
    """A sound fit on D11 whose atoms are assigned by `assign(calibrator, atoms)`."""

    def defect(scores, labels, seed):
        cal = fb.fit_uniform_mass(scores, labels, B, rng=seed, threads=1)
        return cal.values, *zoo.D11.truth_by_atom(assign(cal, zoo.D11.table[:, 0]), B)

    return defect


@statistical
@pytest.mark.parametrize("level", [0.0, 0.5])
def test_nc3_one_key_for_every_test_row_is_rejected(level):
    ids = np.arange(5_000)
    row_id = int(ids[np.argmin(np.abs(ref.keys_vectorised(0, ids).astype(float) * 2.0**-64 - level))])

    def assign(cal, atoms):
        return cal.assign(atoms, row_ids=np.full(len(atoms), row_id), rng=0)

    assert_claim_is_rejected(run(zoo.D11, predict_defect(assign)), ALPHA)
    assert_claim_holds(run(zoo.D11, sound(zoo.D11)), ALPHA)


@statistical
def test_nc4_a_model_that_lost_its_keys_is_rejected():
    def assign(cal, atoms):
        return with_edge_keys(cal, np.zeros(B - 1, np.uint64)).assign(atoms, row_ids=np.arange(len(atoms)))

    assert_claim_is_rejected(run(zoo.D11, predict_defect(assign)), ALPHA)
    assert_claim_holds(run(zoo.D11, sound(zoo.D11)), ALPHA)


@statistical
def test_nc18_one_row_per_call_is_rejected_and_warned_about():
    """Every call keys its only row as row 0. With row ids the same calls are sound."""

    def one_by_one(cal, atoms):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            bins = np.array([cal.assign([s])[0] for s in atoms])
        tied = np.isin(atoms, cal.edges[cal.edge_ties > 1]).sum()
        assert [w.category for w in caught] == [fb.TieWarning] * tied
        return bins

    assert_claim_is_rejected(run(zoo.D11, predict_defect(one_by_one)), ALPHA)


@statistical
def test_nc18_twin_one_row_per_call_with_row_ids_is_sound():
    """The bin means that fresh ids really give, measured on 300 rows of each atom, one call per row."""
    law, per_atom = zoo.D11, 300
    atoms = np.tile(law.table[:, 0], per_atom)
    eta = np.tile(law.table[:, 2], per_atom)
    failures = []
    for i, (scores, labels, seed) in enumerate(replicates(law, N, 12, 5)):
        cal = fb.fit_uniform_mass(scores, labels, B, rng=seed, threads=1)
        first = i * len(atoms)
        bins = np.array([cal.assign([s], row_ids=[first + j])[0] for j, s in enumerate(atoms)])
        masses = np.bincount(bins, minlength=B) / len(bins)
        means = np.bincount(bins, eta, minlength=B) / np.maximum(np.bincount(bins, minlength=B), 1)
        failures.append(fails(cal.values, masses, means))
    assert_claim_holds(failures, ALPHA)


# --- NC15, NC17: deterministic ------------------------------------------------------------------------


def naive_algorithm_2(scores, labels, n_bins, points, delta=1e-20):
    """Algorithm 2 as printed, in float64: score + delta * u, half-open last bin, sum of indicators."""
    rng = np.random.default_rng(0)
    s = (scores + delta * rng.random(len(scores))) / (1 + delta)
    order = np.argsort(s)
    a = ref.ranks(len(s), n_bins)
    edges = np.r_[0.0, s[order][np.array(a[1:-1]) - 1], 1.0]
    means = [labels[order][lo : up - 1].mean() for lo, up in itertools.pairwise(a)]
    t = (points + delta * rng.random(len(points))) / (1 + delta)
    return sum(((lo <= t) & (t < up)) * m for lo, up, m in zip(edges[:-1], edges[1:], means, strict=True))


def test_nc15_algorithm_2_as_printed_gives_zero_at_one_and_this_fit_does_not():
    rng = np.random.default_rng(0)
    scores = np.where(rng.random(500) < 0.2, 1.0, rng.random(500))
    labels = (rng.random(500) < 0.2 + 0.7 * scores).astype(float)
    ones = np.ones(2_000)
    assert (naive_algorithm_2(scores, labels, 10, ones) == 0).all()
    cal = fb.fit_uniform_mass(scores, labels, 10, delta=1e-20)
    assert cal.predict(ones).min() > 0.6


def test_nc17_ranks_in_floats_pass_the_end_and_these_do_not():
    delta = (24 + 1) / 11
    assert math.ceil(11 * delta) == 26
    assert fb.boundary_ranks(24, 11)[-1] == 25
