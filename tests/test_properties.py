"""Laws of the fit and of predict on data that hypothesis invents."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastbin as fb
import reference as ref
from fastbin import _lookup, calibrators, passes
from fastbin._parallel import parallel_map
from strategies import any_float, any_float32, cut_points, data, dyadic, few, groups, law, seeds, soft
from surgery import run_plan, split

KEPT_BY_INCREASING_MAPS = (
    "edge_keys",
    "edge_labels",
    "edge_ties",
    "values",
    "counts",
    "positives",
    "interior_counts",
    "interior_positives",
)


def assert_same_bins(a, b):
    for name in KEPT_BY_INCREASING_MAPS:
        np.testing.assert_array_equal(ref.bits(getattr(a, name)), ref.bits(getattr(b, name)), err_msg=name)


@law
@given(data(), seeds)
def test_the_fit_is_algorithm_1(case, seed):
    scores, labels, n_bins = case
    ref.assert_same_bits(
        fb.fit_uniform_mass(scores, labels, n_bins, rng=seed), ref.algorithm_1(scores, labels, n_bins, seed)
    )


@law
@given(data(labels=soft), seeds, st.sampled_from(["exclude", "include"]))
def test_the_fit_of_soft_labels_is_algorithm_1(case, seed, boundary_points):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins, rng=seed, boundary_points=boundary_points)
    want = ref.algorithm_1(scores, labels, n_bins, seed, boundary_points)
    ref.assert_same_bits(cal, want, skip=("edge_labels",))
    assert np.abs(cal.edge_labels - want.edge_labels).max(initial=0.0) < 2.0**-62


@law
@given(data(labels=st.one_of(st.integers(0, 1), soft)), st.randoms(use_true_random=False))
def test_row_order_changes_no_bit(case, random):
    scores, labels, n_bins = case
    turned = list(range(len(scores)))
    random.shuffle(turned)
    assert fb.fit_uniform_mass(scores[turned], labels[turned], n_bins) == fb.fit_uniform_mass(
        scores, labels, n_bins
    )


@law
@given(data(scores=dyadic))
def test_strictly_increasing_maps_keep_the_bins(case):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    maps = {
        "2x - 1": lambda x: 2 * x - 1,
        "x cubed": lambda x: x**3,
        "rank": lambda x: np.searchsorted(np.unique(scores), x).astype(float),
        "huge": lambda x: x * 1e300,
        "subnormal": lambda x: x * 64 * 5e-324,
    }
    for increasing in maps.values():
        mapped = fb.fit_uniform_mass(increasing(scores), labels, n_bins)
        assert_same_bins(mapped, cal)
        np.testing.assert_array_equal(mapped.edges, increasing(cal.edges) + 0.0)


@law
@given(data(scores=any_float))
def test_the_rank_transform_keeps_the_bins_of_any_floats(case):
    scores, labels, n_bins = case
    ranks = np.searchsorted(np.unique(scores + 0.0), scores + 0.0)
    assert_same_bins(fb.fit_uniform_mass(ranks, labels, n_bins), fb.fit_uniform_mass(scores, labels, n_bins))


@law
@given(data())
def test_flipped_labels_flip_the_counts_where_no_cut_is_tied(case):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    flipped = fb.fit_uniform_mass(scores, 1 - labels, n_bins)
    np.testing.assert_array_equal(flipped.edges, cal.edges)
    np.testing.assert_array_equal(flipped.edge_ties, cal.edge_ties)
    np.testing.assert_array_equal(flipped.counts, cal.counts)
    untied = np.r_[True, cal.edge_ties == 1, True]
    bins = untied[:-1] & untied[1:]
    np.testing.assert_array_equal(flipped.positives[bins], (cal.counts - cal.positives)[bins])
    np.testing.assert_array_equal(flipped.edge_labels[untied[1:-1]], 1 - cal.edge_labels[untied[1:-1]])


@law
@given(groups(), seeds)
def test_a_frequency_of_r_is_r_copies(case, seed):
    scores, positives, totals, n_bins = case
    rows = np.repeat(scores, totals)
    labels = np.concatenate([np.arange(t) < p for p, t in zip(positives, totals, strict=True)])
    expanded = fb.fit_uniform_mass(rows, labels, n_bins, rng=seed)
    assert fb.fit_counts(scores, positives, totals, n_bins, rng=seed) == expanded


@law
@given(data(), st.sampled_from([2, 3, 7]))
def test_threads_change_no_bit(case, threads):
    """With the thresholds at a few rows, so that short examples too are cut into parts and handed out."""
    scores, labels, n_bins = case
    ids = np.arange(len(scores))
    with pytest.MonkeyPatch.context() as patch:
        one = fb.fit_uniform_mass(scores, labels, n_bins, threads=1)
        bins = one.assign(scores, row_ids=ids, threads=1)
        used = []
        for module in (calibrators, _lookup):
            patch.setattr(module, "PART_ROWS", 3)
            patch.setattr(module, "parallel_map", lambda f, i, t: used.append(t) or parallel_map(f, i, t))
        for module in (calibrators, passes):
            patch.setattr(module, "COLLECT_ROWS", 0)
        patch.setattr(_lookup, "SMALL_BATCH", 0)
        assert fb.fit_uniform_mass(scores, labels, n_bins, threads=threads) == one
        again = fb.Calibrator.from_dict(one.to_dict())
        np.testing.assert_array_equal(again.assign(scores, row_ids=ids, threads=threads), bins)
    assert len(used) >= 2
    assert set(used) == {threads}


@law
@given(st.data())
def test_odd_partitions_cells_and_budgets_change_no_bit(source):
    labels_kind = source.draw(st.sampled_from([st.integers(0, 1), soft]))
    scores, labels, n_bins = source.draw(data(labels=labels_kind))
    parts = split(scores, labels, source.draw(cut_points(len(scores))))
    plan = fb.FitPlan(
        n_bins,
        rng=source.draw(seeds),
        n_cells=source.draw(st.sampled_from([None, 2, 4, 16, 64])),
        gather_rows=source.draw(st.integers(1, 70)),
        n_samples=source.draw(st.sampled_from([None, len(scores)])),
        hint=source.draw(st.none() | st.lists(any_float, min_size=1, max_size=5)),
        threads=source.draw(st.integers(1, 3)),
    )
    cal, _ = run_plan(plan, parts, shuffle=np.random.default_rng(source.draw(st.integers(0, 9))))
    assert cal == fb.fit_uniform_mass(scores, labels, n_bins, rng=cal.seed)


@law
@given(st.data())
def test_a_batch_in_pieces_is_the_whole_batch(source):
    scores, labels, n_bins = source.draw(data(scores=few))
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    ids = np.array(
        source.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(scores), max_size=len(scores)))
    )
    whole = cal.predict(scores, row_ids=ids)
    pieces = [
        cal.predict(s, row_ids=i) for s, i, _ in split(scores, ids, source.draw(cut_points(len(scores))))
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_array_equal(whole, ref.predict_reference(cal, scores, ids))


@law
@given(data(), st.lists(any_float, min_size=1, max_size=30))
def test_assign_is_the_lexicographic_count(case, points):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    points = np.r_[points, cal.edges, -cal.edges]
    ids = np.arange(len(points))
    np.testing.assert_array_equal(cal.assign(points, row_ids=ids), ref.assign_reference(cal, points))


@law
@given(data(labels=st.one_of(st.integers(0, 1), soft)), st.sampled_from([0.0, 0.25]), seeds)
def test_a_dictionary_round_trip_is_the_identity(case, delta, seed):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins, delta=delta, rng=seed)
    again = fb.Calibrator.from_dict(cal.to_dict())
    assert again == cal
    ref.assert_same_bits(again, cal)


@law
@given(data(scores=any_float32))
def test_float32_scores_and_their_widened_twins_agree(case):
    wide, labels, n_bins = case
    narrow = wide.astype(np.float32)
    np.testing.assert_array_equal(narrow.astype(np.float64), wide)
    cal = fb.fit_uniform_mass(wide, labels, n_bins)
    assert fb.fit_uniform_mass(narrow, labels, n_bins) == cal
    ids = np.arange(len(wide))
    np.testing.assert_array_equal(cal.assign(narrow, row_ids=ids), cal.assign(wide, row_ids=ids))
    np.testing.assert_array_equal(fb.tie_broken_argsort(narrow), fb.tie_broken_argsort(wide))


@law
@given(data(), seeds)
def test_argsort_is_the_order_of_score_then_key(case, seed):
    scores, _, _ = case
    np.testing.assert_array_equal(
        fb.tie_broken_argsort(scores, rng=seed), ref.argsort_reference(scores, seed)
    )


@law
@given(data(scores=few), seeds, seeds)
def test_the_seed_changes_keys_only_where_a_cut_is_tied(case, one, other):
    scores, labels, n_bins = case
    a, b = (fb.fit_uniform_mass(scores, labels, n_bins, rng=seed) for seed in (one, other))
    np.testing.assert_array_equal(a.edges, b.edges)
    np.testing.assert_array_equal(a.edge_ties, b.edge_ties)
    if (a.edge_ties == 1).all():
        np.testing.assert_array_equal(a.positives, b.positives)
    assert (a == b) == (one == other)


@law
@given(data())
def test_equality_is_equality_of_every_field(case):
    scores, labels, n_bins = case
    cal = fb.fit_uniform_mass(scores, labels, n_bins)
    assert cal == fb.fit_uniform_mass(scores, labels, n_bins)
    assert cal != fb.fit_uniform_mass(scores, labels, n_bins, rng=1)
    assert cal != dataclasses.replace(cal, edges=cal.edges, values=np.nextafter(cal.values, 2.0))
    assert cal != "calibrator"
