"""Deciding by simulation: exact binomial limits for claims, p-values for laws (theory notes, section 2.0).

A claim "fails with probability at most alpha" is rejected when K of N replicates fail and K >= c(N, alpha),
the smallest c that a true claim reaches with probability at most 1e-6. A defect must reach c. An equality
in law is rejected when p < 1e-6. Seeds are fixed, so an accepted test stays accepted.
"""

from functools import lru_cache

import numpy as np
from scipy import stats

import fastbin as fb
import zoo

LEVEL = 1e-6


@lru_cache
def critical(n_replicates, alpha):
    """The smallest c with P(Bin(N, alpha) >= c) <= 1e-6."""
    c = np.arange(n_replicates + 2)
    return int(c[stats.binom.sf(c - 1, n_replicates, alpha) <= LEVEL][0])


def assert_claim_holds(failures, alpha):
    n, k = len(failures), int(np.sum(failures))
    assert k < critical(n, alpha), f"{k} failures of {n}, limit {critical(n, alpha)}"


def assert_claim_is_rejected(failures, alpha):
    n, k = len(failures), int(np.sum(failures))
    assert k >= critical(n, alpha), f"only {k} failures of {n}, limit {critical(n, alpha)}"


def theorem_1_epsilon(n, n_bins, alpha):
    return np.sqrt(np.log(2 * n_bins / alpha) / (2 * (n // n_bins - 1)))


def replicates(law, n, n_replicates, seed):
    """(scores, labels, fresh fit seed) of each replicate."""
    rng = np.random.default_rng(seed)
    for _ in range(n_replicates):
        scores, labels = law.sample(rng, n)
        yield scores, labels, int(rng.integers(2**64, dtype=np.uint64))


@lru_cache
def simulate(law_name, n, n_bins, n_replicates, boundary_points="exclude", fixed_seed=None):
    """Fits of fresh data with a fresh seed each: (positives, counts, masses, means), each (R, B), and the
    expected label at each cut, (R, B - 1)."""
    law = zoo.ALL[law_name]
    rows = []
    data = replicates(law, n, n_replicates, [n, n_bins, *law_name.encode()])
    for scores, labels, fresh in data:
        seed = fresh if fixed_seed is None else fixed_seed
        cal = fb.fit_uniform_mass(
            scores, labels, n_bins, boundary_points=boundary_points, rng=seed, threads=1
        )
        truth = law.truth(cal.edges, cal.edge_keys)
        rows.append((cal.positives, cal.counts, *truth, law.eta_at(cal.edges)))
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def label_pit(positives, counts, means, seed=0):
    """F(k - 1) + U * pmf(k) for k ~ Bin(m, p): uniform if the labels of a bin are m iid Bernoulli(p)."""
    u = np.random.default_rng(seed).random(positives.shape)
    return stats.binom.cdf(positives - 1, counts, means) + u * stats.binom.pmf(positives, counts, means)


def label_p_values(positives, counts, means, at_cuts):
    """Are the labels of each bin m iid Bernoulli(p) *given the cuts*? p-values of two kinds.

    Per bin, the PIT is uniform (KS); and it does not know whether the cut above the bin has a larger expected
    label than the bin (Spearman): a label that leaks from the cut into the mean shows up there.
    """
    pit = label_pit(positives, counts, means)
    uniform = [stats.kstest(column, "uniform").pvalue for column in pit.T]
    excess = at_cuts - means[:, :-1]
    return np.array(uniform + [stats.spearmanr(a, b).pvalue for a, b in zip(pit.T, excess.T, strict=False)])
