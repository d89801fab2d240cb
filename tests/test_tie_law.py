"""The law of ties: the fit on atoms has exactly the law that the theorems assume (T19-T21).

Every replicate draws a new seed: the probability is over the data and the seed.
"""

import itertools

import numpy as np
import pytest
from scipy import stats

import fastbin as fb
import zoo
from harness import LEVEL, label_p_values, label_pit, simulate

pytestmark = pytest.mark.statistical

SIZES = {(7, 3): 8_000, (39, 4): 5_000}
CASES = [(law, *size) for law in ("D7", "D8", "D11") for size in SIZES]


def run(law, n, n_bins, **options):
    return simulate(law, n, n_bins, SIZES[n, n_bins], **options)


@pytest.mark.parametrize(("law", "n", "n_bins"), [*CASES, ("D2", 7, 3), ("D10", 7, 3)])
def test_labels_inside_a_bin_are_iid_with_the_bins_mean(law, n, n_bins):
    positives, counts, _, means, at_cuts = run(law, n, n_bins)
    p_values = label_p_values(positives, counts, means, at_cuts)
    assert p_values.min() >= LEVEL, p_values


@pytest.mark.parametrize(("law", "n", "n_bins"), CASES)
def test_boundary_points_in_the_mean_break_the_law(law, n, n_bins):
    """Negative control (NC8): the original method does not have iid labels in its bins."""
    positives, counts, _, means, at_cuts = run(law, n, n_bins, boundary_points="include")
    p_values = label_p_values(positives, counts, means, at_cuts)
    assert p_values.min() < LEVEL, p_values


def test_one_seed_for_all_replicates_breaks_the_law():
    """Negative control: with a fixed seed, equal data are split alike, and few data sets are possible."""
    positives, counts, _, means, at_cuts = run("D11", 7, 3, fixed_seed=0)
    p_values = label_p_values(positives, counts, means, at_cuts)
    assert p_values.min() < LEVEL, p_values


@pytest.mark.parametrize(("law", "n", "n_bins"), CASES)
def test_bins_are_independent_given_the_cuts(law, n, n_bins):
    positives, counts, _, means, _ = run(law, n, n_bins)
    pit = label_pit(positives, counts, means, seed=1)
    for a, b in itertools.combinations(range(n_bins), 2):
        assert stats.spearmanr(pit[:, a], pit[:, b]).pvalue >= LEVEL
        table = np.histogram2d(pit[:, a] > 0.5, pit[:, b] > 0.5, bins=2)[0]
        assert stats.chi2_contingency(table).pvalue >= LEVEL


@pytest.mark.parametrize(("law", "n", "n_bins"), [*CASES, ("D1", 7, 3), ("D1", 39, 4)])
def test_masses_are_dirichlet(law, n, n_bins):
    _, counts, masses, *_ = run(law, n, n_bins)
    shape = counts[0] + 1
    np.testing.assert_allclose(masses.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for b in range(n_bins):
        assert stats.kstest(masses[:, b], stats.beta(shape[b], n + 1 - shape[b]).cdf).pvalue >= LEVEL
    for a, b in itertools.combinations(range(n_bins), 2):
        product = (masses[:, a] - shape[a] / (n + 1)) * (masses[:, b] - shape[b] / (n + 1))
        exact = -shape[a] * shape[b] / ((n + 1) ** 2 * (n + 2))
        assert abs(product.mean() - exact) <= 5.5 * product.std() / np.sqrt(len(product))


@pytest.mark.parametrize("law", ["D7", "D11"])
def test_masses_without_the_tie_keys_are_not_dirichlet(law):
    """Negative control: whole atoms move between bins when the keys are not looked at."""
    rng = np.random.default_rng(0)
    masses = []
    for _ in range(2_000):
        scores, labels = zoo.ALL[law].sample(rng, 39)
        cal = fb.fit_uniform_mass(scores, labels, 4, threads=1)
        masses.append(zoo.ALL[law].truth(cal.edges, np.zeros(3, np.uint64))[0][0])
    shape = cal.counts[0] + 1
    assert stats.kstest(masses, stats.beta(shape, 40 - shape).cdf).pvalue < LEVEL


def test_the_keys_of_cuts_in_one_atom_are_order_statistics_of_uniforms():
    """k = 9 tied rows, cuts of local rank 3 and 6, 8: Beta marginals."""
    keys = np.array(
        [fb.fit_uniform_mass(np.zeros(9), np.arange(9) % 2, 4, rng=seed).edge_keys for seed in range(8_000)]
    )
    ranks = fb.boundary_ranks(9, 4)[1:-1]
    for column, r in zip(keys.T.astype(float) * 2.0**-64, ranks, strict=True):
        assert stats.kstest(column, stats.beta(r, 10 - r).cdf).pvalue >= LEVEL


def test_the_label_at_a_tied_cut_is_a_random_one_of_its_group():
    labels = np.arange(9) < 3
    drawn = sum(
        int(fb.fit_uniform_mass(np.zeros(9), labels, 2, rng=seed).edge_labels[0]) for seed in range(8_000)
    )
    assert stats.binomtest(drawn, 8_000, 1 / 3).pvalue >= LEVEL


def test_flipped_labels_flip_the_counts_in_law_where_a_cut_is_tied():
    """T9 for ties: positives of the first bin are hypergeometric, flipped or not."""
    labels = np.arange(11) < 4
    law = stats.hypergeom(11, 4, 5)
    for flip in (False, True):
        drawn = [
            int(fb.fit_uniform_mass(np.zeros(11), labels != flip, 2, rng=seed).positives[0])
            for seed in range(5_000)
        ]
        drawn = 5 - np.array(drawn) if flip else np.array(drawn)
        expected = law.pmf(np.arange(5)) * 5_000
        assert stats.chisquare(np.bincount(drawn, minlength=5), expected).pvalue >= LEVEL


@pytest.mark.parametrize("seed", range(5))
def test_rows_at_an_atom_go_above_its_cut_as_often_as_the_stored_key_says(seed):
    cal = fb.fit_uniform_mass(np.full(41, 0.5), np.arange(41) % 2, 2, rng=seed)
    up = int(cal.assign(np.full(100_000, 0.5), row_ids=np.arange(100_000)).sum())
    chance = (2**64 - int(cal.edge_keys[0])) / 2**64
    assert stats.binomtest(up, 100_000, chance).pvalue >= LEVEL
    assert stats.binomtest(up, 100_000, chance - 0.01).pvalue < LEVEL


@pytest.mark.parametrize("ids", ["consecutive", "strided", "text"])
def test_rows_at_an_atom_spread_over_its_bins_by_the_stored_keys(ids):
    cal = fb.fit_uniform_mass(np.full(399, 0.5), np.arange(399) % 2, 20, rng=3)
    n = 40_000
    row_ids = {
        "consecutive": np.arange(n),
        "strided": np.arange(n) * 2**40,
        "text": [f"customer-{i:06d}" for i in range(n)],
    }[ids]
    seen = np.bincount(cal.assign(np.full(n, 0.5), row_ids=row_ids), minlength=20)
    shares = np.diff(np.r_[0.0, cal.edge_keys.astype(float) * 2.0**-64, 1.0])
    assert stats.chisquare(seen, shares * n).pvalue >= LEVEL
