"""The failures seen in other calibration packages, as cases that must not happen here."""

import numpy as np
import pytest

import fastbin as fb
import reference as ref
import zoo
from sizes import NO_JIT
from surgery import labelled, refuses

IDS = np.arange(2_000)


def test_scores_of_zero_are_not_dropped():
    scores, labels = np.r_[np.zeros(50), np.linspace(0.01, 1, 50)], np.r_[np.zeros(50), np.ones(50)]
    cal = fb.fit_uniform_mass(scores, labels, 4)
    assert cal.counts.sum() == 100 - 3
    assert (cal.predict(np.zeros(2_000), row_ids=IDS) < 0.2).all()


def test_scores_of_one_have_no_phantom_bin():
    scores, labels = np.r_[np.linspace(0, 0.99, 50), np.ones(50)], np.r_[np.zeros(50), np.ones(50)]
    cal = fb.fit_uniform_mass(scores, labels, 4)
    bins = cal.assign(np.ones(2_000), row_ids=IDS)
    assert cal.edges.tolist()[1:] == [1.0, 1.0]
    assert (bins == 3).mean() > 0.3
    assert (cal.predict(np.ones(2_000), row_ids=IDS) > 0.8).mean() > 0.9


@pytest.mark.parametrize("scale", [40.0, 400.0, 4e4])
def test_saturated_sigmoids_are_split_by_key_not_dropped(scale):
    """Most scores are exactly 0 or 1 in float64; naive Algorithm 2 gives h(1) = 0."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=500) * scale
    scores = 1 / (1 + np.exp(np.clip(-z, -700, 700)))
    labels = rng.random(500) < np.where(z > 0, 0.8, 0.3)
    cal = fb.fit_uniform_mass(scores, labels, 10)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 10))
    assert cal.predict(np.ones(2_000), row_ids=IDS).min() > 0.6


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_only_is_an_ordinary_fit(label):
    scores, _ = labelled(100, 7)
    cal = fb.fit_uniform_mass(scores, np.full(100, label), 8)
    assert (cal.positives == label * cal.counts).all()
    assert len(set(cal.values.tolist())) == 8
    np.testing.assert_allclose(cal.values, label, rtol=0, atol=8 * 2.0**-52)


@pytest.mark.parametrize("score", [0.0, -0.0, 0.3, 1.0, 5e-324, -np.inf, np.inf, 1e308])
def test_all_scores_equal_still_give_every_bin(score):
    labels = np.arange(99) % 2
    cal = fb.fit_uniform_mass(np.full(99, score), labels, 10)
    ref.assert_same_bits(cal, ref.algorithm_1(np.full(99, score), labels, 10))
    assert (cal.edges == score).all()
    assert (cal.edge_ties == 99).all()
    bins = cal.assign(np.full(2_000, score), row_ids=IDS)
    assert set(bins.tolist()) == set(range(10))


@pytest.mark.parametrize("distinct", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("n_bins", [2, 10, 50])
def test_ties_never_shrink_the_number_of_bins(distinct, n_bins):
    scores, labels = labelled(100, distinct)
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    assert cal.n_bins == len(cal.values) == len(cal.counts) == n_bins
    assert (cal.counts >= 1).all()
    assert len(set(cal.values.tolist())) == n_bins


def test_duplicates_on_every_cut_are_counted_and_split():
    scores = np.repeat(np.arange(10) / 10, 10)
    labels = np.arange(100) % 3 == 0
    cal = fb.fit_uniform_mass(scores, labels, 10)
    assert (cal.edge_ties == 10).all()
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 10))


def test_ninety_percent_zeros_keep_ten_bins():
    scores = zoo.columns(500)["90 % zeros"]
    labels = np.arange(500) % 2
    cal = fb.fit_uniform_mass(scores, labels, 10)
    assert (cal.edges == 0).sum() == 8
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 10))


@pytest.mark.parametrize("unit", [5e-324, 1e-310, 2.0**-1022])
def test_subnormal_scores_are_told_apart(unit):
    scores = unit * np.arange(-20, 21)
    labels = np.arange(41) % 2
    cal = fb.fit_uniform_mass(scores, labels, 20)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 20))
    assert len(set(cal.edges.tolist())) == 19
    np.testing.assert_array_equal(cal.assign(scores, row_ids=IDS[:41]), ref.assign_reference(cal, scores))


def test_float32_rare_event_scores_are_told_apart():
    """scikit-learn's isotonic merges float32 scores below 1e-6."""
    scores = np.array([1e-8, 1e-7, 2e-7, 9e-7, 1e-6], np.float32)
    cal = fb.fit_uniform_mass(scores, [0, 0, 0, 1, 1], 3)
    assert cal.edges.tolist() == scores[[1, 3]].astype(float).tolist()
    assert cal.counts.tolist() == [1, 1, 1]


def test_minus_zero_and_zero_are_one_score():
    mixed, plain = np.where(np.arange(60) % 2, 0.0, -0.0), np.zeros(60)
    labels = np.arange(60) % 3 == 0
    cal = fb.fit_uniform_mass(mixed, labels, 6)
    assert cal == fb.fit_uniform_mass(plain, labels, 6)
    assert not np.signbit(cal.edges).any()
    np.testing.assert_array_equal(
        cal.assign(-np.zeros(60), row_ids=IDS[:60]), cal.assign(plain, row_ids=IDS[:60])
    )
    np.testing.assert_array_equal(fb.tie_broken_argsort(mixed), fb.tie_broken_argsort(plain))


def test_infinities_are_ordinary_scores():
    scores = np.r_[np.full(30, -np.inf), np.zeros(30), np.full(30, np.inf)]
    labels = np.r_[np.zeros(30), np.arange(30) % 2, np.ones(30)]
    cal = fb.fit_uniform_mass(scores, labels, 9)
    ref.assert_same_bits(cal, ref.algorithm_1(scores, labels, 9))
    points = np.repeat([-np.inf, np.inf], 1_000)
    np.testing.assert_array_equal(cal.assign(points), ref.assign_vectorised(cal, points))


def test_scores_above_one_and_below_zero_are_neither_clipped_nor_an_error():
    scores, labels = 100 * labelled(80)[0], labelled(80)[1]
    cal = fb.fit_uniform_mass(scores, labels, 5)
    assert cal.edges.max() > 1
    assert cal.edges.min() < 0
    assert cal.assign([-1e9, 1e9]).tolist() == [0, 4]


@pytest.mark.parametrize("position", [0, 17, 49])
def test_nan_is_never_binned_silently(position):
    scores, labels = labelled(50)
    cal = fb.fit_uniform_mass(scores, labels, 5)
    scores[position] = np.nan
    with refuses("scores", "NaN", rf"row {position}\b"):
        fb.fit_uniform_mass(scores, labels, 5)
    with refuses("scores", "NaN", rf"row {position}\b"):
        cal.predict(scores)


def test_tenths_fall_on_the_right_side_of_tenths():
    """0.3 / 0.1 = 2.99..: a cell is found by comparison, never by division."""
    edges = np.arange(1, 10) / 10
    assert fb.bin_index(edges, edges).tolist() == list(range(1, 10))
    assert fb.bin_index(np.nextafter(edges, 0), edges).tolist() == list(range(9))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_smallest_samples_fit(n):
    for n_bins in range(1, (n + 1) // 2 + 1):
        for labels in ([0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1]):
            cal = fb.fit_uniform_mass([0.5, 0.5, 0.2][:n], labels[:n], n_bins)
            ref.assert_same_bits(cal, ref.algorithm_1([0.5, 0.5, 0.2][:n], labels[:n], n_bins))


def test_global_numpy_error_state_and_warning_filters_are_left_alone():
    import warnings

    before, filters = np.geterr(), list(warnings.filters)
    with np.errstate(all="raise", over="ignore" if NO_JIT else "raise"):  # interpreted hashes wrap around
        scores = zoo.columns(200)["subnormals, both signs"]
        cal = fb.fit_uniform_mass(scores, np.arange(200) % 2, 9)
        cal.predict(np.r_[scores, -np.inf, np.inf, 1e308], row_ids=IDS[:203])
        fb.tie_broken_argsort(scores)
    assert np.geterr() == before
    assert list(warnings.filters) == filters


def test_the_global_numpy_random_state_is_not_touched():
    np.random.seed(0)  # noqa: NPY002 - the legacy global state is what must not move
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    scores, labels = labelled(100, 3)
    fb.fit_uniform_mass(scores, labels, 5, rng=None).predict(scores, rng=None, row_ids=IDS[:100])
    fb.tie_broken_argsort(scores, rng=None)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
