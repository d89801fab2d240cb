"""What Algorithm 1 promises exactly: T1-T4 and T9-T16 of the theory notes."""

import itertools

import numpy as np
import pytest

import fastbin as fb
import reference as ref
from surgery import labelled, with_edge_keys

GOLDEN_RANKS = {  # (n, B): A_0..A_B, the notes' table
    (3, 2): [0, 2, 4],
    (5, 2): [0, 3, 6],
    (7, 3): [0, 3, 6, 8],
    (8, 3): [0, 3, 6, 9],
    (11, 4): [0, 3, 6, 9, 12],
    (13, 7): [0, 2, 4, 6, 8, 10, 12, 14],
    (14, 7): [0, 3, 5, 7, 9, 11, 13, 15],
    (24, 11): [0, 3, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25],
    (29, 10): [0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30],
    (30, 10): [0, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31],
    (49, 22): [0, 3, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 35, 37, 39, 41, 44, 46, 48, 50],
    (99, 10): [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100],
    (100, 7): [0, 15, 29, 44, 58, 73, 87, 101],
    (1500, 10): [0, 151, 301, 451, 601, 751, 901, 1051, 1201, 1351, 1501],
    (1509, 10): [0, 151, 302, 453, 604, 755, 906, 1057, 1208, 1359, 1510],
}


# --- T1, T2: ranks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_bins"), GOLDEN_RANKS)
def test_ranks_are_the_golden_ones(n, n_bins):
    got = fb.boundary_ranks(n, n_bins)
    assert got.dtype == np.int64
    assert got.tolist() == GOLDEN_RANKS[n, n_bins]


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_ranks_are_the_integer_formula_for_every_bin_count(start):
    for n in range(max(start, 1), start + 50):
        for n_bins in range(1, (n + 1) // 2 + 1):
            assert fb.boundary_ranks(n, n_bins).tolist() == ref.ranks(n, n_bins)


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_bin_sizes_take_two_values_and_sum_to_all_but_the_cuts(start):
    for n in range(max(start, 1), start + 50):
        for n_bins in range(1, (n + 1) // 2 + 1):
            ranks = fb.boundary_ranks(n, n_bins)
            sizes = np.diff(ranks) - 1
            small = (n + 1) // n_bins - 1
            assert (ranks[0], ranks[-1]) == (0, n + 1)
            assert ((sizes == small) | (sizes == small + 1)).all()
            assert (sizes == small + 1).sum() == (n + 1) % n_bins
            assert sizes.sum() == n - (n_bins - 1)
            assert sizes.min() == small


def test_ranks_of_four_billion_rows_do_not_overflow():
    """T15: b * (n + 1) passes 2^63 at the larger sizes."""
    for n, n_bins in ((4_000_000_000, 1_000), (2**62, 1_000), (2**40 + 1, 2**20)):
        got = fb.boundary_ranks(n, n_bins)
        for b in (0, 1, n_bins // 2, n_bins - 1, n_bins):
            assert int(got[b]) == -(-b * (n + 1) // n_bins)


# --- T3, T4, T16: the fit -----------------------------------------------------------------------------


@pytest.mark.parametrize("n_bins", [1, 2, 3, 10, 50])
def test_the_smallest_sample_fits_and_one_less_is_refused(n_bins):
    n = 2 * n_bins - 1
    scores, labels = labelled(n)
    assert fb.fit_uniform_mass(scores, labels, n_bins).counts.tolist() == [1] * n_bins
    if n > 1:
        with pytest.raises(ValueError, match=rf"n_bins={n_bins}.*at most n_bins={n_bins - 1}"):
            fb.fit_uniform_mass(scores[1:], labels[1:], n_bins)


@pytest.mark.parametrize("distinct", [1, 5, None])
@pytest.mark.parametrize(("n", "n_bins"), [(7, 3), (24, 11), (49, 22), (200, 10)])
def test_exactly_the_cuts_are_left_out_of_the_means(n, n_bins, distinct):
    scores, labels = labelled(n, distinct)
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    assert len(cal.edges) == len(cal.edge_keys) == n_bins - 1
    assert n - cal.counts.sum() == n_bins - 1
    assert labels.sum() - cal.positives.sum() == cal.edge_labels.sum()
    np.testing.assert_array_equal(cal.edges, np.sort(scores)[fb.boundary_ranks(n, n_bins)[1:-1] - 1])
    np.testing.assert_array_equal(cal.edge_ties, [(scores == e).sum() for e in cal.edges])
    np.testing.assert_array_equal(cal.interior_counts, cal.counts)
    np.testing.assert_array_equal(cal.interior_positives, cal.positives)


@pytest.mark.parametrize("distinct", [1, 5, None])
def test_included_boundary_points_join_the_bin_below(distinct):
    scores, labels = labelled(100, distinct)
    without = fb.fit_uniform_mass(scores, labels, 7)
    included = fb.fit_uniform_mass(scores, labels, 7, boundary_points="include")
    np.testing.assert_array_equal(included.counts[:-1], without.counts[:-1] + 1)
    np.testing.assert_array_equal(included.positives[:-1], without.positives[:-1] + without.edge_labels)
    assert included.counts[-1] == without.counts[-1]
    for name in ("edges", "edge_keys", "interior_counts", "interior_positives"):
        np.testing.assert_array_equal(getattr(included, name), getattr(without, name))


def test_cuts_increase_in_the_order_of_score_and_key():
    scores, labels = labelled(300, 4)
    cal = fb.fit_uniform_mass(scores, labels, 40)
    cuts = list(zip(cal.edges.tolist(), cal.edge_keys.tolist(), strict=True))
    assert all(a < b for a, b in itertools.pairwise(cuts))
    assert len(set(cal.edges.tolist())) < 39


@pytest.mark.parametrize("n", [1, 2, 50])
def test_one_bin_uses_every_point(n):
    scores, labels = labelled(n, 3)
    cal = fb.fit_uniform_mass(scores, labels, 1)
    assert cal.edges.shape == cal.edge_keys.shape == (0,)
    assert cal.counts.tolist() == [n]
    assert cal.values.tolist() == [labels.mean()]
    assert (cal.assign([-np.inf, 0.0, np.inf]) == 0).all()


# --- T9: label flip -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "n_bins"), [(7, 3), (100, 9), (300, 150)])
def test_flipped_labels_flip_the_counts_where_no_cut_is_tied(n, n_bins):
    scores, labels = labelled(n)
    cal, flipped = (
        fb.fit_uniform_mass(scores, labels, n_bins),
        fb.fit_uniform_mass(scores, 1 - labels, n_bins),
    )
    np.testing.assert_array_equal(flipped.positives, cal.counts - cal.positives)
    np.testing.assert_array_equal(flipped.edge_labels, 1 - cal.edge_labels)
    np.testing.assert_array_equal(flipped.edges, cal.edges)


# --- T10, T11: assign ---------------------------------------------------------------------------------


@pytest.mark.parametrize("distinct", [1, 4, None])
def test_assign_is_monotone_in_score_and_key(distinct):
    scores, labels = labelled(150, distinct)
    cal = fb.fit_uniform_mass(scores, labels, 20)
    points = np.repeat(np.unique(np.r_[scores, cal.edges, np.nextafter(cal.edges, 9)]), 30)
    ids = np.arange(len(points))
    order = np.lexsort((ref.keys_vectorised(cal.seed, ids), points))
    assert (np.diff(cal.assign(points, row_ids=ids)[order]) >= 0).all()


def test_every_real_score_has_a_bin_and_the_ends_are_closed():
    scores = np.r_[np.zeros(20), np.linspace(0.1, 0.9, 59), np.ones(20)]
    labels = np.r_[np.zeros(60), np.ones(39)]
    cal = fb.fit_uniform_mass(scores, labels, 10)
    ids = np.arange(2_000)
    at_one, at_zero = cal.assign(np.ones(2_000), row_ids=ids), cal.assign(np.zeros(2_000), row_ids=ids)
    assert at_one.max() == 9
    assert at_zero.min() == 0
    assert (cal.predict(np.ones(2_000), row_ids=ids) > 0.9).all()
    assert cal.assign([-np.inf, -1.0, np.nextafter(1.0, 2), 7.0, np.inf]).tolist() == [0, 0, 9, 9, 9]
    with pytest.raises(ValueError, match="NaN"):
        cal.assign([np.nan])


def test_the_largest_and_smallest_key_of_an_end_atom_reach_the_end_bins():
    cal = fb.fit_uniform_mass(np.r_[np.zeros(50), np.ones(49)], np.arange(99) % 2, 10)
    low = with_edge_keys(cal, np.full(9, 2**64 - 1, np.uint64))
    high = with_edge_keys(cal, np.zeros(9, np.uint64))
    ids = np.arange(100)
    assert (low.assign(np.zeros(100), row_ids=ids) == 0).all()
    assert (high.assign(np.ones(100), row_ids=ids) == 9).all()


# --- T12 ----------------------------------------------------------------------------------------------


def test_a_stored_calibrator_predicts_the_same_bits(tmp_path):
    scores, labels = labelled(2_000, 7)
    cal = fb.fit_uniform_mass(scores, labels, 25)
    cal.save(tmp_path / "model.json")
    again = fb.load(tmp_path / "model.json")
    ref.assert_same_bits(again, cal)
    np.testing.assert_array_equal(again.predict(scores), cal.predict(scores))


# --- T14: the nudge -----------------------------------------------------------------------------------

LABEL_PATTERNS = {
    "all zero": lambda n: np.zeros(n),
    "all one": lambda n: np.ones(n),
    "half and half": lambda n: (np.arange(n) >= n // 2).astype(float),
    "alternating": lambda n: (np.arange(n) % 2).astype(float),
    "one positive": lambda n: (np.arange(n) == n // 3).astype(float),
    "one negative": lambda n: (np.arange(n) != n // 3).astype(float),
    "soft half": lambda n: np.full(n, 0.5),
    "soft just below one": lambda n: np.full(n, 1 - 2.0**-53),
    "soft tiny": lambda n: np.full(n, 2.0**-62),
}


@pytest.mark.parametrize("pattern", LABEL_PATTERNS)
@pytest.mark.parametrize("n_bins", [1, 2, 10, 500])
def test_values_are_distinct_in_the_unit_interval_and_hardly_moved(pattern, n_bins):
    n = 2 * n_bins + 1
    labels = LABEL_PATTERNS[pattern](n)
    cal = fb.fit_uniform_mass(np.arange(n), labels, n_bins)
    means = cal.positives / cal.counts
    assert len(set(cal.values.tolist())) == n_bins
    assert (cal.values >= 0).all()
    assert (cal.values <= 1).all()
    assert np.abs(cal.values - means).max() <= n_bins * 2.0**-52
    assert not ((cal.values > 0) & (cal.values < np.finfo(float).tiny)).any()
    rising = np.argsort(means, kind="stable")
    assert (np.diff(cal.values[rising]) > 0).all()
    np.testing.assert_array_equal(cal.values, ref.algorithm_1(np.arange(n), labels, n_bins).values)


@pytest.mark.parametrize("delta", [1e-20, 0.5])
def test_values_with_delta_are_distinct_in_the_unit_interval(delta):
    for labels in (np.zeros(41), np.ones(41)):
        cal = fb.fit_uniform_mass(np.arange(41), labels, 20, delta=delta)
        assert len(set(cal.values.tolist())) == 20
        assert cal.values.min() >= 0
        assert cal.values.max() <= 1
        assert np.abs(cal.values - labels[0]).max() <= delta / (1 + delta) + 20 * 2.0**-52
